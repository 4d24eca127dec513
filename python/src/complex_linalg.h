// Factorizations of dense complex matrices on the host, which the library has only for real ones: Gaussian elimination,
// Cholesky, Householder's QR, the QR algorithm for eigenvalues, Jacobi's method for singular values. Golub and Van
// Loan, Matrix Computations, 4th edition, chapters 3, 4, 5, 7 and 8. Plain loops in f64.
#pragma once
#include <complex>
#include <cstdint>
#include <vector>

namespace freight::python {

// Row-major, with memory of its own, zero at first.
struct ComplexMatrix {
  using Element = std::complex<double>;
  int64_t rows = 0, columns = 0;
  std::vector<Element> data;

  ComplexMatrix() = default;
  ComplexMatrix(int64_t m, int64_t n) : rows(m), columns(n), data(static_cast<size_t>(m * n)) {}
  Element& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(i * columns + j)]; }
  const Element& operator()(int64_t i, int64_t j) const { return data[static_cast<size_t>(i * columns + j)]; }
};
// Elimination with partial pivoting: b (N, K) becomes the solution of a x = b, a its triangle. The pivots, with a minus
// where rows were exchanged: their product is the determinant, and a 0 among them says that a is singular.
std::vector<std::complex<double>> eliminate(ComplexMatrix& a, ComplexMatrix& b);
// Lower L with L L^H = a; reads the lower triangle. False where a is not positive definite.
bool cholesky_of(ComplexMatrix& a);
// q (M, K) and r (K, N) with K = min(M, N), or M where it is complete.
void qr_of(const ComplexMatrix& a, bool complete, ComplexMatrix& q, ComplexMatrix& r);
// Eigenvalues, ascending, and vectors in columns, of a Hermitian matrix, by its lower triangle.
void eigh_of(ComplexMatrix a, std::vector<double>& values, ComplexMatrix& vectors);
// u (M, K) and vh (K, N), or square ones where they are full.
void svd_of(const ComplexMatrix& a, bool full, ComplexMatrix& u, std::vector<double>& s, ComplexMatrix& vh);
// Eigenvalues and vectors of norm 1 in columns.
void eig_of(ComplexMatrix a, std::vector<std::complex<double>>& values, ComplexMatrix& vectors);

}  // namespace freight::python
