// Helpers that the sources of the ops module share. Internal: only ops/*.cpp include it.
#pragma once
#include "freight/base/error.h"
#include "freight/ir/infer.h"
#include "freight/ops/options.h"
#include "freight/trace/tracer.h"

namespace freight::ops {

using trace::fail_here;
using trace::one;

inline Tensor get(const In& x, const char* op) { return trace::tensor_of(x, op); }
// The tensors behind the arguments of one op.
template <class... Ins>
std::vector<Tensor> all(const char* op, const Ins&... x) {
  return {get(x, op)...};
}
// The tensors of a list; throws with the location for a number, which has no type of its own.
std::vector<Tensor> tensors_of(const TensorList& xs, const char* op);
// The beginning of a function of one tensor: its caller's line, and the tensor.
struct Entered {
  Frame frame;
  Tensor tensor;
};
inline Entered enter(const In& x, const char* op) { return {Frame(x.where, op), get(x, op)}; }
// The body of a function that is made of others: errors that they raise name the function that the user called.
template <class F>
auto named(const char* op, const F& body) {
  try {
    return body();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
    throw Error(e.kind(), trace::function() ? trace::function() : op, e.message(), e.where());
  }
}
inline void need_types(const Tensor& x, DTypes types, const char* op) {
  if (!types.has(x.dtype())) fail_here(op, refusal(x.type(), types));
}
inline void need_floating(const Tensor& x, const char* op) { need_types(x, dtypes::kFloating, op); }
// The axis in [0, rank); throws with the location.
int axis_of(int64_t axis, const Type& type, const char* op);
// Sorted, distinct axes in [0, rank); all when `axes` is empty.
Shape axes_of(const Axes& axes, const Type& type, const char* op);
// Integers and bools as i64, in which they are summed and multiplied; u64 and floating tensors as they are. Throws with
// the location at complex numbers.
Tensor exact(const Tensor& x, const char* op);
// Throws with the location where an extent is negative: what makes tensors of nothing says so by its own name.
inline void need_extents(const Shape& shape, const char* op) {
  for (const int64_t d : shape) {
    if (d < 0) fail_here(op, "sizes must not be negative: got ", shape);
  }
}
// reshape / broadcast without a node where nothing changes.
Tensor reshaped(const Tensor& x, const Shape& shape);
Tensor expanded(const Tensor& x, const Shape& shape, const char* op);
// body(x) computed in wide(x's type) and rounded once, to the type of x: what is between may be beyond 16 bits where
// the result is not. Other types get no node from this.
template <class F>
Tensor in_wide(const Tensor& x, const F& body) {
  const DType given = x.dtype(), wider = wide(given);
  if (wider == given) return body(x);
  const Tensor y = body(one(Op::cast, CastAttrs{wider}, {x}));
  return one(Op::cast, CastAttrs{given}, {y});
}
// What the host made of the elements of `x`: it lies where x does, which need not be where this thread makes what is
// new.
Tensor made_on_host(const Array& a, const Tensor& x);
// (C) -> the shape of `like` with C along axis 1.
Tensor per_channel(const Tensor& c, const Tensor& like, const char* op);

}  // namespace freight::ops
