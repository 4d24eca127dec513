// See dense.h: LU, Cholesky, QR, triangular solves, and the small pieces that the other files use, too.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "freight/backend/ref/dense.h"

namespace freight::dense {

// ---- pieces ----

double dot(const double* x, const double* y, int64_t n) {
  double sum[4] = {};  // four chains of additions, since one would wait for each of its results
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int64_t k = 0; k < 4; ++k) sum[k] += x[i + k] * y[i + k];
  }
  for (; i < n; ++i) sum[0] += x[i] * y[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void rotate(double* x, double* y, int64_t n, double c, double s) {
  for (int64_t i = 0; i < n; ++i) {
    const double a = x[i], b = y[i];
    x[i] = c * a + s * b;
    y[i] = c * b - s * a;
  }
}

namespace {

void add_multiple(double* y, double factor, const double* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

}  // namespace

Reflector make_reflector(double* x, int64_t n) {
  if (std::all_of(x + 1, x + n, [](double v) { return v == 0; })) {
    const double beta = x[0];
    x[0] = 1;
    return {0, beta};
  }
  // Squares of numbers in this range neither overflow nor vanish; a power of two changes no bit.
  constexpr int kSafe = 300;
  const double most = largest_magnitude({x, 1, n});
  int exponent = most > 0 && std::isfinite(most) ? -std::ilogb(most) : 0;
  if (std::abs(exponent) < kSafe) exponent = 0;
  if (exponent != 0) std::transform(x, x + n, x, [&](double v) { return std::ldexp(v, exponent); });
  const double alpha = x[0];
  const double beta = -std::copysign(std::sqrt(alpha * alpha + dot(x + 1, x + 1, n - 1)), alpha);
  for (int64_t i = 1; i < n; ++i) x[i] /= alpha - beta;
  x[0] = 1;
  return {(beta - alpha) / beta, std::ldexp(beta, -exponent)};
}

void reflect_rows(Matrix a, int64_t first_row, int64_t first_column, const double* v, double tau) {
  const int64_t n = a.columns - first_column;
  if (tau == 0 || n <= 0) return;
  std::vector<double> products(static_cast<size_t>(n));  // tau v^T a
  for (int64_t i = first_row; i < a.rows; ++i) {
    add_multiple(products.data(), tau * v[i - first_row], a[i] + first_column, n);
  }
  for (int64_t i = first_row; i < a.rows; ++i) {
    add_multiple(a[i] + first_column, -v[i - first_row], products.data(), n);
  }
}

double eliminate_column(Matrix a, int64_t k, double* v) {
  for (int64_t row = k; row < a.rows; ++row) v[row - k] = a[row][k];
  const Reflector h = make_reflector(v, a.rows - k);
  reflect_rows(a, k, k + 1, v, h.tau);
  a[k][k] = h.beta;
  return h.tau;
}

void reflect_columns(Matrix a, int64_t first_column, const double* v, double tau) {
  const int64_t n = a.columns - first_column;
  if (tau == 0) return;
  for (int64_t i = 0; i < a.rows; ++i) {
    double* row = a[i] + first_column;
    add_multiple(row, -tau * dot(row, v, n), v, n);
  }
}

double largest_magnitude(Matrix a) {
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i) most = std::max(most, std::fabs(a.data[i]));
  return most;
}

bool all_finite(Matrix a) {
  return std::all_of(a.data, a.data + a.numel(), [](double v) { return std::isfinite(v); });
}

void fill(Matrix a, double value) { std::fill_n(a.data, a.numel(), value); }

void set_identity(Matrix a) {
  fill(a, 0);
  for (int64_t i = 0; i < std::min(a.rows, a.columns); ++i) a[i][i] = 1;
}

void copy(Matrix from, Matrix to) { std::copy_n(from.data, from.numel(), to.data); }

void transpose(Matrix from, Matrix to) {
  for (int64_t i = 0; i < from.rows; ++i) {
    for (int64_t j = 0; j < from.columns; ++j) to[j][i] = from[i][j];
  }
}

int scale_to(Matrix a, int exponent) {
  const double most = largest_magnitude(a);
  if (most == 0 || !std::isfinite(most)) return 0;
  const int by = exponent - 1 - std::ilogb(most);
  for (int64_t i = 0; i < a.numel(); ++i) a.data[i] = std::ldexp(a.data[i], by);
  return by;
}

// ---- factorizations ----

int64_t lu(Matrix a, int64_t* pivots, int64_t* permutation) {
  std::iota(permutation, permutation + a.rows, int64_t{0});
  int64_t singular = -1;
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      const double rival = std::fabs(a[i][k]), most = std::fabs(a[best][k]);
      if (rival > most || (std::isnan(rival) && !std::isnan(most))) best = i;  // NaN, so that no zero hides it
    }
    pivots[k] = best;
    if (best != k) {
      std::swap_ranges(a[k], a[k] + a.columns, a[best]);
      std::swap(permutation[k], permutation[best]);
    }
    const double pivot = a[k][k];
    if (pivot == 0) {  // as all below it, so that L has zeros there
      if (singular < 0) singular = k;
      continue;
    }
    for (int64_t i = k + 1; i < a.rows; ++i) {
      const double factor = a[i][k] /= pivot;
      add_multiple(a[i] + k + 1, -factor, a[k] + k + 1, a.columns - k - 1);
    }
  }
  return singular;
}

namespace {

int64_t lower_cholesky(Matrix a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < i; ++j) a[i][j] = (a[i][j] - dot(a[i], a[j], j)) / a[j][j];
    const double square = a[i][i] - dot(a[i], a[i], i);
    if (!(square > 0)) return i + 1;  // or NaN
    a[i][i] = std::sqrt(square);
    std::fill(a[i] + i + 1, a[i] + a.columns, 0.0);
  }
  return 0;
}

int64_t upper_cholesky(Matrix a) {
  const int64_t n = a.rows;
  for (int64_t k = 0; k < n; ++k) {
    if (!(a[k][k] > 0)) return k + 1;
    const double root = a[k][k] = std::sqrt(a[k][k]);
    std::fill(a[k], a[k] + k, 0.0);
    for (int64_t j = k + 1; j < n; ++j) a[k][j] /= root;
    for (int64_t i = k + 1; i < n; ++i) add_multiple(a[i] + i, -a[k][i], a[k] + i, n - i);
  }
  return 0;
}

}  // namespace

int64_t cholesky(Matrix a, Triangle triangle) {
  return triangle == Triangle::lower ? lower_cholesky(a) : upper_cholesky(a);
}

void qr(Matrix a, Matrix q, Matrix r) {
  const int64_t m = a.rows, n = a.columns, k = std::min(m, n);
  OwnedMatrix v(k, m);  // row i: the reflector that makes column i, from its number i on
  std::vector<double> tau(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i) {
    tau[static_cast<size_t>(i)] = eliminate_column(a, i, v[i] + i);
  }
  for (int64_t i = 0; i < r.rows; ++i) {
    const int64_t zeros = std::min(i, n);
    std::fill(r[i], r[i] + zeros, 0.0);
    std::copy(a[i] + zeros, a[i] + n, r[i] + zeros);
  }
  set_identity(q);
  for (int64_t i = k - 1; i >= 0; --i) reflect_rows(q, i, i, v[i] + i, tau[static_cast<size_t>(i)]);
}

void solve_triangular(const TriangularForm& form, Matrix a, Matrix b) {
  const int64_t n = a.rows;
  const auto at = [&](int64_t i, int64_t j) { return form.transposed ? a[j][i] : a[i][j]; };  // of op(a)
  const bool lower = (form.triangle == Triangle::lower) != form.transposed;                   // op(a)
  // Unknowns are found from the first on where op(a) is lower and on the left, or upper and on the right.
  const bool forward = lower != form.right;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = forward ? step : n - 1 - step;
    const int64_t begin = forward ? 0 : i + 1, end = forward ? i : n;  // of the known ones
    const double divisor = form.unit_diagonal ? 1 : a[i][i];
    if (form.right) {
      for (int64_t row = 0; row < b.rows; ++row) {
        double rest = b[row][i];
        for (int64_t j = begin; j < end; ++j) rest -= b[row][j] * at(j, i);
        b[row][i] = rest / divisor;
      }
    } else {
      for (int64_t j = begin; j < end; ++j) add_multiple(b[i], -at(i, j), b[j], b.columns);
      for (int64_t column = 0; column < b.columns; ++column) b[i][column] /= divisor;
    }
  }
}

}  // namespace freight::dense
