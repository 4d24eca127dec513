// The steps of attention and its gradient (kernels/attention.h), and the layouts they want.
#include "freight/backend/cpu/kernels/attention.h"
#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/bf16/attention.h"

namespace freight::cpu {

namespace {

// (q, k, v[, lengths][, mask]) -> y, lse; (q, k, v[, lengths][, mask], y, lse, dy[, dlse]) -> dq, dk, dv.
template <class Attend>
class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(const StepSpec& spec)
      : gradient_(spec.node->op == Op::attention_grad),
        a_(attrs<AttentionAttrs>(*spec.node)),
        in_(spec.in.size()),
        attention_(problem(spec), gradient_) {
    for (const Operand& o : spec.in) shapes_.push_back(heads(o));
    for (const Operand& o : spec.out) shapes_.push_back(heads(o));
    if (a_.mask) mask_ = mask(spec.in[static_cast<size_t>(a_.mask_at())], spec.in[0].type.shape[1]);
  }
  std::string name() const override { return "attention"; }

  void run(void* const* operands) override {
    const auto tensor = [&](size_t i) {
      Heads h = shapes_[i];
      h.data = operands[i];
      return h;
    };
    AttentionOperands o;
    o.q = tensor(0);
    o.k = tensor(1);
    o.v = tensor(2);
    size_t next = 3;
    if (a_.lengths) o.lengths = operands[next++];
    o.mask = mask_;
    if (a_.mask) o.mask.data = operands[next++];
    o.y = tensor(next++);
    o.lse = static_cast<float*>(operands[next++]);
    if (!gradient_) return attention_.forward(o);
    o.dy = tensor(next++);
    if (a_.second) o.dlse = static_cast<float*>(operands[next]);
    o.dq = tensor(in_);
    o.dk = tensor(in_ + 1);
    o.dv = tensor(in_ + 2);
    attention_.backward(o);
  }

 private:
  static Heads heads(const Operand& o) {
    if (o.type.shape.rank() != 4) return {};
    const Strides& s = o.layout.strides;
    return {nullptr, s[0], s[1], s[2]};
  }
  AttentionMask mask(const Operand& o, int64_t heads) const {
    const Strides& s = o.layout.strides;
    return {.added = o.type.dtype != DType::boolean,
            .batch = a_.mask_samples ? s[0] * (a_.mask_heads ? heads : 1) : 0,
            .head = a_.mask_heads ? s[0] : 0,
            .row = o.type.shape[1] > 1 ? s[1] : 0};
  }
  static AttentionProblem problem(const StepSpec& spec) {
    const auto& a = attrs<AttentionAttrs>(*spec.node);
    const Shape &q = spec.in[0].type.shape, &k = spec.in[1].type.shape;
    return {.samples = q[0],
            .heads = q[1],
            .queries = q[2],
            .keys = k[2],
            .width = q[3],
            .causal = a.causal,
            .wide_lengths = a.lengths && spec.in[3].type.dtype == DType::i64,
            .scale = static_cast<float>(a.scale)};
  }

  bool gradient_;
  AttentionAttrs a_;
  size_t in_;
  Attend attention_;
  std::vector<Heads> shapes_;  // by operand
  AttentionMask mask_;
};

}  // namespace

// D, and S of a mask, contiguous, the other axes in any order; results lie as (B, T, H, D), which joins the heads for
// free.
LayoutPlan attention_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                             const FrozenInputs&) {
  LayoutPlan plan;
  const auto& a = attrs<AttentionAttrs>(node);
  const auto usual = [](const Shape& s) {
    return s.rank() == 4 ? Layout{permuted_strides(s, {0, 2, 1, 3}), nullptr} : Layout::row_major(s);
  };
  for (size_t i = 0; i < given.size(); ++i) {
    const Shape& s = graph.type(node.inputs[i]).shape;
    const bool any_rows = s.rank() == 4 || (a.mask && i == static_cast<size_t>(a.mask_at()));
    const bool fine = any_rows && !given[i].blocked && given[i].strides[s.rank() - 1] == 1;
    plan.in.push_back(fine ? given[i] : usual(s));
  }
  for (Value v : node.outputs) plan.out.push_back(usual(graph.type(v).shape));
  return plan;
}

std::unique_ptr<Kernel> make_attention(const StepSpec& spec) {
  if (spec.in[0].type.dtype == DType::bf16) return std::make_unique<AttentionKernel<Bf16Attention>>(spec);
  return std::make_unique<AttentionKernel<Attention>>(spec);
}

}  // namespace freight::cpu
