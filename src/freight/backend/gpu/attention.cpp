// Attention and its gradient. A work-item makes one row of the result: of queries, or of keys in their gradient. Rows
// of the other side pass by in tiles of local memory that the group shares. The softmax is made as the keys go by: a
// running maximum and sum rescale what was added up before (Milakov and Gimelshein 2018); the gradient makes the
// weights again from the stored logarithm of the sum (Dao et al. 2022). Keys that a mask hides from the whole group are
// not looked at. B batch, H heads, T queries, S keys, D numbers per head. Rows are as wide in the text as the next
// power of two, with zeros behind their numbers, so that nets share kernels.
#include <algorithm>
#include <bit>
#include <cmath>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/scalar.h"

namespace freight::gpu {

namespace {

constexpr int64_t kMostWidth = 128;  // D
constexpr int64_t kWide = 64;        // beyond it half as many rows fit the local memory, and one sum the registers

// A kernel of a step; `own`: the rows that work-items make, `other`: those that pass by.
class AttentionText : KernelText {
 public:
  AttentionText(const StepSpec& spec, int64_t own, int64_t other)
      : spec_(spec),
        a_(attrs<AttentionAttrs>(*spec.node)),
        width_(std::max<int64_t>(16,
                                 static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(spec.in[0].type.shape[3]))))),
        lanes_(width_ > kWide ? 32 : 64),
        tile_(width_ > kWide ? 8 : 16) {
    const Shape& q = spec.in[0].type.shape;
    const int64_t blocks = ceil_div(own, lanes_);
    groups_ = q[0] * q[1] * blocks;
    numbers_ = number(q[3]);
    own_ = number(own);
    other_ = number(other);
    line("const idx_t group = GROUP;");
    line(split("group", blocks, "of_heads", "block"), split("of_heads", q[1], "b", "h"));
    line("const idx_t first = block * ", lanes_, ", row = first + LANE;");
    line("const idx_t mine = row < ", own_, " ? row : ", own_, " - 1;");  // beyond: not stored
    const std::string keys = number(spec.in[1].type.shape[2]);
    line("idx_t keys = ", keys, ";");
    if (a_.lengths) {
      line("{ const i64 n = ", in(spec, 3).load(cat("b * ", number(spec.in[3].layout.strides[0]))),
           "; keys = n < 1 ? 1 : n < keys ? (idx_t)n : keys; }");
    }
    line("const float scale = as_real((uint)", number(int64_t{std::bit_cast<int32_t>(float(a_.scale))}), ");");
  }

  void forward(Lowered& into) {
    hold("q", 0);
    declare("sum");
    line("LOCAL float scores[", tile_ * lanes_, "];");
    line("float peak = ", hidden_, ", mass = 0;");
    see_keys();
    begin_tiles("0", "last", "key", 1, "value", 2);
    line("float top = peak;");
    begin_rows();
    dot("score", "q", "key");
    line("score = c + k < seen ? score * scale", masked("mine", "(c + k)"), " : ", hidden_, ";");
    line("scores[k * ", lanes_, " + LANE] = score;");
    line("top = score > top ? score : top;");
    line("}");
    line("const float base = top == ", hidden_, " ? 0 : top, shrink = exp(peak - base);");
    line("mass *= shrink; peak = top;");
    each("sum[d] *= shrink;");
    line("for (int k = 0; k < ", tile_, "; ++k) {");
    line("const float p = exp(scores[k * ", lanes_, " + LANE] - base);");
    line("mass += p;");
    add("sum", "p", "value");
    line("} }");
    store(0, "(mass == 0 ? 0 : sum[d] / mass)");
    store(1, "(mass == 0 ? 0 : peak + log(mass))");
    launch("attention", into);
  }

  // dq = scale sum_j p (dp - delta) k with p = exp(scale q k - lse), dp = dy v and delta = dy y - dlse.
  void gradient_of_queries(Lowered& into) {
    hold("q", 0);
    hold("dy", dy_);
    declare("sum");
    line("const float lse = ", element(lse_, "mine"), ";");
    line("float delta = 0;");
    each(cat("delta += dy[d * ", lanes_, " + LANE] * ", padded(y_, "mine"), ";"));
    if (a_.second) line("delta -= ", element(dlse_, "mine"), ";");
    line("if (row < ", own_, ") ", deltas(own_, "row"), " = delta;");
    see_keys();
    begin_tiles("0", "last", "key", 1, "value", 2);
    begin_rows();
    line("if (c + k >= seen) break;");
    dot("score", "q", "key", "UNROLL_8");  // q, dy and dq are more than there are registers
    dot("dp", "dy", "value", "UNROLL_8");
    line("const float ds = scale * exp(score * scale", masked("mine", "(c + k)"), " - lse) * (dp - delta);");
    add("sum", "ds", "key");
    line("} }");
    store(0, "sum[d]");
    launch("attention_dq", into);
  }

  // dk = scale sum_i p (dp - delta) q and dv = sum_i p dy, either or both.
  void gradient_of_keys(bool dk, bool dv, Lowered& into) {
    hold("key", 1);
    if (dk) hold("value", 2);
    if (dk) declare("sum_k");
    if (dv) declare("sum_v");
    const std::string causal = number(a_.causal);
    line("LOCAL float lse[", tile_, "], delta[", tile_, "];");
    line("const idx_t begin = ", causal, " ? first / ", tile_, " * ", tile_, " : 0;");
    begin_tiles("begin", other_, "q", 0, "dy", dy_);
    line("if (LANE < ", tile_, ") {");
    line("  const idx_t at = c + LANE < ", other_, " ? c + LANE : ", other_, " - 1;");
    line("  lse[LANE] = ", element(lse_, "at"), "; delta[LANE] = ", deltas(other_, "at"), ";");
    line("}");
    begin_rows();
    line("if (c + k >= ", other_, ") break;");
    line("if (row >= keys || (", causal, " && row > c + k)) continue;");
    dot("score", "key", "q");
    line("const float p = exp(score * scale", masked("(c + k)", "row"), " - lse[k]);");
    if (dv) add("sum_v", "p", "dy");
    if (dk) {
      dot("dp", "value", "dy");
      line("const float ds = scale * p * (dp - delta[k]);");
      add("sum_k", "ds", "q");
    }
    line("} }");
    if (dk) store(1, "sum_k[d]");
    if (dv) store(2, "sum_v[d]");
    launch(dk && dv ? "attention_dkv" : dk ? "attention_dk" : "attention_dv", into);
  }

 private:
  // Unrolled whole: sums stay in registers.
  void each(const std::string& what, const char* unroll = "UNROLL") {
    line(unroll, " for (int d = 0; d < ", width_, "; ++d) ", what);
  }
  // Its own row of an operand, in local memory.
  void hold(const char* name, size_t operand) {
    line("LOCAL float ", name, "[", width_ * lanes_, "];");
    line("for (int d = 0; d < ", width_, "; ++d) ", name, "[d * ", lanes_, " + LANE] = ", padded(operand, "mine"), ";");
  }
  void declare(const char* sum) {
    line("float ", sum, "[", width_, "];");
    each(cat(sum, "[d] = 0;"));
  }
  // Begins the loop over tiles of the other side, from one row to another; the group must agree on them.
  void begin_tiles(const std::string& from, const std::string& to, const char* first, size_t first_operand,
                   const char* second, size_t second_operand) {
    line("LOCAL float ", first, "[", tile_ * width_, "], ", second, "[", tile_ * width_, "];");
    line("for (idx_t c = ", from, "; c < ", to, "; c += ", tile_, ") {");
    line("BARRIER;");
    line("for (int i = LANE; i < ", tile_ * width_, "; i += ", lanes_, ") {");
    line("  const int k = i / ", width_, ", d = i - k * ", width_, "; const idx_t at = c + k < ", other_,
         " ? c + k : ", other_, " - 1;");
    line("  ", first, "[i] = ", padded(first_operand, "at"), "; ", second, "[i] = ", padded(second_operand, "at"), ";");
    line("}");
  }
  void begin_rows() {
    line("BARRIER;");
    line("for (int k = 0; k < ", tile_, "; ++k) {");
  }
  // name = the product of its own row with row k of a tile. Unrolled whole, its own row stays in registers, too, as far
  // as these last.
  void dot(const char* name, const char* own, const char* tile, const char* unroll = "UNROLL") {
    if (width_ > kWide) unroll = "UNROLL_8";
    line("float ", name, " = 0;");
    each(cat(name, " += ", own, "[d * ", lanes_, " + LANE] * ", tile, "[k * ", width_, " + d];"), unroll);
  }
  void add(const char* sum, const std::string& factor, const char* tile) {
    each(cat(sum, "[d] += ", factor, " * ", tile, "[k * ", width_, " + d];"));
  }
  void store(size_t result, const std::string& value) {
    const std::string to = out(spec_, result).store(place(spec_.out[result], "row"), value);
    if (spec_.out[result].type.shape.rank() == 3) {
      line("if (row < ", own_, ") ", to);
    } else {
      line("if (row < ", own_, ") {");
      each(cat("if (d < ", numbers_, ") ", to));
      line("}");
    }
  }
  // Number d of a row of an input, 0 where it has no such one.
  std::string padded(size_t operand, const char* row) {
    return cat("(d < ", numbers_, " ? ", element(operand, row), " : 0)");
  }
  // The same where it has, or the only number of a row.
  std::string element(size_t operand, const char* row) {
    return in(spec_, operand).load(place(spec_.in[operand], row));
  }
  // The sum of dy y of a query, less what its logarithm's own cotangent adds: in scratch memory.
  std::string deltas(const std::string& queries, const char* row) {
    return cat(scratch(spec_, DType::f32).pointer, "[of_heads * ", queries, " + ", row, "]");
  }
  // seen: the keys of its query; last: those of any query of the group. `c` is a number of the kernel: masked and other
  // attention share it.
  void see_keys() {
    const std::string c = number(a_.causal);
    line("const idx_t seen = ", c, " && row + 1 < keys ? row + 1 : keys;");
    line("const idx_t last = ", c, " && first + ", lanes_, " < keys ? first + ", lanes_, " : keys;");
  }
  // The summand of a score that the mask adds, as text behind the others; empty where there is none.
  std::string masked(const char* query, const char* key) {
    if (!a_.mask) return "";
    const auto at = static_cast<size_t>(a_.mask_at());
    const Operand& o = spec_.in[at];
    const Strides& s = o.layout.strides;
    const int64_t head = a_.mask_heads ? s[0] : 0, heads = a_.mask_heads ? spec_.in[0].type.shape[1] : 1;
    const std::string value =
        in(spec_, at).load(cat("b * ", number(a_.mask_samples ? s[0] * heads : 0), " + h * ", number(head), " + ",
                               query, " * ", number(o.type.shape[1] > 1 ? s[1] : 0), " + ", key, " * ", number(s[2])));
    return o.type.dtype == DType::boolean ? cat(" + (", value, " ? 0 : ", hidden_, ")") : cat(" + ", value);
  }
  std::string place(const Operand& o, const char* row) {
    const Strides& s = o.layout.strides;
    std::string at = cat("b * ", number(s[0]), " + h * ", number(s[1]), " + ", row, " * ", number(s[2]));
    if (o.type.shape.rank() == 4) at += cat(" + d * ", number(s[3]));
    return at;
  }
  void launch(const char* purpose, Lowered& into) {
    if (groups_ == 0) return;
    into.launches.push_back(finish(purpose, std::max(groups_ * lanes_, largest_span(spec_)), groups_, lanes_));
  }

  const StepSpec& spec_;
  const AttentionAttrs& a_;
  const std::string hidden_ = literal(-INFINITY, DType::f32);
  // Operands of a gradient behind those of its attention.
  const size_t y_ = static_cast<size_t>(a_.inputs()), lse_ = y_ + 1, dy_ = y_ + 2, dlse_ = y_ + 3;
  int64_t width_, lanes_, tile_, groups_;
  std::string own_, other_, numbers_;  // how many rows there are; D
};

}  // namespace

bool has_attention(const Graph& graph, const Node& node) {
  if (node.op != Op::attention && node.op != Op::attention_grad) return false;
  const Type& q = graph.type(node.in(0));
  return q.dtype != DType::f64 && q.shape[3] >= 1 && q.shape[3] <= kMostWidth;
}

Lowered lower_attention(const StepSpec& spec) {
  Lowered lowered{.launches = {}, .scratch_bytes = 0, .name = name(spec.node->op)};
  const Shape& q = spec.in[0].type.shape;
  const int64_t queries = q[2], keys = spec.in[1].type.shape[2];
  if (spec.node->op == Op::attention) {
    AttentionText(spec, queries, keys).forward(lowered);
    return lowered;
  }
  lowered.scratch_bytes = static_cast<size_t>(q[0] * q[1] * queries) * sizeof(float);
  AttentionText(spec, queries, keys).gradient_of_queries(lowered);
  const bool together = q[3] <= kWide;
  AttentionText(spec, keys, queries).gradient_of_keys(true, together, lowered);
  if (!together) AttentionText(spec, keys, queries).gradient_of_keys(false, true, lowered);
  return lowered;
}

}  // namespace freight::gpu
