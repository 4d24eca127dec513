// See container.h.
#include "freight/nn/container.h"

#include <cmath>

#include "freight/base/error.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

namespace {
thread_local AuxiliaryOutputs* t_outputs = nullptr;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const Child& c : children()) y = (*c.module)(y);
  return y;
}

Residual::Residual(std::shared_ptr<Module> main, std::shared_ptr<Module> shortcut, std::shared_ptr<Module> activation)
    : main_(std::move(main)), shortcut_(std::move(shortcut)), activation_(std::move(activation)) {
  adopt("", main_);
  if (shortcut_) adopt("downsample", shortcut_);
  if (activation_) adopt("activation", activation_);
}

Tensor Residual::forward(const Tensor& x) {
  const Tensor y = (*main_)(x);
  const Tensor s = shortcut_ ? (*shortcut_)(x) : x;
  if (!(y.type() == s.type())) {
    trace::fail_here("Residual", "shapes differ: main gives ", y.type(), ", shortcut ", s.type());
  }
  const Tensor sum = y + s;
  return activation_ ? (*activation_)(sum) : sum;
}

Tensor Concat::forward(const Tensor& x) {
  std::vector<Tensor> parts;
  for (const Child& c : children()) parts.push_back((*c.module)(x));
  return concat(parts, 1);
}

Auxiliary::Auxiliary(std::shared_ptr<Module> head, double weight) : head_(std::move(head)), weight_(weight) {
  if (!std::isfinite(weight) || weight < 0) {
    fail(ErrorKind::usage, "Auxiliary", "weight must be a finite number, not negative: got ", weight);
  }
  adopt("", head_);
}
Tensor Auxiliary::forward(const Tensor& x) {
  if (training()) {
    const Tensor output = (*head_)(x);
    if (t_outputs) t_outputs->list.push_back({output, weight_});
  }
  return x;
}
Config Auxiliary::config() const { return Config{"Auxiliary"}.number("weight", weight_, 0.3); }

AuxiliaryOutputs::AuxiliaryOutputs() : before_(t_outputs) { t_outputs = this; }
AuxiliaryOutputs::~AuxiliaryOutputs() { t_outputs = before_; }

}  // namespace freight::nn
