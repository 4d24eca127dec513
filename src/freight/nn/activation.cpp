// The declarations of the activations: see activation.h.
#include "freight/nn/activation.h"

#include "freight/nn/init.h"
#include "freight/ops/common.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

Tensor detail::relu6(const In& x) { return where(relu(x) >= 6, 6, relu(x)); }  // at 6, as at 0, no gradient
Tensor detail::hardsigmoid(const In& x) { return relu6(x + 3) * (1.0 / 6); }
Tensor detail::hardswish(const In& x) { return x * hardsigmoid(x); }
Tensor detail::selu(const In& x) { return elu(x, 1.6732632423543772) * 1.0507009873554805; }
Tensor detail::mish(const In& x) { return x * tanh(softplus(x)); }
Tensor detail::log_sigmoid(const In& x) { return -softplus(-x); }
Tensor detail::tanhshrink(const In& x) { return x - tanh(x); }

Tensor detail::gelu_of(const Tensor& x, const GELUOptions& o) { return gelu(x, o.approximate); }
Tensor detail::leaky_relu_of(const Tensor& x, const LeakyReLUOptions& o) { return leaky_relu(x, o.slope); }
Tensor detail::elu_of(const Tensor& x, const ELUOptions& o) { return elu(x, o.alpha); }
Tensor detail::softmax_of(const Tensor& x, const AxisOptions& o) { return softmax(x, o.axis); }
Tensor detail::softplus_of(const Tensor& x, const SoftplusOptions& o) {
  const Tensor scaled = x * o.beta;
  return where(scaled > o.threshold, x, softplus(scaled) * (1 / o.beta));
}
Tensor detail::celu(const Tensor& x, const CELUOptions& o) { return elu(x * (1 / o.alpha), 1) * o.alpha; }
Tensor detail::hardtanh(const Tensor& x, const HardtanhOptions& o) { return clamp(x, o.min_val, o.max_val); }
Tensor detail::hardshrink(const Tensor& x, const ShrinkOptions& o) {
  return where(logical_and(x >= -o.lambda, x <= o.lambda), 0.0, x);
}
Tensor detail::softshrink(const Tensor& x, const ShrinkOptions& o) { return x - clamp(x, -o.lambda, o.lambda); }
Tensor detail::threshold(const Tensor& x, const ThresholdOptions& o) { return where(x > o.threshold, x, o.value); }
Tensor detail::log_softmax_of(const Tensor& x, const AxisOptions& o) { return log_softmax(x, o.axis); }
Tensor detail::softmin(const Tensor& x, const AxisOptions& o) { return softmax(-x, o.axis); }
Tensor detail::glu(const Tensor& x, const AxisOptions& o) {
  const std::vector<Tensor> halves = chunk(x, 2, o.axis);
  return halves[0] * sigmoid(halves[1]);
}

PReLU::PReLU(const Fields& fields) : fields_(checked<PReLU>(fields)) {
  weight = parameter("weight", {fields.channels}, init::constant(fields.value));
}
Tensor PReLU::forward(const Tensor& x) {
  if (fields_.channels == 1) return where(x > 0.0, x, x * weight);
  if (x.rank() < 2 || x.dim(1) != fields_.channels) {
    trace::fail_here("PReLU", "expected (N, ", fields_.channels, ", ...): got ", x.type());
  }
  return where(x > 0.0, x, x * ops::per_channel(weight.value(), x, "PReLU"));
}

LayerList activation_layers() {
  const char* const kAxis = "negative values count from the end";
  return {
      declared(Layer<ReLU>("ReLU", "x where positive, else 0")),
      declared(Layer<SiLU>("SiLU", "x sigmoid(x)")),
      declared(Layer<Tanh>("Tanh", "the hyperbolic tangent")),
      declared(Layer<Sigmoid>("Sigmoid", "1 / (1 + exp(-x))")),
      declared(Layer<Softplus>("Softplus", "ln(1 + exp(beta x)) / beta")
                   .field("beta", &SoftplusOptions::beta, "the larger, the closer to ReLU")
                   .field("threshold", &SoftplusOptions::threshold, "x itself where beta x is above")),
      declared(Layer<Softsign>("Softsign", "x / (1 + |x|)")),
      declared(Layer<ReLU6>("ReLU6", "min(max(x, 0), 6)")),
      declared(Layer<Hardsigmoid>("Hardsigmoid", "min(max(x + 3, 0), 6) / 6; Howard et al. 2019")),
      declared(Layer<Hardswish>("Hardswish", "x Hardsigmoid(x)")),
      declared(Layer<SELU>("SELU", "ELU with alpha 1.673 times 1.051; Klambauer et al. 2017")),
      declared(Layer<Mish>("Mish", "x tanh(Softplus(x)); Misra 2019")),
      declared(Layer<LogSigmoid>("LogSigmoid", "ln Sigmoid(x)")),
      declared(Layer<Tanhshrink>("Tanhshrink", "x - tanh(x)")),
      declared(Layer<Identity>("Identity", "x")),
      declared(Layer<GELU>("GELU", "x times the normal distribution function; Hendrycks and Gimpel 2016")
                   .choice("approximate", &GELUOptions::approximate, {"none", "tanh"}, "how it is computed")),
      declared(Layer<LeakyReLU>("LeakyReLU", "x where positive, else slope x")
                   .field("slope", &LeakyReLUOptions::slope, "where x is negative")),
      declared(Layer<ELU>("ELU", "x where positive, else alpha (exp(x) - 1)")
                   .field("alpha", &ELUOptions::alpha, "the limit for x to minus infinity is -alpha")),
      declared(
          Layer<Softmax>("Softmax", "exp(x) / sum exp(x) along one axis").field("axis", &AxisOptions::axis, kAxis)),
      declared(Layer<LogSoftmax>("LogSoftmax", "ln of Softmax").field("axis", &AxisOptions::axis, kAxis)),
      declared(Layer<Softmin>("Softmin", "Softmax of -x").field("axis", &AxisOptions::axis, kAxis)),
      declared(Layer<GLU>("GLU", "the first half of an axis times the sigmoid of the second; Dauphin et al. 2017")
                   .field("axis", &AxisOptions::axis, kAxis)),
      declared(Layer<CELU>("CELU", "x where positive, else alpha (exp(x / alpha) - 1); Barron 2017")
                   .field("alpha", &CELUOptions::alpha, "the limit for x to minus infinity is -alpha")),
      declared(Layer<Hardtanh>("Hardtanh", "min(max(x, min_val), max_val)")
                   .field("min_val", &HardtanhOptions::min_val, "the smallest result")
                   .field("max_val", &HardtanhOptions::max_val, "the largest result")),
      declared(Layer<Hardshrink>("Hardshrink", "x where further from 0 than lambda, else 0")
                   .field("lambda", &ShrinkOptions::lambda, "where x becomes 0", kNotNegative)),
      declared(Layer<Softshrink>("Softshrink", "x moved by lambda towards 0, at most to 0")
                   .field("lambda", &ShrinkOptions::lambda, "by how much", kNotNegative)),
      declared(Layer<Threshold>("Threshold", "x where above the threshold, else a number")
                   .field("threshold", &ThresholdOptions::threshold, "x is replaced up to this value")
                   .field("value", &ThresholdOptions::value, "the replacement")),
      declared(Layer<PReLU>("PReLU", "x where positive, else x times a learned slope; He et al. 2015")
                   .field("channels", &PReLUOptions::channels, "slopes: 1, or one per channel of the input", kPositive)
                   .field("value", &PReLUOptions::value, "initial value of the slopes")),
  };
}

}  // namespace freight::nn
