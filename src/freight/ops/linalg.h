// Contractions and linear algebra (docs/linalg.md). The names are NumPy's, or SciPy's where NumPy has none. Letters: M
// rows, N columns, K = min(M, N), or columns on the right; "..." any batch axes, which broadcast where there are two
// operands. Factorizations take f32 and f64. Errors: Error(usage) naming operands, axes and extents; Error(data) naming
// the matrix of the batch that is singular or not positive definite.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/ops/options.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// NumPy's matmul: (..., M, K) x (..., K, N) -> (..., M, N), batch axes broadcast; a one-dimensional operand is a row
// (lhs) or a column (rhs). (B, T, K) x (K, N) is done as one (B*T, K) x (K, N). Floating types.
Tensor matmul(const In& a, const In& b);
// x (..., in) times w (out, in) transposed, plus b (out): -> (..., out). PyTorch's linear.
Tensor linear(const In& x, const In& w);
Tensor linear(const In& x, const In& w, const In& b);

// Einstein's summation, einsum("bik,bkj->bij", {a, b}): axes with letters, products summed over the letters that the
// result lacks. Without -> the result has the letters that stand once, by the alphabet. "..." is all axes of an operand
// that have no letter: einsum("...ij,...jk->...ik", {a, b}). Extents of 1 broadcast. Element types must be equal.
Tensor einsum(const std::string& equation, const TensorList& operands, SourceLine at = SourceLine::current());

// NumPy's tensordot: products summed over the last `axes` axes of a and the first of b.
Tensor tensordot(const In& a, const In& b, WholeNumber axes = 2);
// The same over axes of a and of b that correspond, in these orders.
Tensor tensordot(const In& a, const In& b, const std::vector<int64_t>& a_axes, const std::vector<int64_t>& b_axes);
// The sum of a b over one axis; the others broadcast.
Tensor vecdot(const In& a, const In& b, Axis axis = -1);
// a (M), b (N) -> (M, N): every product.
Tensor outer(const In& a, const In& b);
// Kronecker's product: each element of a times all of b, extents multiplied.
Tensor kron(const In& a, const In& b);
// The cross product of vectors of 3 numbers along the axis; the other axes broadcast.
Tensor cross(const In& a, const In& b, Axis axis = -1);
// (..., M, N) -> (..., elements): those at (i, i + offset).
Tensor diagonal(const In& x, WholeNumber offset = 0);
// The trace: the sum of the diagonal; of integers in i64. (freight::trace is a namespace.)
Tensor matrix_trace(const In& x, WholeNumber offset = 0);
// x (..., M, N) with zeros above the diagonal `k`, which lies k places right of the main one.
Tensor tril(const In& x, WholeNumber k = 0);
Tensor triu(const In& x, WholeNumber k = 0);  // with zeros below it

// Results of lu_factor.
struct LuFactor {
  Tensor lu;           // (..., M, N): L below the diagonal, where it is 1, and U
  Tensor pivots;       // i32 (..., K): row i was exchanged with row pivots[i], in order
  Tensor permutation;  // i32 (..., M): x[permutation] = L U
};
// Settings of lu_factor.
struct LuFactorOptions {
  bool refuse_singular = false;  // a pivot of 0 is an Error(data); else the factors have it
};
// x (..., M, N) by elimination with exchanged rows. Pivots and permutation have no gradient.
LuFactor lu_factor(const In& x, const LuFactorOptions& options = {});
// Results of lu: p l u = x.
struct Lu {
  Tensor p;  // (..., M, M) of 0 and 1; or i32 (..., M), with x = (l u)[p]
  Tensor l;  // (..., M, K), unit lower triangular
  Tensor u;  // (..., K, N), upper triangular
};
// Settings of lu.
struct LuOptions {
  bool p_indices = false;  // p as indices
};
Lu lu(const In& x, const LuOptions& options = {});  // the factors of x one by one, as in SciPy
// Settings of lu_solve.
struct LuSolveOptions {
  bool trans = false;  // x^T in place of x
};
// The solution of x y = b by lu and permutation of lu_factor(x): b (..., N, K), or (N).
Tensor lu_solve(const In& lu, const In& permutation, const In& b, const LuSolveOptions& options = {});
// An estimate of cond(x, MatrixOrder::one) from lu (..., N, N) of lu_factor(x) and norm (...), which is
// matrix_norm(x, {.ord = MatrixOrder::one}): by seven solutions, where the inverse takes N. It is never above the
// condition but for rounding, and seldom below a third of it (Hager 1984, Higham 1988). Infinite where x is singular.
Tensor lu_cond(const In& lu, const In& norm);

// The kind of matrix that solve is told: any; symmetric and positive definite; symmetric; a triangle.
enum class Assume { gen, pos, sym, upper_triangular, lower_triangular };
// Settings of solve.
struct SolveOptions {
  Assume assume_a = Assume::gen;  // what holds for a
  bool upper = false;             // of pos and sym: the triangle that is read, the other one counts as its mirror image
};
// The solution of a x = b: a (..., N, N), b (..., N, K), or (N). Throws Error(data) where a is singular.
Tensor solve(const In& a, const In& b, const SolveOptions& options = {});
// Settings of solve_triangular.
struct TriangularOptions {
  bool lower = false;           // the triangle of a that is read
  bool trans = false;           // a^T in place of a
  bool unit_diagonal = false;   // the diagonal counts as 1 and is not read
  bool right = false;           // x a = b in place of a x = b
  bool refuse_singular = true;  // a 0 on the diagonal is an Error(data); else it divides
};
// The solution by one triangle of a (..., N, N): b (..., N, K), or (N); (..., K, N) with right.
Tensor solve_triangular(const In& a, const In& b, const TriangularOptions& options = {});
// The triangle that is meant.
struct TriangleOptions {
  bool upper = false;  // the upper one
};
// The symmetric matrix of one triangle of x (..., N, N): its mirror image stands in place of the other one.
Tensor mirrored(const In& x, const TriangleOptions& options = {});
// Lower L with L L^T = x, or upper U with U^T U = x; reads that triangle of x alone. Throws Error(data) where x is not
// positive definite.
Tensor cholesky(const In& x, const TriangleOptions& options = {});
// The solution of x y = b by the factor cholesky(x): b (..., N, K), or (N). Throws Error(data) where the factor has a 0
// on its diagonal.
Tensor cho_solve(const In& factor, const In& b, const TriangleOptions& options = {});
// The inverse. Throws Error(data) where x is singular. To solve, take solve.
Tensor inv(const In& x);
// The determinant (...).
Tensor det(const In& x);
// Results of slogdet: det = sign exp(logabsdet).
struct SlogDet {
  Tensor sign;       // -1, 0 or 1
  Tensor logabsdet;  // minus infinity where x is singular
};
SlogDet slogdet(const In& x);  // the determinant by its sign and logarithm, which do not overflow
// x times itself, n times; of a negative n the inverse.
Tensor matrix_power(const In& x, WholeNumber n);

// Settings of expm.
struct ExpmOptions {
  int64_t max_squarings = 16;  // each costs a product, needed or not, and doubles the 1-norm that x may have
};
// The matrix exponential of x (..., N, N): Pade's approximant of x / 2^s, squared s times (Higham 2005). s follows from
// the 1-norm of each matrix. A matrix whose norm is above 5.3 (3.9 in f32) times 2^max_squarings, or that is not
// finite, gives NaN.
Tensor expm(const In& x, const ExpmOptions& options = {});

// The form of qr: q (..., M, K) and r (..., K, N), or q (..., M, M) and r (..., M, N).
enum class QrMode { reduced, complete };
// Results of qr: q r = x.
struct Qr {
  Tensor q;  // with orthonormal columns
  Tensor r;  // upper triangular
};
Qr qr(const In& x, QrMode mode = QrMode::reduced);  // x (..., M, N) by Householder's reflections

// Results of eigh, of a symmetric matrix.
struct Eigh {
  Tensor values;   // (..., N), ascending
  Tensor vectors;  // (..., N, N), orthonormal, in columns
};
Eigh eigh(const In& x, const TriangleOptions& options = {});        // reads one triangle of x
Tensor eigvalsh(const In& x, const TriangleOptions& options = {});  // the eigenvalues of eigh
// Results of eig: complex numbers as real and imaginary parts.
struct Eig {
  Tensor values_re, values_im;    // (..., N)
  Tensor vectors_re, vectors_im;  // (..., N, N), of norm 1, in columns; the largest component of each is real
};
Eig eig(const In& x);  // x (..., N, N)
// Results of eigvals.
struct Eigvals {
  Tensor re, im;  // (..., N)
};
Eigvals eigvals(const In& x);  // the eigenvalues of eig
// Results of svd: u diag(s) vh = x.
struct Svd {
  Tensor u;   // (..., M, M), or (..., M, K), with orthonormal columns
  Tensor s;   // (..., K), descending
  Tensor vh;  // (..., N, N), or (..., K, N), with orthonormal rows
};
// Settings of svd.
struct SvdOptions {
  bool full_matrices = true;  // u and vh are square; gradients need false, or a square x
};
Svd svd(const In& x, const SvdOptions& options = {});  // x (..., M, N)
Tensor svdvals(const In& x);                           // the singular values of svd

// Results of lstsq.
struct LeastSquares {
  Tensor x;          // (..., N, K), or (N)
  Tensor residuals;  // (..., K), or (): sums of the squares of b - a x
  Tensor rank;       // i64 (...)
};
// Settings of lstsq.
struct LstsqOptions {
  std::optional<double> rcond = std::nullopt;  // singular values up to so much of the largest count as 0
  bool full_rank = false;                      // a has rank min(M, N): by qr, which is faster
};
// The x of least norm among those that make the norm of a x - b least: a (..., M, N), b (..., M, K), or (M). rcond
// none: the type's epsilon times max(M, N).
LeastSquares lstsq(const In& a, const In& b, const LstsqOptions& options = {});
// Settings of pinv and matrix_rank.
struct RankOptions {
  std::optional<double> rtol = std::nullopt;  // as rcond of lstsq
};
Tensor pinv(const In& x, const RankOptions& options = {});         // the pseudo-inverse (..., N, M)
Tensor matrix_rank(const In& x, const RankOptions& options = {});  // i64 (...): how many singular values count

// Norms of matrices: Frobenius', sum of singular values; largest sum of a column, largest singular value, largest sum
// of a row; the same with the least.
enum class MatrixOrder { fro, nuc, one, two, inf, minus_one, minus_two, minus_inf };
// Settings of matrix_norm.
struct MatrixNormOptions {
  MatrixOrder ord = MatrixOrder::fro;  // which norm
  Keep keep = Keep::no;                // whether the last two axes stay with extent 1
};
Tensor matrix_norm(const In& x, const MatrixNormOptions& options = {});  // (..., M, N) -> (...)
// Settings of vector_norm.
struct VectorNormOptions {
  double ord = 2;        // sum(|x|^ord)^(1/ord); 0 counts what differs from 0, infinities are the extremes
  Keep keep = Keep::no;  // whether the axes stay
};
// norm (ops/reduce.h), for negative orders too.
Tensor vector_norm(const In& x, const Axes& axes = {}, const VectorNormOptions& options = {});
// The norm of x times that of its inverse: how much a relative error of b may grow in the solution of x y = b.
Tensor cond(const In& x, MatrixOrder p = MatrixOrder::two);

}  // namespace freight
