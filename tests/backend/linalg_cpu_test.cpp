// Factorizations and triangular solves of the CPU backend (kernels/factor.h, linalg.cpp): residuals in units of what
// rounding explains, for extents around all block sizes; equal bits for any number of threads; NaN and singular
// matrices.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "freight/backend/cpu/kernels/factor.h"
#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"
#include "tests/backend/aligned_scratch.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

using freight::testing::AlignedScratch;

// Rounding errors of an algorithm that is stable leave a residual of a few n eps |x|: LAPACK's tests ask for this.
constexpr double kMostResidual = 30;

enum class Content { random, hilbert, graded, singular, badly_scaled };
constexpr Content kContents[] = {Content::random, Content::hilbert, Content::graded, Content::singular,
                                 Content::badly_scaled};

template <class T>
std::vector<T> matrix(Content content, int64_t m, int64_t n, uint64_t seed) {
  std::vector<T> x(static_cast<size_t>(m * n));
  PhiloxStream r(seed, 0, 1);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double v = static_cast<double>(r.uniform(-1, 1));
      if (content == Content::hilbert) v = 1.0 / static_cast<double>(i + j + 1);
      if (content == Content::graded) v *= std::exp2(-30.0 * static_cast<double>(i + j) / static_cast<double>(m + n));
      if (content == Content::singular && j == n / 2) v = 0;
      if (content == Content::badly_scaled) v *= std::ldexp(1.0, std::numeric_limits<T>::max_exponent - 30);
      x[static_cast<size_t>(i * n + j)] = static_cast<T>(v);
    }
  }
  return x;
}

// All residuals are of matrices divided by their largest number, so that none overflows.
template <class T>
double largest(const std::vector<T>& x) {
  double most = std::numeric_limits<double>::min();
  for (T v : x) most = std::max(most, std::fabs(static_cast<double>(v)));
  return most;
}

// a (m, k) b (k, n) - c (m, n), as a multiple of max(m, n, k) eps |c|. A NaN counts as infinite.
template <class T>
double residual(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& c, int64_t m,
                int64_t n, int64_t k) {
  double most = 0, size = std::numeric_limits<double>::min();
  for (int64_t i = 0; i < m; ++i) {
    std::vector<double> row(static_cast<size_t>(n));
    for (int64_t q = 0; q < k; ++q) {
      const double factor = a[static_cast<size_t>(i * k + q)];
      for (int64_t j = 0; j < n; ++j) row[static_cast<size_t>(j)] += factor * b[static_cast<size_t>(q * n + j)];
    }
    for (int64_t j = 0; j < n; ++j) {
      const double want = c[static_cast<size_t>(i * n + j)], off = std::fabs(row[static_cast<size_t>(j)] - want);
      most = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(most, off);
      size = std::max(size, std::fabs(want));
    }
  }
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  return most / (static_cast<double>(std::max({m, n, k})) * eps * size);
}

template <class T>
std::vector<double> wide(const std::vector<T>& x, double scale = 1) {
  std::vector<double> w(x.size());
  for (size_t i = 0; i < x.size(); ++i) w[i] = static_cast<double>(x[i]) / scale;
  return w;
}
std::vector<double> transposed(const std::vector<double>& x, int64_t m, int64_t n) {
  std::vector<double> t(x.size());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) t[static_cast<size_t>(j * m + i)] = x[static_cast<size_t>(i * n + j)];
  }
  return t;
}

// Extents on both sides of the blocks' borders.
std::vector<int64_t> extents() {
  std::vector<int64_t> all(70);
  std::iota(all.begin(), all.end(), 1);
  for (int64_t n : {127, 128, 129, 130, 255, 256, 257, 258}) all.push_back(n);
  return all;
}

template <class T>
void expect_lu(Content content, int64_t m, int64_t n, int64_t batch) {
  SCOPED_TRACE(cat("lu ", m, " x ", n, " f", sizeof(T) * 8, " content ", static_cast<int>(content), " batch ", batch));
  const int64_t k = std::min(m, n);
  const auto x = matrix<T>(content, m * batch, n, static_cast<uint64_t>(m * 1000 + n));
  auto lu = x;
  std::vector<int32_t> pivots(static_cast<size_t>(k * batch)), permutation(static_cast<size_t>(m * batch));
  const LuFactor<T> factor(m, n, batch);
  AlignedScratch scratch(factor.scratch_bytes());
  factor.run(lu.data(), lu.data(), pivots.data(), permutation.data(), scratch.get());
  const double scale = largest(x);
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<double> l(static_cast<size_t>(m * k)), u(static_cast<size_t>(k * n)), rows(static_cast<size_t>(m * n));
    std::vector<int32_t> order(static_cast<size_t>(m));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = 0; i < m; ++i) {
      const int32_t from = permutation[static_cast<size_t>(b * m + i)];
      ASSERT_TRUE(from >= 0 && from < m);
      if (i < k)
        std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(pivots[static_cast<size_t>(b * k + i)])]);
      for (int64_t j = 0; j < n; ++j) {
        const double v = static_cast<double>(lu[static_cast<size_t>((b * m + i) * n + j)]);
        if (j < i && j < k) {
          l[static_cast<size_t>(i * k + j)] = v;
          EXPECT_LE(std::fabs(v), 1.0001);
        }
        if (i == j) l[static_cast<size_t>(i * k + j)] = 1;
        if (j >= i && i < k) u[static_cast<size_t>(i * n + j)] = v / scale;
        rows[static_cast<size_t>(i * n + j)] =
            static_cast<double>(x[static_cast<size_t>((b * m + from) * n + j)]) / scale;
      }
    }
    EXPECT_TRUE(std::equal(order.begin(), order.end(), permutation.begin() + b * m));
    EXPECT_LT(residual<T>(l, u, rows, m, n, k), kMostResidual);
  }
}

TEST(LinalgCpu, LuLeavesASmallResidualAroundAllBlockSizes) {
  for (int64_t n : extents()) {
    for (const Content content : kContents) {
      expect_lu<float>(content, n, n, 1);
      expect_lu<double>(content, n, n, 1);
    }
    expect_lu<double>(Content::random, n + 7, n, 1);
    expect_lu<float>(Content::random, n, n + 7, 1);
    expect_lu<double>(Content::random, n, 3, 1);
    expect_lu<float>(Content::random, 3, n, 1);
    if (n <= 40) expect_lu<double>(Content::random, n, n, 21);
    if (n <= 40) expect_lu<float>(Content::random, n, n, 35);
  }
}

// From 400 columns on threads work on the columns behind a panel while the next one is factorized, beyond 1536 in
// halves of which each is done so.
TEST(LinalgCpu, LuPanelByPanelLeavesASmallResidual) {
  for (const Content content : {Content::random, Content::graded, Content::singular}) {
    for (const int64_t n : {399, 400, 449, 512}) {
      expect_lu<float>(content, n, n, 1);
      expect_lu<double>(content, n, n, 1);
    }
  }
  expect_lu<double>(Content::random, 700, 430, 1);
  expect_lu<float>(Content::random, 430, 700, 1);
  expect_lu<double>(Content::random, 641, 641, 1);
}

template <class T>
void expect_cholesky(int64_t n, int64_t batch, bool upper) {
  SCOPED_TRACE(cat("cholesky ", n, " f", sizeof(T) * 8, " batch ", batch, upper ? " upper" : " lower"));
  const auto half = matrix<T>(Content::random, n * batch, n, static_cast<uint64_t>(n));
  std::vector<T> x(half.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = i == j ? 0.1 : 0;
        for (int64_t q = 0; q < n; ++q) {
          sum += static_cast<double>(half[static_cast<size_t>((b * n + i) * n + q)]) *
                 static_cast<double>(half[static_cast<size_t>((b * n + j) * n + q)]);
        }
        x[static_cast<size_t>((b * n + i) * n + j)] = static_cast<T>(sum);
      }
    }
  }
  auto factor = x;
  for (int64_t i = 0; i < n * batch; ++i) {  // the other triangle is not read
    for (int64_t j = 0; j < n; ++j) {
      if (upper ? j < i % n : j > i % n) factor[static_cast<size_t>(i * n + j)] = std::numeric_limits<T>::quiet_NaN();
    }
  }
  const CholeskyFactor<T> cholesky(n, batch, upper);
  AlignedScratch scratch(cholesky.scratch_bytes());
  EXPECT_EQ(cholesky.run(factor.data(), factor.data(), scratch.get()).matrix, -1);
  for (int64_t b = 0; b < batch; ++b) {
    const auto first = static_cast<ptrdiff_t>(b * n * n), last = static_cast<ptrdiff_t>((b + 1) * n * n);
    const std::vector<double> f = wide(std::vector<T>(factor.begin() + first, factor.begin() + last));
    const std::vector<double> t = transposed(f, n, n), want = wide(std::vector<T>(x.begin() + first, x.begin() + last));
    EXPECT_LT(upper ? residual<T>(t, f, want, n, n, n) : residual<T>(f, t, want, n, n, n), kMostResidual);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) EXPECT_EQ((upper ? t : f)[static_cast<size_t>(i * n + j)], 0);
    }
  }
}

TEST(LinalgCpu, CholeskyReadsOneTriangleAndLeavesASmallResidual) {
  for (int64_t n : extents()) {
    for (const bool upper : {false, true}) {
      expect_cholesky<float>(n, 1, upper);
      expect_cholesky<double>(n, 1, upper);
      if (n > 40) continue;
      expect_cholesky<double>(n, 21, upper);
      expect_cholesky<float>(n, 35, upper);
    }
  }
}

TEST(LinalgCpu, CholeskyByThreadsLeavesASmallResidual) {
  for (const int64_t n : {447, 448, 512, 515}) {
    for (const bool upper : {false, true}) {
      expect_cholesky<float>(n, 1, upper);
      expect_cholesky<double>(n, 1, upper);
    }
  }
}

// A factor of small whole numbers near its diagonal, so that x = L L' and all that is computed of it are exact.
constexpr int64_t kBand = 3;
double known_factor(int64_t i, int64_t k) {
  return i == k ? 4.0 : k < i && i - k <= kBand ? static_cast<double>((i + 2 * k) % 3 - 1) : 0.0;
}
template <class T>
std::vector<T> known_product(int64_t n, int exponent) {
  std::vector<T> x(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = std::max<int64_t>(i - kBand, 0); j <= std::min(i + kBand, n - 1); ++j) {
      double sum = 0;
      for (int64_t k = std::max<int64_t>(std::max(i, j) - kBand, 0); k <= std::min(i, j); ++k)
        sum += known_factor(i, k) * known_factor(j, k);
      x[static_cast<size_t>(i * n + j)] = std::ldexp(static_cast<T>(sum), exponent);
    }
  }
  return x;
}
template <class T>
void expect_known_factor(const std::vector<T>& factor, int64_t n, int exponent, bool upper) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < n; ++k) {
      ASSERT_EQ(factor[static_cast<size_t>(upper ? k * n + i : i * n + k)],
                std::ldexp(static_cast<T>(known_factor(i, k)), exponent))
          << i << ", " << k;
    }
  }
}

// Beyond 1536 rows a matrix is halved.
TEST(LinalgCpu, CholeskyOfManyRowsGivesTheKnownFactor) {
  constexpr int64_t kN = 1700;
  const std::vector<double> x = known_product<double>(kN, 0);
  for (const bool upper : {false, true}) {
    std::vector<double> factor(x.size());
    const CholeskyFactor<double> cholesky(kN, 1, upper);
    AlignedScratch scratch(cholesky.scratch_bytes());
    EXPECT_EQ(cholesky.run(x.data(), factor.data(), scratch.get()).matrix, -1);
    expect_known_factor(factor, kN, 0, upper);
    std::vector<double> bad = x;
    bad[static_cast<size_t>(1600 * (kN + 1))] = -1;
    const NotPositive fault = cholesky.run(bad.data(), factor.data(), scratch.get());
    EXPECT_EQ(fault.matrix, 0);
    EXPECT_EQ(fault.minor, 1601);
  }
}

template <class T>
void expect_scaled_cholesky(int exponent) {
  SCOPED_TRACE(cat("f", sizeof(T) * 8, " times 2^", exponent));
  for (const int64_t n : {5, 40, 77}) {
    const std::vector<T> x = known_product<T>(n, exponent);
    for (const bool upper : {false, true}) {
      std::vector<T> factor(x.size());
      const CholeskyFactor<T> cholesky(n, 1, upper);
      AlignedScratch scratch(cholesky.scratch_bytes());
      EXPECT_EQ(cholesky.run(x.data(), factor.data(), scratch.get()).matrix, -1);
      expect_known_factor(factor, n, exponent / 2, upper);
    }
  }
}

// A pivot's reciprocal would overflow, or vanish, where that of its root does not.
TEST(LinalgCpu, CholeskyOfTheLeastAndTheLargestNumbersIsExact) {
  expect_scaled_cholesky<double>(-1030);
  expect_scaled_cholesky<double>(1018);
  expect_scaled_cholesky<float>(-134);
  expect_scaled_cholesky<float>(122);
}

TEST(LinalgCpu, CholeskyNamesTheFirstMatrixAndMinorThatIsNotPositive) {
  for (const int64_t n : {1, 7, 8, 9, 17, 33, 130, 450}) {
    for (const bool upper : {false, true}) {
      for (const double bad : {-1.0, 0.0, std::nan("")}) {
        const int64_t batch = n > 400 ? 7 : 21;  // threads share each matrix, or the batch
        std::vector<double> x(static_cast<size_t>(batch * n * n));
        for (int64_t i = 0; i < batch * n; ++i) x[static_cast<size_t>(i * n + i % n)] = 2;
        const int64_t place = 2 * n / 3;
        for (const int64_t matrix : {5, 4, 6}) x[static_cast<size_t>((matrix * n + place) * n + place)] = bad;
        const CholeskyFactor<double> cholesky(n, batch, upper);
        AlignedScratch scratch(cholesky.scratch_bytes());
        const NotPositive fault = cholesky.run(x.data(), x.data(), scratch.get());
        EXPECT_EQ(fault.matrix, 4);
        EXPECT_EQ(fault.minor, place + 1);
      }
    }
  }
}

template <class T>
void expect_qr(Content content, int64_t m, int64_t n, int64_t batch, bool complete) {
  SCOPED_TRACE(
      cat("qr ", m, " x ", n, " f", sizeof(T) * 8, " content ", static_cast<int>(content), " complete ", complete));
  const int64_t k = complete ? m : std::min(m, n);
  const auto x = matrix<T>(content, m * batch, n, static_cast<uint64_t>(m * 1000 + n));
  std::vector<T> q(static_cast<size_t>(batch * m * k)), r(static_cast<size_t>(batch * k * n));
  const QrFactor<T> factor(m, n, batch, complete);
  AlignedScratch scratch(factor.scratch_bytes());
  factor.run(x.data(), q.data(), r.data(), scratch.get());
  const double scale = largest(x);
  for (int64_t b = 0; b < batch; ++b) {
    const auto part = [&](const std::vector<T>& all, int64_t size) {
      return std::vector<T>(all.begin() + b * size, all.begin() + (b + 1) * size);
    };
    const auto qb = wide(part(q, m * k)), rb = wide(part(r, k * n), scale), xb = wide(part(x, m * n), scale);
    EXPECT_LT(residual<T>(qb, rb, xb, m, n, k), kMostResidual);
    std::vector<double> one(static_cast<size_t>(k * k));
    for (int64_t i = 0; i < k; ++i) one[static_cast<size_t>(i * k + i)] = 1;
    EXPECT_LT(residual<T>(transposed(qb, m, k), qb, one, k, k, m), kMostResidual);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < std::min(i, n); ++j) EXPECT_EQ(rb[static_cast<size_t>(i * n + j)], 0);
    }
  }
}

TEST(LinalgCpu, QrIsOrthonormalAndLeavesASmallResidual) {
  for (int64_t n : extents()) {
    for (const Content content : kContents) {
      if (n > 70 && content != Content::random && content != Content::hilbert) continue;
      expect_qr<float>(content, n, n, 1, false);
      expect_qr<double>(content, n, n, 1, false);
    }
    expect_qr<double>(Content::random, n + 9, n, 1, false);
    expect_qr<float>(Content::random, n, n + 9, 1, false);
    if (n > 70) continue;
    expect_qr<double>(Content::random, n + 9, n, 1, true);
    expect_qr<float>(Content::random, n, 2, 1, true);
    expect_qr<double>(Content::random, n, n, 5, false);
  }
}

// Wide panels are for so many columns that the products are checked by how they act on a vector.
TEST(LinalgCpu, QrOfManyColumnsHasWidePanels) {
  for (const int64_t n : {1499, 1500, 1541}) {
    SCOPED_TRACE(n);
    const auto x = matrix<double>(Content::random, n, n, 3), v = matrix<double>(Content::random, n, 1, 4);
    std::vector<double> q(x.size()), r(x.size());
    const QrFactor<double> factor(n, n, 1, false);
    AlignedScratch scratch(factor.scratch_bytes());
    factor.run(x.data(), q.data(), r.data(), scratch.get());
    const auto times = [n](const std::vector<double>& a, const std::vector<double>& y) {
      std::vector<double> z(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i)
        z[static_cast<size_t>(i)] = std::inner_product(y.begin(), y.end(), a.begin() + i * n, 0.0);
      return z;
    };
    const auto farthest = [](const std::vector<double>& a, const std::vector<double>& b) {
      double most = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        const double off = std::fabs(a[i] - b[i]);
        most = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(most, off);
      }
      return most;
    };
    const double unit = static_cast<double>(n) * std::numeric_limits<double>::epsilon();
    const auto xv = times(x, v);
    EXPECT_LT(farthest(times(q, times(r, v)), xv) / (unit * largest(xv)), kMostResidual);
    EXPECT_LT(farthest(times(transposed(q, n, n), times(q, v)), v) / (unit * largest(v)), kMostResidual);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) ASSERT_EQ(r[static_cast<size_t>(i * n + j)], 0);
    }
  }
}

template <class T>
void expect_solution(TriangularProblem p) {
  SCOPED_TRACE(cat("n ", p.n, " other ", p.other, " f", sizeof(T) * 8, " right ", p.right, " upper ", p.upper, " unit ",
                   p.unit_diagonal, " row ", p.a_row, " batch ", p.batch));
  auto a = matrix<T>(Content::random, p.n * p.batch, p.n, 1);
  const auto b = matrix<T>(Content::random, p.n * p.batch, p.other, 2);
  std::vector<double> t(a.size());  // op(a)
  for (int64_t m = 0; m < p.batch; ++m) {
    for (int64_t i = 0; i < p.n; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        T& v = a[static_cast<size_t>(m * p.n * p.n + i * p.a_row + j * p.a_col)];
        v = i == j ? T(2) + std::abs(v) : v / static_cast<T>(p.n);
        const bool read = i == j ? !p.unit_diagonal : p.upper == (j > i);
        t[static_cast<size_t>((m * p.n + i) * p.n + j)] = read ? static_cast<double>(v) : i == j ? 1.0 : 0.0;
        if (!read) v = std::numeric_limits<T>::quiet_NaN();
      }
    }
  }
  auto x = b;
  const TriangularSolve<T> solve(p);
  AlignedScratch scratch(solve.scratch_bytes());
  solve.run(a.data(), x.data(), scratch.get());
  for (int64_t m = 0; m < p.batch; ++m) {
    const auto part = [&](const std::vector<T>& all, int64_t size) {
      return wide(std::vector<T>(all.begin() + m * size, all.begin() + (m + 1) * size));
    };
    const auto xs = part(x, p.n * p.other), bs = part(b, p.n * p.other);
    const std::vector<double> of(t.begin() + m * p.n * p.n, t.begin() + (m + 1) * p.n * p.n);
    EXPECT_LT(p.right ? residual<T>(xs, of, bs, p.other, p.n, p.n) : residual<T>(of, xs, bs, p.n, p.other, p.n),
              kMostResidual);
  }
}

// Large ones, of which each has a kernel of its own, and many small ones side by side in the lanes of vectors.
TEST(LinalgCpu, FactorsLeaveSmallResidualsWithEachInstructionSet) {
  test::for_each_simd_target([] {
    for (const int64_t n : {1, 5, 8, 17, 33, 70, 129}) {
      for (const int64_t batch : n > 40 ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 35}) {
        expect_lu<float>(Content::random, n, n, batch);
        expect_lu<double>(Content::random, n, n, batch);
        expect_cholesky<float>(n, batch, batch == 1);
        expect_cholesky<double>(n, batch, batch == 1);
      }
      expect_qr<float>(Content::random, n + 9, n, 1, false);
      expect_qr<double>(Content::random, n + 9, n, 1, true);
    }
  });
}

TEST(LinalgCpu, TrianglesAreSolvedOnEitherSide) {
  for (int64_t n : extents()) {
    for (int form = 0; form < 16; ++form) {
      TriangularProblem p;
      p.n = n;
      p.right = (form & 1) != 0;
      p.upper = (form & 2) != 0;
      p.unit_diagonal = (form & 4) != 0;
      p.a_row = (form & 8) != 0 ? 1 : n;
      p.a_col = (form & 8) != 0 ? n : 1;
      p.a_batch = n * n;
      for (const int64_t other : {1, 5, 40}) {
        p.other = other;
        expect_solution<float>(p);
        expect_solution<double>(p);
      }
      if (n > 40) continue;
      p.batch = 20;
      for (const int64_t other : {1, 2, 3, 4, 5}) {
        p.other = other;
        expect_solution<double>(p);
        expect_solution<float>(p);
      }
    }
  }
}

// A reciprocal would overflow where the quotient does not.
TEST(LinalgCpu, TheLeastNumbersOfADiagonalDivide) {
  const std::vector<double> a = {4e-310, 0, 0, 2};
  std::vector<double> x = {4e-310, 6};
  const TriangularSolve<double> solve({.n = 2, .other = 1, .a_row = 2, .a_col = 1, .a_batch = 4});
  AlignedScratch scratch(solve.scratch_bytes());
  solve.run(a.data(), x.data(), scratch.get());
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(x[1], 3);
}

// Runs `graph`, whose first input is x (and its second, where there is one, too), on a backend.
std::vector<Array> run_graph(const Graph& graph, const std::vector<Array>& inputs, const std::string& on) {
  RunOptions options;
  options.backend = on;
  options.deterministic = true;
  Executable step(plan_for(graph, options), {});
  std::vector<Array> outputs;
  for (Value v : graph.outputs) outputs.emplace_back(graph.type(v).dtype, graph.type(v).shape);
  step.run(inputs, outputs);
  return outputs;
}

Graph factors(const std::string& type, const std::string& pivots) {
  return parse(cat("graph {\n %0 = input \"x\" : ", type, "\n %1, %2, %3 = lu_factor(%0) {refuse_singular=false} : ",
                   type, ", i32", pivots, ", i32", pivots, "\n %4, %5 = qr(%0) {complete=false} : ", type, ", ", type,
                   "\n %6 = solve_triangular(%1, %0) {upper=true, transposed=false, unit_diagonal=false, right=false, "
                   "refuse_singular=false} : ",
                   type, "\n return %1, %2, %3, %4, %5, %6 }"));
}

Graph cholesky_factors(const std::string& type) {
  return parse(cat("graph {\n %0 = input \"x\" : ", type, "\n %1 = cholesky(%0) {upper=false} : ", type,
                   "\n %2 = cholesky(%0) {upper=true} : ", type, "\n return %1, %2 }"));
}

template <class T>
Array as_array(const std::vector<T>& x, DType dtype, const Shape& shape) {
  Array a(dtype, shape);
  std::memcpy(a.raw(), x.data(), a.bytes());
  return a;
}

void expect_bits_without_threads(const Graph& graph, const Array& x) {
  const int threads = omp_get_max_threads();
  std::vector<Array> first;
  for (const int count : {1, 2, 4}) {
    omp_set_num_threads(count);
    clear_plan_cache();
    const std::vector<Array> got = run_graph(graph, {x}, "cpu");
    if (first.empty()) first = got;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(std::memcmp(first[i].raw(), got[i].raw(), got[i].bytes()), 0) << count << " threads, result " << i;
    }
  }
  omp_set_num_threads(threads);
}

TEST(LinalgCpu, BitsDoNotDependOnTheNumberOfThreads) {
  using Row = std::pair<int64_t, int64_t>;
  for (const auto& [batch, n] : {Row{1, 33}, Row{1, 450}, Row{1, 700}, Row{3, 260}, Row{50, 17}}) {
    SCOPED_TRACE(cat(batch, " of ", n));
    const std::string type = cat("f32[", batch, ",", n, ",", n, "]"), pivots = cat("[", batch, ",", n, "]");
    auto x = matrix<float>(Content::random, batch * n, n, 5);
    expect_bits_without_threads(factors(type, pivots), as_array(x, DType::f32, {batch, n, n}));
    for (int64_t i = 0; i < batch * n; ++i) x[static_cast<size_t>(i * n + i % n)] = static_cast<float>(n);
    expect_bits_without_threads(cholesky_factors(type), as_array(x, DType::f32, {batch, n, n}));
  }
}

TEST(LinalgCpu, NanSpreadsAndNeverHangs) {
  for (const int64_t n : {1, 8, 19, 70, 200}) {
    auto x = matrix<double>(Content::random, n, n, 9);
    x[static_cast<size_t>(n * n / 2)] = std::nan("");
    const std::string type = cat("f64[", n, ",", n, "]"), pivots = cat("[", n, "]");
    const std::vector<Array> got = run_graph(factors(type, pivots), {as_array(x, DType::f64, {n, n})}, "cpu");
    for (const size_t result : {size_t{0}, size_t{4}, size_t{5}}) {
      bool any = false;
      for (int64_t i = 0; i < n * n; ++i) any = any || std::isnan(got[result].data<double>()[i]);
      EXPECT_TRUE(any) << n << ", result " << result;
    }
    const std::set<int32_t> rows(got[2].data<int32_t>(), got[2].data<int32_t>() + n);
    EXPECT_EQ(static_cast<int64_t>(rows.size()), n);
  }
}

TEST(LinalgCpu, ErrorsOfTheDataAreThoseOfTheReferenceBackend) {
  const char* const graphs[] = {
      R"(graph {
        %0 = input "x" : f64[2,3,4,4]
        %1, %2, %3 = lu_factor(%0) {refuse_singular=true} : f64[2,3,4,4], i32[2,3,4], i32[2,3,4]
        return %1 })",
      R"(graph {
        %0 = input "x" : f64[2,3,4,4]
        %1 = cholesky(%0) {upper=false} : f64[2,3,4,4]
        return %1 })",
      R"(graph {
        %0 = input "x" : f64[2,3,4,4]
        %1 = solve_triangular(%0, %0) {upper=true, transposed=false, unit_diagonal=false, right=false, refuse_singular=true} : f64[2,3,4,4]
        return %1 })"};
  std::vector<double> x(96);
  for (size_t i = 0; i < 24; ++i) x[i * 4 + i % 4] = 1;
  x[16 * 4 + 10] = 0;  // of matrix (1, 1), the third
  const Array input = as_array(x, DType::f64, {2, 3, 4, 4});
  for (const char* text : graphs) {
    const auto message = [&](const std::string& on) {
      try {
        run_graph(parse(text), {input}, on);
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::data);
        return cat(e.op(), ": ", e.message());
      }
      return std::string("no error");
    };
    EXPECT_EQ(message("cpu"), message("ref"));
    EXPECT_NE(message("cpu").find("matrix (1, 1) of f64[2,3,4,4]"), std::string::npos) << message("cpu");
  }
}

TEST(LinalgCpu, EmptyMatricesHaveFactors) {
  for (const char* text : {R"(graph {
        %0 = input "x" : f32[3,0]
        %1, %2, %3 = lu_factor(%0) {refuse_singular=true} : f32[3,0], i32[0], i32[3]
        return %3 })",
                           R"(graph {
        %0 = input "x" : f32[0,3,3]
        %1 = cholesky(%0) {upper=false} : f32[0,3,3]
        return %1 })",
                           R"(graph {
        %0 = input "x" : f32[3,0]
        %1, %2 = qr(%0) {complete=true} : f32[3,3], f32[3,0]
        return %1 })"}) {
    const Graph graph = parse(text);
    const Type& type = graph.type(graph.leaves(Op::input)[0]);
    const std::vector<Array> got = run_graph(graph, {Array(type.dtype, type.shape)}, "cpu");
    const std::vector<Array> want = run_graph(graph, {Array(type.dtype, type.shape)}, "ref");
    EXPECT_EQ(std::memcmp(got[0].raw(), want[0].raw(), got[0].bytes()), 0);
  }
}

}  // namespace
}  // namespace freight::cpu
