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
  Tensor forward(const Tensor& x) override { return F(x); }
};

struct ReLU : Activation<relu> {};
struct SiLU : Activation<silu> {};
struct Tanh : Activation<tanh> {};
struct Sigmoid : Activation<sigmoid> {};
struct Softplus : Activation<softplus> {};
struct Softsign : Activation<softsign> {};

struct Identity : Module {
  using Fields = NoFields;
  Tensor forward(const Tensor& x) override { return x; }
};

struct GELUOptions {
  GeluKind approximate = GeluKind::erf;
};
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
  double slope = kLeakySlope;
};
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
  double alpha = kEluAlpha;
};
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
  int64_t axis = -1;
};
class Softmax : public Module {
 public:
  using Fields = SoftmaxOptions;
  explicit Softmax(const Fields& fields = {}) : fields_(fields) {}
  explicit Softmax(int64_t axis) : Softmax(Fields{axis}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return softmax(x, fields_.axis); }

 private:
  Fields fields_;
};

}  // namespace freight::nn
