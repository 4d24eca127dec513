// Front ends of reductions. See reduce.h.
#include "freight/ops/reduce.h"

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"

namespace freight {

namespace {

Tensor drop(const Tensor& kept, const Shape& axes, Keep keep) {
  if (keep == Keep::yes) return kept;
  Shape s = kept.shape();
  for (int i = axes.rank() - 1; i >= 0; --i) s.erase(static_cast<int>(axes[i]));
  return ops::reshaped(kept, s);
}

Tensor reduce(Op op, const char* user_name, const In& x, const Axes& axes, Keep keep) {
  const auto [frame, t] = ops::enter(x, user_name);
  const Shape list = ops::axes_of(axes, t.type(), user_name);
  return drop(ops::one(op, AxesAttrs{list}, {t}), list, keep);
}

Tensor arg_reduce(Op op, const In& x, int64_t axis, Keep keep) {
  const auto [frame, t] = ops::enter(x, name(op));
  const int i = ops::axis_of(axis, t.type(), name(op));
  return drop(ops::one(op, AxisAttrs{i}, {t}), {i}, keep);
}

double count(const Tensor& t, const Shape& axes) {
  double n = 1;
  for (int64_t a : axes) n *= static_cast<double>(t.shape()[static_cast<int>(a)]);
  return n;
}

}  // namespace

Tensor sum(const In& x, const Axes& axes, Keep keep) {
  const auto [frame, t] = ops::enter(x, "sum");
  return reduce(Op::sum, "sum", is_floating(t.dtype()) ? t : cast(t, DType::i64), axes, keep);
}
Tensor max(const In& x, const Axes& axes, Keep keep) { return reduce(Op::reduce_max, "max", x, axes, keep); }
Tensor min(const In& x, const Axes& axes, Keep keep) { return reduce(Op::reduce_min, "min", x, axes, keep); }

Tensor mean(const In& x, const Axes& axes, Keep keep) {
  const auto [frame, t] = ops::enter(x, "mean");
  if (!is_floating(t.dtype())) ops::fail_here("mean", "element type must be floating: got ", t.type(), "; cast first");
  const Shape list = ops::axes_of(axes, t.type(), "mean");
  return drop(ops::one(Op::sum, AxesAttrs{list}, {t}), list, keep) * (1.0 / count(t, list));
}

Tensor var(const In& x, const Axes& axes, const VarOptions& options) {
  const auto [frame, t] = ops::enter(x, "var");
  const Shape list = ops::axes_of(axes, t.type(), "var");
  const double n = count(t, list) - static_cast<double>(options.correction);
  if (n <= 0)
    ops::fail_here("var", "too few elements in ", t.type(), " over axes ", list, " for correction ",
                   options.correction);
  const Tensor centred = t - mean(t, axes, Keep::yes);
  return sum(square(centred), axes, options.keep) * (1.0 / n);
}

Tensor argmax(const In& x, Axis axis, Keep keep) { return arg_reduce(Op::argmax, x, axis, keep); }
Tensor argmin(const In& x, Axis axis, Keep keep) { return arg_reduce(Op::argmin, x, axis, keep); }

}  // namespace freight
