// Front ends of indexing and of random tensors. See index.h and random.h.
#include "freight/ops/index.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/random.h"
#include "freight/ops/shape.h"
#include "freight/trace/number.h"

namespace freight {

namespace {
Tensor pick(Op op, const In& x, const In& index, int64_t axis) {
  const auto [frame, t] = ops::enter(x, name(op));
  return ops::one(op, AxisAttrs{ops::axis_of(axis, t.type(), name(op))}, {t, ops::get(index, name(op))});
}
}  // namespace

Tensor gather(const In& x, const In& index, Axis axis) { return pick(Op::gather, x, index, axis); }
Tensor gather_elements(const In& x, const In& index, Axis axis) {
  const Frame frame(x.where, "gather_elements");
  const Tensor t = ops::get(x, "gather_elements"), i = ops::get(index, "gather_elements");
  const bool nothing = i.numel() == 0 && i.rank() != t.rank() && is_integer(i.dtype());
  return nothing ? trace::constant(0, {t.dtype(), i.shape()}) : pick(Op::gather_elements, t, i, axis);
}

Tensor scatter_add(const In& index, const In& updates, WholeNumber size, Axis axis) {
  const Frame frame(index.where, "scatter_add");
  const Tensor u = ops::get(updates, "scatter_add");
  const int i = ops::axis_of(axis, u.type(), "scatter_add");
  return ops::one(Op::scatter_add, ScatterAttrs{i, size}, {ops::get(index, "scatter_add"), u});
}

namespace {
Tensor assigned(Op op, const In& x, const In& index, const In& updates, int64_t axis) {
  const auto [frame, t] = ops::enter(x, name(op));
  const int64_t i = ops::axis_of(axis, t.type(), name(op));
  return ops::one(op, AxisAttrs{i}, {t, ops::get(index, name(op)), ops::get(updates, name(op))});
}
}  // namespace

Tensor scatter(const In& x, const In& index, const In& updates, Axis axis) {
  return assigned(Op::scatter, x, index, updates, axis);
}
Tensor scatter_elements(const In& x, const In& index, const In& updates, Axis axis) {
  return assigned(Op::scatter_elements, x, index, updates, axis);
}

Tensor update_slice(const In& x, const In& updates, const In& start, Axis axis) {
  constexpr const char* kName = "update_slice";
  const auto [frame, t] = ops::enter(x, kName);
  const Tensor u = ops::get(updates, kName);
  const int i = ops::axis_of(axis, t.type(), kName);
  Shape fits = t.shape();
  if (u.rank() == t.rank()) fits[i] = std::min(u.shape()[i], fits[i]);
  if (u.dtype() != t.dtype() || u.shape() != fits) {
    ops::fail_here(kName, "updates ", u.type(), " do not fit ", t.type(), " along axis ", i, ": expected at most ",
                   t.shape()[i], " there, and the same elsewhere");
  }
  const Tensor at = start.is_number ? trace::constant_of(start, {DType::i64, {}}, kName) : ops::get(start, kName);
  if (!is_integer(at.dtype()) || at.numel() != 1) ops::fail_here(kName, "start must be one integer: got ", at.type());
  const Tensor first = ops::reshaped(cast(at, DType::i64), {});
  return ops::named(kName, [&, &whole = t] { return scatter(whole, arange(fits[i], DType::i64) + first, u, i); });
}

Tensor bincount(const In& index, WholeNumber size) {
  const Frame frame(index.where, "bincount");
  return ops::named("bincount", [&] {
    const Tensor flat = reshape(index, {-1});
    return scatter_add(flat, ones(flat.shape(), DType::i64), size);
  });
}

Tensor one_hot(const In& index, WholeNumber depth, DType dtype) {
  const Frame frame(index.where, "one_hot");
  return ops::one(Op::one_hot, OneHotAttrs{depth, dtype}, {ops::get(index, "one_hot")});
}

Tensor embedding(const In& index, const In& table, const EmbeddingRowOptions& options) {
  constexpr const char* kName = "embedding";
  const Frame frame(index.where, kName);
  if (options.max_norm && !(*options.max_norm >= 0))
    ops::fail_here(kName, "max_norm must not be negative: got ", *options.max_norm);
  const Tensor i = ops::get(index, kName), t = ops::get(table, kName);
  const Tensor rows = ops::one(Op::embedding, EmbeddingAttrs{options.padding_idx}, {i, t});  // (..., width)
  const bool by_frequency = options.scale_grad_by_freq && is_floating(t.dtype());
  if (!by_frequency && !options.max_norm) return rows;
  return ops::named(kName, [&] {
    Tensor y = stop_gradient(rows), path = rows;  // the result, and what leads its gradient to the table
    if (by_frequency) path = rows / cast(unsqueeze(gather(bincount(i, t.dim(0)), i), -1), t.dtype());
    if (options.max_norm) {
      const Tensor wider = cast(y, wide(t.dtype()));
      const Tensor length = vector_norm(wider, -1, {.ord = options.norm_type, .keep = Keep::yes});
      const Tensor scale = where(length > *options.max_norm, *options.max_norm / (length + 1e-7), 1.0);
      y = cast(wider * scale, t.dtype());
    }
    // A difference of 0, or what is infinite itself. Not on_gradient: it would keep the counts in memory.
    return y + where(is_finite(path), path - stop_gradient(path), path);
  });
}

namespace {
// Calls make(stream, key): the number of the draw in the step, and the i64[2] key (seed, step).
template <class F>
Tensor drawn(F&& make) {
  const int64_t stream = trace::Session()->next_stream();
  Tensor out = make(stream, rng_state().value());
  trace::Session()->key_drawn();
  out.impl()->follows = false;  // though the key does
  return out;
}

// The numbers of `user_name`, which is told of a shape that cannot be. No number of the stream is used for it.
Tensor draw(Op op, const Shape& shape, const char* user_name) {
  ops::need_extents(shape, user_name);
  return drawn([&](int64_t stream, const Tensor& key) { return ops::one(op, RandomAttrs{shape, stream}, {key}); });
}

// The largest draw, 1 - 2^-24, becomes this in [lo, hi): rounded once or twice, as a backend does it, the larger.
float largest_draw(double lo, double hi) {
  const auto scale = static_cast<float>(hi - lo), start = static_cast<float>(lo);
  constexpr float kLargest = 1 - 0x1p-24f;
  const volatile float product = kLargest * scale;  // volatile: not contracted
  return std::max(product + start, std::fma(kLargest, scale, start));
}
// The largest number of f32 that is less.
float below(double v) {
  const auto near = static_cast<float>(v);
  return static_cast<double>(near) < v ? near : std::nextafter(near, -std::numeric_limits<float>::infinity());
}
}  // namespace

Tensor random_uniform(const Shape& shape, double lo, double hi, SourceLine at) {
  const Frame frame(at, "random_uniform");
  const Tensor u = draw(Op::random_uniform, shape, "random_uniform");
  if (lo == 0 && hi == 1) return u;
  const Tensor drawn = u * (hi - lo) + lo;
  // Rounding brings the largest draws to hi where few numbers of f32 lie between the ends. Only there they are held
  // below it: other draws keep their bits, and their graph.
  const float most = largest_draw(lo, hi), end = below(hi);
  return lo < hi && static_cast<double>(most) >= hi && static_cast<double>(end) >= lo ? minimum(drawn, end) : drawn;
}

Tensor random_normal(const Shape& shape, double mean, double deviation, SourceLine at) {
  const Frame frame(at, "random_normal");
  const Tensor z = draw(Op::random_normal, shape, "random_normal");
  return mean == 0 && deviation == 1 ? z : z * deviation + mean;
}

Tensor randn(const Shape& shape, SourceLine at) {
  const Frame frame(at, "randn");
  return draw(Op::random_normal, shape, "randn");
}

Tensor randint(WholeNumber low, WholeNumber high, const Shape& shape, SourceLine at) {
  const Frame frame(at, "randint");
  // Unsigned: the difference of two numbers of i64 may be none of i64.
  if (high <= low || static_cast<uint64_t>(high) - static_cast<uint64_t>(low) > uint64_t{1} << 24)
    ops::fail_here("randint", "expected from 1 to 2^24 numbers, got [", low.value, ", ", high.value, ")");
  // The product may be rounded up to high - low.
  const auto count = static_cast<double>(high - low);
  return cast(minimum(floor(draw(Op::random_uniform, shape, "randint") * count), count - 1), DType::i64) + low.value;
}

Tensor dropout(const In& x, double p) {
  const auto [frame, t] = ops::enter(x, "dropout");
  if (!(p >= 0 && p <= 1)) ops::fail_here("dropout", "probability out of range: expected 0 <= p <= 1, got ", p);
  ops::need_floating(t, "dropout");
  if (p == 0 || p == 1) return p == 0 ? t : t * 0.0;
  return drawn([&, &x_in = t](int64_t stream, const Tensor& key) {
    return ops::one(Op::dropout, DropoutAttrs{p, stream}, {x_in, key});
  });
}

}  // namespace freight
