// Front ends of reductions. See reduce.h.
#include "freight/ops/reduce.h"

#include <algorithm>
#include <cmath>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/shape.h"
#include "freight/trace/batch_statistics.h"

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

// The square root; its slope at 0, which is infinite, is taken as 0.
Tensor root(const Tensor& x) {
  const Tensor zero = equal(x, 0.0);
  return where(zero, 0.0, sqrt(where(zero, 1.0, x)));
}

double count(const Tensor& t, const Shape& axes) {
  double n = 1;
  for (int64_t a : axes) n *= static_cast<double>(t.shape()[static_cast<int>(a)]);
  return n;
}

// Sums over the axes of x by the number of their elements less `correction`; NaN of none.
Tensor by_count(const Tensor& sums, const Tensor& x, const Shape& axes, double correction) {
  const double n = count(x, axes);
  const bool of_samples = std::find(axes.begin(), axes.end(), 0) != axes.end();
  if (!of_samples || !trace::AnyBatch::asked()) return sums * (1.0 / std::max(n - correction, 0.0));
  const auto samples = static_cast<double>(x.dim(0));
  return sums / maximum(sum(full({x.dim(0)}, 1, sums.dtype())) * (n / samples) - correction, 0.0);
}

// x is not in 16 bits: the sum of squares is beyond f16 long before its root is.
Tensor norm_of(const Tensor& x, const Axes& axes, const NormOptions& o) {
  if (o.p == 2) return root(sum(square(x), axes, o.keep));
  const Tensor size = abs(x);
  if (o.p == 1) return sum(size, axes, o.keep);
  if (std::isinf(o.p)) return o.p > 0 ? max(size, axes, o.keep) : min(size, axes, o.keep);
  const Tensor zero = equal(size, 0.0);
  if (o.p == 0) return cast(sum(logical_not(zero), axes, o.keep), x.dtype());
  if (!(o.p > 0)) ops::fail_here("norm", "p must be 0 or more, or infinite: got ", o.p);
  // A power below 1 has no slope at 0; that of the norm is taken as 0.
  const Tensor total = sum(where(zero, 0.0, pow(where(zero, 1.0, size), o.p)), axes, o.keep);
  const Tensor nothing = equal(total, 0.0);
  return where(nothing, 0.0, pow(where(nothing, 1.0, total), 1 / o.p));
}

// The product over the sorted axes `list`.
Tensor product(const Tensor& t, const Shape& list, Keep keep) {
  Shape order, kept = t.shape();
  for (int i = 0; i < t.rank(); ++i) {
    if (std::find(list.begin(), list.end(), i) == list.end()) order.push_back(i);
  }
  int64_t n = 1;
  for (int64_t a : list) {
    order.push_back(a);
    n *= t.dim(a);
    kept[static_cast<int>(a)] = 1;
  }
  if (n == 0) return drop(full(kept, 1, t.dtype()), list, keep);
  // Halves are multiplied with halves: the rule of a product is right where factors are 0, too.
  Tensor rest = reshape(permute(t, order), {kept.numel(), n});
  while (n > 1) {
    const int64_t half = n / 2;
    const Tensor pairs = narrow(rest, 1, 0, half) * narrow(rest, 1, half, half);
    rest = n % 2 == 0 ? pairs : concat({pairs, narrow(rest, 1, n - 1, 1)}, 1);
    n = half + n % 2;
  }
  return drop(reshape(rest, kept), list, keep);
}

}  // namespace

Tensor sum(const In& x, const Axes& axes, Keep keep) {
  const auto [frame, t] = ops::enter(x, "sum");
  return reduce(Op::sum, "sum", ops::exact(t, "sum"), axes, keep);
}
Tensor max(const In& x, const Axes& axes, Keep keep) { return reduce(Op::reduce_max, "max", x, axes, keep); }
Tensor min(const In& x, const Axes& axes, Keep keep) { return reduce(Op::reduce_min, "min", x, axes, keep); }

Tensor mean(const In& x, const Axes& axes, Keep keep) {
  const auto [frame, t] = ops::enter(x, "mean");
  ops::need_floating(t, "mean");
  const Shape list = ops::axes_of(axes, t.type(), "mean");
  return ops::in_wide(t, [&](const Tensor& w) {
    return by_count(drop(ops::one(Op::sum, AxesAttrs{list}, {w}), list, keep), w, list, 0);
  });
}

Tensor var(const In& x, const Axes& axes, const VarOptions& options) {
  const auto [frame, t] = ops::enter(x, "var");
  ops::need_floating(t, "var");
  const Shape list = ops::axes_of(axes, t.type(), "var");
  return ops::in_wide(t, [&](const Tensor& w) {
    const Tensor centered = w - mean(w, axes, Keep::yes);
    return by_count(sum(square(centered), axes, options.keep), w, list, options.correction);
  });
}

Tensor stddev(const In& x, const Axes& axes, const VarOptions& options) {
  const auto [frame, given] = ops::enter(x, "stddev");
  const Tensor& t = given;
  return ops::named("stddev",
                    [&] { return ops::in_wide(t, [&](const Tensor& w) { return root(var(w, axes, options)); }); });
}

Tensor prod(const In& x, const Axes& axes, Keep keep) {
  const auto [frame, given] = ops::enter(x, "prod");
  const Tensor t = ops::exact(given, "prod");
  const Shape list = ops::axes_of(axes, t.type(), "prod");
  return ops::in_wide(t, [&](const Tensor& w) { return product(w, list, keep); });
}

Tensor any(const In& x, const Axes& axes, Keep keep) {
  const Frame frame(x.where, "any");
  return ops::named("any", [&] { return sum(not_equal(ops::get(x, "any"), 0), axes, keep) > 0; });
}

Tensor all(const In& x, const Axes& axes, Keep keep) {
  const Frame frame(x.where, "all");
  return ops::named("all", [&] { return equal(sum(equal(ops::get(x, "all"), 0), axes, keep), 0); });
}

Tensor logsumexp(const In& x, const Axes& axes, Keep keep) {
  const auto [frame, entered] = ops::enter(x, "logsumexp");
  ops::need_types(entered, dtypes::kNumber, "logsumexp");
  const Tensor given = is_integer(entered.dtype()) ? cast(entered, DType::f32) : entered;
  const Shape list = ops::axes_of(axes, given.type(), "logsumexp");
  return ops::in_wide(given, [&](const Tensor& t) {
    const Tensor most = stop_gradient(max(t, axes, Keep::yes));
    const Tensor shift = where(is_finite(most), most, 0.0);  // infinity less infinity is none
    return drop(log(sum(exp(t - shift), axes, Keep::yes)) + shift, list, keep);
  });
}

Tensor norm(const In& x, const Axes& axes, const NormOptions& o) {
  const auto [frame, given] = ops::enter(x, "norm");
  ops::need_floating(given, "norm");
  return ops::in_wide(given, [&](const Tensor& t) { return norm_of(t, axes, o); });
}

namespace {
// Element i is what `combine` makes of elements 0 to i along the axis. After each pass it holds that of twice as many
// (Hillis and Steele 1986); before the first element stands `neutral`.
template <class F>
Tensor scan(const In& x, int64_t axis, const char* op, double neutral, const F& combine) {
  const auto [frame, given] = ops::enter(x, op);
  const int i = ops::axis_of(axis, given.type(), op);
  const Tensor whole = ops::exact(given, op);
  Tensor t = cast(whole, wide(whole.dtype()));
  const int64_t n = t.shape()[i];
  for (int64_t shift = 1; shift < n; shift *= 2) {
    Shape low = Shape::filled(t.rank(), 0);
    low[i] = shift;
    t = combine(t, pad(narrow(t, i, 0, n - shift), low, Shape::filled(t.rank(), 0), neutral));
  }
  return is_floating(given.dtype()) ? cast(t, given.dtype()) : t;
}
}  // namespace

Tensor cumsum(const In& x, Axis axis) {
  return scan(x, axis, "cumsum", 0, [](const Tensor& a, const Tensor& b) { return a + b; });
}
Tensor cumprod(const In& x, Axis axis) {
  return scan(x, axis, "cumprod", 1, [](const Tensor& a, const Tensor& b) { return a * b; });
}

Tensor argmax(const In& x, Axis axis, Keep keep) { return arg_reduce(Op::argmax, x, axis, keep); }
Tensor argmin(const In& x, Axis axis, Keep keep) { return arg_reduce(Op::argmin, x, axis, keep); }

}  // namespace freight
