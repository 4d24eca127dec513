// Tensor handles and host reads. See tensor.h.
#include "freight/trace/tensor.h"

#include <ostream>

#include "freight/base/array_text.h"
#include "freight/trace/tracer.h"

namespace freight {

namespace {

void refuse_while_tracing(const char* op, const std::string& what) {
  trace::fail_here(op, "cannot read a tensor on the host while a step is being traced: ", what,
                   " no elements yet (the function runs once to record its graph, later calls replay the plan); return "
                   "the tensor from the function, or use where() to choose between values");
}

// "f32[] of sum at net.cpp:12 has", of a tensor of the step that is being traced.
std::string of_step(const trace::TensorImpl& tensor) {
  const Node& made_by = tensor.trace->graph().def(tensor.value);
  const std::string at = made_by.location();
  return cat(tensor.type, " of ", name(made_by.op), at.empty() ? "" : " at ", at, " has");
}

// A tensor of a compiled function has elements neither while that is traced nor afterwards.
void need_elements(const trace::TensorImpl& tensor, const char* op) {
  if (tensor.is_evaluated() || tensor.trace->mode() != trace::Trace::Mode::compile) return;
  if (trace::compiling() && &*trace::Session() == tensor.trace.get()) refuse_while_tracing(op, of_step(tensor));
  trace::fail_outside(tensor, op);
}

Array elements_of(const std::shared_ptr<trace::TensorImpl>& tensor, const char* op) {
  need_elements(*tensor, op);
  trace::evaluate(tensor);
  return tensor->array;
}

}  // namespace

std::shared_ptr<trace::TensorImpl> trace::leaf_of(const Array& array, Device device) {
  if (!array.defined()) fail(ErrorKind::usage, "tensor", "made from an array without storage");
  auto impl = std::make_shared<TensorImpl>();
  impl->type = {array.dtype(), array.shape()};
  impl->device = device;
  impl->evaluate_to(array);
  return impl;
}

Tensor::Tensor(const Array& array) : impl_(trace::leaf_of(array, trace::device_of_leaves())) {}
Tensor::Tensor(const Array& array, const std::string& device)
    : impl_(trace::leaf_of(array, trace::device_named(device))) {}

const Type& Tensor::type() const {
  if (!impl_) trace::fail_here("tensor", "an undefined tensor has no type; give it a value first");
  return impl_->type;
}

int64_t Tensor::dim(int64_t axis) const { return shape()[axis_index(axis, rank(), "dim")]; }

Array Tensor::array() const {
  type();
  return elements_of(impl_, "array");
}

Tensor Tensor::detach() const {
  type();
  if (!impl_->is_evaluated()) return trace::one(Op::stop_gradient, NoAttrs{}, {*this});
  auto leaf = trace::leaf_of(impl_->array, impl_->device);
  leaf->follows = impl_->follows;
  return Tensor(std::move(leaf));
}

const std::string& Tensor::device() const {
  type();
  const trace::Device device = trace::device_of(*impl_);
  return device ? *device : current_device();
}

Tensor Tensor::to_device(const std::string& name) const {
  type();
  const trace::Device device = trace::device_named(name);
  if (trace::compiling()) {
    const trace::Session session;
    if (!session->admits(device)) {
      trace::fail_here("to_device", "a compiled function runs on one device: got ", *device, " in one for ",
                       *session->device(), "; move the tensor before, or return it and move it after");
    }
    if (impl_->trace.get() == &*session) return *this;
  }
  if (trace::device_of(*impl_) == device) return *this;
  need_elements(*impl_, "to_device");
  trace::evaluate(impl_);
  auto moved = trace::leaf_of(impl_->array, device);
  moved->moved_from = trace::origin(impl_);
  return Tensor(std::move(moved));
}

Array Tensor::single() const {
  if (numel() != 1) {
    trace::fail_here("item", "needs a tensor with one element: got ", type(), "; reduce it or use to_vector");
  }
  return elements_of(impl_, "item");
}

void trace::take_extent(Shape& shape, int axis, int64_t extent, bool first) {
  if (first) return shape.push_back(extent);
  if (shape[axis] != extent)
    fail_here("tensor", "nested rows differ in length: got ", extent, " where those before have ", shape[axis]);
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << text_of(x.array()); }

In::In(const Array& a, SourceLine at) : tensor(a), where(at) { tensor.impl()->follows = true; }
In::In(const Variable& v, SourceLine at) : tensor(v.value()), where(at) {}

TensorList::TensorList(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors) list.emplace_back(t, SourceLine{});
}
TensorList::TensorList(const std::vector<Variable>& variables) {
  for (const Variable& v : variables) list.emplace_back(v, SourceLine{});
}

void eval() {
  if (trace::compiling()) refuse_while_tracing("eval", "its tensors have");
  trace::flush();
}

void eval(const Tensor& x) {
  if (trace::compiling()) refuse_while_tracing("eval", "its tensors have");
  x.array();
}

void eval(const TensorList& xs) {
  for (const In& x : xs.list) {
    if (!x.is_number) eval(x.tensor);
  }
}

template float Tensor::item() const;
template double Tensor::item() const;
template int32_t Tensor::item() const;
template int64_t Tensor::item() const;

}  // namespace freight
