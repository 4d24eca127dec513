// Matrices that try factorizations, and how well results fulfil their defining equations: LAPACK's test ratios,
// ||A - L U|| / (||A|| max(M, N) eps) and their like, which are below 30 where an algorithm is stable.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "freight/base/philox.h"

namespace freight::test {

struct Dense {
  int64_t rows = 0, columns = 0;
  std::vector<double> numbers;  // row by row

  Dense(int64_t m, int64_t n) : rows(m), columns(n), numbers(static_cast<size_t>(m * n)) {}
  Dense(int64_t m, int64_t n, std::vector<double> given) : rows(m), columns(n), numbers(std::move(given)) {}
  static Dense identity(int64_t n) {
    Dense a(n, n);
    for (int64_t i = 0; i < n; ++i) a(i, i) = 1;
    return a;
  }
  double& operator()(int64_t i, int64_t j) { return numbers[static_cast<size_t>(i * columns + j)]; }
  double operator()(int64_t i, int64_t j) const { return numbers[static_cast<size_t>(i * columns + j)]; }
  Dense transposed() const {
    Dense t(columns, rows);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) t(j, i) = (*this)(i, j);
    }
    return t;
  }
  Dense first_rows(int64_t count) const {
    return {count, columns, {numbers.begin(), numbers.begin() + count * columns}};
  }
  // Column j times factors[j].
  Dense scaled(const std::vector<double>& factors) const {
    Dense s = *this;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) s(i, j) *= factors[static_cast<size_t>(j)];
    }
    return s;
  }
  double norm() const {  // the largest sum of a column
    double most = 0;
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < rows; ++i) sum += std::fabs((*this)(i, j));
      if (!(sum <= most)) most = sum;  // or NaN
    }
    return most;
  }
};

inline Dense operator*(const Dense& a, const Dense& b) {
  Dense c(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.columns; ++k) {
      for (int64_t j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}
inline Dense operator-(Dense a, const Dense& b) {
  for (size_t i = 0; i < a.numbers.size(); ++i) a.numbers[i] -= b.numbers[i];
  return a;
}

// ||a - b|| / (||a|| n eps), with n the larger extent; 0 where both are 0. Times as large eps for results in f32.
inline double ratio(const Dense& a, const Dense& b, double eps = std::numeric_limits<double>::epsilon()) {
  const double error = (a - b).norm();
  if (error == 0) return 0;
  return error / a.norm() / static_cast<double>(std::max(a.rows, a.columns)) / eps;
}
// The same of q^T q and the identity.
inline double orthogonality(const Dense& q, double eps = std::numeric_limits<double>::epsilon()) {
  return ratio(Dense::identity(q.columns), q.transposed() * q, eps);
}

// The names of the matrices below.
inline std::vector<std::string> matrix_kinds() {
  return {"random",    "hilbert",    "graded",   "of rank 2",  "ones",    "zero",
          "large",     "small",      "bad rows", "orthogonal", "jordan",  "jordan transposed",
          "nilpotent", "triangular", "skew",     "signs",      "clusters"};
}

inline Dense matrix(const std::string& kind, int64_t m, int64_t n) {
  Dense a(m, n);
  const auto noise = [](int64_t i, int64_t j) {
    return static_cast<double>(random_normal(11, 0, 0, static_cast<uint64_t>(i * 64 + j)));
  };
  const auto number = [&](int64_t i, int64_t j) {
    const auto x = static_cast<double>(i), y = static_cast<double>(j);
    if (kind == "hilbert") return 1 / (x + y + 1);
    if (kind == "graded") return noise(i, j) * std::pow(10, -0.5 * x - 0.3 * y);
    if (kind == "of rank 2") return noise(i, 60) * noise(61, j) + noise(i, 62) * noise(63, j);
    if (kind == "ones") return 1.0;
    if (kind == "zero") return 0.0;
    if (kind == "large") return noise(i, j) * 1e250;
    if (kind == "small") return noise(i, j) * 1e-250;
    if (kind == "bad rows") return noise(i, j) * std::pow(10, 100 * noise(i, 60) / 3);
    if (kind == "orthogonal") return (i == j ? 1.0 : 0.0) - 2.0 / static_cast<double>(std::max(m, n));  // reflection
    if (kind == "jordan") return i == j ? 2.0 : j == i + 1 ? 1.0 : 0.0;
    if (kind == "jordan transposed") return i == j ? 2.0 : i == j + 1 ? 1.0 : 0.0;
    if (kind == "nilpotent") return j == i + 1 ? 1.0 : 0.0;
    if (kind == "triangular") return i <= j ? noise(i, j) : 0.0;
    if (kind == "skew") return i < j ? noise(i, j) : i > j ? -noise(j, i) : 0.0;
    if (kind == "clusters") {  // a reflection of a diagonal with three groups of numbers, 1e-14 apart within each
      const auto value = [](int64_t k) { return static_cast<double>(k % 3) + 1e-14 * static_cast<double>(k); };
      double sum = 0;
      for (int64_t k = 0; k < std::max(m, n); ++k) sum += value(k);
      const double factor = 2.0 / static_cast<double>(std::max(m, n));
      return (i == j ? value(i) : 0.0) - factor * (value(i) + value(j)) + factor * factor * sum;
    }
    if (kind == "signs") return std::floor(noise(i, j) + 0.5);
    return noise(i, j);
  };
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) a(i, j) = number(i, j);
  }
  return a;
}

struct Extents {
  int64_t m, n;
};
inline std::vector<Extents> matrix_extents() {
  return {{0, 0},   {0, 3}, {3, 0}, {1, 1}, {2, 2}, {3, 3},  {7, 7},
          {40, 40}, {1, 5}, {5, 1}, {7, 3}, {3, 7}, {40, 7}, {7, 40}};
}
inline std::vector<int64_t> square_extents() { return {0, 1, 2, 3, 7, 40}; }

}  // namespace freight::test
