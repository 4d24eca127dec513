// Eigenvalues, singular values and what follows from them: norms, rank, condition. See linalg.h; eigh, svd and eig are
// ops, all else is composed of them.
#include <cmath>
#include <limits>

#include "freight/ops/elementwise.h"
#include "freight/ops/linalg_internal.h"
#include "freight/ops/reduce.h"

namespace freight {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Sums of |x| of columns or rows, and of these the largest or least.
Tensor norm_of_sums(const Tensor& x, int64_t summed, bool largest) {
  const Tensor sums = sum(abs(x), summed, Keep::yes);
  const int64_t other = summed == -1 ? -2 : -1;
  return largest ? max(sums, other, Keep::yes) : min(sums, other, Keep::yes);
}

// (..., 1, 1); x is in f32 or f64. The largest of no numbers is 0, as in NumPy.
Tensor kept_norm(const Tensor& x, MatrixOrder ord) {
  const bool empty = x.dim(-2) == 0 || x.dim(-1) == 0;
  if (empty && (ord == MatrixOrder::one || ord == MatrixOrder::two || ord == MatrixOrder::inf))
    return sum(x, {-2, -1}, Keep::yes);
  switch (ord) {
    case MatrixOrder::one: return norm_of_sums(x, -2, true);
    case MatrixOrder::minus_one: return norm_of_sums(x, -2, false);
    case MatrixOrder::inf: return norm_of_sums(x, -1, true);
    case MatrixOrder::minus_inf: return norm_of_sums(x, -1, false);
    case MatrixOrder::fro: return norm(x, {-2, -1}, {.keep = Keep::yes});
    default: break;
  }
  const Tensor s = unsqueeze(svdvals(x), -1);
  if (ord == MatrixOrder::nuc) return sum(s, -2, Keep::yes);
  return ord == MatrixOrder::two ? max(s, -2, Keep::yes) : min(s, -2, Keep::yes);
}

bool by_singular_values(MatrixOrder ord) {
  return ord == MatrixOrder::two || ord == MatrixOrder::minus_two || ord == MatrixOrder::nuc;
}

Tensor norm_of_matrices(const Tensor& t, const MatrixNormOptions& o, const char* op) {
  if (by_singular_values(o.ord)) ops::need_factors(t, op);
  ops::need_floating(t, op);
  ops::need_matrix(t, op);
  const bool least =
      o.ord == MatrixOrder::minus_one || o.ord == MatrixOrder::minus_two || o.ord == MatrixOrder::minus_inf;
  if (least && (t.dim(-1) == 0 || t.dim(-2) == 0))
    ops::fail_here(op, "an empty matrix has no smallest sum or singular value: got ", t.type());
  return ops::in_wide(t, [&](const Tensor& x) {
    const Tensor y = kept_norm(x, o.ord);
    return o.keep == Keep::yes ? y : squeeze(squeeze(y, -1), -1);
  });
}

// True for matrices whose elimination meets a pivot of exactly 0: (..., N, N) -> bool (...).
Tensor has_zero_pivot(const LuFactor& f) { return any(equal(diagonal(f.lu), 0.0), -1); }

}  // namespace

Eigh eigh(const In& x, const TriangleOptions& options) {
  const auto [frame, t] = ops::enter(x, "eigh");
  ops::need_square(t, "eigh");
  const std::vector<Tensor> all = trace::add(Op::eigh, EighAttrs{options.upper}, {t});
  return {all[0], all[1]};
}

Tensor eigvalsh(const In& x, const TriangleOptions& options) {
  const auto [frame, t] = ops::enter(x, "eigvalsh");
  ops::need_square(t, "eigvalsh");
  return eigh(t, options).values;
}

Eig eig(const In& x) {
  const auto [frame, t] = ops::enter(x, "eig");
  ops::need_square(t, "eig");
  const std::vector<Tensor> all = trace::add(Op::eig, NoAttrs{}, {t});
  return {all[0], all[1], all[2], all[3]};
}

Eigvals eigvals(const In& x) {
  const auto [frame, t] = ops::enter(x, "eigvals");
  ops::need_square(t, "eigvals");
  const Eig e = eig(t);
  return {e.values_re, e.values_im};
}

Svd svd(const In& x, const SvdOptions& options) {
  const auto [frame, t] = ops::enter(x, "svd");
  ops::need_factors(t, "svd");
  // Both forms of a square matrix are one, and the reduced one has a gradient whatever reads it.
  const std::vector<Tensor> all = trace::add(Op::svd, SvdAttrs{options.full_matrices && t.dim(-2) != t.dim(-1)}, {t});
  return {all[0], all[1], all[2]};
}

Tensor svdvals(const In& x) {
  const auto [frame, t] = ops::enter(x, "svdvals");
  ops::need_factors(t, "svdvals");
  return svd(t, {.full_matrices = false}).s;
}

Tensor matrix_rank(const In& x, const RankOptions& options) {
  const auto [frame, t] = ops::enter(x, "matrix_rank");
  ops::need_factors(t, "matrix_rank");
  const double rtol = ops::rank_tolerance(t, options.rtol, "matrix_rank");
  const Tensor s = svdvals(t);
  if (s.numel() == 0) return zeros(ops::batch_of(t), DType::i64);
  const Tensor largest = max(s, -1, Keep::yes);
  return where(is_finite(squeeze(largest, -1)), sum(s > largest * rtol, -1), -1);
}

Tensor matrix_norm(const In& x, const MatrixNormOptions& options) {
  const auto [frame, given] = ops::enter(x, "matrix_norm");
  const Tensor& t = given;
  return ops::named("matrix_norm", [&] { return norm_of_matrices(t, options, "matrix_norm"); });
}

Tensor vector_norm(const In& x, const Axes& axes, const VectorNormOptions& o) {
  const auto [frame, given] = ops::enter(x, "vector_norm");
  const Tensor& t = given;
  ops::need_floating(t, "vector_norm");
  if (std::isnan(o.ord)) ops::fail_here("vector_norm", "ord must be a number: got ", o.ord);
  return ops::named("vector_norm", [&] {
    if (o.ord >= 0 || std::isinf(o.ord)) return norm(t, axes, {.p = o.ord, .keep = o.keep});
    return ops::in_wide(t, [&](const Tensor& w) { return pow(sum(pow(abs(w), o.ord), axes, o.keep), 1 / o.ord); });
  });
}

Tensor cond(const In& x, MatrixOrder p) {
  const auto [frame, given] = ops::enter(x, "cond");
  const Tensor& t = given;
  ops::need_factors(t, "cond");
  if (t.dim(-1) == 0 || t.dim(-2) == 0) ops::fail_here("cond", "an empty matrix has no condition: got ", t.type());
  if (p == MatrixOrder::two || p == MatrixOrder::minus_two) {
    const Tensor s = svdvals(t), largest = select(s, -1, 0), least = select(s, -1, -1);
    // A matrix of zeros is singular like others, though the quotient of its singular values is NaN.
    const Tensor zero = equal(largest, 0.0);
    const bool two = p == MatrixOrder::two;
    const Tensor quotient = (two ? largest : least) / where(zero, 1.0, two ? least : largest);
    if (t.dim(-1) != t.dim(-2)) return where(zero, kInfinite, quotient);
    // Rounding leaves a small value where the least singular value is 0; a pivot of 0 tells them apart.
    return where(zero, kInfinite, where(has_zero_pivot(lu_factor(t)), two ? kInfinite : 0.0, quotient));
  }
  ops::need_square(t, "cond");
  // The factors of a singular matrix have no inverse, and its condition is infinite.
  const LuFactor f = lu_factor(t);
  const Tensor singular = has_zero_pivot(f);
  const Tensor identity = ops::with_batch(eye(t.dim(-1), -1, t.dtype()), ops::batch_of(t), "cond");
  const Tensor inverse = ops::solved_by_lu(f.lu, f.permutation, identity, false);
  return ops::named("cond", [&] {
    const Tensor product = norm_of_matrices(t, {.ord = p}, "cond") * norm_of_matrices(inverse, {.ord = p}, "cond");
    return where(singular, kInfinite, product);
  });
}

}  // namespace freight
