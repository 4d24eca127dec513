// See dense.h: eigenvalues of symmetric matrices, and singular values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "freight/backend/ref/dense.h"

namespace freight::dense {

namespace {

constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- symmetric matrices ----

struct Tridiagonal {
  std::vector<double> diagonal, beside;  // (n), (n): beside[i] couples i and i + 1, the last is 0
};

// T = Q^T A Q by Householder reflections (Golub and Van Loan, Matrix Computations, section 8.3.1) of a symmetric `a`
// that is there whole; rows of `transposed` become Q's columns.
Tridiagonal tridiagonalise(Matrix a, Matrix transposed) {
  const int64_t n = a.rows;
  Tridiagonal t{std::vector<double>(static_cast<size_t>(n)), std::vector<double>(static_cast<size_t>(n))};
  std::vector<double> tau(static_cast<size_t>(n)), w(static_cast<size_t>(n));
  for (int64_t k = 0; k + 1 < n; ++k) {
    double* v = a[k] + k + 1;  // the row's rest is free for the reflector
    const int64_t rest = n - k - 1;
    const Reflector h = make_reflector(v, rest);
    tau[static_cast<size_t>(k)] = h.tau;
    t.beside[static_cast<size_t>(k)] = h.beta;
    // H B H = B - v w^T - w v^T with p = tau B v and w = p - tau/2 (p^T v) v.
    for (int64_t i = 0; i < rest; ++i) w[static_cast<size_t>(i)] = h.tau * dot(a[k + 1 + i] + k + 1, v, rest);
    const double half = h.tau / 2 * dot(w.data(), v, rest);
    for (int64_t i = 0; i < rest; ++i) w[static_cast<size_t>(i)] -= half * v[i];
    for (int64_t i = 0; i < rest; ++i) {
      double* row = a[k + 1 + i] + k + 1;
      for (int64_t j = 0; j < rest; ++j) row[j] -= v[i] * w[static_cast<size_t>(j)] + w[static_cast<size_t>(i)] * v[j];
    }
  }
  for (int64_t i = 0; i < n; ++i) t.diagonal[static_cast<size_t>(i)] = a[i][i];
  OwnedMatrix q(n, n);
  set_identity(q);
  for (int64_t k = n - 2; k >= 0; --k) reflect_rows(q, k + 1, k + 1, a[k] + k + 1, tau[static_cast<size_t>(k)]);
  transpose(q, transposed);
  return t;
}

// One implicit QR step with Wilkinson's shift on the unreduced block first to last (Golub and Van Loan, 8.3.3).
void qr_step(Tridiagonal& t, size_t first, size_t last, Matrix vectors) {
  std::vector<double>&d = t.diagonal, &e = t.beside;
  const double delta = (d[last - 1] - d[last]) / 2, coupling = e[last - 1];
  const double shift = d[last] - coupling / (delta + std::copysign(std::hypot(delta, coupling), delta)) * coupling;
  double x = d[first] - shift, z = e[first];  // the rotation takes z to 0
  for (size_t k = first; k < last; ++k) {
    const double r = std::hypot(x, z), c = r == 0 ? 1 : x / r, s = r == 0 ? 0 : z / r;
    if (k > first) e[k - 1] = r;
    const double upper = d[k], lower = d[k + 1], between = e[k];
    const double gain = s * (s * (lower - upper) + 2 * c * between);
    d[k] = upper + gain;
    d[k + 1] = lower - gain;
    e[k] = c * s * (lower - upper) + (c - s) * (c + s) * between;
    if (k + 1 < last) {
      x = e[k];
      z = s * e[k + 1];
      e[k + 1] *= c;
    }
    rotate(vectors[static_cast<int64_t>(k)], vectors[static_cast<int64_t>(k + 1)], vectors.columns, c, s);
  }
}

// The diagonal becomes the eigenvalues, the rows of `vectors` their eigenvectors. False where it does not converge.
bool diagonalise(Tridiagonal& t, Matrix vectors) {
  const size_t n = t.diagonal.size();
  // Numbers so near to the least ones, of a matrix of numbers near 1, have too few digits to converge.
  constexpr double kLeast = std::numeric_limits<double>::min() / kEps;
  const auto negligible = [&](size_t i) {
    const double size = std::fabs(t.diagonal[i]) + std::fabs(t.diagonal[i + 1]);
    return std::fabs(t.beside[i]) <= std::max(kEps * size, kLeast);
  };
  size_t last = n - 1, steps = 30 * n + 30;  // it takes about two for each eigenvalue
  while (last > 0) {
    if (negligible(last - 1)) {
      t.beside[--last] = 0;
      continue;
    }
    size_t first = last - 1;
    while (first > 0 && !negligible(first - 1)) --first;
    if (first > 0) t.beside[first - 1] = 0;
    if (steps-- == 0) return false;
    qr_step(t, first, last, vectors);
  }
  return true;
}

// The places 0 to n - 1 by value, equal ones in their order.
template <class Before>
std::vector<int64_t> order_of(const std::vector<double>& values, Before before) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return before(values[static_cast<size_t>(i)], values[static_cast<size_t>(j)]);
  });
  return order;
}

}  // namespace

void eigh(Matrix a, Triangle triangle, double* values, Matrix vectors) {
  const int64_t n = a.rows;
  if (n == 0) return;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      if (triangle == Triangle::lower) {
        a[j][i] = a[i][j];
      } else {
        a[i][j] = a[j][i];
      }
    }
  }
  OwnedMatrix rows(n, n);
  Tridiagonal t;
  const bool finite = all_finite(a);
  const int scale = scale_to(a, 0);
  if (finite) t = tridiagonalise(a, rows);
  if (!finite || !diagonalise(t, rows)) {
    std::fill_n(values, n, kNaN);
    fill(vectors, kNaN);
    return;
  }
  const std::vector<int64_t> order = order_of(t.diagonal, std::less<>());
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    values[j] = std::ldexp(t.diagonal[static_cast<size_t>(from)], -scale);
    for (int64_t i = 0; i < n; ++i) vectors[i][j] = rows[from][i];
  }
}

// ---- singular values ----

namespace {

// A P = Q R with the column of the largest rest first each time, over `a` (M, N), M >= N: R on and above the diagonal
// of its first rows. Returns P: column j was column P[j]. q is (M, N) or (M, M).
std::vector<int64_t> pivoted_qr(Matrix a, Matrix q) {
  const int64_t m = a.rows, n = a.columns;
  std::vector<int64_t> permutation(static_cast<size_t>(n));
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  OwnedMatrix v(n, m);
  std::vector<double> tau(static_cast<size_t>(n)), squares(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    std::fill(squares.begin(), squares.end(), 0.0);  // made anew: updated ones lose their digits
    for (int64_t i = k; i < m; ++i) {
      for (int64_t j = k; j < n; ++j) squares[static_cast<size_t>(j)] += a[i][j] * a[i][j];
    }
    const int64_t best = std::max_element(squares.begin() + k, squares.end()) - squares.begin();
    if (best != k) {
      for (int64_t i = 0; i < m; ++i) std::swap(a[i][k], a[i][best]);
      std::swap(permutation[static_cast<size_t>(k)], permutation[static_cast<size_t>(best)]);
    }
    tau[static_cast<size_t>(k)] = eliminate_column(a, k, v[k] + k);
    for (int64_t i = k + 1; i < m; ++i) a[i][k] = 0;
  }
  set_identity(q);
  for (int64_t k = n - 1; k >= 0; --k) reflect_rows(q, k, k, v[k] + k, tau[static_cast<size_t>(k)]);
  return permutation;
}

// Squares below are not numbers of full precision: such a row is as good as 0 beside others (see kTop).
constexpr double kLeastSquare = std::numeric_limits<double>::min();
// The largest number is brought to 2^kTop, so that the squares of numbers 2^-970 times as large still count.
constexpr int kTop = 460;

// Rotates the rows of w (N, N) until each two are orthogonal, and those of `rotations` with them: one-sided Jacobi of
// the transpose (Drmac and Veselic 2008, "New fast and accurate Jacobi SVD algorithm"). False where it does not end.
bool orthogonalise_rows(Matrix w, Matrix rotations) {
  const int64_t n = w.rows;
  const double small = kEps * std::sqrt(static_cast<double>(n));
  constexpr int kSweeps = 60;  // it takes about five
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const double pp = dot(w[p], w[p], n), qq = dot(w[q], w[q], n), pq = dot(w[p], w[q], n);
        if (pp < kLeastSquare || qq < kLeastSquare) continue;
        if (std::fabs(pq) <= small * std::sqrt(pp) * std::sqrt(qq)) continue;
        rotated = true;
        const double zeta = (qq - pp) / (2 * pq);
        const double tangent = -std::copysign(1.0, zeta) / (std::fabs(zeta) + std::hypot(1.0, zeta));
        const double c = 1 / std::hypot(1.0, tangent), s = c * tangent;
        rotate(w[p], w[q], n, c, s);
        rotate(rotations[p], rotations[q], n, c, s);
      }
    }
    if (!rotated) return true;
  }
  return false;
}

// Rows from `known` on become orthonormal to those before, which are orthonormal.
void complete_rows(Matrix rows, int64_t known) {
  const int64_t n = rows.columns;
  std::vector<double> taken(static_cast<size_t>(n));  // of each axis, by the rows so far
  for (int64_t r = known; r < rows.rows; ++r) {
    std::fill(taken.begin(), taken.end(), 0.0);
    for (int64_t i = 0; i < r; ++i) {
      for (int64_t j = 0; j < n; ++j) taken[static_cast<size_t>(j)] += rows[i][j] * rows[i][j];
    }
    double* row = rows[r];
    std::fill(row, row + n, 0.0);
    row[std::min_element(taken.begin(), taken.end()) - taken.begin()] = 1;
    for (int pass = 0; pass < 2; ++pass) {  // the second takes off what the first left by rounding
      for (int64_t i = 0; i < r; ++i) {
        const double along = dot(row, rows[i], n);
        for (int64_t j = 0; j < n; ++j) row[j] -= along * rows[i][j];
      }
      const double length = std::sqrt(dot(row, row, n));
      for (int64_t j = 0; j < n; ++j) row[j] /= length;
    }
  }
}

// svd of M >= N; `a` is lost. False where it does not end.
bool tall_svd(Matrix a, Matrix u, double* s, Matrix vh) {
  const int64_t m = a.rows, n = a.columns;
  const int scale = scale_to(a, kTop);
  OwnedMatrix q(m, u.columns), rotations(n, n);
  const std::vector<int64_t> permutation = pivoted_qr(a, q);
  const Matrix w{a.data, n, n};  // R
  set_identity(rotations);
  if (!orthogonalise_rows(w, rotations)) return false;
  std::vector<double> lengths(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const double square = dot(w[i], w[i], n);
    lengths[static_cast<size_t>(i)] = square < kLeastSquare ? largest_magnitude({w[i], 1, n}) : std::sqrt(square);
  }
  // Rows of w are s[i] vh[i], with columns exchanged, and the columns of Q times the rotations' rows those of u.
  const std::vector<int64_t> order = order_of(lengths, std::greater<>());
  int64_t known = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = order[static_cast<size_t>(i)];
    const double length = lengths[static_cast<size_t>(from)];
    s[i] = std::ldexp(length, -scale);
    if (length * length >= kLeastSquare) known = i + 1;
    for (int64_t j = 0; j < n; ++j) vh[i][permutation[static_cast<size_t>(j)]] = w[from][j] / length;
    for (int64_t row = 0; row < m; ++row) u[row][i] = dot(q[row], rotations[from], n);
  }
  complete_rows(vh, known);
  for (int64_t row = 0; row < m; ++row) std::copy(q[row] + n, q[row] + u.columns, u[row] + n);
  return true;
}

}  // namespace

void svd(Matrix a, Matrix u, double* s, Matrix vh) {
  const int64_t m = a.rows, n = a.columns;
  const auto solved = [&] {
    if (!all_finite(a)) return false;
    if (m >= n) return tall_svd(a, u, s, vh);
    OwnedMatrix at(n, m), ut(n, vh.rows), vht(m, m);  // a^T = vh^T diag(s) u^T
    transpose(a, at);
    if (!tall_svd(at, ut, s, vht)) return false;
    transpose(ut, vh);
    transpose(vht, u);
    return true;
  };
  if (solved()) return;
  std::fill_n(s, std::min(m, n), kNaN);
  fill(u, kNaN);
  fill(vh, kNaN);
}

}  // namespace freight::dense
