// Order along one axis. Equal elements keep their order; NaN counts as larger than all numbers, as in PyTorch. Indices
// are i32. Gradients go back to the elements that were taken. Errors: Error(usage) naming axis and type.
#pragma once
#include <optional>

#include "freight/ops/options.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

enum class Side { left, right };             // of equal elements
enum class Order { ascending, descending };  // of the elements in the result
// Elements in order, and where they came from.
struct Sorted {
  Tensor values;   // in order
  Tensor indices;  // values[i] = x[indices[i]] along the axis
};

// Tells where the elements in order lie in x: i32 of the shape of x.
Tensor argsort(const In& x, Axis axis = -1, Order order = Order::ascending);
// The elements in order along the axis.
Sorted sort(const In& x, Axis axis = -1, Order order = Order::ascending);
// The k largest (descending) or smallest (ascending), in that order: the axis has extent k.
Sorted topk(const In& x, WholeNumber k, Axis axis = -1, Order order = Order::descending);

// The places of `values` (...) in `sorted` (N), i32 (...): how many elements are less (left), or not more (right). NaN
// belongs at the end.
Tensor searchsorted(const In& sorted, const In& values, Side side = Side::left);

// Settings of unique.
struct UniqueOptions {
  std::optional<int64_t> axis = std::nullopt;  // compares the slices at each index of this axis; none: single elements
};
// The distinct elements of a tensor, or its distinct slices, ordered by the first of their elements that differ.
struct Unique {
  Tensor values;   // (N), ascending; each NaN is distinct from all others, and last. Slices: x with N on the axis
  Tensor indices;  // (N), i32: the first place of each among the elements in row-major order, or on the axis
  Tensor inverse;  // of the shape of x, or (extent of the axis), i32: values[inverse] = x
  Tensor counts;   // (N), i64: how often each occurs
};
// Complex numbers are ordered by their real parts, then by their imaginary ones. The host reads the elements: refused
// in a compiled step, where shapes do not depend on them.
Unique unique(const In& x, const UniqueOptions& options = {});

}  // namespace freight
