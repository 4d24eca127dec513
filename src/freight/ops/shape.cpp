// Front ends of views, joins and tensors made from nothing. See shape.h.
#include "freight/ops/shape.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/trace/number.h"

namespace freight {

using ops::axis_of;
using ops::fail_here;
using ops::get;

Tensor reshape(const In& x, const Shape& shape) {
  const auto [frame, t] = ops::enter(x, "reshape");
  Shape full = shape;
  int open = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1 && open < 0) {
      open = i;
    } else if (shape[i] < 0) {
      fail_here("reshape", "at most one size may be -1 and none may be negative: got ", shape, " for ", t.type());
    } else {
      if (shape[i] > 0 && known > (int64_t{1} << 48) / shape[i])
        fail_here("reshape", "too many elements: got ", shape, " for ", t.type());
      known *= shape[i];
    }
  }
  if (open >= 0) {
    if (known == 0 || t.numel() % known != 0) {
      fail_here("reshape", "cannot infer the -1 in ", shape, " for ", t.type(), " (", t.numel(), " elements)");
    }
    full[open] = t.numel() / known;
  }
  return ops::reshaped(t, full);
}

Tensor flatten(const In& x, Axis start, Axis end) {
  const auto [frame, t] = ops::enter(x, "flatten");
  if (t.rank() == 0) return reshape(t, {1});
  const int first = axis_of(start, t.type(), "flatten"), last = axis_of(end, t.type(), "flatten");
  if (first > last) fail_here("flatten", "start ", start.value, " is after end ", end.value, " for ", t.type());
  Shape s;
  for (int i = 0; i < t.rank(); ++i) {
    if (i <= first || i > last) {
      s.push_back(t.shape()[i]);
    } else {
      s[first] *= t.shape()[i];
    }
  }
  return ops::reshaped(t, s);
}

Tensor transpose(const In& x, Axis a, Axis b) {
  const auto [frame, t] = ops::enter(x, "transpose");
  Shape perm;
  for (int i = 0; i < t.rank(); ++i) perm.push_back(i);
  std::swap(perm[axis_of(a, t.type(), "transpose")], perm[axis_of(b, t.type(), "transpose")]);
  return ops::one(Op::transpose, PermAttrs{perm}, {t});
}

Tensor permute(const In& x, const Shape& perm) {
  const auto [frame, t] = ops::enter(x, "permute");
  if (perm.rank() != t.rank()) fail_here("permute", "permutation ", perm, " does not fit ", t.type());
  Shape p = perm;
  for (int i = 0; i < p.rank(); ++i) p[i] = axis_of(perm[i], t.type(), "permute");
  return ops::one(Op::transpose, PermAttrs{p}, {t});
}

Tensor squeeze(const In& x, Axis axis) {
  const auto [frame, t] = ops::enter(x, "squeeze");
  const int i = axis_of(axis, t.type(), "squeeze");
  Shape s = t.shape();
  if (s[i] != 1) fail_here("squeeze", "axis ", axis.value, " of ", t.type(), " has size ", s[i], ", expected 1");
  s.erase(i);
  return ops::reshaped(t, s);
}

Tensor unsqueeze(const In& x, Axis axis) {
  const auto [frame, t] = ops::enter(x, "unsqueeze");
  Shape s = t.shape();
  const int64_t i = axis < 0 ? axis + s.rank() + 1 : axis.value;
  if (i < 0 || i > s.rank()) fail_here("unsqueeze", "axis out of range: got ", axis.value, " for ", t.type());
  s.insert(static_cast<int>(i), 1);
  return ops::reshaped(t, s);
}

Tensor broadcast_to(const In& x, const Shape& shape) {
  const Frame frame(x.where, "broadcast_to");
  ops::need_extents(shape, "broadcast_to");
  return ops::expanded(get(x, "broadcast_to"), shape, "broadcast_to");
}

namespace {
Tensor slice_axis(const Tensor& t, int axis, int64_t start, int64_t limit, int64_t step) {
  SliceAttrs a{Shape::filled(t.rank(), 0), t.shape(), Shape::filled(t.rank(), 1)};
  a.start[axis] = start;
  a.limit[axis] = limit;
  a.step[axis] = step;
  if (a.start == Shape::filled(t.rank(), 0) && a.limit == t.shape() && step == 1) return t;
  return ops::one(Op::slice, a, {t});
}
}  // namespace

Tensor slice(const In& x, Axis axis, WholeNumber start, WholeNumber limit, WholeNumber step) {
  const auto [frame, t] = ops::enter(x, "slice");
  const int i = axis_of(axis, t.type(), "slice");
  const int64_t n = t.shape()[i];
  if (step < 1) fail_here("slice", "step must be positive: got ", step.value);
  const auto clamp_index = [n](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
  const int64_t from = clamp_index(start), to = std::max(from, clamp_index(limit));
  return slice_axis(t, i, from, to, step);
}

Tensor narrow(const In& x, Axis axis, WholeNumber start, WholeNumber length) {
  const auto [frame, t] = ops::enter(x, "narrow");
  const int i = axis_of(axis, t.type(), "narrow");
  const int64_t n = t.shape()[i], from = start < 0 ? start + n : start.value;
  if (from < 0 || length < 0 || length > n - from) {
    fail_here("narrow", "[", start.value, ", ", start.value, " + ", length.value, ") is outside of axis ", i, " of ",
              t.type());
  }
  return slice_axis(t, i, from, from + length, 1);
}

Tensor select(const In& x, Axis axis, WholeNumber index) {
  const auto [frame, t] = ops::enter(x, "select");
  const int i = axis_of(axis, t.type(), "select");
  const int64_t n = t.shape()[i], at = index < 0 ? index + n : index.value;
  if (at < 0 || at >= n) fail_here("select", "index ", index.value, " is outside of axis ", i, " of ", t.type());
  return squeeze(slice_axis(t, i, at, at + 1, 1), i);
}

Tensor pad(const In& x, const Shape& low, const Shape& high, const In& value) {
  const auto [frame, t] = ops::enter(x, "pad");
  const double element = trace::attribute_of(value, t.dtype(), "pad");
  return ops::one(Op::pad, PadAttrs{low, high, Shape::filled(t.rank(), 0), element}, {t});
}

Tensor flip(const In& x, Axis axis) {
  const auto [frame, t] = ops::enter(x, "flip");
  const int i = axis_of(axis, t.type(), "flip");
  return gather(t, (t.shape()[i] - 1) - arange(t.shape()[i]), i);
}

Tensor roll(const In& x, WholeNumber shift, Axis axis) {
  const auto [frame, t] = ops::enter(x, "roll");
  const int i = axis_of(axis, t.type(), "roll");
  const int64_t n = t.shape()[i], back = n == 0 ? 0 : (shift.value % n + n) % n;
  if (back == 0) return t;
  return concat({narrow(t, i, n - back, back), narrow(t, i, 0, n - back)}, i);
}

namespace {
// `times` copies along the axis: of the whole axis (`at` is the axis), or of each element (`at` is the next one).
Tensor copies(const Tensor& t, int axis, int at, int64_t times) {
  Shape wide = t.shape(), result = t.shape();
  wide.insert(at, times);
  result[axis] *= times;
  return reshape(broadcast_to(unsqueeze(t, at), wide), result);
}
}  // namespace

Tensor repeat(const In& x, const std::vector<int64_t>& times, Axis axis) {
  const auto [frame, t] = ops::enter(x, "repeat");
  const int i = axis_of(axis, t.type(), "repeat");
  const int64_t n = t.shape()[i];
  for (const int64_t count : times) {
    if (count < 0) fail_here("repeat", "expected times of 0 or more, got ", count);
  }
  if (times.size() == 1) return copies(t, i, i + 1, times[0]);
  if (static_cast<int64_t>(times.size()) != n)
    fail_here("repeat", "expected times for ", n, " elements of axis ", i, " of ", t.type(), ", got ", times.size());
  std::vector<int64_t> places;
  for (int64_t k = 0; k < n; ++k) places.insert(places.end(), static_cast<size_t>(times[static_cast<size_t>(k)]), k);
  const Shape count{static_cast<int64_t>(places.size())};
  const ConstantAttrs rows{{DType::i64, count}, 0, Array::of<int64_t>(places, count)};
  return gather(t, ops::one(Op::constant, rows, {}), i);
}

Tensor tile(const In& x, const Shape& times) {
  const auto [frame, given] = ops::enter(x, "tile");
  Tensor t = given;
  while (t.rank() < times.rank()) t = unsqueeze(t, 0);
  for (int k = 0; k < times.rank(); ++k) {
    const int i = t.rank() - times.rank() + k;
    if (times[k] < 0) fail_here("tile", "expected times of 0 or more, got ", times);
    if (times[k] != 1) t = copies(t, i, i, times[k]);
  }
  return t;
}

Tensor diff(const In& x, WholeNumber n, Axis axis) {
  const auto [frame, given] = ops::enter(x, "diff");
  const int i = axis_of(axis, given.type(), "diff");
  if (n < 0) fail_here("diff", "expected n of 0 or more, got ", n.value);
  Tensor t = given;
  for (int64_t k = 0; k < n && t.shape()[i] > 0; ++k) {
    const int64_t left = t.shape()[i] - 1;
    const Tensor next = narrow(t, i, 1, left), own = narrow(t, i, 0, left);
    t = t.dtype() == DType::boolean ? not_equal(next, own) : next - own;
  }
  return t;
}

Tensor Tensor::T(SourceLine at) const {
  const auto [frame, t] = ops::enter(In(*this, at), "T");
  if (t.rank() > 2) {
    fail_here("T", "transposes a matrix: got ", t.type(), "; transpose(x) swaps the last two axes, permute(x, axes) ",
              "reorders all");
  }
  return t.rank() < 2 ? t : transpose(t);
}
Tensor Variable::T(SourceLine at) const { return value().T(at); }

std::vector<Tensor> ops::tensors_of(const TensorList& xs, const char* op) {
  std::vector<Tensor> tensors;
  for (const In& x : xs.list) {
    if (x.is_number) {
      const std::string number = trace::number_text(x);
      fail_here(op, "needs tensors: got the number ", number, "; full({}, ", number, ") makes a tensor of it");
    }
    tensors.push_back(get(x, op));
  }
  return tensors;
}

Tensor concat(const TensorList& list, Axis axis, SourceLine at) {
  const Frame frame(at, "concat");
  const std::vector<Tensor> xs = ops::tensors_of(list, "concat");
  if (xs.empty()) fail_here("concat", "needs at least one tensor");
  const int i = axis_of(axis, xs[0].type(), "concat");
  return xs.size() == 1 ? xs[0] : ops::one(Op::concat, AxisAttrs{i}, xs);
}

Tensor stack(const TensorList& list, Axis axis, SourceLine at) {
  const Frame frame(at, "stack");
  const std::vector<Tensor> xs = ops::tensors_of(list, "stack");
  std::vector<Tensor> thin;
  for (const Tensor& x : xs) {
    if (x.shape() != xs[0].shape()) fail_here("stack", "shapes differ: got ", xs[0].type(), " and ", x.type());
    if (x.dtype() != xs[0].dtype()) {
      fail_here("stack", "element types differ: got ", xs[0].type(), " and ", x.type(), "; cast one of them");
    }
    thin.push_back(unsqueeze(x, axis));
  }
  return concat(thin, axis);
}

std::vector<Tensor> split(const In& x, const std::vector<int64_t>& sizes, Axis axis) {
  const auto [frame, t] = ops::enter(x, "split");
  const int i = axis_of(axis, t.type(), "split");
  int64_t total = 0;
  for (int64_t s : sizes) {
    if (s < 0 || s > t.shape()[i])
      fail_here("split", "sizes must be from 0 to ", t.shape()[i], " for axis ", i, " of ", t.type(), ": got ", s);
    total += s;
  }
  if (total != t.shape()[i]) {
    fail_here("split", "sizes add up to ", total, ", expected ", t.shape()[i], " for axis ", i, " of ", t.type());
  }
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t s : sizes) {
    parts.push_back(narrow(t, i, start, s));
    start += s;
  }
  return parts;
}

namespace {
// Every part is a node of the graph. An axis of extent 0 divides into any number of parts, and a constant may have any
// extent, so that a mistaken number would be noticed as lack of memory.
constexpr int64_t kMostParts = 65536;
}  // namespace

std::vector<Tensor> chunk(const In& x, WholeNumber parts, Axis axis) {
  const auto [frame, t] = ops::enter(x, "chunk");
  const int64_t n = t.shape()[axis_of(axis, t.type(), "chunk")];
  if (parts < 1 || n % parts != 0)
    fail_here("chunk", "axis ", axis.value, " of ", t.type(), " does not divide into ", parts.value);
  if (parts > kMostParts) {
    fail_here("chunk", "too many chunks of ", t.type(), ": expected at most ", kMostParts, ", got ", parts.value,
              "; use reshape to give the chunks their own axis");
  }
  return split(t, std::vector<int64_t>(static_cast<size_t>(parts), n / parts), axis);
}

namespace {
Tensor filled(const char* op, const Shape& shape, const In& value, DType dtype) {
  ops::need_extents(shape, op);
  return trace::constant_of(value, {dtype, shape}, op);
}
}  // namespace

Tensor zeros(const Shape& shape, DType dtype, SourceLine at) {
  const Frame frame(at, "zeros");
  return filled("zeros", shape, 0, dtype);
}
Tensor ones(const Shape& shape, DType dtype, SourceLine at) {
  const Frame frame(at, "ones");
  return filled("ones", shape, 1, dtype);
}
Tensor full(const Shape& shape, const In& value, DType dtype, SourceLine at) {
  const Frame frame(at, "full");
  if (!value.is_number) fail_here("full", "needs a number: got ", get(value, "full").type(), "; see broadcast_to");
  return filled("full", shape, value, dtype);
}
Tensor iota(const Shape& shape, Axis axis, DType dtype, SourceLine at) {
  const Frame frame(at, "iota");
  return ops::one(Op::iota, IotaAttrs{shape, axis_of(axis, {dtype, shape}, "iota"), dtype}, {});
}
Tensor arange(WholeNumber n, DType dtype, SourceLine at) {
  const Frame frame(at, "arange");
  ops::need_extents({n}, "arange");
  return iota({n}, 0, dtype, at);
}

namespace {
// Numbers that are known beforehand, one for each place. Those of f32 are rounded once, from double.
Tensor numbered(int64_t n, DType dtype, const std::function<double(int64_t)>& number) {
  Array all(DType::f64, {n});
  for (int64_t i = 0; i < n; ++i) all.data<double>()[i] = number(i);
  Tensor t(all.cast(dtype));
  t.impl()->follows = true;  // as iota's, which arange(n) is
  return t;
}
}  // namespace

Tensor arange(const In& start, const In& stop, const In& step) {
  const Frame frame(start.where, "arange");
  if (!start.is_number || !stop.is_number || !step.is_number) fail_here("arange", "needs numbers");
  const double from = start.scalar, by = step.scalar, span = stop.scalar - from;
  if (!(std::isfinite(from) && std::isfinite(span) && std::isfinite(by)) || by == 0 || span / by < 0)
    fail_here("arange", "no way from ", from, " to ", stop.scalar, " by steps of ", by);
  if (span / by > 0x1p48) fail_here("arange", "too many numbers: expected at most ", 0x1p48, ", got ", span / by);
  const auto n = static_cast<int64_t>(std::ceil(span / by));
  const bool whole = start.is_integer && stop.is_integer && step.is_integer;
  for (const In* end : {&start, &stop}) {
    if (whole && !trace::holds(DType::i32, *end))
      fail_here("arange", "number ", trace::number_text(*end), " does not fit i32");
  }
  return numbered(n, whole ? DType::i32 : DType::f32, [&](int64_t i) { return from + static_cast<double>(i) * by; });
}

Tensor linspace(double start, double stop, WholeNumber count, DType dtype, SourceLine at) {
  const Frame frame(at, "linspace");
  if (count < 0) fail_here("linspace", "count must not be negative: got ", count.value);
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  return numbered(count, dtype, [&](int64_t i) {  // from the nearer end, so that both ends are exact
    return i < count / 2 || count == 1 ? start + static_cast<double>(i) * step
                                       : stop - static_cast<double>(count - 1 - i) * step;
  });
}

Tensor eye(WholeNumber rows, WholeNumber columns, DType dtype, SourceLine at) {
  const Frame frame(at, "eye");
  const Shape shape{rows, columns < 0 ? rows : columns};
  ops::need_extents(shape, "eye");
  return cast(equal(iota(shape, 0), iota(shape, 1)), dtype);
}

}  // namespace freight
