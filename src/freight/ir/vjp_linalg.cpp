// Gradient rules of linear algebra, in the order of the op table; see vjp.h. They are derived from differentials: dA is
// written in the factors, dL as the inner product <.,.> of the cotangents (gL, gU, ...) with their differentials, and
// what then stands beside dA is its gradient (Giles 2008, "Collected matrix derivative results for forward and reverse
// mode algorithmic differentiation"; Cholesky: Murray 2016, arXiv 1602.07527). Letters: A (..., M, N), K = min(M, N),
// A^T transposed, A^-T its inverse, o elementwise products.
// A triangle that an op does not read has a gradient of 0; what it reads twice, as both halves of a symmetric matrix,
// has the sum of both gradients: this is the derivative of what the op computes of its operand.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "freight/base/error.h"
#include "freight/ir/vjp.h"

namespace freight::vjp {

namespace {

int64_t extent(Ex x, int from_back) { return x.shape()[x.shape().rank() - from_back]; }
Shape with_last(Ex x, int64_t rows, int64_t columns) {
  Shape s = x.shape();
  s[s.rank() - 2] = rows;
  s[s.rank() - 1] = columns;
  return s;
}

// a b, each possibly transposed.
Ex product(Ex a, Ex b) { return {a.b, a.b->matmul(a.v, b.v)}; }
Ex product_tn(Ex a, Ex b) { return {a.b, a.b->matmul(a.v, b.v, true, false)}; }
Ex product_nt(Ex a, Ex b) { return {a.b, a.b->matmul(a.v, b.v, false, true)}; }

Ex transposed(Ex x) {
  Shape perm = x.shape();
  for (int i = 0; i < perm.rank(); ++i) perm[i] = i;
  std::swap(perm[perm.rank() - 2], perm[perm.rank() - 1]);
  return {x.b, x.b->transpose(x.v, perm)};
}

// [start, start + count) along the axis.
Ex part_of(Ex x, int axis, int64_t start, int64_t count) {
  Shape low = Shape::filled(x.shape().rank(), 0), limit = x.shape();
  low[axis] = start;
  limit[axis] = start + count;
  return {x.b, x.b->slice(x.v, low, limit, Shape::filled(low.rank(), 1))};
}
// Rows and columns [start, start + count) of the matrices.
Ex rows_of(Ex x, int64_t start, int64_t count) { return part_of(x, x.shape().rank() - 2, start, count); }
Ex columns_of(Ex x, int64_t start, int64_t count) { return part_of(x, x.shape().rank() - 1, start, count); }
Ex stacked(Ex above, Ex below) {
  return {above.b, above.b->one(Op::concat, AxisAttrs{above.shape().rank() - 2}, {above.v, below.v})};
}
Ex side_by_side(Ex left, Ex right) {
  return {left.b, left.b->one(Op::concat, AxisAttrs{left.shape().rank() - 1}, {left.v, right.v})};
}

// The number of the row (2) or column (1) at each element of x.
Ex place(Ex x, int from_back) {
  return {x.b, x.b->one(Op::iota, IotaAttrs{x.shape(), x.shape().rank() - from_back, DType::i32}, {})};
}
Ex on_diagonal(Ex x) { return equals(place(x, 2), place(x, 1)); }
Ex lower(Ex x) { return select(place(x, 2) >= place(x, 1), x, 0.0); }
Ex strictly_lower(Ex x) { return select(place(x, 2) > place(x, 1), x, 0.0); }
Ex upper(Ex x) { return select(place(x, 2) <= place(x, 1), x, 0.0); }
Ex strictly_upper(Ex x) { return select(place(x, 2) < place(x, 1), x, 0.0); }
// The lower triangle with half of the diagonal.
Ex lower_half(Ex x) { return select(on_diagonal(x), x * 0.5, strictly_lower(x)); }

// Vectors (..., K) as rows or columns of `like`, which are all equal.
Ex as_rows(Ex v, Ex like) {
  Shape thin = like.shape();
  thin[thin.rank() - 2] = 1;
  return {v.b, v.b->broadcast(v.b->reshape(v.v, thin), like.shape())};
}
Ex as_columns(Ex v, Ex like) {
  Shape thin = like.shape();
  thin[thin.rank() - 1] = 1;
  return {v.b, v.b->broadcast(v.b->reshape(v.v, thin), like.shape())};
}
// x with column j times the vector's element j.
Ex columns_by(Ex x, Ex v) { return x * as_rows(v, x); }
// x, with the vectors on the diagonal.
Ex with_diagonal(Ex v, Ex x) { return select(on_diagonal(x), as_rows(v, x), x); }
Ex zeros_like(Ex x) { return {x.b, x.b->constant_like(0, x.v)}; }
// The diagonals of square matrices, as vectors.
Ex diagonal_of(Ex x) {
  const Ex only = select(on_diagonal(x), x, 0.0);
  Shape s = x.shape();
  s.erase(s.rank() - 2);
  return {x.b, x.b->reshape(sum(only, {x.shape().rank() - 2}).v, s)};
}

Ex solve_by(Ex a, Ex b, const TriangularAttrs& how) { return {b.b, b.b->one(Op::solve_triangular, how, {a.v, b.v})}; }

bool empty(Ex x) { return x.type().numel() == 0; }

[[noreturn]] void not_unique(const VjpContext& c, const std::string& what) {
  throw Error(ErrorKind::usage, name(c.node.op), what, c.node.location());
}

double epsilon(Ex x) {
  return x.type().dtype == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

// Eigenvalues or singular values that differ by less than this share of the largest count as equal. Rounding moves them
// about so far; vectors of nearer ones are rounding alone.
double equal_share(Ex x) {
  return 8 * epsilon(x) * std::sqrt(static_cast<double>(std::max(extent(x, 1), extent(x, 2))));
}
// The largest number of `size` (..., K) for each matrix, at each of them.
Ex largest(Ex size) {
  return {size.b, size.b->broadcast(size.b->reduce_max(size.v, {size.shape().rank() - 1}), size.shape())};
}
// 1 / x, and 0 where the condition holds.
Ex inverse_unless(Ex condition, Ex x) { return select(condition, 0.0, 1.0 / select(condition, 1.0, x)); }

}  // namespace

namespace {
// dL = L tril_(C) and dU = triu(C) U for C = L^-1 dA U^-1, tril_ without the diagonal: the gradient of a square A = L U
// is L^-T (tril_(L^T gL) + triu(gU U^T)) U^-T. `lu` is the op's packed result, or its first K rows and columns.
Ex lu_square(Ex lu, Ex gl, Ex gu) {
  const Ex l = select(on_diagonal(lu), 1.0, strictly_lower(lu));
  const Ex inner = strictly_lower(product_tn(l, gl)) + upper(product_nt(gu, upper(lu)));
  const Ex left = solve_by(lu, inner, {.transposed = true, .unit_diagonal = true});
  return solve_by(lu, left, {.upper = true, .transposed = true, .right = true});
}

// The packed factors with pivots of 0 as large as rounding makes them: what exists of the gradient there, as that of
// the determinant does (ops/linalg_solve.cpp), is finite beside, while divisions by 0 are not.
Ex without_zero_pivots(Ex lu) {
  const int rank = lu.shape().rank();
  Ex size{lu.b, lu.b->reduce_max(apply(Op::abs, upper(lu)).v, {rank - 2, rank - 1})};
  size = apply(Op::stop_gradient, select(equals(size, 0.0), 1.0, size) * epsilon(lu));
  const Ex zero = apply(Op::logical_and, on_diagonal(lu), equals(lu, 0.0));
  return lu + select(zero, expand(size, lu.shape()), 0.0);
}

// Rows of x (..., M, N) put where the permutation took them from.
Ex rows_back(Ex x, Ex permutation) {
  Builder& b = *x.b;
  const Value index = as_columns(permutation, x).v;
  const int axis = x.shape().rank() - 2;
  return {&b, b.one(Op::scatter_elements_add, ScatterAttrs{axis, x.shape()[axis]}, {index, x.v})};
}
}  // namespace

// A[permutation] = L U. Of a tall A = (A1, A2) one above the other L2 = A2 U^-1, so that dL2 = (dA2 - L2 dU) U^-1; of a
// wide A = (A1 A2) side by side U2 = L^-1 A2, so that dU2 = L^-1 (dA2 - dL U2). What is left is square.
void lu_factor(VjpContext& c) {
  if (empty(c.out(0))) return c.set(0, zeros_like(c.out(0)));
  const Ex lu = without_zero_pivots(c.out(0)), g = c.g(0);
  const int64_t m = extent(lu, 2), n = extent(lu, 1), k = std::min(m, n);
  const Ex square = m == n ? lu : m > n ? rows_of(lu, 0, k) : columns_of(lu, 0, k);
  const Ex g1 = m == n ? g : m > n ? rows_of(g, 0, k) : columns_of(g, 0, k);
  Ex gl = strictly_lower(g1), gu = upper(g1), da;
  if (m == n) {
    da = lu_square(square, gl, gu);
  } else if (m > n) {
    const Ex l2 = rows_of(lu, k, m - k);
    const Ex da2 = solve_by(square, rows_of(g, k, m - k), {.upper = true, .transposed = true, .right = true});
    da = stacked(lu_square(square, gl, gu - product_tn(l2, da2)), da2);
  } else {
    const Ex u2 = columns_of(lu, k, n - k);
    const Ex da2 = solve_by(square, columns_of(g, k, n - k), {.transposed = true, .unit_diagonal = true});
    da = side_by_side(lu_square(square, gl - product_nt(da2, u2), gu), da2);
  }
  c.set(0, rows_back(da, c.out(2)));
}

namespace {
// The share of one triangle in S, the gradient of a symmetric matrix that is read from it.
Ex onto_triangle(Ex s, bool is_upper) {
  const Ex both = lower_half(s + transposed(s));
  return is_upper ? transposed(both) : both;
}
}  // namespace

// dL = L half(L^-1 dA L^-T), half being the lower triangle with half of the diagonal: S = L^-T half(L^T gL) L^-1. Of an
// upper factor U = L^T.
void cholesky(VjpContext& c) {
  const bool is_upper = attrs<CholeskyAttrs>(c.node).upper;
  const Ex y = c.out(), g = c.g();
  const Ex inner = lower_half(is_upper ? product_nt(y, g) : product_tn(y, g));
  const Ex left = solve_by(y, inner, {.upper = is_upper, .transposed = !is_upper});
  c.set(0, onto_triangle(solve_by(y, left, {.upper = is_upper, .transposed = is_upper, .right = true}), is_upper));
}

namespace {
// M >= N: C = Q^T dA R^-1 is W + dR R^-1, of which W = Q^T dQ is skew and the rest upper triangular, so that both
// follow from the triangles of C. With M = R gR^T - gQ^T Q the gradient is (gQ + Q sym(M)) R^-T, sym mirroring the
// lower triangle.
Ex qr_tall(Ex q, Ex r, Ex gq, Ex gr) {
  const Ex m = product_nt(r, gr) - product_tn(gq, q);
  const Ex inner = gq + product(q, lower(m) + transposed(strictly_lower(m)));
  return solve_by(r, inner, {.upper = true, .transposed = true, .right = true});
}
}  // namespace

// M < N: A = (A1 A2) side by side, where A1 = Q R1 is square, and R2 = Q^T A2.
void qr(VjpContext& c) {
  const Ex x = c.in(0), q = c.out(0), r = c.out(1);
  if (empty(x)) return c.set(0, zeros_like(x));
  const int64_t m = extent(x, 2), n = extent(x, 1);
  if (m >= n) {
    const bool more = extent(q, 1) > n;  // columns that only complete the basis
    if (more && c.has_g(0)) {
      not_unique(c, cat("no gradient flows through q of a complete decomposition of ", x.type(), ": its last ", m - n,
                        " columns are not unique; use the reduced one"));
    }
    return more ? c.set(0, qr_tall(columns_of(q, 0, n), rows_of(r, 0, n), zeros_like(x), rows_of(c.g(1), 0, n)))
                : c.set(0, qr_tall(q, r, c.g(0), c.g(1)));
  }
  const Ex gr2 = columns_of(c.g(1), m, n - m), a2 = columns_of(x, m, n - m);
  const Ex gq = c.g(0) + product_nt(a2, gr2);
  const Ex left = qr_tall(q, columns_of(r, 0, m), gq, columns_of(c.g(1), 0, m));
  c.set(0, side_by_side(left, product(q, gr2)));
}

// T X = B for T = A or A^T: gB = T^-T gX and gT = -gB X^T; X T = B: gB = gX T^-T and gT = -X^T gB.
void solve_triangular(VjpContext& c) {
  const auto a = attrs<TriangularAttrs>(c.node);
  TriangularAttrs back = a;
  back.transposed = !a.transposed;
  const Ex x = c.out(), gb = solve_by(c.in(0), c.g(), back);
  if (c.needs(1)) c.set(1, gb);
  if (!c.needs(0)) return;
  const Ex ga = a.right ? (a.transposed ? product_tn(gb, x) : product_tn(x, gb))
                        : (a.transposed ? product_nt(x, gb) : product_nt(gb, x));
  if (a.unit_diagonal) return c.set(0, -(a.upper ? strictly_upper(ga) : strictly_lower(ga)));
  c.set(0, -(a.upper ? upper(ga) : lower(ga)));
}

// P = V^T dA V gives dw = diag(P), dV = V (E o P) for E_ij = 1 / (w_j - w_i), 0 where the two are equal:
// S = V (diag(gw) + E o (V^T gV)) V^T.
void eigh(VjpContext& c) {
  const Ex x = c.in(0), w = c.out(0), v = c.out(1);
  if (empty(x)) return c.set(0, zeros_like(x));
  Ex inner = zeros_like(v);
  if (c.has_g(1)) {
    const Ex gap = as_rows(w, v) - as_columns(w, v);
    const Ex least = as_rows(largest(apply(Op::abs, w)) * equal_share(x), v);
    inner = inverse_unless(apply(Op::abs, gap) <= least, gap) * product_tn(v, c.g(1));
  }
  if (c.has_g(0)) inner = with_diagonal(c.g(0), inner);
  const Ex s = product_nt(product(v, inner), v);
  c.set(0, onto_triangle(s, attrs<EighAttrs>(c.node).upper));
}

// P = U^T dA V gives dU = U Wu + (I - U U^T) dA V S^-1 and dV likewise, where Wu and Wv are skew:
// (Wu)_ij = E_ij (P_ij s_j + s_i P_ji), (Wv)_ij = E_ij (s_i P_ij + P_ji s_j), E_ij = 1 / (s_j^2 - s_i^2), 0 where the
// two are equal. Then gP = diag(gs) + (E o (X - X^T)) S + S (E o (Y - Y^T)) for X = U^T gU, Y = V^T gV.
void svd(VjpContext& c) {
  const Ex x = c.in(0), s = c.out(1);
  if (empty(x)) return c.set(0, zeros_like(x));
  const int64_t m = extent(x, 2), n = extent(x, 1), k = std::min(m, n);
  for (const int i : {0, 2}) {
    const int64_t have = extent(c.out(i), i == 0 ? 1 : 2);
    if (have == k || !c.has_g(i)) continue;
    not_unique(c, cat("no gradient flows through ", i == 0 ? "u" : "vh", " of the full decomposition of ", x.type(),
                      ": its last ", have - k, i == 0 ? " columns" : " rows", " are not unique; use the reduced one"));
  }
  const Ex u = columns_of(c.out(0), 0, k), vh = rows_of(c.out(2), 0, k);
  const Ex kk{&c.builder, c.builder.constant(0, {x.type().dtype, with_last(x, k, k)})};
  const Ex least = largest(s) * equal_share(x), inverse = inverse_unless(s <= least, s);
  Ex inner = kk, total;
  const auto add = [&](Ex part) { total = total.b ? total + part : part; };
  if (c.has_g(0) || c.has_g(2)) {
    // E_ij s_j as s_j / (s_j + s_i) / (s_j - s_i): the squares of small numbers would be 0.
    const Ex si = as_columns(s, kk), sj = as_rows(s, kk), gap = sj - si;
    const Ex same = apply(Op::abs, gap) <= as_rows(least, kk);
    const Ex e = inverse_unless(same, gap) / select(same, 1.0, sj + si);
    if (c.has_g(0)) {
      const Ex gu = columns_of(c.g(0), 0, k), xs = product_tn(u, gu);
      inner = inner + (xs - transposed(xs)) * (e * sj);
      if (m > k) add(product(columns_by(gu - product(u, xs), inverse), vh));
    }
    if (c.has_g(2)) {
      const Ex gvh = rows_of(c.g(2), 0, k), ys = product_nt(vh, gvh);
      inner = inner + (ys - transposed(ys)) * (e * si);
      if (n > k) add(product(columns_by(u, inverse), gvh - product(transposed(ys), vh)));
    }
  }
  if (c.has_g(1)) inner = with_diagonal(c.g(1), inner);
  add(product(product(u, inner), vh));
  c.set(0, total);
}

namespace {
// A complex matrix as two real ones.
struct Complex {
  Ex re, im;
};
Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
Complex operator*(const Complex& a, Ex real) { return {a.re * real, a.im * real}; }
Complex operator*(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
// a^H b and a b^H.
Complex product_hn(const Complex& a, const Complex& b) {
  return {product_tn(a.re, b.re) + product_tn(a.im, b.im), product_tn(a.re, b.im) - product_tn(a.im, b.re)};
}
Complex product_nh(const Complex& a, const Complex& b) {
  return {product_nt(a.re, b.re) + product_nt(a.im, b.im), product_nt(a.im, b.re) - product_nt(a.re, b.im)};
}

// The real part of V^-H B, by a real system of twice the size.
Ex real_of_solved(const Complex& v, const Complex& b) {
  const Ex both =
      stacked(side_by_side(transposed(v.re), transposed(v.im)), side_by_side(-transposed(v.im), transposed(v.re)));
  Builder& builder = *both.b;
  const std::vector<Value> lu = builder.add(Op::lu_factor, LuAttrs{}, {both.v});
  const Ex rhs = stacked(b.re, b.im), factors{&builder, lu[0]}, permutation{&builder, lu[2]};
  const Value index = as_columns(permutation, rhs).v;
  const Ex picked{&builder, builder.one(Op::gather_elements, AxisAttrs{rhs.shape().rank() - 2}, {rhs.v, index})};
  const Ex below = solve_by(factors, picked, {.unit_diagonal = true});
  return rows_of(solve_by(factors, below, {.upper = true}), 0, extent(v.re, 2));
}

// A vector's phase is such that its largest component is real: its imaginary part does not change. Element (i, j) of
// the result is what that component of vector i adds to the cotangent of how much of vector i is in the change of
// vector j.
Complex of_phase(const Complex& v, Ex imaginary) {
  Builder& b = *v.re.b;
  const int rows = v.re.shape().rank() - 2;
  const Ex size = select(equals(v.im, 0.0), apply(Op::abs, v.re), -1.0);
  const Ex at{&b, b.one(Op::argmax, AxisAttrs{rows}, {size.v})};  // (..., 1, N)
  const Ex index{&b, b.broadcast(at.v, v.re.shape())};            // (..., N, N), equal rows
  const auto picked = [&](Ex part) {                              // (i, j): component at[j] of i
    return Ex{&b, b.one(Op::gather_elements, AxisAttrs{rows}, {part.v, transposed(index).v})};
  };
  const Ex re = transposed(picked(v.re)), im = transposed(picked(v.im));
  Shape flat = v.re.shape();
  flat.erase(rows);
  const Ex share = as_rows(imaginary / diagonal_of(re), v.re);
  return {-(share * im), -(share * re)};
}
}  // namespace

// P = V^-1 dA V gives dw = diag(P), dV = V C, C_ij = F_ij P_ij for F_ij = 1 / (w_j - w_i), 0 where the two are equal.
// Norms of 1 and the phase say C_jj: by Q = V^H gV and S = V^H V the gradient is Re(V^-H G V^H) with G_jj = gw_j and
// else G_ij = conj(F_ij) (Q_ij - S_ij Re(Q_jj) + T_ij), T the part of the phase (of_phase).
void eig(VjpContext& c) {
  const Ex x = c.in(0);
  if (empty(x)) return c.set(0, zeros_like(x));
  const Complex w{c.out(0), c.out(1)}, v{c.out(2), c.out(3)};
  Complex inner{zeros_like(x), zeros_like(x)};
  if (c.has_g(2) || c.has_g(3)) {
    const Complex q = product_hn(v, {c.g(2), c.g(3)}), s = product_hn(v, v);
    const Complex change = q - s * as_rows(diagonal_of(q.re), x) + of_phase(v, diagonal_of(q.im));
    // conj(F) = z / |z|^2, of which z is first divided by the largest part of a value: squares of small numbers would
    // be 0.
    Ex scale = largest(apply(Op::maximum, apply(Op::abs, w.re), apply(Op::abs, w.im)));
    scale = apply(Op::stop_gradient, select(equals(scale, 0.0), 1.0, scale));
    const Complex near{w.re / scale, w.im / scale};
    const Complex z{as_rows(near.re, x) - as_columns(near.re, x), as_rows(near.im, x) - as_columns(near.im, x)};
    const Ex square = z.re * z.re + z.im * z.im;
    const double share = equal_share(x);
    const Ex inverse = inverse_unless(square <= share * share, square) / as_rows(scale, x);
    inner = change * (z * inverse);
  }
  inner = {with_diagonal(c.g(0), inner.re), with_diagonal(c.g(1), inner.im)};
  c.set(0, real_of_solved(v, product_nh(inner, v)));
}

// X = A+ B of constant rank, R = B - A X (Golub and Pereyra 1973, "The differentiation of pseudo-inverses"):
// dA+ = -A+ dA A+ + A+ A+^T dA^T (I - A A+) + (I - A+ A) dA^T A+^T A+, so gB = A+^T gX and
// gA = -gB X^T + R (A+ gB)^T + (A+^T X) (gX - A+ A gX)^T. A+^T is that of A^T. Through the definition, by svd, the
// gradient would lack what equal singular values leave out there.
void lstsq(VjpContext& c) {
  const Ex a = c.in(0), x = c.out(), g = c.g();
  if (empty(a) || empty(x)) return;  // zeros, whatever the operands are
  const Ex at = transposed(a);
  const auto applied = [&](Ex to, Ex b) {
    return Ex{&c.builder, c.builder.one(Op::lstsq, attrs<LstsqAttrs>(c.node), {to.v, b.v})};
  };
  const Ex gb = applied(at, g);
  if (c.needs(1)) c.set(1, gb);
  if (!c.needs(0)) return;
  const Ex rest = c.in(1) - product(a, x), beside = g - applied(a, product(a, g));
  c.set(0, product_nt(rest, applied(a, gb)) + product_nt(applied(at, x), beside) - product_nt(gb, x));
}

namespace {
// A^-T g by the LU of A.
Ex solved_transposed(Ex a, Ex g) {
  Builder& b = *a.b;
  const std::vector<Value> lu = b.add(Op::lu_factor, LuAttrs{true}, {a.v});
  const Ex factors{&b, lu[0]};
  const Ex left = solve_by(factors, g, {.upper = true, .transposed = true});
  return rows_back(solve_by(factors, left, {.transposed = true, .unit_diagonal = true}), {&b, lu[2]});
}
}  // namespace

// gB = A^-T gX and gA = -gB X^T: by A's factors, which then solve for X too (passes::decompose).
void solve(VjpContext& c) {
  const Ex gb = solved_transposed(c.in(0), c.g());
  if (c.needs(1)) c.set(1, gb);
  if (c.needs(0)) c.set(0, -product_nt(gb, c.out()));
}

}  // namespace freight::vjp
