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
struct Softplus : Activation<softplus> {};  // log(1 + exp(x))
struct Softsign : Activation<softsign> {};  // x / (1 + |x|)

namespace detail {
Tensor relu6(const In& x);
Tensor hardsigmoid(const In& x);
Tensor hardswish(const In& x);
}  // namespace detail
struct ReLU6 : Activation<detail::relu6> {};              // min(max(x, 0), 6)
struct Hardsigmoid : Activation<detail::hardsigmoid> {};  // min(max(x + 3, 0), 6) / 6; Howard et al. 2019
struct Hardswish : Activation<detail::hardswish> {};      // x Hardsigmoid(x)

// Gives its input back.
struct Identity : Module {
  using Fields = NoFields;
  Tensor forward(const Tensor& x) override { return x; }
};

struct GELUOptions {
  GeluKind approximate = GeluKind::erf;  // exact by default
};
// x Phi(x), or its tanh approximation.
class GELU : public Module {
 public:
  using Fields = GELUOptions;
  explicit GELU(const Fields& fields = {}) : fields_(fields) {}
  explicit GELU(GeluKind kind) : GELU(Fields{kind}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return gelu(x, fields_.approximate); }

 private:
  Fields fields_;
};

struct LeakyReLUOptions {
  double slope = kLeakySlope;  // below zero
};
// x where positive, else slope x.
class LeakyReLU : public Module {
 public:
  using Fields = LeakyReLUOptions;
  explicit LeakyReLU(const Fields& fields = {}) : fields_(fields) {}
  explicit LeakyReLU(double slope) : LeakyReLU(Fields{slope}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return leaky_relu(x, fields_.slope); }

 private:
  Fields fields_;
};

struct ELUOptions {
  double alpha = kEluAlpha;  // the limit far below zero is -alpha
};
// x where positive, else alpha (exp(x) - 1).
class ELU : public Module {
 public:
  using Fields = ELUOptions;
  explicit ELU(const Fields& fields = {}) : fields_(fields) {}
  explicit ELU(double alpha) : ELU(Fields{alpha}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return elu(x, fields_.alpha); }

 private:
  Fields fields_;
};

struct SoftmaxOptions {
  int64_t axis = -1;  // along which the results sum to 1
};
// exp(x) / sum exp(x) along one axis.
class Softmax : public Module {
 public:
  using Fields = SoftmaxOptions;
  explicit Softmax(const Fields& fields = {}) : fields_(fields) {}
  explicit Softmax(Axis axis) : Softmax(Fields{axis}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return softmax(x, fields_.axis); }

 private:
  Fields fields_;
};

}  // namespace freight::nn
