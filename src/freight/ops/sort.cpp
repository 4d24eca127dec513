// See sort.h. One op tells the order; what is in it is gathered, which has a gradient.
#include "freight/ops/sort.h"

#include "freight/ops/common.h"
#include "freight/ops/index.h"
#include "freight/ops/shape.h"

namespace freight {

Tensor argsort(const In& x, Axis axis, Order order) {
  const auto [frame, t] = ops::enter(x, "argsort");
  const int64_t i = ops::axis_of(axis, t.type(), "argsort");
  return ops::one(Op::argsort, SortAttrs{i, order == Order::descending}, {t});
}

Sorted sort(const In& x, Axis axis, Order order) {
  const auto [frame, t] = ops::enter(x, "sort");
  const Tensor indices = argsort(t, axis, order);
  return {gather_elements(t, indices, axis), indices};
}

Sorted topk(const In& x, WholeNumber k, Axis axis, Order order) {
  const auto [frame, t] = ops::enter(x, "topk");
  const int64_t extent = t.shape()[ops::axis_of(axis, t.type(), "topk")];
  if (k < 0 || k > extent) ops::fail_here("topk", "expected 0 to ", extent, " for ", t.type(), ", got k ", k.value);
  const Tensor indices = narrow(argsort(t, axis, order), axis, 0, k);
  return {gather_elements(t, indices, axis), indices};
}

}  // namespace freight
