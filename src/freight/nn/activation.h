// Activations as modules, for Sequential and specs; the functions are in ops/elementwise.h and ops/neural.h.
#pragma once
#include "freight/nn/module.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/neural.h"

namespace freight::nn {

// A module without parameters or settings that applies F; kType is its name in specs.
template <Tensor (*F)(const In&)>
class Activation : public Module {
 public:
  explicit Activation(const char* type) : type_(type) {}
  Tensor forward(const Tensor& x) override { return F(x); }
  Config config() const override { return {type_}; }

 private:
  const char* type_;
};

struct ReLU : Activation<relu> {
  ReLU() : Activation("ReLU") {}
};
struct SiLU : Activation<silu> {
  SiLU() : Activation("SiLU") {}
};
struct Tanh : Activation<tanh> {
  Tanh() : Activation("Tanh") {}
};
struct Sigmoid : Activation<sigmoid> {
  Sigmoid() : Activation("Sigmoid") {}
};
struct Softplus : Activation<softplus> {
  Softplus() : Activation("Softplus") {}
};

struct GELU : Module {
  explicit GELU(GeluKind gelu_kind = GeluKind::erf) : kind(gelu_kind) {}
  Tensor forward(const Tensor& x) override { return gelu(x, kind); }
  Config config() const override {
    return Config{"GELU"}.text("approximate", kind == GeluKind::tanh ? "tanh" : "none", "none");
  }
  GeluKind kind;
};
struct LeakyReLU : Module {
  explicit LeakyReLU(double negative_slope = 0.01) : slope(negative_slope) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, slope); }
  Config config() const override { return Config{"LeakyReLU"}.number("slope", slope, 0.01); }
  double slope;
};
struct ELU : Module {
  explicit ELU(double negative_scale = 1) : alpha(negative_scale) {}
  Tensor forward(const Tensor& x) override { return elu(x, alpha); }
  Config config() const override { return Config{"ELU"}.number("alpha", alpha, 1); }
  double alpha;
};
// Along the last axis by default.
struct Softmax : Module {
  explicit Softmax(int64_t along = -1) : axis(along) {}
  Tensor forward(const Tensor& x) override { return softmax(x, axis); }
  Config config() const override { return Config{"Softmax"}.integer("axis", axis, -1); }
  int64_t axis;
};
struct Identity : Module {
  Tensor forward(const Tensor& x) override { return x; }
  Config config() const override { return {"Identity"}; }
};

}  // namespace freight::nn
