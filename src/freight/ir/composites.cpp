// The plain definitions of the composites: what each means, in primitives. Backends without a kernel run these.
// Statistics are computed in f32 where the input is bf16 or f16.
#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/error.h"
#include "freight/ir/op_rules.h"
#include "freight/ir/vjp.h"

namespace freight::composite {

namespace {

using Values = std::vector<Value>;

// All axes but axis 1 (the channels).
Shape all_but_channels(const Shape& s) {
  Shape axes;
  for (int i = 0; i < s.rank(); ++i) {
    if (i != 1) axes.push_back(i);
  }
  return axes;
}

// x of rank r, scale and shift per channel (axis 1).
Ex affine_channels(Ex x, Value scale, Value shift) {
  Builder& b = *x.b;
  const DType t = x.type().dtype;
  const Ex gamma{&b, b.broadcast_axis(b.cast(scale, t), 1, x.shape())};
  const Ex beta{&b, b.broadcast_axis(b.cast(shift, t), 1, x.shape())};
  return x * gamma + beta;
}

// (x - mean) / sqrt(var + eps) over `axes`, with the biased variance.
Ex normalize(Ex x, const Shape& axes, double eps) {
  const Ex mean = mean_over(x, axes);
  const Ex centered = x - expand(mean, x.shape());
  const Ex variance = mean_over(apply(Op::square, centered), axes);
  const Ex scale = apply(Op::rsqrt, variance + eps);
  return centered * expand(scale, x.shape());
}

}  // namespace

// softmax(x)_i = exp(x_i - max x) / sum_j exp(x_j - max x)
Values softmax(Builder& b, const Node& n, const Values& in) {
  if (b.shape(in[0]).numel() == 0) return {in[0]};  // an empty axis has no maximum
  const Shape axes{attrs<AxisAttrs>(n).axis};
  const DType t = b.type(in[0]).dtype;
  const Ex x{&b, b.cast(in[0], wide(t))};
  const Ex row_max{&b, b.reduce_max(x.v, axes)};
  const Ex e = apply(Op::exp, x - expand(row_max, x.shape()));
  const Ex y = e / expand(sum(e, axes), x.shape());
  return {b.cast(y.v, t)};
}

// log_softmax(x) = x - max x - log sum exp(x - max x)
Values log_softmax(Builder& b, const Node& n, const Values& in) {
  if (b.shape(in[0]).numel() == 0) return {in[0]};
  const Shape axes{attrs<AxisAttrs>(n).axis};
  const DType t = b.type(in[0]).dtype;
  const Ex x{&b, b.cast(in[0], wide(t))};
  const Ex row_max{&b, b.reduce_max(x.v, axes)};
  const Ex centered = x - expand(row_max, x.shape());
  const Ex log_sum = apply(Op::log, sum(apply(Op::exp, centered), axes));
  const Ex y = centered - expand(log_sum, x.shape());
  return {b.cast(y.v, t)};
}

// -sum_k q_k log_softmax(x)_k; q = (1 - s) one_hot(label) + s / K with label smoothing s (Szegedy et al. 2016). Classes
// with q = 0 are selected away, not multiplied: one with a logit of -inf has log p = -inf, and the limit of 0 log 0 is
// 0.
Values cross_entropy(Builder& b, const Node& n, const Values& in) {
  const double s = attrs<CrossEntropyAttrs>(n).label_smoothing;
  const Type x = b.type(in[0]);  // (N, K)
  const int64_t classes = x.shape[1];
  const bool soft = is_floating(b.type(in[1]).dtype);
  const auto hot = [&](DType t) { return Ex{&b, b.one(Op::one_hot, OneHotAttrs{classes, t}, {in[1]})}; };
  const Ex log_p{&b, b.one(Op::log_softmax, AxisAttrs{1}, {in[0]})};
  Ex terms;
  if (s != 0) {
    terms = ((soft ? Ex{&b, in[1]} : hot(x.dtype)) * (1.0 - s) + s / static_cast<double>(classes)) * log_p;
  } else if (soft) {
    const Ex q{&b, in[1]};
    terms = select(equals(q, 0.0), 0.0, q * log_p);
  } else {
    terms = select(hot(DType::boolean), log_p, 0.0);
  }
  return {b.reshape((-sum(terms, {1})).v, {x.shape[0]})};
}

// The moments of each channel, over batch and space, in one pass about the mean of the images' centers: as that differs
// from the mean of all by about 1 / N of the variance, nearly nothing is lost in the difference of moments, however far
// the mean is from zero.
Values moments(Builder& b, const Node&, const Values& in) {
  const Ex x{&b, b.cast(in[0], wide(b.type(in[0]).dtype))};  // (N, C, ...)
  const Shape axes = all_but_channels(x.shape());
  Shape start, limit = x.shape();
  for (int i = 0; i < limit.rank(); ++i) {
    start.push_back(i < 2 ? 0 : limit[i] / 2);
    if (i >= 2) limit[i] = start[i] + 1;
  }
  const Ex centers{&b, b.slice(x.v, start, limit, Shape::filled(limit.rank(), 1))};
  const Ex origin = mean_over(centers, {0});  // (1, C, 1, ...)
  const Ex offset_x = x - expand(origin, x.shape());
  const Ex offset = mean_over(offset_x, axes), mean = origin + offset;
  const Ex variance = apply(Op::relu, mean_over(apply(Op::square, offset_x), axes) - apply(Op::square, offset));
  return {mean.v, variance.v};
}

// Ioffe & Szegedy 2015: normalize each channel over batch and space; gives y, batch mean, biased batch variance.
// y = x a + b with a = scale / sqrt(var + eps), b = shift - mean a, both per channel: one multiply-add per element.
Values batch_norm(Builder& b, const Node& n, const Values& in) {
  const DType t = b.type(in[0]).dtype, s = b.type(in[1]).dtype;
  const Values of_x = b.add(Op::moments, NoAttrs{}, {in[0]});
  const Ex x{&b, b.cast(in[0], wide(t))}, mean{&b, of_x[0]}, variance{&b, of_x[1]};
  const auto channel = [&](Value v) { return Ex{&b, b.reshape(b.cast(v, x.type().dtype), mean.shape())}; };
  const Ex scale = channel(in[1]) * apply(Op::rsqrt, variance + attrs<NormAttrs>(n).eps);
  const Ex y = x * expand(scale, x.shape()) + expand(channel(in[2]) - mean * scale, x.shape());
  const Shape channels{x.shape()[1]};
  return {b.cast(y.v, t), b.cast(b.reshape(mean.v, channels), s), b.cast(b.reshape(variance.v, channels), s)};
}

// (x, scale, shift, mean, variance) with given statistics.
Values batch_norm_inference(Builder& b, const Node& n, const Values& in) {
  const DType t = b.type(in[0]).dtype;
  const auto [scale, shift] = per_channel::batch_norm_inference(b, n, in);
  const Ex x{&b, b.cast(in[0], wide(t))};
  return {b.cast(affine_channels(x, scale.v, shift.v).v, t)};
}

// Ba et al. 2016: normalize each sample over its last axes.
Values layer_norm(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<NormAttrs>(n);
  const DType t = b.type(in[0]).dtype;
  const Ex x{&b, b.cast(in[0], wide(t))};
  const Shape full = x.shape();
  Shape axes, tail = full;
  for (int i = 0; i < full.rank(); ++i) {
    if (i >= full.rank() - a.axes) {
      axes.push_back(i);
    } else {
      tail[i] = 1;
    }
  }
  const auto expand = [&](Value v) { return Ex{&b, b.broadcast(b.reshape(b.cast(v, x.type().dtype), tail), full)}; };
  const Ex y = normalize(x, axes, a.eps) * expand(in[1]) + expand(in[2]);
  return {b.cast(y.v, t)};
}

// Wu & He 2018: normalize groups of channels per sample. The places of each channel are added up first, so that x keeps
// its axes, and with them the order in memory that the convolutions around it have chosen.
Values group_norm(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<NormAttrs>(n);
  const DType t = b.type(in[0]).dtype;
  const Ex x{&b, b.cast(in[0], wide(t))};  // (N, C, ...)
  const Shape full = x.shape();
  Shape places, channels = full;
  for (int i = 2; i < full.rank(); ++i) {
    places.push_back(i);
    channels[i] = 1;
  }
  const auto mean_of_group = [&](Ex v) {
    const Ex of_channel = places.empty() ? v : mean_over(v, places);
    const Ex grouped{&b, b.reshape(of_channel.v, {full[0], a.groups, full[1] / a.groups})};
    return Ex{&b, b.reshape(expand(mean_over(grouped, {2}), grouped.shape()).v, channels)};  // (N, C, 1, ...)
  };
  const Ex centered = x - expand(mean_of_group(x), full);
  const Ex scale = apply(Op::rsqrt, mean_of_group(apply(Op::square, centered)) + a.eps);
  return {b.cast(affine_channels(centered * expand(scale, full), in[1], in[2]).v, t)};
}

// Hendrycks & Gimpel 2016: x Phi(x), or its tanh approximation. backend/cpu/kernels/activations.cpp knows these
// expressions, and those of silu.
Ex gelu_factor(Ex x, const GeluAttrs& a) {
  const Ex sigmoid = a.tanh ? apply(Op::tanh, (x + x * x * x * 0.044715) * 0.7978845608028654)
                            : apply(Op::erf, x * 0.7071067811865476);
  return (sigmoid + 1.0) * 0.5;
}
Values gelu(Builder& b, const Node& n, const Values& in) {
  const Ex x{&b, in[0]};
  return {(x * gelu_factor(x, attrs<GeluAttrs>(n))).v};
}

// x sigmoid(x)
Values silu(Builder& b, const Node&, const Values& in) {
  const Ex x{&b, in[0]};
  return {(x * apply(Op::sigmoid, x)).v};
}

// V S+ U^T b for a = U S V^T, where S+ is 1 / s, and 0 for what counts as 0. NaN counts as neither.
Values lstsq(Builder& b, const Node& n, const Values& in) {
  const Shape rows = b.shape(in[0]), right = b.shape(in[1]);
  const int axis = rows.rank() - 1;
  Shape out = right;
  out[axis - 1] = rows[axis];
  if (rows.numel() == 0 || out.numel() == 0) return {b.constant(0, {b.type(in[0]).dtype, out})};
  const std::vector<Value> usv = b.add(Op::svd, SvdAttrs{}, {in[0]});
  const Ex s{&b, usv[1]};
  const Ex largest = expand({&b, b.reduce_max(s.v, {axis - 1})}, s.shape());
  const Ex zero = s <= largest * attrs<LstsqAttrs>(n).rtol;
  const Ex inverse = select(zero, 0.0, 1.0 / select(zero, 1.0, s));  // (..., K)
  const Ex beside{&b, b.matmul(usv[0], in[1], true)};                // (..., K, columns of b)
  Shape thin = s.shape();
  thin.push_back(1);
  const Ex scaled = beside * expand({&b, b.reshape(inverse.v, thin)}, beside.shape());
  return {b.matmul(usv[2], scaled.v, true)};
}

// By the LU of a.
Values solve(Builder& b, const Node&, const Values& in) {
  const Shape right = b.shape(in[1]);
  const int rows = right.rank() - 2;
  const std::vector<Value> lu = b.add(Op::lu_factor, LuAttrs{true}, {in[0]});
  Shape column = right;
  column[rows + 1] = 1;
  const Value index = b.broadcast(b.reshape(lu[2], column), right);
  const Value picked = b.one(Op::gather_elements, AxisAttrs{rows}, {in[1], index});
  const Value y = b.one(Op::solve_triangular, TriangularAttrs{.unit_diagonal = true}, {lu[0], picked});
  return {b.one(Op::solve_triangular, TriangularAttrs{.upper = true}, {lu[0], y})};
}

// Srivastava et al. 2014, scaled at training time: where(u >= p, x / (1 - p), 0) with u uniform.
Values dropout(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<DropoutAttrs>(n);
  const Ex x{&b, in[0]};
  const Ex u{&b, b.one(Op::random_uniform, RandomAttrs{x.shape(), a.stream}, {in[1]})};
  const Ex keep{&b, b.binary(Op::ge, u.v, b.constant_like(a.p, u.v))};
  return {select(keep, x * (1.0 / (1.0 - a.p)), 0.0).v};
}

// Rows of the table; the gradient of row `padding_idx` is zero.
Values embedding(Builder& b, const Node& n, const Values& in) {
  const int64_t frozen = attrs<EmbeddingAttrs>(n).padding_idx;
  const Value rows = b.one(Op::gather, AxisAttrs{0}, {in[1], in[0]});  // index.shape + (width)
  if (frozen < 0) return {rows};
  // Equal values on both branches; the frozen row's branch carries no gradient.
  const Shape full = b.shape(rows);
  Shape thin = b.shape(in[0]);
  thin.push_back(1);
  const Value hit = b.binary(Op::eq, in[0], b.constant_like(static_cast<double>(frozen), in[0]));
  const Value mask = b.broadcast(b.reshape(hit, thin), full);
  return {b.where(mask, b.one(Op::stop_gradient, NoAttrs{}, {rows}), rows)};
}

// (...) -> (..., depth). The places are numbered in a type that holds all of them: u8 ends at 255.
Values one_hot(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<OneHotAttrs>(n);
  Shape full = b.shape(in[0]);
  Shape thin = full;
  full.push_back(a.depth);
  thin.push_back(1);
  const DType given = b.type(in[0]).dtype;
  const DType counted = size_of(given) < 4 || given == DType::i32 ? DType::i32 : DType::i64;
  const Value label = b.cast(b.one(Op::check_index, RowsAttrs{a.depth}, {in[0]}), counted);
  const Value index = b.broadcast(b.reshape(label, thin), full);
  const Value classes = b.one(Op::iota, IotaAttrs{full, full.rank() - 1, counted}, {});
  return {b.cast(b.binary(Op::eq, index, classes), a.dtype)};
}

namespace {
// Means over windows of unequal length: the longest length is gathered for each, and what is too much selected away. No
// product with a matrix of weights: its zeros would make NaN of an infinite element in all cells.
Value uneven_means(Builder& b, Value x, int axis, int64_t cells) {
  const Type type = b.type(x);
  const int64_t size = type.shape[axis];
  const auto begin = [&](int64_t c) { return c * size / cells; };
  const auto end = [&](int64_t c) { return ((c + 1) * size + cells - 1) / cells; };
  int64_t longest = 0, shortest = size;
  for (int64_t c = 0; c < cells; ++c) {
    longest = std::max(longest, end(c) - begin(c));
    shortest = std::min(shortest, end(c) - begin(c));
  }
  Array places(DType::i32, {cells, longest}), inside(DType::u8, {cells, longest}), share(DType::f64, {cells});
  for (int64_t c = 0; c < cells; ++c) {
    share.data<double>()[c] = 1.0 / static_cast<double>(end(c) - begin(c));
    for (int64_t i = 0; i < longest; ++i) {
      places.data<int32_t>()[c * longest + i] = static_cast<int32_t>(std::min(begin(c) + i, size - 1));
      inside.data<uint8_t>()[c * longest + i] = begin(c) + i < end(c);
    }
  }
  const auto constant = [&](const Array& a, DType t) {
    return b.one(Op::constant, ConstantAttrs{{t, a.shape()}, 0, a.cast(t)}, {});
  };
  const Value windows =
      b.one(Op::gather, AxisAttrs{axis}, {x, constant(places, DType::i32)});  // (..., cells, longest, ...)
  Ex elements{&b, windows};
  if (shortest < longest) {
    const Shape full = b.shape(windows);
    Shape thin = Shape::filled(full.rank(), 1);
    thin[axis] = cells;
    thin[axis + 1] = longest;
    const Ex seen{&b, b.broadcast(b.reshape(constant(inside, DType::boolean), thin), full)};
    elements = select(seen, elements, 0.0);
  }
  Shape result = type.shape;
  result[axis] = cells;
  const Ex total{&b, b.reshape(sum(elements, {axis + 1}).v, result)};
  return (total * Ex{&b, b.broadcast_axis(constant(share, type.dtype), axis, result)}).v;
}
}  // namespace

// Each output cell averages the input cells [floor(i n / m), ceil((i + 1) n / m)) per axis, one axis after the other.
Values adaptive_avg_pool(Builder& b, const Node& n, const Values& in) {
  const Shape& output = attrs<AdaptivePoolAttrs>(n).output;
  const DType given = b.type(in[0]).dtype;
  Value x = b.cast(in[0], wide(given));
  // Channels last, as activations are stored: what is gathered is contiguous then. The outer axis first.
  Shape channels_last{0}, channels_first{0, output.rank() + 1};
  for (int k = 0; k < output.rank(); ++k) {
    channels_last.push_back(2 + k);
    channels_first.push_back(1 + k);
  }
  channels_last.push_back(1);
  x = b.transpose(x, channels_last);
  for (int k = 0; k < output.rank(); ++k) {
    if (b.shape(x)[1 + k] % output[k] != 0) x = uneven_means(b, x, 1 + k, output[k]);
  }
  x = b.transpose(x, channels_first);
  for (int k = output.rank() - 1; k >= 0; --k) {
    const int axis = 2 + k;
    const Shape s = b.shape(x);
    const int64_t size = s[axis], cells = output[k];
    if (cells == size) continue;
    Shape split = s;  // equal windows: a mean over the split axis
    split[axis] = cells;
    split.insert(axis + 1, size / cells);
    Shape result = s;
    result[axis] = cells;
    const Ex mean = mean_over({&b, b.reshape(x, split)}, {axis + 1});
    x = b.reshape(mean.v, result);
  }
  return {b.cast(x, given)};
}

// Vaswani et al. 2017: softmax(scale q k^T + mask) v. A sample of length 0 sees its first key.
Values attention(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<AttentionAttrs>(n);
  const DType given = b.type(in[0]).dtype, t = wide(given);
  Ex s = Ex{&b, b.matmul(b.cast(in[0], t), b.cast(in[1], t), false, true)} * a.scale;  // (B, H, T, S)
  const Shape shape = s.shape();
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  const auto hide = [&](Value seen) { s = select({&b, seen}, s, kHidden); };
  if (a.mask) {
    const Shape rows = b.shape(in.back());
    const Shape own{a.mask_samples ? shape[0] : 1, a.mask_heads ? shape[1] : 1, rows[1], rows[2]};
    const Ex m{&b, b.broadcast(b.reshape(in.back(), own), shape)};
    s = m.type().dtype == DType::boolean ? select(m, s, kHidden) : s + m;
  }
  const auto place = [&](int axis) { return b.one(Op::iota, IotaAttrs{shape, axis, DType::i32}, {}); };
  if (a.causal) hide(b.binary(Op::le, place(3), place(2)));
  if (a.lengths) {
    const Value length = b.cast(in[3], DType::i32);
    const Value keys = b.reshape(b.binary(Op::maximum, length, b.constant_like(1, length)), {shape[0], 1, 1, 1});
    hide(b.binary(Op::lt, place(3), b.broadcast(keys, shape)));
  }
  Ex row_max{&b, b.one(Op::stop_gradient, NoAttrs{}, {b.reduce_max(s.v, {3})})};
  if (a.mask) row_max = select(equals(row_max, kHidden), 0.0, row_max);  // of a query that sees no key
  Ex total = sum(apply(Op::exp, s - expand(row_max, shape)), {3});
  if (a.mask) total = select(equals(total, 0.0), 1.0, total);
  const Ex lse = row_max + apply(Op::log, total);
  const Ex p = apply(Op::exp, s - expand(lse, shape));
  return {b.cast(b.matmul(p.v, b.cast(in[2], t)), given), b.reshape(lse.v, {shape[0], shape[1], shape[2]})};
}

// The definition of the gradient op is what differentiating the op's definition gives.
Values attention_grad(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<AttentionAttrs>(n);
  Node forward = n;
  forward.op = Op::attention;
  forward.inputs = Values(in.begin(), in.begin() + a.inputs());
  Values d = through_definition(b, forward, {in[static_cast<size_t>(a.inputs() + 2)], a.second ? in.back() : Value{}});
  d.resize(3);
  return d;
}

namespace {
// Step t of (N, T, C), as (N, C); columns k w to (k + 1) w of (N, C).
Ex step_of(Ex x, int64_t t) {
  const Shape s = x.shape();
  return {x.b, x.b->reshape(x.b->slice(x.v, {0, t, 0}, {s[0], t + 1, s[2]}, {1, 1, 1}), {s[0], s[2]})};
}
Ex columns(Ex x, int64_t k, int64_t w) {
  return {x.b, x.b->slice(x.v, {0, k * w}, {x.shape()[0], (k + 1) * w}, {1, 1})};
}
Ex concat(const std::vector<Ex>& parts, int64_t axis) {
  Values v;
  for (const Ex& part : parts) v.push_back(part.v);
  return {parts[0].b, parts[0].b->one(Op::concat, AxisAttrs{axis}, v)};
}
// Steps (N, C) as (N, T, C).
Ex sequence(std::vector<Ex> steps) {
  for (Ex& step : steps) step.v = step.b->reshape(step.v, {step.shape()[0], 1, step.shape()[1]});
  return concat(steps, 1);
}
// For which samples step t is a token, as a condition on `shape`.
Ex is_token(Ex counts, int64_t t, const Shape& shape) {
  const Ex token = counts > static_cast<double>(t);
  return expand({token.b, token.b->reshape(token.v, {shape[0], 1})}, shape);
}
}  // namespace

// LSTM (Hochreiter and Schmidhuber 1997): c = f c + i g, h = o tanh(c). GRU (Cho et al. 2014): n = tanh(x_n + r (W_n h
// + inside)), h = n + z (h - n). Behind its last token a sample keeps its state.
Values recurrent(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<RecurrentAttrs>(n);
  const DType given = b.type(in[0]).dtype, t = wide(given);
  const Ex x{&b, b.cast(in[0], t)}, w{&b, b.cast(in[1], t)};
  const int64_t steps = x.shape()[1], width = w.shape()[1];
  const Shape shape{x.shape()[0], width};
  Ex h{&b, b.constant(0, {t, shape})}, c = h;
  std::vector<Ex> y(static_cast<size_t>(steps)), inner = y, gates = y;
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t step = a.reverse ? steps - 1 - i : i;
    const auto at = static_cast<size_t>(step);
    const Ex part = step_of(x, step), z{&b, b.matmul(h.v, w.v, false, true)}, both = part + z;
    const auto gate = [&](int64_t k) { return apply(Op::sigmoid, columns(both, k, width)); };
    Ex next, cell = c;
    if (a.gru) {
      const Ex r = gate(0), u = gate(1), inside{&b, b.reshape(b.cast(in[2], t), {1, width})};
      inner[at] = columns(z, 2, width) + expand(inside, shape);
      const Ex fresh = apply(Op::tanh, columns(part, 2, width) + r * inner[at]);
      next = fresh + u * (h - fresh);
      gates[at] = concat({r, 1.0 - u, fresh}, 1);
    } else {
      const Ex keep = gate(0), forget = gate(1), fresh = apply(Op::tanh, columns(both, 2, width)), out = gate(3);
      cell = forget * c + keep * fresh;
      next = out * apply(Op::tanh, cell);
      gates[at] = concat({keep, 1.0 - forget, fresh, out}, 1);
    }
    if (a.lengths) {
      const Ex token = is_token({&b, in.back()}, step, shape);
      next = select(token, next, h);
      cell = select(token, cell, c);
    }
    y[at] = h = next;
    c = cell;
    if (!a.gru) inner[at] = c;
  }
  return {b.cast(sequence(y).v, given), b.cast(sequence(inner).v, given), b.cast(sequence(gates).v, given)};
}

Values recurrent_grad(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<RecurrentAttrs>(n);
  const DType given = b.type(in[3]).dtype, t = wide(given);
  const auto wide_in = [&](size_t i) { return Ex{&b, b.cast(in[i], t)}; };
  const Ex w = wide_in(0), y = wide_in(1), inner = wide_in(2), gates = wide_in(3), dy = wide_in(4);
  const int64_t samples = y.shape()[0], steps = y.shape()[1], width = y.shape()[2];
  const Shape shape{samples, width}, gates_shape{samples, gates.shape()[2]};
  const Ex zero{&b, b.constant(0, {t, shape})};
  Ex dh = zero, dc = zero;
  std::vector<Ex> before(static_cast<size_t>(steps)), dx = before, dz = before;
  for (int64_t i = steps - 1; i >= 0; --i) {
    const int64_t step = a.reverse ? steps - 1 - i : i, earlier = a.reverse ? step + 1 : step - 1;
    const auto at = static_cast<size_t>(step);
    const Ex g = dh + step_of(dy, step), all = step_of(gates, step), kept = step_of(inner, step);
    const auto gate = [&](int64_t k) { return columns(all, k, width); };
    const auto slope = [](Ex s) { return s * (1.0 - s); };  // of sigmoid, by its result
    before[at] = i > 0 ? step_of(y, earlier) : zero;
    Ex direct = zero, dcell = dc;
    if (a.gru) {
      const Ex r = gate(0), u = 1.0 - gate(1), fresh = gate(2), dfresh = g * (1.0 - u) * (1.0 - fresh * fresh);
      const Ex dr = dfresh * kept * slope(r), du = g * (before[at] - fresh) * slope(u);
      dx[at] = concat({dr, du, dfresh}, 1);
      dz[at] = concat({dr, du, dfresh * r}, 1);
      direct = g * u;
    } else {
      const Ex keep = gate(0), forget = 1.0 - gate(1), fresh = gate(2), out = gate(3), squashed = apply(Op::tanh, kept);
      const Ex cell = dc + g * out * (1.0 - squashed * squashed), cell_before = i > 0 ? step_of(inner, earlier) : zero;
      dx[at] = concat({cell * fresh * slope(keep), cell * cell_before * slope(forget),
                       cell * keep * (1.0 - fresh * fresh), g * squashed * slope(out)},
                      1);
      dz[at] = dx[at];
      dcell = cell * forget;
    }
    if (a.lengths) {
      const Ex counts{&b, in[5]}, token = is_token(counts, step, shape), any = is_token(counts, step, gates_shape);
      dx[at] = select(any, dx[at], 0.0);
      dz[at] = select(any, dz[at], 0.0);
      direct = select(token, direct, g);
      dcell = select(token, dcell, dc);
    }
    dh = direct + Ex{&b, b.matmul(dz[at].v, w.v)};
    dc = dcell;
  }
  const auto rows = [&](const Ex& x) { return b.reshape(x.v, {samples * steps, x.shape()[2]}); };
  const Ex products = sequence(dz);
  Values out{b.cast(sequence(dx).v, given), b.matmul(rows(products), rows(sequence(before)), true)};
  if (a.gru) {
    const Ex all{&b, rows(products)};
    out.push_back(b.reshape(sum(columns(all, 2, width), {0}).v, {width}));
  }
  return out;
}

namespace {
// x (N, T, C) as (N T, C), not in 16 bits.
Value wide_rows(Builder& b, Value x) {
  const Shape s = b.shape(x);
  return b.reshape(b.cast(x, wide(b.type(x).dtype)), {s[0] * s[1], s[2]});
}
}  // namespace

// The inputs' part of the gates of all steps is one product.
Values recurrent_layer(Builder& b, const Node& n, const Values& in) {
  const RecurrentAttrs& a = attrs<RecurrentLayerAttrs>(n).steps;
  Shape gates = b.shape(in[0]);
  gates[2] = b.shape(in[2])[0];
  const Ex product{&b, b.reshape(b.matmul(wide_rows(b, in[0]), in[1], false, true), gates)};
  const Ex part = product + Ex{&b, b.broadcast_axis(in[2], 2, gates)};
  Values of_steps{b.cast(part.v, b.type(in[0]).dtype)};
  of_steps.insert(of_steps.end(), in.begin() + 3, in.end());
  return b.add(Op::recurrent, a, of_steps);
}

Values recurrent_layer_grad(Builder& b, const Node& n, const Values& in) {
  const RecurrentAttrs& a = attrs<RecurrentLayerAttrs>(n).steps;
  const Shape x = b.shape(in[0]);
  const Value x_rows = wide_rows(b, in[0]);
  const size_t y = 4 + a.gru + a.lengths;
  Values of_steps{in[3], in[y], in[y + 1], in[y + 2], in[y + 3]};
  if (a.lengths) of_steps.push_back(in[y - 1]);
  const Values d = b.add(Op::recurrent_grad, a, of_steps);
  Ex bias{&b, b.cast(d[0], b.type(in[2]).dtype)};
  if (x[0] != 1 || x[1] != 1) bias = sum(bias, x[0] == 1 ? Shape{1} : x[1] == 1 ? Shape{0} : Shape{0, 1});
  Values out(3);
  out[2] = b.reshape(bias.v, b.shape(in[2]));
  const Value part = wide_rows(b, d[0]), dx = b.matmul(part, in[1]);
  out[1] = b.matmul(part, x_rows, true);
  out[0] = b.cast(b.reshape(dx, x), b.type(in[0]).dtype);
  out.insert(out.end(), d.begin() + 1, d.end());
  return out;
}

Values sgd_rows(Builder& b, const Node&, const Values& in) {
  const Ex p{&b, in[0]}, g{&b, b.one(Op::scatter_add, ScatterAttrs{0, p.shape()[0]}, {in[1], in[2]})};
  const Value lr = b.reshape(b.cast(in[3], p.type().dtype), {1, 1});
  return {(p - g * Ex{&b, b.broadcast(lr, p.shape())}).v};
}

// PyTorch's SGD: g += decay p; m = momentum m + (1 - dampening) g; p -= lr (nesterov ? g + momentum m : m).
Values sgd_update(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<SgdAttrs>(n);
  const Ex p{&b, in[0]};
  const Shape shape = p.shape();
  Ex g{&b, b.cast(in[1], p.type().dtype)};
  const Ex lr{&b, b.broadcast(b.reshape(b.cast(in[2], p.type().dtype), Shape::filled(shape.rank(), 1)), shape)};
  if (a.weight_decay != 0) g = g + p * a.weight_decay;
  if (a.momentum == 0) return {(p - lr * g).v};
  const Ex m = Ex{&b, in[3]} * a.momentum + (a.dampening == 0 ? g : g * (1.0 - a.dampening));
  const Ex direction = a.nesterov ? g + m * a.momentum : m;
  return {(p - lr * direction).v, m.v};
}

// Kingma & Ba 2015; decoupled: Loshchilov & Hutter 2019 (AdamW). step counts from 1.
Values adam_update(Builder& b, const Node& n, const Values& in) {
  const auto& a = attrs<AdamAttrs>(n);
  Ex p{&b, in[0]};
  const Shape shape = p.shape();
  const DType t = p.type().dtype;
  Ex g{&b, b.cast(in[1], t)};
  const auto expand = [&](Ex s) {
    return Ex{&b, b.broadcast(b.reshape(b.cast(s.v, t), Shape::filled(shape.rank(), 1)), shape)};
  };
  const Ex lr_scalar{&b, in[2]}, step{&b, in[3]};
  // 1 - beta^step, as scalars: computed once per parameter, not per element.
  const Ex correction1 = 1.0 - apply(Op::exp, step * std::log(a.beta1));
  const Ex correction2 = apply(Op::sqrt, 1.0 - apply(Op::exp, step * std::log(a.beta2)));
  const Ex lr = expand(lr_scalar);
  if (a.weight_decay != 0) {
    if (a.decoupled) {
      p = p - lr * p * a.weight_decay;
    } else {
      g = g + p * a.weight_decay;
    }
  }
  const Ex m = Ex{&b, in[4]} * a.beta1 + g * (1.0 - a.beta1);
  const Ex v = Ex{&b, in[5]} * a.beta2 + g * g * (1.0 - a.beta2);
  const Ex denominator = apply(Op::sqrt, v) * expand(1.0 / correction2) + a.eps;
  return {(p - expand(lr_scalar / correction1) * m / denominator).v, m.v, v.v};
}

}  // namespace freight::composite
