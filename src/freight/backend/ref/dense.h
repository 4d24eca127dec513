// Factorizations of one dense row-major matrix in double: the numerics of the reference backend's linear algebra, for
// everyone who has such a matrix on the host. Plain loops in one thread, so that a matrix gives the same bits anywhere.
// They know nothing of ops, batches or dtypes: linalg.cpp does. NaN and infinities never hang a loop: factorizations
// hand them on, and eigenvalues or singular values of a matrix that holds any are NaN, as are their vectors.
// Letters: M rows, N columns, K the smaller of both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace freight::dense {

// A view of rows x columns numbers that lie row by row without gaps.
struct Matrix {
  double* data = nullptr;
  int64_t rows = 0, columns = 0;

  double* operator[](int64_t i) const { return data + i * columns; }
  int64_t numel() const { return rows * columns; }
};

// The same with memory of its own, zero at first.
class OwnedMatrix {
 public:
  OwnedMatrix(int64_t rows, int64_t columns)
      : numbers_(static_cast<size_t>(rows * columns)), view_{numbers_.data(), rows, columns} {}
  OwnedMatrix(const OwnedMatrix&) = delete;
  OwnedMatrix& operator=(const OwnedMatrix&) = delete;
  operator Matrix() const { return view_; }
  double* operator[](int64_t i) const { return view_[i]; }

 private:
  std::vector<double> numbers_;
  Matrix view_;
};

enum class Triangle : uint8_t { lower, upper };

// P A = L U by Gaussian elimination with partial pivoting, over `a` (M, N): L (unit lower) below the diagonal, U on and
// above it. Row i was exchanged with row pivots[i] (K), in order; permutation (M): A[permutation] = L U. Returns the
// first i where U's diagonal is 0, or -1.
int64_t lu(Matrix a, int64_t* pivots, int64_t* permutation);

// A = L L^T over the lower triangle of `a` (N, N), or U^T U over its upper one; the other triangle becomes 0. Returns
// the order (1 to N) of the first leading minor that is not positive, or 0. The factor is not finished then.
int64_t cholesky(Matrix a, Triangle triangle);

// A = Q R by Householder reflections with LAPACK's signs. `a` (M, N) is lost. q (M, K), r (K, N), or q (M, M), r (M,
// N).
void qr(Matrix a, Matrix q, Matrix r);

// The triangle of a matrix that is read, and the side of the unknowns on which it stands.
struct TriangularForm {
  Triangle triangle = Triangle::lower;
  bool transposed = false, unit_diagonal = false, right = false;
};
// Solves op(A) X = B over `b` (N, K), or X op(A) = B over `b` (K, N); op transposes or does nothing.
void solve_triangular(const TriangularForm& form, Matrix a, Matrix b);

// The eigenvalues of a symmetric matrix (N, N), of which one triangle is read, in ascending order, and in the columns
// of `vectors` (N, N) its orthonormal eigenvectors. `a` is lost.
void eigh(Matrix a, Triangle triangle, double* values, Matrix vectors);

// A = U diag(s) Vh with s (K) descending; u (M, K), vh (K, N), or u (M, M), vh (N, N). Small singular values are as
// exact as the rows or columns of a graded matrix allow. U and Vh are orthonormal whatever the rank.
void svd(Matrix a, Matrix u, double* s, Matrix vh);

// The eigenvalues re + i im (N) of a square matrix and, in the columns of vectors_re + i vectors_im (N, N),
// eigenvectors of 2-norm 1, the largest number in each real. Complex ones come in conjugate pairs, positive imaginary
// part first. `a` is lost.
void eig(Matrix a, double* re, double* im, Matrix vectors_re, Matrix vectors_im);

// ---- what the above are made of ----

// Sum of x[i] y[i].
double dot(const double* x, const double* y, int64_t n);
// (x, y) becomes (c x + s y, c y - s x).
void rotate(double* x, double* y, int64_t n, double c, double s);

// H = I - tau v v^T with H x = (beta, 0, ...).
struct Reflector {
  double tau = 0;  // 0: H is the identity
  double beta = 0;
};
// Makes the reflector of x, n >= 1, by LAPACK's rules (dlarfg): beta has the sign that x[0] has not, and tau is 0 where
// all behind x[0] is. x becomes v, with v[0] = 1.
Reflector make_reflector(double* x, int64_t n);
// H a over the rows from v's first on, `first_row`, and the columns from `first_column` on; v has a number for each
// row.
void reflect_rows(Matrix a, int64_t first_row, int64_t first_column, const double* v, double tau);
// Reflects the rows of a from k on such that its numbers in column k below row k become 0; they stay as they are. The
// reflector goes to v, a number for each of these rows, and its tau is returned.
double eliminate_column(Matrix a, int64_t k, double* v);
// a H over the columns from v's first on; v has a number for each column.
void reflect_columns(Matrix a, int64_t first_column, const double* v, double tau);

double largest_magnitude(Matrix a);  // NaN is not seen
bool all_finite(Matrix a);
void fill(Matrix a, double value);
void set_identity(Matrix a);
void copy(Matrix from, Matrix to);
void transpose(Matrix from, Matrix to);
// Multiplies by a power of two, whose exponent it returns, such that the largest magnitude has the exponent `exponent`
// (0.5 to 1 times 2^exponent). A matrix of zeros stays, and 0 is returned.
int scale_to(Matrix a, int exponent);

}  // namespace freight::dense
