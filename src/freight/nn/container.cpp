// See container.h.
#include "freight/nn/container.h"

#include <utility>

#include "freight/ops/elementwise.h"
#include "freight/ops/shape.h"
#include "freight/trace/thread_context.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

Sequential::Sequential(const Fields& fields) {
  for (const Child& c : fields.layers) append(c.name, c.module);
}

Sequential::Fields Sequential::fields() const { return {children()}; }

void Sequential::append_next(std::shared_ptr<Module> child) {
  adopt(std::to_string(children().size()), std::move(child));
}

Tensor Sequential::forward(const Tensor& x) {
  std::vector<Tensor> y = forward_all({x});
  if (y.size() != 1) {
    trace::fail_here("Sequential", "the last layer must return one result: got ", y.size(),
                     "; use call() for all of them");
  }
  return std::move(y[0]);
}

std::vector<Tensor> Sequential::forward_all(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> y = inputs;
  for (const Child& c : children()) y = c.module->call(y);
  return y;
}

Residual::Residual(const Fields& fields) : fields_(checked<Residual>(fields)) {
  adopt("", fields_.main);
  if (fields_.shortcut) adopt("downsample", fields_.shortcut);
  if (fields_.activation) adopt("activation", fields_.activation);
  for (const Child& c : fields_.main->children()) {
    const bool as_shortcut = fields_.shortcut && c.name == "downsample";
    if (!as_shortcut && !(fields_.activation && c.name == "activation")) continue;
    fail(ErrorKind::usage, "Residual", "a layer of main is named '", c.name, "', as the ",
         as_shortcut ? "shortcut" : "activation", " is: rename it");
  }
}

Tensor Residual::forward(const Tensor& x) {
  const Tensor y = (*fields_.main)(x);
  const Tensor s = fields_.shortcut ? (*fields_.shortcut)(x) : x;
  if (!(y.type() == s.type())) {
    trace::fail_here("Residual", "shapes differ: main returns ", y.type(), ", shortcut ", s.type());
  }
  const Tensor sum = y + s;
  return fields_.activation ? (*fields_.activation)(sum) : sum;
}

Branches::Branches(const Fields& fields) {
  for (const Child& c : fields.branches) append(c.name, c.module);
}

Branches::Fields Branches::fields() const { return {children()}; }

void Branches::append_next(std::shared_ptr<Module> child) {
  adopt(std::to_string(children().size()), std::move(child));
}

Tensor Branches::forward(const Tensor& x) {
  std::vector<Tensor> results;
  for (const Child& c : children()) results.push_back((*c.module)(x));
  return join(results);
}

Concat::Concat(const Fields& fields) : Branches(checked<Concat>(fields)) {}
Sum::Sum(const Fields& fields) : Branches(checked<Sum>(fields)) {}
Product::Product(const Fields& fields) : Branches(checked<Product>(fields)) {}

Tensor Concat::join(const std::vector<Tensor>& results) const { return concat(results, 1); }

Tensor Sum::join(const std::vector<Tensor>& results) const {
  Tensor sum = results[0];
  for (size_t i = 1; i < results.size(); ++i) {
    if (!(results[i].type() == sum.type())) {
      trace::fail_here("Sum", "shapes differ: branch 0 returns ", sum.type(), ", branch ", i, " ", results[i].type());
    }
    sum = sum + results[i];
  }
  return sum;
}

Tensor Product::join(const std::vector<Tensor>& results) const {
  Tensor product = results[0];
  for (size_t i = 1; i < results.size(); ++i) product = product * results[i];
  return product;
}

Auxiliary::Auxiliary(const Fields& fields) : fields_(checked<Auxiliary>(fields)) { adopt("", fields_.head); }

Tensor Auxiliary::forward(const Tensor& x) {
  if (training()) {
    const Tensor output = (*fields_.head)(x);
    if (auto* const all = trace::thread_context().auxiliary_outputs) all->list.push_back({output, fields_.weight});
  }
  return x;
}

AuxiliaryOutputs::AuxiliaryOutputs() : before_(std::exchange(trace::thread_context().auxiliary_outputs, this)) {}
AuxiliaryOutputs::~AuxiliaryOutputs() { trace::thread_context().auxiliary_outputs = before_; }

LayerList container_layers() {
  return {
      declared(Layer<Sequential>("Sequential", "layers one after the other")
                   .required("layers", &SequentialOptions::layers, "in their order", kAny)),
      declared(Layer<Residual>("Residual",
                               "activation(main(x) + shortcut(x)). In paths the layers of `main` appear as the "
                               "block's own, the shortcut as `downsample`; He et al. 2016")
                   .required("main", &ResidualOptions::main, "a layer or a list")
                   .field("shortcut", &ResidualOptions::shortcut, "none: the input itself")
                   .field("activation", &ResidualOptions::activation, "none: the sum")),
      declared(Layer<Concat>("Concat", "branches on the same input, their results joined along the channels")
                   .required("branches", &BranchesOptions::branches, "one or more")),
      declared(Layer<Sum>("Sum", "branches on the same input, their results added")
                   .required("branches", &BranchesOptions::branches, "one or more, with results of equal shapes")),
      declared(Layer<Product>("Product", "branches on the same input, their results multiplied: a gate")
                   .required("branches", &BranchesOptions::branches, "one or more, whose results broadcast")),
      declared(
          Layer<Auxiliary>("Auxiliary",
                           "passes its input on; in training the head is also run on it, and its loss is added times "
                           "`weight`. Evaluation skips the head. In paths the head's layers appear as the module's "
                           "own; Szegedy et al. 2015")
              .required("head", &AuxiliaryOptions::head, "a layer or a list")
              .field("weight", &AuxiliaryOptions::weight, "weight of the head's loss",
                     {.least = 0, .most = std::numeric_limits<double>::max()})),
  };
}

}  // namespace freight::nn
