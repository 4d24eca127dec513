// Arrays for tests: how random operands are drawn so that ops are well-conditioned and smooth at them, and how results
// are compared. Draws are a function of (seed, position): the same on every machine.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "freight/base/array.h"
#include "freight/base/philox.h"
#include "freight/ir/type.h"

namespace freight::test {

enum class Fill {
  normal,     // around 0, at least 0.1 away from it (kinks of relu, abs, ...) and from every integer (floor, remainder)
  positive,   // 0.5 to 2
  above_one,  // 1.2 to 2.2
  unit,       // -0.9 to 0.9, at least 0.1 away from 0
  distinct,   // no two elements nearer than 0.01: maxima have no ties
  index,      // integers in [0, bound)
  boolean,
  key,            // (seed, step) of the random ops
  probabilities,  // rows that sum to 1
  permutation,    // the last axis in reverse order
  // Matrices (..., M, N) with singular values, or eigenvalues, of a small ratio and at distances around 0.5. So are
  // every second row and column of them, and what is transposed.
  matrix,     // large elements on the other diagonal, so that a factorization exchanges rows
  symmetric,  // eigenvalues of both signs
  positive_definite,
  spectrum,  // square, with pairs of complex eigenvalues
};
inline bool is_matrix(Fill fill) { return fill >= Fill::matrix; }

struct Operand {
  Type type;
  Fill fill = Fill::normal;
  int64_t bound = 0;
};

inline double draw(Fill fill, int64_t bound, int64_t i, int64_t n, PhiloxStream& random) {
  const double u = random.uniform();
  switch (fill) {
    case Fill::normal: {
      const double whole = static_cast<double>(random.below(4)) - 2;  // -2, -1, 0, 1
      return whole + 0.1 + 0.8 * u;
    }
    case Fill::positive: return 0.5 + 1.5 * u;
    case Fill::above_one: return 1.2 + u;
    case Fill::unit: return (random.below(2) ? 1 : -1) * (0.1 + 0.8 * u);
    case Fill::distinct: {  // a multiplicative permutation of 0 .. n-1 with a little noise
      int64_t step = 7919;
      while (n > 1 && std::gcd(step, n) != 1) ++step;
      return 0.05 * static_cast<double>((i * step + 3) % std::max<int64_t>(n, 1)) + 0.02 * u - 1.0;
    }
    case Fill::index: return static_cast<double>(random.below(static_cast<uint32_t>(bound)));
    case Fill::boolean: return random.below(2);
    case Fill::key: return i == 0 ? 1234 : 5;
    case Fill::probabilities: return 0.1 + u;
    case Fill::permutation: return 0;  // see random_array
    case Fill::matrix:
    case Fill::symmetric:
    case Fill::positive_definite:
    case Fill::spectrum: return 1.8 * u - 0.9;
  }
  return 0;
}

// Makes of random elements between -0.9 and 0.9 a matrix as the fill says.
inline void shape_matrix(Fill fill, int64_t m, int64_t n, double* p) {
  const int64_t k = std::min(m, n);
  const double small = 1 / std::sqrt(static_cast<double>(std::max(m, n)));
  const auto at = [&](int64_t i, int64_t j) -> double& { return p[i * n + j]; };
  for (int64_t i = 0; i < m * n; ++i) p[i] *= small;
  for (int64_t i = 0; i < k; ++i) {
    const double large = 2 + 0.5 * static_cast<double>(i);
    if (fill == Fill::matrix) {
      at(i, k - 1 - i) += large;
      continue;
    }
    for (int64_t j = 0; j < i && fill != Fill::spectrum; ++j) at(j, i) = at(i, j) /= 2;
    at(i, i) += fill == Fill::symmetric && i % 4 < 2 ? -large : large;
    if (fill == Fill::spectrum && i % 4 == 1) {  // with the element before it: every second one of each four has a pair
      at(i - 1, i) += 1.5;
      at(i, i - 1) -= 1.5;
    }
  }
}

inline Array random_array(const Operand& o, uint64_t seed) {
  Array a(DType::f64, o.type.shape);
  PhiloxStream random(seed, 0, 77);
  double* p = a.data<double>();
  for (int64_t i = 0; i < a.numel(); ++i) p[i] = draw(o.fill, o.bound, i, a.numel(), random);
  if (o.fill == Fill::probabilities) {
    const int64_t width = a.shape().back();
    for (int64_t r = 0; r < a.numel(); r += width) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += p[r + i];
      for (int64_t i = 0; i < width; ++i) p[r + i] /= sum;
    }
  }
  const int rank = a.shape().rank();
  if (o.fill == Fill::permutation) {
    const int64_t width = a.shape().back();
    for (int64_t i = 0; i < a.numel(); ++i) p[i] = static_cast<double>(width - 1 - i % width);
  }
  if (is_matrix(o.fill)) {
    const int64_t m = a.shape()[rank - 2], n = a.shape()[rank - 1];
    for (int64_t at = 0; at < a.numel(); at += m * n) shape_matrix(o.fill, m, n, p + at);
  }
  return a.cast(o.type.dtype);
}

// Each element within tolerance * (its magnitude + the largest magnitude of `expected`); NaN and infinities equal.
// `floor` is added, so that a result that should be 0 may be the rounding of numbers around 1.
inline ::testing::AssertionResult close(const Array& got, const Array& expected, double tolerance,
                                        double floor = 1e-6) {
  if (got.shape() != expected.shape()) {
    return ::testing::AssertionFailure() << "shape " << to_string(got.shape()) << ", expected "
                                         << to_string(expected.shape());
  }
  const auto g = got.to_vector<double>(), e = expected.to_vector<double>();
  double largest = 0;
  for (double v : e) largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
  for (size_t i = 0; i < e.size(); ++i) {
    if (std::isnan(e[i]) ? std::isnan(g[i]) : e[i] == g[i]) continue;
    if (!(std::fabs(g[i] - e[i]) <= tolerance * (std::fabs(e[i]) + largest + floor))) {
      return ::testing::AssertionFailure() << "element " << i << " of " << to_string(expected.shape()) << " is " << g[i]
                                           << ", expected " << e[i] << " (largest " << largest << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

// What a result of this element type may be off by, relative.
inline double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::bf16 ? 1.0 / 64 : dtype == DType::f16 ? 1.0 / 512 : 1e-5;
}

}  // namespace freight::test
