// Batches of small matrices, of which each lane of a vector computes its own (kernels/lane_factor.h): no matrix changes
// with what lies beside it, with how many there are, or with where the results are written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "freight/backend/cpu/kernels/factor.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "tests/backend/aligned_scratch.h"

namespace freight::cpu {
namespace {

using freight::testing::AlignedScratch;

template <class T>
constexpr T kUntouched = T(-77);

template <class T>
std::vector<T> random(int64_t count, uint64_t seed) {
  std::vector<T> x(static_cast<size_t>(count));
  PhiloxStream r(seed, 0, 1);
  for (T& v : x) v = static_cast<T>(r.uniform(-1, 1));
  return x;
}

// Symmetric matrices with a heavy diagonal.
template <class T>
std::vector<T> positive(int64_t n, int64_t batch, uint64_t seed) {
  std::vector<T> x = random<T>(batch * n * n, seed);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      T* const m = x.data() + b * n * n;
      for (int64_t j = 0; j < i; ++j) m[j * n + i] = m[i * n + j];
      m[i * n + i] = static_cast<T>(n);
    }
  }
  return x;
}

template <class T>
bool equal_bits(const std::vector<T>& a, const std::vector<T>& b, int64_t first, int64_t count) {
  return std::memcmp(a.data() + first, b.data() + first, static_cast<size_t>(count) * sizeof(T)) == 0;
}

template <class T>
struct Lu {
  std::vector<T> lu;
  std::vector<int32_t> pivots, permutation;
  bool singular = false;

  // Behind the results lies a matrix more, which must stay.
  Lu(const std::vector<T>& x, int64_t n, int64_t batch)
      : lu(static_cast<size_t>((batch + 1) * n * n), kUntouched<T>),
        pivots(static_cast<size_t>(batch * n)),
        permutation(static_cast<size_t>(batch * n)) {
    const LuFactor<T> factor(n, n, batch);
    AlignedScratch scratch(factor.scratch_bytes());
    singular = factor.run(x.data(), lu.data(), pivots.data(), permutation.data(), scratch.get());
  }
};

template <class T>
void expect_lu_of_any_batch(int64_t n) {
  constexpr int64_t kMost = 70;
  const auto x = random<T>(kMost * n * n, static_cast<uint64_t>(n));
  const Lu<T> all(x, n, kMost);
  for (int64_t batch = 1; batch < kMost; ++batch) {
    if (!LuFactor<T>(n, n, batch).interleaved()) continue;
    SCOPED_TRACE(cat(batch, " matrices of ", n, " rows, f", sizeof(T) * 8));
    const Lu<T> some(x, n, batch);
    EXPECT_TRUE(equal_bits(some.lu, all.lu, 0, batch * n * n));
    EXPECT_TRUE(equal_bits(some.pivots, all.pivots, 0, batch * n));
    EXPECT_TRUE(equal_bits(some.permutation, all.permutation, 0, batch * n));
    for (int64_t i = 0; i < n * n; ++i) EXPECT_EQ(some.lu[static_cast<size_t>(batch * n * n + i)], kUntouched<T>);
  }
}

TEST(LinalgLanes, LuOfAMatrixDoesNotDependOnTheBatch) {
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 16, 23, 32}) {
    expect_lu_of_any_batch<float>(n);
    expect_lu_of_any_batch<double>(n);
  }
}

// The first of several rows that are as large becomes the pivot, counted as they lie after the exchanges so far.
TEST(LinalgLanes, PivotsOfEqualMagnitudeAreThoseOfOneMatrix) {
  constexpr int64_t kBatch = 64;
  for (const int64_t n : {2, 3}) {
    auto x = random<double>(kBatch * n * n, 3);
    for (double& v : x) v = v < 0 ? -1 : 1;
    const Lu<double> together(x, n, kBatch);
    for (int64_t b = 0; b < kBatch; ++b) {
      const Lu<double> alone({x.begin() + b * n * n, x.begin() + (b + 1) * n * n}, n, 1);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(together.pivots[static_cast<size_t>(b * n + i)], alone.pivots[static_cast<size_t>(i)]);
        for (int64_t j = 0; j < n; ++j) {
          EXPECT_EQ(together.lu[static_cast<size_t>((b * n + i) * n + j)], alone.lu[static_cast<size_t>(i * n + j)]);
        }
      }
    }
  }
}

// One matrix with a NaN, one of zeros, one whose pivot's reciprocal overflows: the others are what they were.
template <class T>
void expect_neighbours_of_bad_ones(int64_t n) {
  SCOPED_TRACE(cat(n, " rows, f", sizeof(T) * 8));
  constexpr int64_t kBatch = 37, kNan = 3, kZero = 5, kTiny = 6;
  const int64_t size = n * n;
  auto x = random<T>(kBatch * size, 8);
  const Lu<T> good(x, n, kBatch);
  EXPECT_FALSE(good.singular);
  x[static_cast<size_t>(kNan * size + size / 2)] = std::numeric_limits<T>::quiet_NaN();
  for (int64_t i = 0; i < size; ++i) x[static_cast<size_t>(kZero * size + i)] = 0;
  for (int64_t i = 0; i < size; ++i)
    x[static_cast<size_t>(kTiny * size + i)] *= std::numeric_limits<T>::denorm_min() * 64;
  const Lu<T> got(x, n, kBatch);
  EXPECT_TRUE(got.singular);
  for (int64_t b = 0; b < kBatch; ++b) {
    std::vector<bool> seen(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) seen[static_cast<size_t>(got.permutation[static_cast<size_t>(b * n + i)])] = true;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), n) << b;
    if (b != kNan && b != kZero && b != kTiny) {
      EXPECT_TRUE(equal_bits(got.lu, good.lu, b * size, size)) << b;
    }
  }
  bool any = false;
  for (int64_t i = 0; i < size; ++i) {
    any = any || std::isnan(got.lu[static_cast<size_t>(kNan * size + i)]);
    EXPECT_EQ(got.lu[static_cast<size_t>(kZero * size + i)], 0);
    EXPECT_TRUE(std::isfinite(got.lu[static_cast<size_t>(kTiny * size + i)]));
  }
  EXPECT_TRUE(any);
}

TEST(LinalgLanes, ABadMatrixLeavesItsNeighboursAlone) {
  for (const int64_t n : {1, 4, 5, 16, 23}) {
    expect_neighbours_of_bad_ones<float>(n);
    expect_neighbours_of_bad_ones<double>(n);
  }
}

template <class T>
void expect_cholesky_of_any_batch(int64_t n, bool upper) {
  constexpr int64_t kMost = 70;
  const int64_t size = n * n;
  const auto x = positive<T>(n, kMost, 4);
  const auto factor = [&](int64_t batch, const std::vector<T>& from, NotPositive fault) {
    std::vector<T> y(static_cast<size_t>((batch + 1) * size), kUntouched<T>);
    const CholeskyFactor<T> f(n, batch, upper);
    AlignedScratch scratch(f.scratch_bytes());
    const NotPositive found = f.run(from.data(), y.data(), scratch.get());
    EXPECT_EQ(found.matrix, fault.matrix);
    EXPECT_EQ(found.minor, fault.minor);
    return y;
  };
  const auto all = factor(kMost, x, {});
  for (int64_t batch = 1; batch < kMost; ++batch) {
    if (!CholeskyFactor<T>(n, batch, upper).interleaved()) continue;
    SCOPED_TRACE(cat(batch, " matrices of ", n, " rows, f", sizeof(T) * 8, upper ? " upper" : " lower"));
    const auto some = factor(batch, x, {});
    EXPECT_TRUE(equal_bits(some, all, 0, batch * size));
    for (int64_t i = 0; i < size; ++i) EXPECT_EQ(some[static_cast<size_t>(batch * size + i)], kUntouched<T>);
    auto bad = x;
    bad[static_cast<size_t>((batch - 1) * size + (n / 2) * (n + 1))] = std::numeric_limits<T>::quiet_NaN();
    factor(batch, bad, {batch - 1, n / 2 + 1});
  }
}

TEST(LinalgLanes, CholeskyOfAMatrixDoesNotDependOnTheBatch) {
  for (const int64_t n : {1, 2, 3, 4, 5, 8, 13, 16, 23, 32}) {
    for (const bool upper : {false, true}) {
      expect_cholesky_of_any_batch<float>(n, upper);
      expect_cholesky_of_any_batch<double>(n, upper);
    }
  }
}

template <class T>
void expect_solution_of_any_batch(TriangularProblem p) {
  constexpr int64_t kMost = 70;
  const auto a = positive<T>(p.n, kMost, 5), b = random<T>((kMost + 1) * p.n * p.other, 6);
  const auto solve = [&](int64_t batch) {
    p.batch = batch;
    auto x = b;
    const TriangularSolve<T> s(p);
    AlignedScratch scratch(s.scratch_bytes());
    s.run(a.data(), x.data(), scratch.get());
    return x;
  };
  const auto all = solve(kMost);
  for (int64_t batch = 1; batch < kMost; ++batch) {
    p.batch = batch;
    if (!TriangularSolve<T>(p).interleaved()) continue;
    SCOPED_TRACE(cat(batch, " triangles of ", p.n, " rows, f", sizeof(T) * 8, ", ", p.other, " right sides"));
    const auto some = solve(batch);
    const int64_t size = p.n * p.other;
    EXPECT_TRUE(equal_bits(some, all, 0, batch * size));
    EXPECT_TRUE(equal_bits(some, b, batch * size, (kMost + 1 - batch) * size));
  }
}

TEST(LinalgLanes, TheSolutionOfATriangleDoesNotDependOnTheBatch) {
  for (const int64_t n : {2, 4, 5, 6, 7, 16, 23, 32}) {
    for (int form = 0; form < 8; ++form) {
      TriangularProblem p;
      p.n = n;
      p.right = (form & 1) != 0;
      p.upper = (form & 2) != 0;
      p.a_row = (form & 4) != 0 ? 1 : n;
      p.a_col = (form & 4) != 0 ? n : 1;
      p.a_batch = n * n;
      for (const int64_t other : {1, 2, 4}) {
        p.other = other;
        expect_solution_of_any_batch<float>(p);
        expect_solution_of_any_batch<double>(p);
      }
    }
  }
}

}  // namespace
}  // namespace freight::cpu
