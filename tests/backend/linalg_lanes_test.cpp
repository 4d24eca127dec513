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

TEST(LinalgLanes, ABadMatrixLeavesItsNeighborsAlone) {
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

// Systems of n rows with k right sides. Behind the solutions lies one more, which must stay.
template <class T>
struct Systems {
  int64_t n, k;
  std::vector<T> x = {};
  ZeroPivot zero = {};

  void solve(const std::vector<T>& a, const std::vector<T>& b, int64_t batch) {
    x.assign(static_cast<size_t>((batch + 1) * n * k), kUntouched<T>);
    const LaneSystems<T> systems(n, k, batch);
    AlignedScratch scratch(systems.scratch_bytes());
    zero = systems.run(a.data(), b.data(), x.data(), scratch.get());
  }
  // The largest |b - a x| over the sum of |a| |x| and |b|, of all systems but those that `skip` names.
  double residual(const std::vector<T>& a, const std::vector<T>& b, const std::vector<int64_t>& skip = {}) const {
    double worst = 0;
    const auto batch = static_cast<int64_t>(b.size()) / (n * k);
    for (int64_t i = 0; i < batch * n * k; ++i) {
      const int64_t matrix = i / (n * k), row = i / k % n, column = i % k;
      if (std::find(skip.begin(), skip.end(), matrix) != skip.end()) continue;
      const double right = static_cast<double>(b[static_cast<size_t>(i)]);
      double rest = right, size = std::abs(right);
      for (int64_t j = 0; j < n; ++j) {
        const double part = static_cast<double>(a[static_cast<size_t>((matrix * n + row) * n + j)]) *
                            static_cast<double>(x[static_cast<size_t>((matrix * n + j) * k + column)]);
        rest -= part;
        size += std::abs(part);
      }
      worst = std::max(worst, std::isnan(rest) ? HUGE_VAL : std::abs(rest) / size);
    }
    return worst;
  }
};

template <class T>
void expect_systems_of_any_batch(int64_t n, int64_t k) {
  constexpr int64_t kMost = 70;
  const auto a = random<T>(kMost * n * n, static_cast<uint64_t>(n)), b = random<T>(kMost * n * k, 2);
  Systems<T> all{n, k}, some{n, k};
  all.solve(a, b, kMost);
  EXPECT_LT(all.residual(a, b), 30 * static_cast<double>(n) * static_cast<double>(std::numeric_limits<T>::epsilon()));
  for (int64_t batch = 1; batch < kMost; ++batch) {
    if (!LaneSystems<T>::takes(n, k, batch)) continue;
    SCOPED_TRACE(cat(batch, " systems of ", n, " rows, ", k, " right sides, f", sizeof(T) * 8));
    some.solve(a, b, batch);
    EXPECT_EQ(some.zero.matrix, -1);
    EXPECT_TRUE(equal_bits(some.x, all.x, 0, batch * n * k));
    for (int64_t i = batch * n * k; i < (batch + 1) * n * k; ++i)
      EXPECT_EQ(some.x[static_cast<size_t>(i)], kUntouched<T>);
  }
  auto in_place = b;
  const LaneSystems<T> systems(n, k, kMost);
  AlignedScratch scratch(systems.scratch_bytes());
  systems.run(a.data(), in_place.data(), in_place.data(), scratch.get());
  EXPECT_TRUE(equal_bits(in_place, all.x, 0, kMost * n * k));
}

TEST(LinalgLanes, TheSolutionOfASystemDoesNotDependOnTheBatch) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 23, 31, 32}) {
    for (const int64_t k : {1, 2, 3, 4}) {
      expect_systems_of_any_batch<float>(n, k);
      expect_systems_of_any_batch<double>(n, k);
    }
  }
  EXPECT_FALSE(LaneSystems<double>::takes(16, 5, 1000));
  EXPECT_FALSE(LaneSystems<double>::takes(33, 1, 1000));
  EXPECT_FALSE(LaneSystems<double>::takes(16, 1, 1));
}

// Matrices with a NaN, with an infinity, of pivots whose reciprocals overflow, and two that are singular, of which the
// first is told with its first pivot that is 0: the others are what they were.
template <class T>
void expect_neighbours_of_bad_systems(int64_t n, int64_t k) {
  SCOPED_TRACE(cat(n, " rows, ", k, " right sides, f", sizeof(T) * 8));
  constexpr int64_t kBatch = 37, kNan = 3, kInfinite = 4, kTiny = 6, kSingular = 12, kZero = 29;
  const int64_t size = n * n;
  auto a = random<T>(kBatch * size, 8);
  const auto b = random<T>(kBatch * n * k, 9);
  Systems<T> good{n, k}, got{n, k};
  good.solve(a, b, kBatch);
  const auto at = [&](int64_t matrix, int64_t i) -> T& { return a[static_cast<size_t>(matrix * size + i)]; };
  at(kNan, size / 2) = std::numeric_limits<T>::quiet_NaN();
  at(kInfinite, size / 2) = std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < size; ++i) at(kTiny, i) *= std::numeric_limits<T>::denorm_min() * 64;
  got.solve(a, b, kBatch);
  EXPECT_EQ(got.zero.matrix, -1);
  for (int64_t i = 0; i < n; ++i) at(kSingular, i * n + n / 2) = at(kZero, i * n) = 0;
  got.solve(a, b, kBatch);
  EXPECT_EQ(got.zero.matrix, kSingular);
  EXPECT_EQ(got.zero.pivot, n / 2);
  const std::vector<int64_t> bad = {kNan, kInfinite, kTiny, kSingular, kZero};
  for (int64_t i = 0; i < kBatch; ++i) {
    if (std::find(bad.begin(), bad.end(), i) == bad.end()) {
      EXPECT_TRUE(equal_bits(got.x, good.x, i * n * k, n * k)) << i;
    }
  }
  bool any = false;
  for (int64_t i = 0; i < n * k; ++i) any = any || std::isnan(got.x[static_cast<size_t>(kNan * n * k + i)]);
  EXPECT_TRUE(any);
}

TEST(LinalgLanes, ABadSystemLeavesItsNeighborsAlone) {
  for (const int64_t n : {1, 4, 5, 16, 23}) {
    for (const int64_t k : {1, 3}) {
      expect_neighbours_of_bad_systems<float>(n, k);
      expect_neighbours_of_bad_systems<double>(n, k);
    }
  }
}

// Rows that are exchanged differently in each lane, and columns of the right sides that do not mix: P x = b for
// permutation matrices, exactly.
TEST(LinalgLanes, SystemsOfPermutationsAreSolvedExactly) {
  constexpr int64_t kBatch = 64;
  for (const int64_t n : {3, 8, 23, 32}) {
    std::vector<double> a(static_cast<size_t>(kBatch * n * n)), need = random<double>(kBatch * n * 2, 4), b = need;
    for (int64_t m = 0; m < kBatch; ++m) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t j = (i * 5 + m) % n;  // a permutation for n without the factor 5
        a[static_cast<size_t>((m * n + i) * n + j)] = 1;
        for (int64_t c = 0; c < 2; ++c)
          b[static_cast<size_t>((m * n + i) * 2 + c)] = need[static_cast<size_t>((m * n + j) * 2 + c)];
      }
    }
    Systems<double> systems{n, 2};
    systems.solve(a, b, kBatch);
    EXPECT_TRUE(equal_bits(systems.x, need, 0, kBatch * n * 2)) << n;
  }
}

}  // namespace
}  // namespace freight::cpu
