// Tensor handles and host reads. See tensor.h.
#include "freight/trace/tensor.h"

#include <ostream>

#include "freight/base/array_text.h"
#include "freight/trace/tracer.h"

namespace freight {

namespace {

void refuse_while_tracing(const char* op) {
  trace::fail_here(
      op,
      "cannot read a tensor on the host while a step is being traced: it has no elements yet (the function "
      "runs once to record its graph, later calls replay the plan); return the tensor from the function, "
      "or use where() to choose between values");
}

}  // namespace

Tensor::Tensor(const Array& array) : impl_(std::make_shared<trace::TensorImpl>()) {
  if (!array.defined()) fail(ErrorKind::usage, "tensor", "made from an array without storage");
  impl_->type = {array.dtype(), array.shape()};
  impl_->evaluate_to(array);
}

const Type& Tensor::type() const {
  if (!impl_) trace::fail_here("tensor", "an undefined tensor has no type; give it a value first");
  return impl_->type;
}

int64_t Tensor::dim(int64_t axis) const { return shape()[axis_index(axis, rank(), "dim")]; }

Array Tensor::array() const {
  type();
  if (!impl_->is_evaluated()) {
    if (impl_->trace->mode() == trace::Trace::Mode::compile) refuse_while_tracing("array");
    impl_->trace->run(impl_.get());
    FREIGHT_CHECK(impl_->is_evaluated(), "an evaluated trace left a tensor behind");
  }
  return impl_->array;
}

Tensor Tensor::detach() const {
  type();
  return impl_->is_evaluated() ? Tensor(impl_->array) : trace::one(Op::stop_gradient, NoAttrs{}, {*this});
}

Array Tensor::single() const {
  if (numel() != 1) {
    trace::fail_here("item", "needs a tensor with one element: got ", type(), "; reduce it or use to_vector");
  }
  return array();
}

void trace::take_extent(Shape& shape, int axis, int64_t extent, bool first) {
  if (first) return shape.push_back(extent);
  if (shape[axis] != extent)
    fail_here("tensor", "nested rows differ in length: got ", extent, " where those before have ", shape[axis]);
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << text_of(x.array()); }

In::In(const Variable& v, SourceLine at) : tensor(v.value()), where(at) {}

void eval() {
  if (trace::compiling()) refuse_while_tracing("eval");
  trace::flush();
}

void eval(const Tensor& x) {
  if (trace::compiling()) refuse_while_tracing("eval");
  x.array();
}

void eval(const std::vector<Tensor>& xs) {
  for (const Tensor& x : xs) eval(x);
}

}  // namespace freight
