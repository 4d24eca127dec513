// See container.h.
#include "freight/nn/container.h"

#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

namespace {
thread_local AuxiliaryOutputs* t_outputs = nullptr;
}

Tensor Sequential::forward(const Tensor& x) {
  std::vector<Tensor> y = forward_all({x});
  if (y.size() != 1) {
    trace::fail_here("Sequential", "the last layer must give one result: got ", y.size(), "; take them all by call()");
  }
  return std::move(y[0]);
}

std::vector<Tensor> Sequential::forward_all(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> y = inputs;
  for (const Child& c : children()) y = c.module->call(y);
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

Auxiliary::Auxiliary(std::shared_ptr<Module> head, const Fields& fields)
    : head_(std::move(head)), fields_(checked<Auxiliary>(fields)) {
  adopt("", head_);
}
Tensor Auxiliary::forward(const Tensor& x) {
  if (training()) {
    const Tensor output = (*head_)(x);
    if (t_outputs) t_outputs->list.push_back({output, fields_.weight});
  }
  return x;
}

AuxiliaryOutputs::AuxiliaryOutputs() : before_(t_outputs) { t_outputs = this; }
AuxiliaryOutputs::~AuxiliaryOutputs() { t_outputs = before_; }

LayerList container_layers() {
  constexpr auto kOptional = Field::Presence::optional;
  return {
      declared(Layer<Sequential>("Sequential", "layers one after the other").layers("layers", "in their order")),
      declared(Layer<Residual>("Residual",
                               "activation(main(x) + shortcut(x)). In paths the layers of `main` appear as the "
                               "block's own, the shortcut as `downsample`; He et al. 2016")
                   .layer("main", "a layer or a list")
                   .layer("shortcut", "none: the input itself", kOptional)
                   .layer("activation", "none: the sum", kOptional)),
      declared(Layer<Concat>("Concat", "branches on the same input, their results joined along the channels")
                   .layers("branches", "one or more")),
      declared(
          Layer<Auxiliary>("Auxiliary",
                           "gives its input on; in training the head is run on it too, and its loss is added times "
                           "`weight`. Evaluation leaves it out. In paths the head's layers appear as the module's "
                           "own; Szegedy et al. 2015")
              .layer("head", "a layer or a list")
              .field("weight", &AuxiliaryOptions::weight, "share of the head's loss",
                     {.least = 0, .most = std::numeric_limits<double>::max()})),
  };
}

}  // namespace freight::nn
