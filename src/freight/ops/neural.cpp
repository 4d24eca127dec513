// Front ends of the composites. See neural.h; the definitions are in ir/composites.cpp.
#include "freight/ops/neural.h"

#include <limits>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"

namespace freight {

namespace {

Tensor along(Op op, const In& x, int64_t axis) {
  const auto [frame, t] = ops::enter(x, name(op));
  return ops::one(op, AxisAttrs{ops::axis_of(axis, t.type(), name(op))}, {t});
}

Tensor reduced(const Tensor& per_item, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean: return mean(per_item);
    case Reduction::sum: return sum(per_item);
    case Reduction::none: break;
  }
  return per_item;
}

// Two operands of a loss, which is computed in the wide type and rounded once, to the given one: the square of an f16
// distance of 256 is no f16 any more, while its mean over others may be. Operands whose types differ stay as they are,
// and are refused by the first operation on both.
struct Compared {
  In a, b;
  DType given;
  Tensor rounded(const Tensor& loss) const { return wide(given) == given ? loss : cast(loss, given); }
};
Compared compared(const In& a, const In& b, const char* op) {
  if (a.is_number && b.is_number) return {a, b, DType::f32};
  const auto widened = [&](const In& x) { return x.is_number ? x : In(cast(x, wide(x.tensor.dtype())), x.where); };
  const Tensor x = ops::get(a.is_number ? b : a, op), y = ops::get(b.is_number ? a : b, op);
  ops::need_floating(x, op);
  ops::need_floating(y, op);
  if (x.dtype() != y.dtype()) return {a, b, DType::f32};
  return {widened(a), widened(b), x.dtype()};
}

// A column beside a row would broadcast to a square, whose mean is a number like any other.
void need_equal_shapes(const In& a, const In& b, const char* op) {
  if (a.is_number || b.is_number) return;
  const Tensor x = ops::get(a, op), y = ops::get(b, op);
  if (x.shape() == y.shape()) return;
  ops::fail_here(op, "shapes differ: expected equal ones, got ", x.type(), " and ", y.type(), "; reshape one of them");
}

void need_labels(const Tensor& rows, const Tensor& target, const char* op) {
  if (rows.rank() != 2 || target.rank() != 1 || rows.dim(0) != target.dim(0) || !is_integer(target.dtype())) {
    ops::fail_here(op, "expected (N, C) and N integer classes, got ", rows.type(), " and ", target.type());
  }
}

}  // namespace

Tensor softmax(const In& x, Axis axis) { return along(Op::softmax, x, axis); }
Tensor log_softmax(const In& x, Axis axis) { return along(Op::log_softmax, x, axis); }

Tensor gelu(const In& x, GeluKind kind) {
  const Frame frame(x.where, "gelu");
  return ops::one(Op::gelu, GeluAttrs{kind == GeluKind::tanh}, {ops::get(x, "gelu")});
}

Tensor silu(const In& x) {
  const Frame frame(x.where, "silu");
  return ops::one(Op::silu, NoAttrs{}, {ops::get(x, "silu")});
}

Tensor leaky_relu(const In& x, double slope) {
  const auto [frame, t] = ops::enter(x, "leaky_relu");
  ops::need_floating(t, "leaky_relu");
  return where(t > 0.0, t, t * slope);
}

Tensor elu(const In& x, double alpha) {
  const auto [frame, t] = ops::enter(x, "elu");
  ops::need_floating(t, "elu");
  const Tensor positive = t > 0.0;
  return where(positive, t, expm1(where(positive, 0.0, t)) * alpha);  // the inner one keeps the unused branch finite
}

Tensor softplus(const In& x) {
  const auto [frame, t] = ops::enter(x, "softplus");
  ops::need_floating(t, "softplus");
  // From the limit on the rest, exp(-x), is below half of the last digit of x. No abs: its slope at 0 is none of ours.
  const Tensor linear = t > (t.dtype() == DType::f16 ? 10.0 : 40.0);
  return where(linear, t, log1p(exp(where(linear, 0.0, t))));
}

BatchNormResult batch_norm(const In& x, const In& scale, const In& shift, double eps) {
  const Frame frame(x.where, "batch_norm");
  if (!(eps > 0)) ops::fail_here("batch_norm", "eps must be positive: got ", eps);
  const auto r = trace::add(Op::batch_norm, NormAttrs{.eps = eps}, ops::all("batch_norm", x, scale, shift));
  return {r[0], r[1], r[2]};
}

Tensor batch_norm_inference(const In& x, const In& scale, const In& shift, const In& mean, const In& variance,
                            double eps) {
  const Frame frame(x.where, "batch_norm_inference");
  return ops::one(Op::batch_norm_inference, NormAttrs{.eps = eps},
                  ops::all("batch_norm_inference", x, scale, shift, mean, variance));
}

Tensor layer_norm(const In& x, const In& scale, const In& shift, double eps) {
  const Frame frame(x.where, "layer_norm");
  const std::vector<Tensor> in = ops::all("layer_norm", x, scale, shift);
  return ops::one(Op::layer_norm, NormAttrs{.eps = eps, .axes = in[1].rank()}, in);
}

Tensor group_norm(const In& x, WholeNumber groups, const In& scale, const In& shift, double eps) {
  const Frame frame(x.where, "group_norm");
  return ops::one(Op::group_norm, NormAttrs{.eps = eps, .groups = groups}, ops::all("group_norm", x, scale, shift));
}

namespace {

// The losses of the rows x (N, C), each class by its weight (C): with smoothing s -sum_k q_k w_k log_softmax(x)_k,
// where q = (1 - s) one_hot(target) + s / C. The op takes the products q w, whose sum need not be 1, as probabilities.
Tensor weighted_rows(const Tensor& x, const Tensor& target, const Tensor& weight, double s) {
  Tensor q = is_floating(target.dtype()) ? target : one_hot(target, x.dim(1), x.dtype());
  if (s != 0) q = q * (1 - s) + s / static_cast<double>(x.dim(1));
  return ops::one(Op::cross_entropy, CrossEntropyAttrs{}, {x, q * weight});
}

void need_class_weights(const Tensor& weight, const Tensor& logits, const char* op) {
  if (logits.rank() != 2) return;  // refused in the words of who needs (N, C)
  if (is_floating(weight.dtype()) && weight.shape() == Shape{logits.dim(1)}) return;
  ops::fail_here(op, "weight needs one floating number for each of the ", logits.dim(1), " classes of ", logits.type(),
                 ": got ", weight.type());
}

// True of one sample without a batch axis: (C), and its class or its probabilities (C).
bool lone_sample(const Tensor& x, const Tensor& target) {
  return x.rank() == 1 && target.rank() == (is_floating(target.dtype()) ? 1 : 0);
}

// The shape of the targets of x (N, C, d1, ...), one for each place: (N, d1, ...).
Shape target_shape(const Tensor& x) {
  Shape s = x.shape();
  s.erase(1);
  return s;
}
// x (N, C, d1, ...) as (N d1 ..., C).
Tensor rows_of_places(const Tensor& x) {
  Shape perm{0};
  for (int i = 2; i < x.rank(); ++i) perm.push_back(i);
  perm.push_back(1);
  return reshape(permute(x, perm), {target_shape(x).numel(), x.dim(1)});
}
// The `loss` of x (N, C, d1, ...) and its targets, each place a row; or of one sample, which is a batch of one row.
template <class F>
Tensor as_rows(const Tensor& x, const Tensor& target, Reduction reduction, const char* op, const F& loss) {
  if (x.rank() == 1) {
    const Tensor y = loss(unsqueeze(x, 0), unsqueeze(target, 0));
    return reduction == Reduction::none ? squeeze(y, 0) : y;
  }
  const bool soft = is_floating(target.dtype());
  if (soft ? target.shape() != x.shape() : target.shape() != target_shape(x)) {
    ops::fail_here(op, "expected (N, C, d1, ...) and (N, d1, ...) integer classes, got ", x.type(), " and ",
                   target.type());
  }
  const Tensor rows = soft ? rows_of_places(target) : reshape(target, {target.numel()});
  const Tensor y = loss(rows_of_places(x), rows);
  return reduction == Reduction::none ? reshape(y, target_shape(x)) : y;
}

}  // namespace

Tensor cross_entropy(const In& logits, const In& target, const CrossEntropyOptions& options) {
  const Frame frame(logits.where, "cross_entropy");
  const double s = options.label_smoothing;
  if (!(s >= 0 && s < 1)) ops::fail_here("cross_entropy", "label smoothing out of range: expected 0 <= s < 1, got ", s);
  const Tensor given = ops::get(logits, "cross_entropy"), t = ops::get(target, "cross_entropy");
  const bool soft = is_floating(t.dtype()), weighted = options.weight.defined();
  if (lone_sample(given, t) || given.rank() > 2) {
    return as_rows(given, t, options.reduction, "cross_entropy",
                   [&](const Tensor& x, const Tensor& rows) { return cross_entropy(x, rows, options); });
  }
  if (weighted) need_class_weights(options.weight, given, "cross_entropy");
  if (soft && options.ignore_index) {
    ops::fail_here("cross_entropy", "ignore_index needs integer classes: got ", t.type());
  }
  // What the op itself refuses, in its own words.
  const bool fits = given.rank() == 2 && is_floating(given.dtype()) &&
                    (soft ? t.type() == given.type() : is_integer(t.dtype()) && t.shape() == Shape{given.dim(0)});
  if (!fits) return ops::one(Op::cross_entropy, CrossEntropyAttrs{s}, {given, t});
  return ops::in_wide(given, [&](const Tensor& x) {
    const Tensor counts = options.ignore_index ? not_equal(t, *options.ignore_index) : Tensor();
    const auto counted = [&](const Tensor& rows) { return counts.defined() ? where(counts, rows, 0.0) : rows; };
    const Tensor q = soft ? cast(t, x.dtype()) : counts.defined() ? where(counts, t, 0) : t;
    const Tensor weight = weighted ? cast(options.weight, x.dtype()) : Tensor();
    const Tensor losses =
        counted(weighted ? weighted_rows(x, q, weight, s) : ops::one(Op::cross_entropy, CrossEntropyAttrs{s}, {x, q}));
    if (options.reduction != Reduction::mean || soft || !(weighted || counts.defined())) {
      return reduced(losses, options.reduction);
    }
    return sum(losses) / sum(weighted ? counted(gather(weight, q)) : cast(counts, x.dtype()));
  });
}

Tensor nll_loss(const In& log_probabilities, const In& target, const NllOptions& options) {
  constexpr const char* kName = "nll_loss";
  const Frame frame(log_probabilities.where, kName);
  const Tensor p = ops::get(log_probabilities, kName), t = ops::get(target, kName);
  if (lone_sample(p, t) || p.rank() > 2) {
    return as_rows(p, t, options.reduction, kName,
                   [&](const Tensor& x, const Tensor& rows) { return nll_loss(x, rows, options); });
  }
  ops::need_floating(p, kName);
  need_labels(p, t, kName);
  const bool weighted = options.weight.defined();
  if (weighted) need_class_weights(options.weight, p, kName);
  return ops::named(kName, [&] {
    const Tensor counts = options.ignore_index ? not_equal(t, *options.ignore_index) : Tensor();
    const Tensor classes = counts.defined() ? where(counts, t, 0) : t;
    const Tensor weights = weighted ? gather(cast(options.weight, p.dtype()), classes) : Tensor();
    const auto counted = [&](const Tensor& rows) { return counts.defined() ? where(counts, rows, 0.0) : rows; };
    const Tensor picked = -squeeze(gather_elements(p, unsqueeze(classes, 1), 1), 1);  // (N)
    const Tensor losses = counted(weighted ? picked * weights : picked);
    if (options.reduction != Reduction::mean || !(weighted || counts.defined())) {
      return reduced(losses, options.reduction);
    }
    return sum(losses) / sum(weighted ? counted(weights) : cast(counts, p.dtype()));
  });
}

namespace {

// The mean, the sum or all of loss(a, b), pair by pair.
template <class Loss>
Tensor of_pairs(const char* op, const In& a, const In& b, Reduction reduction, const Loss& loss) {
  const Frame frame(a.where, op);
  need_equal_shapes(a, b, op);
  return ops::named(op, [&] {
    const Compared c = compared(a, b, op);
    return c.rounded(reduced(loss(c.a, c.b), reduction));
  });
}

// The distance below `bend` squared and halved over it, beyond it less half of it.
Tensor bent(const In& a, const In& b, double bend) {
  const Tensor distance = abs(a - b);
  if (bend == 0) return distance;
  const Tensor near = minimum(distance, bend);
  return square(near) * (0.5 / bend) + (distance - near);
}

}  // namespace

Tensor mse_loss(const In& a, const In& b, Reduction reduction) {
  return of_pairs("mse_loss", a, b, reduction, [](const In& x, const In& y) { return square(x - y); });
}

Tensor l1_loss(const In& a, const In& b, Reduction reduction) {
  return of_pairs("l1_loss", a, b, reduction, [](const In& x, const In& y) { return abs(x - y); });
}

Tensor smooth_l1_loss(const In& a, const In& b, double beta, Reduction reduction) {
  const Frame frame(a.where, "smooth_l1_loss");
  if (!(beta >= 0)) ops::fail_here("smooth_l1_loss", "beta must not be negative: got ", beta);
  return of_pairs("smooth_l1_loss", a, b, reduction, [&](const In& x, const In& y) { return bent(x, y, beta); });
}

Tensor huber_loss(const In& a, const In& b, double delta, Reduction reduction) {
  const Frame frame(a.where, "huber_loss");
  if (!(delta > 0)) ops::fail_here("huber_loss", "delta must be positive: got ", delta);
  return of_pairs("huber_loss", a, b, reduction, [&](const In& x, const In& y) { return bent(x, y, delta) * delta; });
}

Tensor kl_div(const In& log_probabilities, const In& target, const KlDivOptions& options) {
  const Frame frame(log_probabilities.where, "kl_div");
  const Tensor x = ops::get(log_probabilities, "kl_div");
  need_equal_shapes(x, target, "kl_div");
  return ops::named("kl_div", [&] {
    const Compared c = compared(x, target, "kl_div");
    const Tensor given = ops::get(c.b, "kl_div"), t = options.log_target ? exp(given) : given, none = equal(t, 0.0);
    const Tensor log_t = options.log_target ? where(none, 0.0, given) : log(where(none, 1.0, t));
    return c.rounded(reduced(t * (log_t - where(none, 0.0, c.a)), options.reduction));
  });
}

Tensor bce_with_logits(const In& logits, const In& target, const BceOptions& options) {
  const Frame frame(logits.where, "bce_with_logits");
  const Tensor given = ops::get(logits, "bce_with_logits");
  ops::need_floating(given, "bce_with_logits");
  need_equal_shapes(given, target, "bce_with_logits");
  const Compared c = compared(given, target, "bce_with_logits");
  const Tensor x = c.a.tensor, t = c.b.is_number ? full(x.shape(), c.b, x.dtype()) : c.b.tensor;
  const auto share = [](const Tensor& weight, const Tensor& loss) {
    return where(logical_and(equal(weight, 0.0), equal(loss, std::numeric_limits<double>::infinity())), 0.0,
                 weight * loss);  // the limit of 0 times infinity
  };
  return ops::named("bce_with_logits", [&] {
    const auto scaled = [&](const Tensor& loss, const Tensor& by, const char* what) {
      if (!by.defined()) return loss;
      Shape whole;
      if (!is_floating(by.dtype()) || !broadcast_shapes(by.shape(), x.shape(), whole) || whole != x.shape()) {
        ops::fail_here("bce_with_logits", what, " must be floating and broadcast to ", given.type(), ": got ",
                       by.type());
      }
      return loss * cast(by, x.dtype());
    };
    const Tensor positive = scaled(share(t, softplus(-x)), options.pos_weight, "pos_weight");
    const Tensor loss = scaled(positive + share(1.0 - t, softplus(x)), options.weight, "weight");
    return c.rounded(reduced(loss, options.reduction));
  });
}

Tensor count_correct(const In& logits, const In& target) {
  const Frame frame(logits.where, "count_correct");
  const Tensor x = ops::get(logits, "count_correct"), t = ops::get(target, "count_correct");
  need_labels(x, t, "count_correct");
  // Classes of 8 bytes keep them: cast to four, 2^32 + 1 would be class 1.
  const DType type = size_of(t.dtype()) > 4 || t.dtype() == DType::u32 ? DType::i64 : DType::i32;
  return cast(sum(equal(cast(argmax(x, 1), type), cast(t, type))), DType::i32);
}

}  // namespace freight
