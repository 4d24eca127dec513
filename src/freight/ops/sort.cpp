// See sort.h. One op tells the order; what is in it is gathered, which has a gradient.
#include "freight/ops/sort.h"

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
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

Tensor searchsorted(const In& sorted, const In& values, Side side) {
  constexpr const char* kName = "searchsorted";
  const auto [frame, s] = ops::enter(sorted, kName);
  const Tensor v = ops::get(values, kName);
  if (s.rank() != 1) ops::fail_here(kName, "the sorted numbers must have one axis: got ", s.type());
  ops::need_types(v, dtypes::kReal, kName);
  if (s.dtype() != v.dtype()) ops::fail_here(kName, "element types differ: got ", s.type(), " and ", v.type());
  const auto n = static_cast<int32_t>(s.numel());
  // NaN is more than all numbers, and equal to itself.
  const auto before = [&](const Tensor& e) {
    if (side == Side::right) return is_floating(v.dtype()) ? e <= v || is_nan(v) : e <= v;
    return is_floating(v.dtype()) ? e < v || (is_nan(v) && !is_nan(e)) : e < v;
  };
  return ops::named(kName, [&, &all = s] {
    Tensor found = zeros(v.shape(), DType::i32);
    int32_t step = 1;
    while (step <= n / 2) step *= 2;
    for (; n > 0 && step > 0; step /= 2) {
      const Tensor next = found + step, element = gather(all, minimum(next, n) - 1);
      found = where(next <= n && before(element), next, found);
    }
    return found;
  });
}

}  // namespace freight
