// See attention.h. A work-item makes one row of the result: of queries, or of keys in their gradient. Rows of the other
// side pass by in tiles of local memory that the group shares. The softmax is made as the keys go by: a running maximum
// and sum rescale what was added up before (Milakov and Gimelshein 2018); the gradient makes the weights again from the
// stored logarithm of the sum (Dao et al. 2022). Keys that a mask hides from the whole group are not looked at.
// B batch, H heads, T queries, S keys, D numbers per head. Rows are as wide in the text as the next power of two, with
// zeros behind their numbers, so that nets share kernels.
#include "freight/backend/gpu/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/scalar.h"

namespace freight::gpu {

namespace {

constexpr int64_t kMostWidth = 128;  // D
constexpr int64_t kWide = 64;        // beyond it half as many rows fit the local memory, and one sum the registers

class AttentionText {
 public:
  // `own`: the rows that work-items make, `other`: those that pass by.
  AttentionText(const StepSpec& spec, int64_t own, int64_t other)
      : spec_(spec),
        a_(attrs<AttentionAttrs>(*spec.node)),
        width_(std::max<int64_t>(16,
                                 static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(spec.in[0].type.shape[3]))))),
        lanes_(width_ > kWide ? 32 : 64),
        tile_(width_ > kWide ? 8 : 16),
        groups_(spec.in[0].type.shape[0] * spec.in[0].type.shape[1] * static_cast<int64_t>(ceil_div(own, lanes_))) {
    const int64_t blocks = static_cast<int64_t>(ceil_div(own, lanes_)), heads = spec.in[0].type.shape[1];
    numbers_ = text_.number(spec.in[0].type.shape[3]);
    own_ = text_.number(own);
    other_ = text_.number(other);
    line("const idx_t group = GROUP, of_heads = ", text_.quotient("group", blocks), ", first = (group - of_heads * ",
         text_.number(blocks), ") * ", lanes_, ";");
    line("const idx_t b = ", text_.quotient("of_heads", heads), ", h = of_heads - b * ", text_.number(heads), ";");
    line("const idx_t row = first + LANE, mine = row < ", own_, " ? row : ", own_, " - 1;");  // beyond: not stored
    const std::string keys = text_.number(spec.in[1].type.shape[2]);
    line("idx_t keys = ", keys, ";");
    if (a_.lengths) {
      const Operand& o = spec.in[3];
      const std::string p = text_.operand(3, o.type.dtype, false);
      line("{ const i64 n = ", load_call(o.type.dtype, p, cat("b * ", text_.number(o.layout.strides[0]))),
           "; keys = n < 1 ? 1 : n < keys ? (idx_t)n : keys; }");
    }
  }

  template <class... Parts>
  void line(const Parts&... parts) {
    text_.line(parts...);
  }
  // Unrolled whole: sums stay in registers.
  void each(const std::string& what, const char* unroll = "UNROLL") {
    line(unroll, " for (int d = 0; d < ", width_, "; ++d) ", what);
  }
  // Its own row of an operand, in local memory.
  void hold(const char* name, int operand) {
    line("LOCAL float ", name, "[", width_ * lanes_, "];");
    line("for (int d = 0; d < ", width_, "; ++d) ", name, "[d * ", lanes_, " + LANE] = ", number(operand, "mine"), ";");
  }
  void declare(const char* sum) {
    line("float ", sum, "[", width_, "];");
    each(cat(sum, "[d] = 0;"));
  }
  // Begins the loop over tiles of the other side, from one row to another; the group must agree on them.
  void begin_tiles(const std::string& from, const std::string& to, const char* first, int first_operand,
                   const char* second, int second_operand) {
    line("LOCAL float ", first, "[", tile_ * width_, "], ", second, "[", tile_ * width_, "];");
    line("for (idx_t c = ", from, "; c < ", to, "; c += ", tile_, ") {");
    line("BARRIER;");
    line("for (int i = LANE; i < ", tile_ * width_, "; i += ", lanes_, ") {");
    line("  const int k = i / ", width_, ", d = i - k * ", width_, "; const idx_t at = c + k < ", other_,
         " ? c + k : ", other_, " - 1;");
    line("  ", first, "[i] = ", number(first_operand, "at"), "; ", second, "[i] = ", number(second_operand, "at"), ";");
    line("}");
  }
  void begin_rows() {
    line("BARRIER;");
    line("for (int k = 0; k < ", tile_, "; ++k) {");
  }
  void end() { line("}"); }
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
  void store(int result, const std::string& value) {
    const Operand& o = spec_.out[static_cast<size_t>(result)];
    const int operand = static_cast<int>(spec_.in.size()) + result;
    const std::string p = text_.operand(operand, o.type.dtype, true);
    const std::string at = place(o, "row");
    if (o.type.shape.rank() == 3) {
      line("if (row < ", own_, ") ", store_call(o.type.dtype, p, at, value), ";");
    } else {
      line("if (row < ", own_, ") {");
      each(cat("if (d < ", numbers_, ") ", store_call(o.type.dtype, p, at, value), ";"));
      line("}");
    }
  }
  // Number d of a row of an input, 0 where it has no such one.
  std::string number(int operand, const char* row) {
    return cat("(d < ", numbers_, " ? ", element(operand, row), " : 0)");
  }
  // The same where it has, or the only number of a row.
  std::string element(int operand, const char* row) {
    const Operand& o = spec_.in[static_cast<size_t>(operand)];
    const std::string p = text_.operand(operand, o.type.dtype, false);
    return load_call(o.type.dtype, p, place(o, row));
  }
  // The sums of dy y, less what the logarithms' own cotangents add: by query, in scratch memory.
  std::string deltas(bool written) {
    return text_.operand(static_cast<int>(spec_.in.size() + spec_.out.size()), DType::f32, written);
  }
  std::string scale() {
    line("const float scale = as_real((uint)", text_.number(int64_t{std::bit_cast<int32_t>(float(a_.scale))}), ");");
    return "scale";
  }
  int64_t lanes() const { return lanes_; }
  int64_t tile() const { return tile_; }
  // A number of the kernel: masked and other attention share it.
  std::string causal() { return text_.number(a_.causal); }
  // seen: the keys of its query; last: those of any query of the group.
  void see_keys() {
    const std::string c = causal();
    line("const idx_t seen = ", c, " && row + 1 < keys ? row + 1 : keys;");
    line("const idx_t last = ", c, " && first + ", lanes_, " < keys ? first + ", lanes_, " : keys;");
  }
  const std::string& own() const { return own_; }
  const std::string& other() const { return other_; }

  void finish(const char* purpose, Lowered& into) {
    const int64_t most = std::max(groups_ * lanes_, largest_span(spec_));
    if (groups_ == 0) return;
    into.launches.push_back(text_.finish(purpose, most, static_cast<size_t>(groups_), static_cast<size_t>(lanes_)));
  }

 private:
  std::string place(const Operand& o, const char* row) {
    const Strides& s = o.layout.strides;
    std::string at =
        cat("b * ", text_.number(s[0]), " + h * ", text_.number(s[1]), " + ", row, " * ", text_.number(s[2]));
    if (o.type.shape.rank() == 4) at += cat(" + d * ", text_.number(s[3]));
    return at;
  }

  const StepSpec& spec_;
  const AttentionAttrs& a_;
  KernelText text_;
  int64_t width_, lanes_, tile_, groups_;
  std::string own_, other_, numbers_;  // how many rows there are; D
};

void forward(const StepSpec& spec, Lowered& into) {
  AttentionText t(spec, spec.in[0].type.shape[2], spec.in[1].type.shape[2]);
  t.hold("q", 0);
  t.declare("sum");
  t.scale();
  t.line("LOCAL float scores[", t.tile() * t.lanes(), "];");
  t.line("float peak = -3e38f, mass = 0;");
  t.see_keys();
  t.begin_tiles("0", "last", "key", 1, "value", 2);
  t.line("float top = peak;");
  t.begin_rows();
  t.dot("score", "q", "key");
  t.line("score = c + k < seen ? score * scale : ", literal(-INFINITY, DType::f32), ";");
  t.line("scores[k * ", t.lanes(), " + LANE] = score;");
  t.line("top = score > top ? score : top;");
  t.end();
  t.line("const float shrink = exp(peak - top);");
  t.line("mass *= shrink; peak = top;");
  t.each("sum[d] *= shrink;");
  t.line("for (int k = 0; k < ", t.tile(), "; ++k) {");
  t.line("const float p = exp(scores[k * ", t.lanes(), " + LANE] - top);");
  t.line("mass += p;");
  t.add("sum", "p", "value");
  t.end();
  t.end();
  t.store(0, "sum[d] / mass");
  t.store(1, "peak + log(mass)");
  t.finish("attention", into);
}

// The first operands of a gradient: q, k, v, lengths; then these.
struct Saved {
  int y, lse, dy, dlse;
  explicit Saved(const StepSpec& spec) : y(attrs<AttentionAttrs>(*spec.node).lengths ? 4 : 3) {
    lse = y + 1, dy = y + 2, dlse = y + 3;
  }
};

// dq = scale sum_j p (dp - delta) k with p = exp(scale q k - lse), dp = dy v and delta = dy y - dlse.
void gradient_of_queries(const StepSpec& spec, Lowered& into) {
  const Saved saved(spec);
  AttentionText t(spec, spec.in[0].type.shape[2], spec.in[1].type.shape[2]);
  t.hold("q", 0);
  t.hold("dy", saved.dy);
  t.declare("sum");
  t.scale();
  t.line("const float lse = ", t.element(saved.lse, "mine"), ";");
  t.line("float delta = 0;");
  t.each(cat("delta += dy[d * ", t.lanes(), " + LANE] * ", t.number(saved.y, "mine"), ";"));
  if (attrs<AttentionAttrs>(*spec.node).second) t.line("delta -= ", t.element(saved.dlse, "mine"), ";");
  t.line("if (row < ", t.own(), ") ", t.deltas(true), "[of_heads * ", t.own(), " + row] = delta;");
  t.see_keys();
  t.begin_tiles("0", "last", "key", 1, "value", 2);
  t.begin_rows();
  t.line("if (c + k >= seen) break;");
  t.dot("score", "q", "key", "UNROLL_8");  // q, dy and dq are more than there are registers
  t.dot("dp", "dy", "value", "UNROLL_8");
  t.line("const float ds = scale * exp(score * scale - lse) * (dp - delta);");
  t.add("sum", "ds", "key");
  t.end();
  t.end();
  t.store(0, "sum[d]");
  t.finish("attention_dq", into);
}

// dk = scale sum_i p (dp - delta) q and dv = sum_i p dy, either or both.
void gradient_of_keys(const StepSpec& spec, bool dk, bool dv, Lowered& into) {
  const Saved saved(spec);
  AttentionText t(spec, spec.in[1].type.shape[2], spec.in[0].type.shape[2]);
  t.hold("key", 1);
  if (dk) t.hold("value", 2);
  if (dk) t.declare("sum_k");
  if (dv) t.declare("sum_v");
  t.scale();
  const std::string deltas = t.deltas(false), causal = t.causal();
  t.line("LOCAL float lse[", t.tile(), "], delta[", t.tile(), "];");
  t.line("const idx_t begin = ", causal, " ? first / ", t.tile(), " * ", t.tile(), " : 0;");
  t.begin_tiles("begin", t.other(), "q", 0, "dy", saved.dy);
  t.line("if (LANE < ", t.tile(), ") {");
  t.line("  const idx_t at = c + LANE < ", t.other(), " ? c + LANE : ", t.other(), " - 1;");
  t.line("  lse[LANE] = ", t.element(saved.lse, "at"), "; delta[LANE] = ", deltas, "[of_heads * ", t.other(),
         " + at];");
  t.line("}");
  t.begin_rows();
  t.line("if (c + k >= ", t.other(), ") break;");
  t.line("if (row >= keys || (", causal, " && row > c + k)) continue;");
  t.dot("score", "key", "q");
  t.line("const float p = exp(score * scale - lse[k]);");
  if (dv) t.add("sum_v", "p", "dy");
  if (dk) {
    t.dot("dp", "value", "dy");
    t.line("const float ds = scale * p * (dp - delta[k]);");
    t.add("sum_k", "ds", "q");
  }
  t.end();
  t.end();
  if (dk) t.store(1, "sum_k[d]");
  if (dv) t.store(2, "sum_v[d]");
  t.finish(dk && dv ? "attention_dkv" : dk ? "attention_dk" : "attention_dv", into);
}

}  // namespace

bool has_attention(const Graph& graph, const Node& node) {
  if (node.op != Op::attention && node.op != Op::attention_grad) return false;
  const Type& q = graph.type(node.in(0));
  return q.dtype != DType::f64 && q.shape[3] >= 1 && q.shape[3] <= kMostWidth;
}

Lowered lower_attention(const StepSpec& spec) {
  Lowered lowered{.launches = {}, .scratch_bytes = 0, .name = name(spec.node->op)};
  if (spec.node->op == Op::attention) {
    forward(spec, lowered);
    return lowered;
  }
  const Shape& q = spec.in[0].type.shape;
  lowered.scratch_bytes = static_cast<size_t>(q[0] * q[1] * q[2]) * sizeof(float);
  gradient_of_queries(spec, lowered);
  if (q[3] <= kWide) {
    gradient_of_keys(spec, true, true, lowered);
  } else {
    gradient_of_keys(spec, true, false, lowered);
    gradient_of_keys(spec, false, true, lowered);
  }
  return lowered;
}

}  // namespace freight::gpu
