// Systems of equations and what their factorizations give: LU, Cholesky, inverses, determinants, least squares. See
// linalg.h; the factorizations are ops, all else is composed of them.
#include <algorithm>
#include <limits>

#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/linalg_internal.h"
#include "freight/ops/reduce.h"
#include "freight/ops/sort.h"

namespace freight {

namespace {

Tensor triangular(const Tensor& a, const Tensor& b, const TriangularAttrs& how) {
  return ops::one(Op::solve_triangular, how, {a, b});
}

LuFactor factored(const Tensor& t, bool refuse_singular) {
  const std::vector<Tensor> all = trace::add(Op::lu_factor, LuAttrs{refuse_singular}, {t});
  return {all[0], all[1], all[2]};
}

double epsilon(const Tensor& x) {
  return x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

// Indices of rows (..., M) for each element of matrices of this shape.
Tensor row_indices(const Tensor& permutation, const Shape& shape) {
  return broadcast_to(unsqueeze(permutation, -1), shape);
}

// +1 or -1 (...): whether an even number of rows was exchanged.
Tensor parity(const LuFactor& f) {
  const Tensor moved = not_equal(f.pivots, iota(f.pivots.shape(), -1));
  return 1 - 2 * cast(remainder(sum(moved, -1), 2), f.lu.dtype());
}

// A factor that is given may be none; the op's own has no 0 on its diagonal.
enum class FactorIs { given, own };
Tensor by_cholesky(const Tensor& factor, const Tensor& b, bool upper, FactorIs is) {
  const Tensor y =
      triangular(factor, b, {.upper = upper, .transposed = upper, .refuse_singular = is == FactorIs::given});
  return triangular(factor, y, {.upper = upper, .transposed = !upper});
}

// Each matrix is factorized once: one that serves several right sides of the batch, before it is expanded.
Tensor general_solve(const Tensor& a, const Tensor& b, const Shape& batch, const char* op) {
  if (ops::batch_of(a) == batch) return ops::one(Op::solve, {}, {a, ops::with_batch(b, batch, op)});
  const LuFactor f = factored(a, true);
  return ops::solved_by_lu(ops::with_batch(f.lu, batch, op), ops::with_batch(f.permutation, batch, op, 1),
                           ops::with_batch(b, batch, op), false);
}

// The identity for each of these square matrices.
Tensor identity_like(const Tensor& t) { return ops::expanded(eye(t.dim(-1), -1, t.dtype()), t.shape(), "eye"); }

}  // namespace

Tensor ops::solved_by_lu(const Tensor& lu, const Tensor& permutation, const Tensor& b, bool transposed) {
  const Tensor index = row_indices(permutation, b.shape());
  if (!transposed) {
    const Tensor y = triangular(lu, gather_elements(b, index, -2), {.unit_diagonal = true});
    return triangular(lu, y, {.upper = true});
  }
  const Tensor y = triangular(lu, b, {.upper = true, .transposed = true});
  const Tensor z = triangular(lu, y, {.transposed = true, .unit_diagonal = true});
  return one(Op::scatter_elements_add, ScatterAttrs{b.rank() - 2, b.dim(-2)}, {index, z});
}

double ops::rank_tolerance(const Tensor& x, const std::optional<double>& given, const char* op) {
  if (given && !(*given >= 0)) fail_here(op, "the tolerance must not be negative: got ", *given);
  return given ? *given : epsilon(x) * static_cast<double>(std::max(x.dim(-2), x.dim(-1)));
}

LuFactor lu_factor(const In& x, const LuFactorOptions& options) {
  const auto [frame, t] = ops::enter(x, "lu_factor");
  ops::need_factors(t, "lu_factor");
  return factored(t, options.refuse_singular);
}

Lu lu(const In& x, const LuOptions& options) {
  const auto [frame, t] = ops::enter(x, "lu");
  ops::need_factors(t, "lu");
  const LuFactor f = factored(t, false);
  const int64_t m = t.dim(-2), k = std::min(m, t.dim(-1));
  const Tensor l = tril(narrow(f.lu, -1, 0, k), -1) + eye(m, k, t.dtype()), u = triu(narrow(f.lu, -2, 0, k));
  // x[permutation] = l u, so row i of l u is row permutation[i] of x.
  if (options.p_indices) return {argsort(f.permutation), l, u};
  Shape square = f.permutation.shape();
  square.push_back(m);
  const Tensor column = broadcast_to(unsqueeze(f.permutation, -2), square);
  return {cast(equal(iota(square, -2), column), t.dtype()), l, u};
}

Tensor lu_solve(const In& lu, const In& permutation, const In& b, const LuSolveOptions& options) {
  const Frame frame(lu.where, "lu_solve");
  const Tensor f = ops::get(lu, "lu_solve"), p = ops::get(permutation, "lu_solve");
  ops::need_square(f, "lu_solve");
  Shape rows = f.shape();
  rows.erase(rows.rank() - 1);
  if (p.shape() != rows || !is_integer(p.dtype())) {
    ops::fail_here("lu_solve", "permutation must be that of lu_factor: expected ", Type{DType::i32, rows}, ", got ",
                   p.type(), " with lu ", f.type());
  }
  const ops::RightSide side = ops::right_side(f, ops::get(b, "lu_solve"), f.dim(-1), "lu_solve");
  const Shape batch = ops::common_batch(f, side.b, "lu_solve");
  return side.result(ops::solved_by_lu(ops::with_batch(f, batch, "lu_solve"), ops::with_batch(p, batch, "lu_solve", 1),
                                       ops::with_batch(side.b, batch, "lu_solve"), options.trans));
}

// The 1-norm of the inverse of L U is the largest that of (L U)^-1 x is for an x of norm 1. It is convex in x, so that
// its subgradient, (L U)^-T times the signs of (L U)^-1 x, leads from one unit vector to a better one (Hager). Higham
// adds a vector of alternating signs, since there are matrices for which the first step leads nowhere. An exchange of
// rows does not change the norm.
Tensor lu_cond(const In& lu, const In& norm) {
  const Frame frame(lu.where, "lu_cond");
  const Tensor f = ops::get(lu, "lu_cond"), size = ops::get(norm, "lu_cond");
  ops::need_square(f, "lu_cond");
  const Shape batch = ops::batch_of(f);
  if (size.dtype() != f.dtype() || size.shape() != batch) {
    ops::fail_here("lu_cond", "norm must be that of x: expected ", Type{f.dtype(), batch}, ", got ", size.type(),
                   " with lu ", f.type());
  }
  const int64_t n = f.dim(-1);
  if (n == 0) return size * 0;
  const auto solved = [&](const Tensor& x) {
    return triangular(f, triangular(f, x, {.unit_diagonal = true}), {.upper = true});
  };
  const auto solved_transposed = [&](const Tensor& x) {
    const Tensor y = triangular(f, x, {.upper = true, .transposed = true});
    return triangular(f, y, {.transposed = true, .unit_diagonal = true});
  };
  const Tensor i = iota({n, 1}, 0, f.dtype());
  const Tensor even = ops::with_batch(full({n, 1}, 1.0 / static_cast<double>(n), f.dtype()), batch, "lu_cond");
  const Tensor sign_of_place = 1 - 2 * remainder(i, 2);
  const Tensor alternating = sign_of_place * (1 + i / static_cast<double>(std::max<int64_t>(n - 1, 1)));
  const Tensor both = solved(concat({even, ops::with_batch(alternating, batch, "lu_cond")}, -1));  // (..., N, 2)
  Tensor y = narrow(both, -1, 0, 1);
  const Tensor norms = sum(abs(both), -2);  // (..., 2)
  Tensor best = select(norms, -1, 0);
  // A later number that is NaN, since infinities met, is no better one.
  const auto keep_larger = [&](const Tensor& other) { best = where(other > best, other, best); };
  keep_larger(select(norms, -1, 1) * (2.0 / (3.0 * static_cast<double>(n))));
  constexpr int kSteps = 3;
  for (int step = 0; step < kSteps; ++step) {
    const Tensor z = solved_transposed(where(y < 0, full(y.shape(), -1, f.dtype()), full(y.shape(), 1, f.dtype())));
    const Tensor at = argmax(abs(z), -2, Keep::yes);  // (..., 1, 1)
    y = solved(cast(equal(iota(y.shape(), -2), broadcast_to(at, y.shape())), f.dtype()));
    keep_larger(squeeze(sum(abs(y), -2), -1));
  }
  const Tensor singular = any(equal(diagonal(f), 0), -1);
  return where(singular, full(batch, std::numeric_limits<double>::infinity(), f.dtype()), best * size);
}

Tensor mirrored(const In& x, const TriangleOptions& options) {
  const auto [frame, t] = ops::enter(x, "mirrored");
  ops::need_square(t, "mirrored");
  return options.upper ? triu(t) + transpose(triu(t, 1)) : tril(t) + transpose(tril(t, -1));
}

Tensor solve(const In& a, const In& b, const SolveOptions& options) {
  const Frame frame(a.where, "solve");
  const Tensor x = ops::get(a, "solve");
  ops::need_square(x, "solve");
  const ops::RightSide side = ops::right_side(x, ops::get(b, "solve"), x.dim(-1), "solve");
  const Shape batch = ops::common_batch(x, side.b, "solve");
  const auto wide_b = [&] { return ops::with_batch(side.b, batch, "solve"); };
  switch (options.assume_a) {
    case Assume::gen: return side.result(general_solve(x, side.b, batch, "solve"));
    case Assume::sym: return side.result(general_solve(mirrored(x, {.upper = options.upper}), side.b, batch, "solve"));
    case Assume::pos: {
      const Tensor factor = ops::one(Op::cholesky, CholeskyAttrs{options.upper}, {x});
      return side.result(by_cholesky(ops::with_batch(factor, batch, "solve"), wide_b(), options.upper, FactorIs::own));
    }
    default: break;
  }
  const bool upper = options.assume_a == Assume::upper_triangular;
  return side.result(
      triangular(ops::with_batch(x, batch, "solve"), wide_b(), {.upper = upper, .refuse_singular = true}));
}

Tensor solve_triangular(const In& a, const In& b, const TriangularOptions& o) {
  const Frame frame(a.where, "solve_triangular");
  const char* op = "solve_triangular";
  const Tensor x = ops::get(a, op), y = ops::get(b, op);
  ops::need_square(x, op);
  const TriangularAttrs how{.upper = !o.lower,
                            .transposed = o.trans,
                            .unit_diagonal = o.unit_diagonal,
                            .right = o.right,
                            .refuse_singular = o.refuse_singular};
  if (o.right) {
    if (y.rank() < 2 || y.dim(-1) != x.dim(-1) || y.dtype() != x.dtype()) {
      ops::fail_here(op, "a and b do not match: a ", x.type(), ", b ", y.type(), ", expected b (..., K, ", x.dim(-1),
                     ") of the same type with right");
    }
    const Shape batch = ops::common_batch(x, y, op);
    return triangular(ops::with_batch(x, batch, op), ops::with_batch(y, batch, op), how);
  }
  const ops::System system = ops::system_of(x, y, op);
  return system.side.result(triangular(system.a, system.side.b, how));
}

Tensor cholesky(const In& x, const TriangleOptions& options) {
  const auto [frame, t] = ops::enter(x, "cholesky");
  ops::need_square(t, "cholesky");
  return ops::one(Op::cholesky, CholeskyAttrs{options.upper}, {t});
}

Tensor cho_solve(const In& factor, const In& b, const TriangleOptions& options) {
  const Frame frame(factor.where, "cho_solve");
  const Tensor f = ops::get(factor, "cho_solve");
  ops::need_square(f, "cho_solve");
  const ops::System system = ops::system_of(f, ops::get(b, "cho_solve"), "cho_solve");
  return system.side.result(by_cholesky(system.a, system.side.b, options.upper, FactorIs::given));
}

Tensor inv(const In& x) {
  const auto [frame, t] = ops::enter(x, "inv");
  ops::need_square(t, "inv");
  return general_solve(t, identity_like(t), ops::batch_of(t), "inv");
}

Tensor det(const In& x) {
  const auto [frame, t] = ops::enter(x, "det");
  ops::need_square(t, "det");
  const LuFactor f = factored(t, false);
  const Tensor pivots = diagonal(f.lu), y = parity(f) * prod(pivots, -1);
  if (pivots.numel() == 0) return y;
  // The gradient, the adjugate, is finite where a pivot is 0, but it goes through the factors. There it is that of a
  // product beside: such pivots count as what rounding makes of them, here as in the gradient of lu_factor
  // (ir/vjp_linalg.cpp).
  const Tensor zero = equal(pivots, 0), largest = max(abs(triu(f.lu)), {-2, -1});
  const Tensor rounding = stop_gradient(where(equal(largest, 0), 1, largest) * epsilon(t));  // (...)
  const Tensor beside = parity(f) * prod(pivots + where(zero, unsqueeze(rounding, -1), 0), -1);
  const Tensor singular = logical_and(any(zero, -1), is_finite(beside));
  return where(singular, beside - stop_gradient(beside), y);
}

SlogDet slogdet(const In& x) {
  const auto [frame, t] = ops::enter(x, "slogdet");
  ops::need_square(t, "slogdet");
  const LuFactor f = factored(t, false);
  const Tensor d = diagonal(f.lu), none = not_equal(d, d);  // the sign of NaN would be 0
  return {parity(f) * prod(where(none, d, sign(d)), -1), sum(log(abs(d)), -1)};
}

Tensor matrix_power(const In& x, WholeNumber n) {
  const auto [frame, t] = ops::enter(x, "matrix_power");
  ops::need_square(t, "matrix_power");
  if (n == 0) return identity_like(t);
  // -n of the least number is none.
  uint64_t left = n < 0 ? ~static_cast<uint64_t>(n) + 1 : static_cast<uint64_t>(n);
  Tensor power = n < 0 ? general_solve(t, identity_like(t), ops::batch_of(t), "matrix_power") : t, y;
  for (; left > 0; left /= 2) {
    if (left % 2 == 1) y = y.defined() ? matmul(y, power) : power;
    if (left > 1) power = matmul(power, power);
  }
  return y;
}

Qr qr(const In& x, QrMode mode) {
  const auto [frame, t] = ops::enter(x, "qr");
  ops::need_factors(t, "qr");
  const std::vector<Tensor> all = trace::add(Op::qr, QrAttrs{mode == QrMode::complete}, {t});
  return {all[0], all[1]};
}

namespace {
// Full rank is given: R^-1 Q^T b where a has as many rows as columns or more; else Q R^-T b of a^T, of least norm.
Tensor by_qr(const Tensor& a, const Tensor& b) {
  if (a.dim(-2) >= a.dim(-1)) {
    const Qr f = qr(a);
    return triangular(f.r, matmul(transpose(f.q), b), {.upper = true});
  }
  const Qr f = qr(transpose(a));
  return matmul(f.q, triangular(f.r, b, {.upper = true, .transposed = true}));
}
}  // namespace

LeastSquares lstsq(const In& a, const In& b, const LstsqOptions& options) {
  const Frame frame(a.where, "lstsq");
  const Tensor given = ops::get(a, "lstsq");
  ops::need_factors(given, "lstsq");
  const ops::RightSide side = ops::right_side(given, ops::get(b, "lstsq"), given.dim(-2), "lstsq");
  const Shape batch = ops::common_batch(given, side.b, "lstsq");
  const Tensor left = ops::with_batch(given, batch, "lstsq"), right = ops::with_batch(side.b, batch, "lstsq");
  const double rtol = ops::rank_tolerance(left, options.rcond, "lstsq");
  const Tensor x = options.full_rank ? by_qr(left, right) : ops::one(Op::lstsq, LstsqAttrs{rtol}, {left, right});
  const int64_t full_rank = std::min(left.dim(-2), left.dim(-1));
  const Tensor rank = options.full_rank ? full(batch, full_rank, DType::i64) : matrix_rank(left, {.rtol = rtol});
  const Tensor residuals = sum(square(right - matmul(left, x)), -2);
  return {side.result(x), side.vector ? squeeze(residuals, -1) : residuals, rank};
}

Tensor pinv(const In& x, const RankOptions& options) {
  const auto [frame, t] = ops::enter(x, "pinv");
  ops::need_factors(t, "pinv");
  const double rtol = ops::rank_tolerance(t, options.rtol, "pinv");
  const Tensor identity = ops::with_batch(eye(t.dim(-2), -1, t.dtype()), ops::batch_of(t), "pinv");
  return ops::one(Op::lstsq, LstsqAttrs{rtol}, {t, identity});
}

}  // namespace freight
