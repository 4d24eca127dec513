// The steps of LSTM and GRU layers and of their gradient (kernels/recurrent.h).
#include "freight/backend/cpu/kernels/recurrent.h"

#include "freight/backend/cpu/steps.h"

namespace freight::cpu {

namespace {

class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(const StepSpec& spec)
      : gradient_(spec.node->op == Op::recurrent_grad),
        a_(attrs<RecurrentAttrs>(*spec.node)),
        steps_(problem(spec), gradient_) {}
  std::string name() const override { return a_.gru ? "gru" : "lstm"; }
  size_t scratch_bytes() const override { return steps_.scratch_bytes(); }

  void run(void* const* operands) override {
    const auto next = [&] { return static_cast<float*>(*operands++); };
    RecurrentOperands o;
    if (gradient_) {
      o.w = next();
      o.y = next();
      o.inner = next();
      o.gates = next();
      o.dy = next();
    } else {
      o.x = next();
      o.w = next();
      if (a_.gru) o.inside = next();
    }
    if (a_.lengths) o.counts = reinterpret_cast<const int32_t*>(next());
    if (gradient_) {
      o.dx = next();
      o.dw = next();
      if (a_.gru) o.dinside = next();
      return steps_.backward(o, next());
    }
    o.y = next();
    o.inner = next();
    o.gates = next();
    steps_.forward(o, next());
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
  Recurrent steps_;
};

}  // namespace

std::unique_ptr<Kernel> make_recurrent(const StepSpec& spec) {
  if (spec.node->op != Op::recurrent && spec.node->op != Op::recurrent_grad) return nullptr;
  return std::make_unique<RecurrentKernel>(spec);
}

}  // namespace freight::cpu
