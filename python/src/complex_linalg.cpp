// See complex_linalg.h.
#include "complex_linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace freight::python {

namespace {

using C = std::complex<double>;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kMostSweeps = 60;

double norm_of_column(const ComplexMatrix& a, int64_t j) {
  double scale = 0, sum = 0;
  for (int64_t i = 0; i < a.rows; ++i) scale = std::max(scale, std::abs(a(i, j)));
  if (!(scale > 0) || !std::isfinite(scale)) return scale;
  for (int64_t i = 0; i < a.rows; ++i) sum += std::norm(a(i, j) / scale);
  return scale * std::sqrt(sum);
}

bool finite(const ComplexMatrix& a) {
  return std::all_of(a.data.begin(), a.data.end(),
                     [](C z) { return std::isfinite(z.real()) && std::isfinite(z.imag()); });
}

void fill_nan(ComplexMatrix& a) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::fill(a.data.begin(), a.data.end(), C(nan, nan));
}

// Columns p and q become c p - s conj(phase) q and s p + c conj(phase) q.
void rotate_columns(ComplexMatrix& a, int64_t p, int64_t q, double c, double s, C phase) {
  for (int64_t i = 0; i < a.rows; ++i) {
    const C x = a(i, p), y = std::conj(phase) * a(i, q);
    a(i, p) = c * x - s * y;
    a(i, q) = s * x + c * y;
  }
}

// The rotation that makes the Hermitian matrix ((alpha, beta), (conj(beta), gamma)) diagonal.
struct Rotation {
  double c, s;
  C phase;
};
Rotation rotation_of(double alpha, C beta, double gamma) {
  const double size = std::abs(beta), tau = (gamma - alpha) / (2 * size);
  const double t = (tau >= 0 ? 1 : -1) / (std::abs(tau) + std::hypot(1, tau));
  const double c = 1 / std::hypot(1, t);
  const C digits = beta * (size < 1e-290 ? 0x1p300 : 1.0);  // subnormal numbers have too few for a phase of length 1
  return {c, t * c, digits / std::abs(digits)};
}

// Columns that are 0 become orthonormal to the others; columns from `known` on count as 0.
void complete_columns(ComplexMatrix& u, const std::vector<bool>& known) {
  int64_t unit = 0;
  std::vector<bool> done(known);
  for (int64_t j = 0; j < u.columns; ++j) {
    if (done[static_cast<size_t>(j)]) continue;
    for (; unit < u.rows; ++unit) {
      for (int64_t i = 0; i < u.rows; ++i) u(i, j) = i == unit ? 1 : 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t k = 0; k < u.columns; ++k) {
          if (!done[static_cast<size_t>(k)]) continue;
          C dot = 0;
          for (int64_t i = 0; i < u.rows; ++i) dot += std::conj(u(i, k)) * u(i, j);
          for (int64_t i = 0; i < u.rows; ++i) u(i, j) -= dot * u(i, k);
        }
      }
      const double norm = norm_of_column(u, j);
      // One of the unit vectors left has at least this part outside of the columns known.
      if (norm * norm < 0.5 / static_cast<double>(u.rows)) continue;
      for (int64_t i = 0; i < u.rows; ++i) u(i, j) /= norm;
      ++unit;
      break;
    }
    done[static_cast<size_t>(j)] = true;
  }
}

ComplexMatrix identity(int64_t n) {
  ComplexMatrix a(n, n);
  for (int64_t i = 0; i < n; ++i) a(i, i) = 1;
  return a;
}

ComplexMatrix adjoint(const ComplexMatrix& a) {
  ComplexMatrix b(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) b(j, i) = std::conj(a(i, j));
  }
  return b;
}

// a = q t q^H with upper triangular t: Hessenberg's form, then QR steps with Wilkinson's shift.
void schur(ComplexMatrix& a, ComplexMatrix& q) {
  const int64_t n = a.rows;
  q = identity(n);
  const auto rotate = [&](int64_t k, C x, C y, int64_t row_from, int64_t column_to) {
    // Rows k and k + 1 so that y becomes 0, and the adjoint on the columns.
    const double norm = std::hypot(std::abs(x), std::abs(y));
    if (norm == 0) return;
    const C c = x / norm, s = y / norm;
    for (int64_t j = row_from; j < n; ++j) {
      const C p = a(k, j), r = a(k + 1, j);
      a(k, j) = std::conj(c) * p + std::conj(s) * r;
      a(k + 1, j) = -s * p + c * r;
    }
    for (int64_t i = 0; i < column_to; ++i) {
      const C p = a(i, k), r = a(i, k + 1);
      a(i, k) = p * c + r * s;
      a(i, k + 1) = -p * std::conj(s) + r * std::conj(c);
    }
    for (int64_t i = 0; i < n; ++i) {
      const C p = q(i, k), r = q(i, k + 1);
      q(i, k) = p * c + r * s;
      q(i, k + 1) = -p * std::conj(s) + r * std::conj(c);
    }
  };
  for (int64_t j = 0; j + 2 < n; ++j) {
    for (int64_t i = n - 1; i > j + 1; --i) {
      if (a(i, j) == 0.0) continue;
      rotate(i - 1, a(i - 1, j), a(i, j), j, n);
      a(i, j) = 0;
    }
  }
  int64_t high = n - 1;
  for (int iteration = 0; high > 0 && iteration < 60 * n; ++iteration) {
    int64_t low = high;
    for (; low > 0; --low) {
      const double near = std::abs(a(low, low)) + std::abs(a(low - 1, low - 1));
      if (std::abs(a(low, low - 1)) <= kEpsilon * (near > 0 ? near : std::numeric_limits<double>::min())) {
        a(low, low - 1) = 0;
        break;
      }
    }
    if (low == high) {
      --high;
      continue;
    }
    // The eigenvalue of the last 2 x 2 block nearer to its corner; now and then another shift, against cycles.
    const C p = a(high - 1, high - 1), d = a(high, high), bc = a(high - 1, high) * a(high, high - 1);
    const C half = (p - d) / 2.0, root = std::sqrt(half * half + bc);
    const C towards = std::abs(half + root) > std::abs(half - root) ? half + root : half - root;
    C shift = towards == 0.0 ? d : d - bc / towards;
    if (iteration % 10 == 9) shift = d + std::abs(a(high, high - 1));
    C x = a(low, low) - shift, y = a(low + 1, low);
    for (int64_t k = low; k < high; ++k) {
      rotate(k, x, y, k > low ? k - 1 : low, std::min(high, k + 2) + 1);
      if (k + 1 < high) {
        x = a(k + 1, k);
        y = a(k + 2, k);
      }
    }
  }
}

}  // namespace

std::vector<C> eliminate(ComplexMatrix& a, ComplexMatrix& b) {
  const int64_t n = a.rows;
  std::vector<C> pivots;
  for (int64_t k = 0; k < n; ++k) {
    int64_t largest = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(a(i, k)) > std::abs(a(largest, k))) largest = i;
    }
    if (largest != k) {
      for (int64_t j = 0; j < n; ++j) std::swap(a(k, j), a(largest, j));
      for (int64_t j = 0; j < b.columns; ++j) std::swap(b(k, j), b(largest, j));
    }
    pivots.push_back(largest == k ? a(k, k) : -a(k, k));
    for (int64_t i = k + 1; i < n && a(k, k) != 0.0; ++i) {
      const C factor = a(i, k) / a(k, k);
      for (int64_t j = k + 1; j < n; ++j) a(i, j) -= factor * a(k, j);
      for (int64_t j = 0; j < b.columns; ++j) b(i, j) -= factor * b(k, j);
    }
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t c = 0; c < b.columns; ++c) {
      for (int64_t j = i + 1; j < n; ++j) b(i, c) -= a(i, j) * b(j, c);
      b(i, c) /= a(i, i);
    }
  }
  return pivots;
}

bool cholesky_of(ComplexMatrix& a) {
  for (int64_t j = 0; j < a.rows; ++j) {
    double d = a(j, j).real();
    for (int64_t k = 0; k < j; ++k) d -= std::norm(a(j, k));
    if (!(d > 0)) return false;
    d = std::sqrt(d);
    a(j, j) = d;
    for (int64_t i = j + 1; i < a.rows; ++i) {
      C v = a(i, j);
      for (int64_t k = 0; k < j; ++k) v -= a(i, k) * std::conj(a(j, k));
      a(i, j) = v / d;
    }
    for (int64_t i = 0; i < j; ++i) a(i, j) = 0;
  }
  return true;
}

void qr_of(const ComplexMatrix& a, bool complete, ComplexMatrix& q, ComplexMatrix& r) {
  const int64_t m = a.rows, n = a.columns, k = std::min(m, n), columns = complete ? m : k;
  ComplexMatrix work = a;
  std::vector<std::vector<C>> reflections;  // unit vectors v: H = I - 2 v v^H
  for (int64_t j = 0; j < k; ++j) {
    std::vector<C> v(static_cast<size_t>(m));
    double below = 0;
    for (int64_t i = j; i < m; ++i) {
      v[static_cast<size_t>(i)] = work(i, j);
      below = std::hypot(below, std::abs(work(i, j)));
    }
    const C head = work(j, j);
    const C phase = head == 0.0 ? C(1) : head / std::abs(head);
    v[static_cast<size_t>(j)] += phase * below;
    double norm = 0;
    for (const C z : v) norm = std::hypot(norm, std::abs(z));
    if (norm > 0) {
      for (C& z : v) z /= norm;
      for (int64_t c = j; c < n; ++c) {
        C dot = 0;
        for (int64_t i = j; i < m; ++i) dot += std::conj(v[static_cast<size_t>(i)]) * work(i, c);
        for (int64_t i = j; i < m; ++i) work(i, c) -= 2.0 * dot * v[static_cast<size_t>(i)];
      }
    }
    for (int64_t i = j + 1; i < m; ++i) work(i, j) = 0;
    reflections.push_back(std::move(v));
  }
  r = ComplexMatrix(columns, n);
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t j = i; j < n; ++j) r(i, j) = work(i, j);
  }
  q = ComplexMatrix(m, columns);
  for (int64_t i = 0; i < columns; ++i) q(i, i) = 1;
  for (int64_t j = k - 1; j >= 0; --j) {
    const std::vector<C>& v = reflections[static_cast<size_t>(j)];
    for (int64_t c = 0; c < columns; ++c) {
      C dot = 0;
      for (int64_t i = j; i < m; ++i) dot += std::conj(v[static_cast<size_t>(i)]) * q(i, c);
      for (int64_t i = j; i < m; ++i) q(i, c) -= 2.0 * dot * v[static_cast<size_t>(i)];
    }
  }
}

void svd_of(const ComplexMatrix& a, bool full, ComplexMatrix& u, std::vector<double>& s, ComplexMatrix& vh) {
  if (a.rows < a.columns) {
    ComplexMatrix left, right;
    svd_of(adjoint(a), full, left, s, right);
    u = adjoint(right);
    vh = adjoint(left);
    return;
  }
  const int64_t m = a.rows, n = a.columns;
  ComplexMatrix work = a, v = identity(n);
  s.assign(static_cast<size_t>(n), std::numeric_limits<double>::quiet_NaN());
  u = ComplexMatrix(m, full ? m : n);
  vh = ComplexMatrix(n, n);
  if (!finite(a)) {
    fill_nan(u);
    return fill_nan(vh);
  }
  double largest = 0;
  for (const C z : a.data) largest = std::max({largest, std::abs(z.real()), std::abs(z.imag())});
  const double scale = largest > 0 ? largest : 1;  // squares of elements neither overflow nor vanish
  for (C& z : work.data) z /= scale;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool changed = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        double alpha = 0, gamma = 0;
        C beta = 0;
        for (int64_t i = 0; i < m; ++i) {
          alpha += std::norm(work(i, p));
          gamma += std::norm(work(i, q));
          beta += std::conj(work(i, p)) * work(i, q);
        }
        if (std::abs(beta) <= kEpsilon * std::sqrt(alpha * gamma) || std::abs(beta) == 0) continue;
        changed = true;
        const Rotation r = rotation_of(alpha, beta, gamma);
        rotate_columns(work, p, q, r.c, r.s, r.phase);
        rotate_columns(v, p, q, r.c, r.s, r.phase);
      }
    }
    if (!changed) break;
  }
  std::vector<double> norms(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) norms[static_cast<size_t>(j)] = norm_of_column(work, j);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return norms[static_cast<size_t>(i)] > norms[static_cast<size_t>(j)]; });
  std::vector<bool> known(static_cast<size_t>(u.columns), false);
  const double least = n > 0 ? norms[static_cast<size_t>(order[0])] * kEpsilon * static_cast<double>(m) : 0;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    const double norm = norms[static_cast<size_t>(from)];
    s[static_cast<size_t>(j)] = norm * scale;
    for (int64_t i = 0; i < n; ++i) vh(j, i) = std::conj(v(i, from));
    if (!(norm > least)) continue;
    known[static_cast<size_t>(j)] = true;
    for (int64_t i = 0; i < m; ++i) u(i, j) = work(i, from) / norm;
  }
  complete_columns(u, known);
}

void eig_of(ComplexMatrix a, std::vector<C>& values, ComplexMatrix& vectors) {
  const int64_t n = a.rows;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  values.assign(static_cast<size_t>(n), C(nan, nan));
  vectors = ComplexMatrix(n, n);
  if (!finite(a)) return fill_nan(vectors);
  ComplexMatrix q;
  schur(a, q);
  double size = 0;
  for (const C z : a.data) size = std::max(size, std::abs(z));
  const double least = std::max(kEpsilon * size, std::numeric_limits<double>::min());
  for (int64_t k = 0; k < n; ++k) {
    values[static_cast<size_t>(k)] = a(k, k);
    std::vector<C> x(static_cast<size_t>(n));
    x[static_cast<size_t>(k)] = 1;
    for (int64_t i = k - 1; i >= 0; --i) {
      C v = 0;
      for (int64_t j = i + 1; j <= k; ++j) v -= a(i, j) * x[static_cast<size_t>(j)];
      C d = a(i, i) - a(k, k);
      if (std::abs(d) < least) d = least;
      x[static_cast<size_t>(i)] = v / d;
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= k; ++j) vectors(i, k) += q(i, j) * x[static_cast<size_t>(j)];
    }
    const double norm = norm_of_column(vectors, k);
    for (int64_t i = 0; i < n && norm > 0; ++i) vectors(i, k) /= norm;
  }
}

void eigh_of(ComplexMatrix a, std::vector<double>& values, ComplexMatrix& vectors) {
  const int64_t n = a.rows;
  for (int64_t i = 0; i < n; ++i) {
    a(i, i) = a(i, i).real();
    for (int64_t j = i + 1; j < n; ++j) a(i, j) = std::conj(a(j, i));
  }
  values.assign(static_cast<size_t>(n), std::numeric_limits<double>::quiet_NaN());
  vectors = ComplexMatrix(n, n);
  if (!finite(a)) return fill_nan(vectors);
  ComplexMatrix q;
  schur(a, q);  // diagonal up to rounding
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return a(i, i).real() < a(j, j).real(); });
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    values[static_cast<size_t>(j)] = a(from, from).real();
    for (int64_t i = 0; i < n; ++i) vectors(i, j) = q(i, from);
  }
}

}  // namespace freight::python
