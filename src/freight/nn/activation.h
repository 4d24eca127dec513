// Activations as modules, for Sequential and specs; the functions are in ops/elementwise.h and ops/neural.h.
#pragma once
#include "freight/nn/layer_type.h"
#include "freight/nn/module.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/neural.h"

namespace freight::nn {

// A module without parameters or settings that applies F.
template <Tensor (*F)(const In&)>
struct Activation : Module {
  using Fields = NoFields;
  Tensor forward(const Tensor& x) override { return F(x); }  // F of every element
};

struct ReLU : Activation<relu> {};          // max(x, 0)
struct SiLU : Activation<silu> {};          // x sigmoid(x)
struct Tanh : Activation<tanh> {};          // the hyperbolic tangent
struct Sigmoid : Activation<sigmoid> {};    // 1 / (1 + exp(-x))
struct Softsign : Activation<softsign> {};  // x / (1 + |x|)

namespace detail {
Tensor relu6(const In& x);
Tensor hardsigmoid(const In& x);
Tensor hardswish(const In& x);
Tensor selu(const In& x);
Tensor mish(const In& x);
Tensor log_sigmoid(const In& x);
Tensor tanhshrink(const In& x);
}  // namespace detail
struct ReLU6 : Activation<detail::relu6> {};              // min(max(x, 0), 6)
struct Hardsigmoid : Activation<detail::hardsigmoid> {};  // min(max(x + 3, 0), 6) / 6; Howard et al. 2019
struct Hardswish : Activation<detail::hardswish> {};      // x Hardsigmoid(x)
struct SELU : Activation<detail::selu> {};                // ELU with the constants of Klambauer et al. 2017
struct Mish : Activation<detail::mish> {};                // x tanh(Softplus(x)); Misra 2019
struct LogSigmoid : Activation<detail::log_sigmoid> {};   // ln Sigmoid(x)
struct Tanhshrink : Activation<detail::tanhshrink> {};    // x - tanh(x)

// Gives its input back.
struct Identity : Module {
  using Fields = NoFields;
  Tensor forward(const Tensor& x) override { return x; }
};

// A module with settings and without parameters that applies F.
template <class Options, Tensor (*F)(const Tensor&, const Options&)>
class ConfiguredActivation : public Module {
 public:
  using Fields = Options;
  explicit ConfiguredActivation(const Fields& fields = {}) : fields_(fields) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return F(x, fields_); }  // F of every element

 private:
  Fields fields_;
};

struct GELUOptions {
  GeluKind approximate = GeluKind::erf;  // exact by default
};
struct LeakyReLUOptions {
  double slope = kLeakySlope;  // below zero
};
struct ELUOptions {
  double alpha = kEluAlpha;  // the limit far below zero is -alpha
};
struct SoftplusOptions {
  double beta = 1;        // the larger, the closer to ReLU
  double threshold = 20;  // x itself where beta x is above
};
struct CELUOptions {
  double alpha = 1;  // the limit far below zero is -alpha
};
struct HardtanhOptions {
  double min_val = -1, max_val = 1;  // the smallest and the largest result
};
struct ShrinkOptions {
  double lambda = 0.5;  // distance from 0 up to which the result is 0
};
struct ThresholdOptions {
  double threshold = 0;  // x is replaced up to this value
  double value = 0;      // by this number
};
struct AxisOptions {
  int64_t axis = -1;  // negative values count from the end
};
namespace detail {
Tensor gelu_of(const Tensor& x, const GELUOptions& o);
Tensor leaky_relu_of(const Tensor& x, const LeakyReLUOptions& o);
Tensor elu_of(const Tensor& x, const ELUOptions& o);
Tensor softmax_of(const Tensor& x, const AxisOptions& o);
Tensor softplus_of(const Tensor& x, const SoftplusOptions& o);
Tensor celu(const Tensor& x, const CELUOptions& o);
Tensor hardtanh(const Tensor& x, const HardtanhOptions& o);
Tensor hardshrink(const Tensor& x, const ShrinkOptions& o);
Tensor softshrink(const Tensor& x, const ShrinkOptions& o);
Tensor threshold(const Tensor& x, const ThresholdOptions& o);
Tensor log_softmax_of(const Tensor& x, const AxisOptions& o);
Tensor softmin(const Tensor& x, const AxisOptions& o);
Tensor glu(const Tensor& x, const AxisOptions& o);
}  // namespace detail
// x Phi(x), or its tanh approximation.
struct GELU : ConfiguredActivation<GELUOptions, detail::gelu_of> {
  explicit GELU(const Fields& fields = {}) : ConfiguredActivation(fields) {}
  explicit GELU(GeluKind kind) : GELU(Fields{kind}) {}
};
// x where positive, else slope x.
struct LeakyReLU : ConfiguredActivation<LeakyReLUOptions, detail::leaky_relu_of> {
  explicit LeakyReLU(const Fields& fields = {}) : ConfiguredActivation(fields) {}
  explicit LeakyReLU(double slope) : LeakyReLU(Fields{slope}) {}
};
// x where positive, else alpha (exp(x) - 1).
struct ELU : ConfiguredActivation<ELUOptions, detail::elu_of> {
  explicit ELU(const Fields& fields = {}) : ConfiguredActivation(fields) {}
  explicit ELU(double alpha) : ELU(Fields{alpha}) {}
};
// exp(x) / sum exp(x) along one axis.
struct Softmax : ConfiguredActivation<AxisOptions, detail::softmax_of> {
  explicit Softmax(const Fields& fields = {}) : ConfiguredActivation(fields) {}
  explicit Softmax(Axis axis) : Softmax(Fields{axis}) {}
};
// ln(1 + exp(beta x)) / beta.
struct Softplus : ConfiguredActivation<SoftplusOptions, detail::softplus_of> {
  using ConfiguredActivation::ConfiguredActivation;
};
// x where positive, else alpha (exp(x / alpha) - 1). Barron 2017.
struct CELU : ConfiguredActivation<CELUOptions, detail::celu> {
  explicit CELU(const Fields& fields = {}) : ConfiguredActivation(checked<CELU>(fields)) {}
};
// min(max(x, min_val), max_val).
struct Hardtanh : ConfiguredActivation<HardtanhOptions, detail::hardtanh> {
  using ConfiguredActivation::ConfiguredActivation;
};
// x where further from 0 than lambda, else 0.
struct Hardshrink : ConfiguredActivation<ShrinkOptions, detail::hardshrink> {
  explicit Hardshrink(const Fields& fields = {}) : ConfiguredActivation(checked<Hardshrink>(fields)) {}
};
// x moved by lambda towards 0, at most to 0.
struct Softshrink : ConfiguredActivation<ShrinkOptions, detail::softshrink> {
  explicit Softshrink(const Fields& fields = {}) : ConfiguredActivation(checked<Softshrink>(fields)) {}
};
// x where above the threshold, else a number.
struct Threshold : ConfiguredActivation<ThresholdOptions, detail::threshold> {
  using ConfiguredActivation::ConfiguredActivation;
};
// ln of Softmax.
struct LogSoftmax : ConfiguredActivation<AxisOptions, detail::log_softmax_of> {
  using ConfiguredActivation::ConfiguredActivation;
};
// Softmax of -x.
struct Softmin : ConfiguredActivation<AxisOptions, detail::softmin> {
  using ConfiguredActivation::ConfiguredActivation;
};
// The first half of the axis times the sigmoid of the second. Dauphin et al. 2017.
struct GLU : ConfiguredActivation<AxisOptions, detail::glu> {
  using ConfiguredActivation::ConfiguredActivation;
};

struct PReLUOptions {
  int64_t channels = 1;  // slopes: one for all, or one per channel (axis 1)
  double value = 0.25;   // initial value of the slopes
};
// x where positive, else x times a learned slope. He et al. 2015.
class PReLU : public Module {
 public:
  using Fields = PReLUOptions;
  explicit PReLU(const Fields& fields = {});
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight;  // (channels)

 private:
  Fields fields_;
};

}  // namespace freight::nn
