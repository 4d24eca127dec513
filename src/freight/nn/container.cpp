// See container.h.
#include "freight/nn/container.h"

#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

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

}  // namespace freight::nn
