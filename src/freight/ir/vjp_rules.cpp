// Gradient rules that are more than an expression, in the order of the op table. Each adds cotangents of the inputs
// as ordinary nodes. Notation: y = op(x), g = dL/dy.
#include "freight/base/error.h"
#include "freight/ir/vjp.h"

namespace freight::vjp {

namespace {
// The half of the cotangent that an extremum passes on where both operands are equal.
Ex tie(VjpContext& c, Ex wins, Ex g) {
  const Ex a = c.in(0), b = c.in(1);
  return select(equals(a, b), g * 0.5, select(wins, g, 0.0));
}
}  // namespace

void cast(VjpContext& c) {
  const DType from = c.in(0).type().dtype;
  if (is_floating(from) && is_floating(attrs<CastAttrs>(c.node).dtype)) c.set(0, c.builder.cast(c.g().v, from));
}
void maximum(VjpContext& c) {
  const Ex a = c.in(0), b = c.in(1), g = c.g();
  if (c.needs(0)) c.set(0, tie(c, a > b, g));
  if (c.needs(1)) c.set(1, tie(c, b > a, g));
}
void minimum(VjpContext& c) {
  const Ex a = c.in(0), b = c.in(1), g = c.g();
  if (c.needs(0)) c.set(0, tie(c, a < b, g));
  if (c.needs(1)) c.set(1, tie(c, b < a, g));
}
void where(VjpContext& c) {
  const Ex g = c.g();
  if (c.needs(1)) c.set(1, select(c.in(0), g, 0.0));
  if (c.needs(2)) c.set(2, select(c.in(0), 0.0, g));
}

void reshape(VjpContext& c) { c.set(0, c.builder.reshape(c.g().v, c.in(0).shape())); }
void transpose(VjpContext& c) {
  const Shape& perm = attrs<PermAttrs>(c.node).perm;
  Shape inverse = perm;
  for (int i = 0; i < perm.rank(); ++i) inverse[static_cast<int>(perm[i])] = i;
  c.set(0, c.builder.transpose(c.g().v, inverse));
}
void broadcast(VjpContext& c) {
  const Shape in = c.in(0).shape(), out = c.out().shape();
  Shape axes;
  for (int i = 0; i < in.rank(); ++i) {
    if (in[i] != out[i]) axes.push_back(i);
  }
  c.set(0, c.builder.sum(c.g().v, axes));
}
// The slice's transpose: back to its place, zeros between and around.
void slice(VjpContext& c) {
  const auto& a = attrs<SliceAttrs>(c.node);
  const Shape in = c.in(0).shape(), out = c.out().shape();
  Shape low = in, high = in, interior = in;
  for (int i = 0; i < in.rank(); ++i) {
    low[i] = a.start[i];
    interior[i] = a.step[i] - 1;
    high[i] = out[i] == 0 ? in[i] - low[i] : in[i] - (a.start[i] + (out[i] - 1) * a.step[i] + 1);
  }
  c.set(0, c.builder.pad(c.g().v, low, high, interior, 0));
}
void copy(VjpContext& c) { c.set(0, c.g()); }
// The job's loss is the sum of the ranks' losses, each of which depends on every rank's x.
void all_reduce(VjpContext& c) { c.set(0, c.builder.one(Op::all_reduce, PieceAttrs{}, {c.g().v})); }
void pad(VjpContext& c) {
  const auto& a = attrs<PadAttrs>(c.node);
  const Shape in = c.in(0).shape();
  Shape limit = in, step = in;
  for (int i = 0; i < in.rank(); ++i) {
    step[i] = a.interior[i] + 1;
    limit[i] = in[i] == 0 ? a.low[i] : a.low[i] + (in[i] - 1) * step[i] + 1;
  }
  c.set(0, c.builder.slice(c.g().v, a.low, limit, step));
}
void concat(VjpContext& c) {
  const int axis = static_cast<int>(attrs<AxisAttrs>(c.node).axis);
  const Shape out = c.out().shape();
  int64_t at = 0;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    const int64_t n = c.in(static_cast<int>(i)).shape()[axis];
    if (c.needs(static_cast<int>(i))) {
      Shape start = Shape::filled(out.rank(), 0), limit = out;
      start[axis] = at;
      limit[axis] = at + n;
      c.set(static_cast<int>(i), c.builder.slice(c.g().v, start, limit, Shape::filled(out.rank(), 1)));
    }
    at += n;
  }
}

void sum(VjpContext& c) { c.set(0, c.builder.broadcast(c.g().v, c.in(0).shape())); }
// Shared equally between equal extrema, as PyTorch's amax does.
void reduce_extremum(VjpContext& c) {
  Builder& b = c.builder;
  const Ex x = c.in(0);
  const Shape shape = x.shape();
  const Ex hit{&b, b.cast(equals(x, {&b, b.broadcast(c.out().v, shape)}).v, x.type().dtype)};
  const Ex count{&b, b.sum(hit.v, attrs<AxesAttrs>(c.node).axes)};
  c.set(0, hit * Ex{&b, b.broadcast((c.g() / count).v, shape)});
}

// Y = A' B' with A' = A or A^T: dA' = G B'^T, dB' = A'^T G; the transposes become flags.
void matmul(VjpContext& c) {
  const auto& a = attrs<MatmulAttrs>(c.node);
  FREIGHT_CHECK(!a.epilogue.bias && !a.epilogue.residual && !a.epilogue.activates(), "differentiate before fusing");
  Builder& b = c.builder;
  const Value lhs = c.node.in(0), rhs = c.node.in(1), g = c.g().v;
  if (c.needs(0)) c.set(0, a.trans_a ? b.matmul(rhs, g, a.trans_b, true) : b.matmul(g, rhs, false, !a.trans_b));
  if (c.needs(1)) c.set(1, a.trans_b ? b.matmul(g, lhs, true, a.trans_a) : b.matmul(lhs, g, !a.trans_a, false));
}

namespace {
// The same convolution in one of its three roles; `shape` is that of a gradient's result.
Value conv_role(VjpContext& c, Op role, const Shape& shape, Value first, Value second) {
  ConvAttrs a = attrs<ConvAttrs>(c.node);
  FREIGHT_CHECK(!a.epilogue.bias && !a.epilogue.residual && !a.epilogue.activates(), "differentiate before fusing");
  a.shape = shape;
  return c.builder.one(role, a, {first, second});
}
}  // namespace

void conv(VjpContext& c) {
  const Value x = c.node.in(0), w = c.node.in(1), g = c.g().v;
  if (c.needs(0)) c.set(0, conv_role(c, Op::conv_grad_input, c.in(0).shape(), g, w));
  if (c.needs(1)) c.set(1, conv_role(c, Op::conv_grad_weight, c.in(1).shape(), x, g));
}
// dx = K(g, w) is linear in both; its cotangent has x's shape.
void conv_grad_input(VjpContext& c) {
  const Value dy = c.node.in(0), w = c.node.in(1), g = c.g().v;
  if (c.needs(0)) c.set(0, conv_role(c, Op::conv, {}, g, w));
  if (c.needs(1)) c.set(1, conv_role(c, Op::conv_grad_weight, c.in(1).shape(), g, dy));
}
// dw = K(x, g); its cotangent has w's shape.
void conv_grad_weight(VjpContext& c) {
  const Value x = c.node.in(0), dy = c.node.in(1), g = c.g().v;
  if (c.needs(0)) c.set(0, conv_role(c, Op::conv_grad_input, c.in(0).shape(), dy, g));
  if (c.needs(1)) c.set(1, conv_role(c, Op::conv, {}, x, g));
}

void max_pool(VjpContext& c) {
  PoolAttrs a = attrs<PoolAttrs>(c.node);
  a.shape = c.in(0).shape();
  c.set(0, c.builder.one(Op::max_pool_grad, a, {c.g(0).v, c.node.out(1)}));
}
// The transpose of the scatter: take the cotangent at the recorded places.
void max_pool_grad(VjpContext& c) {
  Builder& b = c.builder;
  const Shape x = attrs<PoolAttrs>(c.node).shape, y = c.in(0).shape();
  const int64_t nc = x[0] * x[1];
  const int64_t plane = nc ? x.numel() / nc : 0, cells = nc ? y.numel() / nc : 0;
  const Value flat = b.reshape(c.g().v, {nc, plane}), index = b.reshape(c.node.in(1), {nc, cells});
  c.set(0, b.reshape(b.one(Op::gather_elements, AxisAttrs{1}, {flat, index}), y));
}
void avg_pool(VjpContext& c) {
  PoolAttrs a = attrs<PoolAttrs>(c.node);
  a.shape = c.in(0).shape();
  c.set(0, c.builder.one(Op::avg_pool_grad, a, {c.g().v}));
}
void avg_pool_grad(VjpContext& c) {
  PoolAttrs a = attrs<PoolAttrs>(c.node);
  a.shape = {};
  c.set(0, c.builder.one(Op::avg_pool, a, {c.g().v}));
}

void gather(VjpContext& c) {
  const int64_t axis = attrs<AxisAttrs>(c.node).axis;
  const int64_t size = c.in(0).shape()[static_cast<int>(axis)];
  c.set(0, c.builder.one(Op::scatter_add, ScatterAttrs{axis, size}, {c.node.in(1), c.g().v}));
}
void scatter_add(VjpContext& c) {
  c.set(1, c.builder.one(Op::gather, AxisAttrs{attrs<ScatterAttrs>(c.node).axis}, {c.g().v, c.node.in(0)}));
}
void gather_elements(VjpContext& c) {
  const int64_t axis = attrs<AxisAttrs>(c.node).axis;
  const int64_t size = c.in(0).shape()[static_cast<int>(axis)];
  c.set(0, c.builder.one(Op::scatter_elements_add, ScatterAttrs{axis, size}, {c.node.in(1), c.g().v}));
}
void scatter_elements_add(VjpContext& c) {
  c.set(1, c.builder.one(Op::gather_elements, AxisAttrs{attrs<ScatterAttrs>(c.node).axis}, {c.g().v, c.node.in(0)}));
}

namespace {
// x has no part in what was overwritten, and an update none where a later one has its place: `last` are those that
// stay.
void assigned(VjpContext& c, Op gather, Value last) {
  Builder& b = c.builder;
  const Type updates = c.in(2).type();
  if (c.needs(0)) c.set(0, b.one(c.node.op, c.node.attrs, {c.g().v, c.node.in(1), b.constant(0, updates)}));
  if (c.needs(2)) c.set(2, select({&b, last}, Ex{&b, b.one(gather, c.node.attrs, {c.g().v, c.node.in(1)})}, 0.0));
}
}  // namespace

void scatter(VjpContext& c) {
  Builder& b = c.builder;
  const int axis = static_cast<int>(attrs<AxisAttrs>(c.node).axis);
  const Value index = c.node.in(1);
  const Shape picks = b.shape(index), updates = c.in(2).shape();
  const Value number = b.reshape(b.one(Op::iota, IotaAttrs{{picks.numel()}, 0, DType::i32}, {}), picks);
  const Value none = b.constant(-1, {DType::i32, {c.in(0).shape()[axis]}});
  const Value there = b.one(Op::scatter, AxisAttrs{0}, {none, index, number});
  Shape thin = Shape::filled(updates.rank(), 1);
  for (int i = 0; i < picks.rank(); ++i) thin[axis + i] = picks[i];
  const Value last = b.binary(Op::eq, b.one(Op::gather, AxisAttrs{0}, {there, index}), number);
  assigned(c, Op::gather, b.broadcast(b.reshape(last, thin), updates));
}
void scatter_elements(VjpContext& c) {
  Builder& b = c.builder;
  const auto& a = attrs<AxisAttrs>(c.node);
  const Value index = c.node.in(1), number = b.one(Op::iota, IotaAttrs{b.shape(index), a.axis, DType::i32}, {});
  const Value none = b.constant(-1, {DType::i32, c.in(0).shape()});
  const Value there = b.one(Op::scatter_elements, a, {none, index, number});
  assigned(c, Op::gather_elements, b.binary(Op::eq, b.one(Op::gather_elements, a, {there, index}), number));
}

void decomposed(VjpContext& c) { c.through_definition = true; }

// dx = y (g - sum(g y))
void softmax(VjpContext& c) {
  Builder& b = c.builder;
  const Ex y = c.out(), g = c.g();
  const Ex dot{&b, b.sum((g * y).v, {attrs<AxisAttrs>(c.node).axis})};
  c.set(0, y * (g - Ex{&b, b.broadcast(dot.v, y.shape())}));
}
// dx = g - exp(y) sum(g)
void log_softmax(VjpContext& c) {
  Builder& b = c.builder;
  const Ex y = c.out(), g = c.g();
  const Value total = b.sum(g.v, {attrs<AxisAttrs>(c.node).axis});
  c.set(0, g - apply(Op::exp, y) * Ex{&b, b.broadcast(total, y.shape())});
}
// dlogits = g (softmax * sum(q) - q), where sum(q) is 1 for labels; dq = -g log_softmax (probabilities only).
void cross_entropy(VjpContext& c) {
  Builder& b = c.builder;
  const double s = attrs<CrossEntropyAttrs>(c.node).label_smoothing;
  const Ex x = c.in(0);
  const Shape shape = x.shape();  // (N, K)
  const double classes = static_cast<double>(shape[1]);
  const Ex g{&b, b.broadcast(b.reshape(c.g().v, {shape[0], 1}), shape)};
  const bool soft = is_floating(c.in(1).type().dtype);
  if (c.needs(0)) {
    Ex q{&b, soft ? c.node.in(1) : b.one(Op::one_hot, OneHotAttrs{shape[1], x.type().dtype}, {c.node.in(1)})};
    if (s != 0) q = q * (1.0 - s) + s / classes;
    Ex p{&b, b.one(Op::softmax, AxisAttrs{1}, {x.v})};
    if (soft) p = p * Ex{&b, b.broadcast(b.sum(q.v, {1}), shape)};
    c.set(0, g * (p - q));
  }
  if (soft && c.needs(1)) {
    const Ex log_p{&b, b.one(Op::log_softmax, AxisAttrs{1}, {x.v})};
    c.set(1, -g * log_p * (1.0 - s));
  }
}

// Backward of a normalization over n elements, xhat = (x - mean) r and h = g * scale:
// dx = r (h - mean(h) - xhat mean(h xhat)); batch norm adds the paths through the returned mean and variance.

// Inputs x (N, C, ...), scale (C), shift (C); results y, batch mean (C), biased batch variance (C).
void batch_norm(VjpContext& c) {
  Builder& b = c.builder;
  const Type type = c.in(0).type();
  const DType t = wide(type.dtype);
  const Shape shape = type.shape;
  Shape axes, thin = Shape::filled(shape.rank(), 1);
  thin[1] = shape[1];
  double n = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == 1) continue;
    axes.push_back(i);
    n *= static_cast<double>(shape[i]);
  }
  const auto channel = [&](Value v) { return Ex{&b, b.reshape(b.cast(v, t), thin)}; };  // (1, C, 1, ...)
  const Ex x{&b, b.cast(c.node.in(0), t)};
  const Ex g{&b, b.cast(c.g(0).v, t)};
  const Ex mean = channel(c.node.out(1)), variance = channel(c.node.out(2)), scale = channel(c.node.in(1));
  const Ex rstd = apply(Op::rsqrt, variance + attrs<NormAttrs>(c.node).eps);
  // Not x - mean: that would be the forward pass's value, kept in memory all the way here.
  const Ex centered = x + expand(-mean, shape);
  const Ex sum_g{&b, b.sum(g.v, axes)};                            // = dshift
  const Ex sum_gx = Ex{&b, b.sum((g * centered).v, axes)} * rstd;  // = dscale
  const DType parameter = c.in(1).type().dtype;
  const Shape flat{shape[1]};
  if (c.needs(1)) c.set(1, b.cast(b.reshape(sum_gx.v, flat), parameter));
  if (c.needs(2)) c.set(2, b.cast(b.reshape(sum_g.v, flat), parameter));
  if (!c.needs(0)) return;
  // scale r (g - sum_g / n - xhat sum_gx / n), gathered to scale r (g + (x u + v)) with u and v per channel.
  const Ex u = rstd * sum_gx * (-1.0 / n), v = sum_g * (-1.0 / n) - mean * u;
  Ex dx = expand(scale * rstd, shape) * (g + (x * expand(u, shape) + expand(v, shape)));
  if (c.has_g(1)) dx = dx + expand(channel(c.g(1).v) * (1.0 / n), shape);
  if (c.has_g(2)) dx = dx + centered * expand(channel(c.g(2).v) * (2.0 / n), shape);
  c.set(0, b.cast(dx.v, type.dtype));
}

// Inputs x, scale and shift of the shape of the last axes; statistics are recomputed from x.
void layer_norm(VjpContext& c) {
  Builder& b = c.builder;
  const auto& a = attrs<NormAttrs>(c.node);
  const Type type = c.in(0).type();
  const DType t = wide(type.dtype);
  const Shape shape = type.shape;
  Shape inner, outer, tail = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < shape.rank() - a.axes) {
      outer.push_back(i);
      tail[i] = 1;
    } else {
      inner.push_back(i);
    }
  }
  const Ex x{&b, b.cast(c.node.in(0), t)}, g{&b, b.cast(c.g().v, t)};
  const Ex centered = x - expand(mean_over(x, inner), shape);
  const Ex rstd = apply(Op::rsqrt, mean_over(apply(Op::square, centered), inner) + a.eps);
  const Ex xhat = centered * expand(rstd, shape);
  const DType parameter = c.in(1).type().dtype;
  const Shape flat = c.in(1).shape();
  if (c.needs(1)) c.set(1, b.cast(b.reshape(b.sum((g * xhat).v, outer), flat), parameter));
  if (c.needs(2)) c.set(2, b.cast(b.reshape(b.sum(g.v, outer), flat), parameter));
  if (!c.needs(0)) return;
  const Ex h = g * Ex{&b, b.broadcast(b.reshape(b.cast(c.node.in(1), t), tail), shape)};
  const Ex mean_h = mean_over(h, inner), mean_hx = mean_over(h * xhat, inner);
  const Ex dx = expand(rstd, shape) * (h - expand(mean_h, shape) - xhat * expand(mean_hx, shape));
  c.set(0, b.cast(dx.v, type.dtype));
}

// dx = g (F + x F') for y = x F(x): F' is the normal density, or 2 F (1 - F) times the derivative of the tanh's
// argument. It is written so that no product has 16-bit operands alone, which would be rounded.
void gelu(VjpContext& c) {
  const Ex x = c.in(0), factor = composite::gelu_factor(x, attrs<GeluAttrs>(c.node));
  if (attrs<GeluAttrs>(c.node).tanh) {
    const Ex s = x * (factor - apply(Op::square, factor));
    c.set(0, c.g() * (factor + s * 1.5957691216057308 + s * x * x * 0.21406444881780076));
  } else {
    const Ex density = apply(Op::exp, -(apply(Op::square, x) * 0.5)) * 0.3989422804014327;
    c.set(0, c.g() * (factor + x * density));
  }
}

// dx = g (s + x s (1 - s)) with s = sigmoid(x): one factor of g, which reads x alone and is rounded once in 16 bits.
void silu(VjpContext& c) {
  const Ex x = c.in(0), s = apply(Op::sigmoid, x);
  c.set(0, c.g() * (s + x * (s * (1.0 - s))));
}

// A gradient op of its own, which backends know as a whole kernel. That of a mask needs all weights.
void attention(VjpContext& c) {
  AttentionAttrs a = attrs<AttentionAttrs>(c.node);
  if (a.mask && is_floating(c.in(a.mask_at()).type().dtype) && c.needs(a.mask_at())) return decomposed(c);
  a.second = c.has_g(1);
  std::vector<Value> in = c.node.inputs;
  in.insert(in.end(), {c.node.out(0), c.node.out(1), c.g(0).v});
  if (a.second) in.push_back(c.g(1).v);
  const std::vector<Value> d = c.builder.add(Op::attention_grad, a, in);
  for (int i = 0; i < 3; ++i) c.set(i, d[static_cast<size_t>(i)]);
}

void recurrent(VjpContext& c) {
  if (c.has_g(1) || c.has_g(2)) return decomposed(c);  // in second derivatives
  const auto& a = attrs<RecurrentAttrs>(c.node);
  std::vector<Value> in{c.node.in(1), c.node.out(0), c.node.out(1), c.node.out(2), c.g(0).v};
  if (a.lengths) in.push_back(c.node.inputs.back());
  const std::vector<Value> d = c.builder.add(Op::recurrent_grad, a, in);
  for (size_t i = 0; i < d.size(); ++i) c.set(static_cast<int>(i), d[i]);
}

void recurrent_layer(VjpContext& c) {
  if (c.has_g(1) || c.has_g(2)) return decomposed(c);  // in second derivatives
  std::vector<Value> in = c.node.inputs;
  in.insert(in.end(), c.node.outputs.begin(), c.node.outputs.end());
  in.push_back(c.g(0).v);
  const std::vector<Value> d = c.builder.add(Op::recurrent_layer_grad, c.node.attrs, in);
  for (size_t i = 0; i < d.size(); ++i) c.set(static_cast<int>(i), d[i]);
}

}  // namespace freight::vjp
