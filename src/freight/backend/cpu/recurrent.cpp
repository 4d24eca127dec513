// The steps of LSTM and GRU layers and of their gradient (kernels/recurrent.h).
#include "freight/backend/cpu/kernels/bf16/recurrent.h"
#include "freight/backend/cpu/families.h"

namespace freight::cpu {

namespace {

template <class Steps>
class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(const StepSpec& spec)
      : gradient_(spec.node->op == Op::recurrent_grad),
        a_(attrs<RecurrentAttrs>(*spec.node)),
        steps_(problem(spec), gradient_) {}
  std::string name() const override { return a_.gru ? "gru" : "lstm"; }
  size_t scratch_bytes() const override { return steps_.scratch_bytes(); }

  void run(void* const* operands) override {
    const auto next = [&](auto*& p) { p = static_cast<std::remove_reference_t<decltype(p)>>(*operands++); };
    RecurrentOperands<typename Steps::Number> o;
    if (gradient_) {
      next(o.w);
      next(o.y);
      next(o.inner);
      next(o.gates);
      next(o.dy);
    } else {
      next(o.x);
      next(o.w);
      if (a_.gru) next(o.inside);
    }
    if (a_.lengths) next(o.counts);
    if (gradient_) {
      next(o.dx);
      next(o.dw);
      if (a_.gru) next(o.dinside);
      return steps_.backward(o, *operands);
    }
    next(o.y);
    next(o.inner);
    next(o.gates);
    steps_.forward(o, *operands);
  }

 private:
  static RecurrentProblem problem(const StepSpec& spec) {
    const auto& a = attrs<RecurrentAttrs>(*spec.node);
    const bool gradient = spec.node->op == Op::recurrent_grad;
    const Shape& y = (gradient ? spec.in[1] : spec.out[0]).type.shape;
    return {.gru = a.gru, .reverse = a.reverse, .samples = y[0], .steps = y[1], .width = y[2]};
  }

  bool gradient_;
  RecurrentAttrs a_;
  Steps steps_;
};

}  // namespace

bool recurrent_in_place(const Graph&, const Node& node, int input, int output) {
  if (node.op == Op::recurrent) return input == 0 && output == 2;  // x and the gates
  return input == 3 && output == 0;                                // the gates and dx
}

std::unique_ptr<Kernel> make_recurrent(const StepSpec& spec) {
  if (spec.out[0].type.dtype == DType::bf16) return std::make_unique<RecurrentKernel<Bf16Recurrent>>(spec);
  return std::make_unique<RecurrentKernel<Recurrent>>(spec);
}

}  // namespace freight::cpu
