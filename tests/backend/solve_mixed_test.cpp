// The CPU's kernel of a mixed solve: residuals as small as f64 allows from factors in f32; where it leaves the work to
// f64; scales beyond f32; singular matrices and NaN; equal bits for any number of threads.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"

namespace freight::cpu {
namespace {

Array random_numbers(const Shape& shape, uint64_t seed, double scale = 1) {
  Array a(DType::f64, shape);
  PhiloxStream r(seed, 0, 1);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<double>()[i] = scale * static_cast<double>(r.uniform(-1, 1));
  return a;
}

Array hilbert(int64_t n) {
  Array a(DType::f64, {n, n});
  for (int64_t i = 0; i < n * n; ++i) a.data<double>()[i] = 1.0 / static_cast<double>(i / n + i % n + 1);
  return a;
}

struct Solution {
  Array x;
  std::vector<int64_t> iterations;
};

Graph graph_of(const Array& a, const Array& b) {
  const Shape batch(a.shape().begin(), a.shape().end() - 2);
  const Type at{DType::f64, a.shape()}, bt{DType::f64, b.shape()};
  return parse(cat("graph {\n %0 = input \"a\" : ", at, "\n %1 = input \"b\" : ", bt,
                   "\n %2, %3 = solve(%0, %1) {mixed=true} : ", bt, ", ", Type{DType::i64, batch},
                   "\n return %2, %3 }"));
}

Solution solved(const Array& a, const Array& b, const std::string& on = "cpu") {
  RunOptions options;
  options.backend = on;
  options.deterministic = true;
  Executable step(plan_for(graph_of(a, b), options), {});
  const Shape batch(a.shape().begin(), a.shape().end() - 2);
  std::vector<Array> out = {Array(DType::f64, b.shape()), Array(DType::i64, batch)};
  step.run({a, b}, out);
  return {out[0], out[1].to_vector<int64_t>()};
}

// How far the residuals of the columns of one system are from what dsgesv asks for: max |b - a x| over max |x| times
// the largest sum of a row of |a|, sqrt(n) and the unit roundoff.
double excess(const Array& a, const Array& x, const Array& b) {
  const int64_t n = a.shape()[0], k = b.shape()[1];
  const auto *pa = a.data<double>(), *px = x.data<double>(), *pb = b.data<double>();
  double norm = 0, most = 0;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += std::fabs(pa[i * n + j]);
    norm = std::max(norm, sum);
  }
  for (int64_t c = 0; c < k; ++c) {
    double size = 0, rest = 0;
    for (int64_t i = 0; i < n; ++i) {
      long double r = pb[i * k + c];
      for (int64_t j = 0; j < n; ++j) r -= static_cast<long double>(pa[i * n + j]) * px[j * k + c];
      size = std::max(size, std::fabs(px[i * k + c]));
      rest = std::max(rest, static_cast<double>(std::fabs(r)));
    }
    const double off = rest == 0 ? 0 : rest / (size * norm * std::sqrt(static_cast<double>(n)) * 0x1p-53);
    most = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(most, off);
  }
  return most;
}

TEST(SolveMixed, RefinesToTheResidualOfF64) {
  for (const int64_t n : {1, 2, 7, 8, 33, 70, 130, 260, 450}) {
    for (const int64_t k : {1, 5, 40}) {
      const Array a = random_numbers({n, n}, static_cast<uint64_t>(n)), b = random_numbers({n, k}, 7);
      const Solution s = solved(a, b);
      // The residual that the kernel sees has rounding errors of its own.
      EXPECT_LT(excess(a, s.x, b), 2) << n << ", " << k;
      EXPECT_LE(s.iterations[0], 6) << n << ", " << k;
      if (n > 8) {
        EXPECT_GE(s.iterations[0], 1) << n << ", " << k;
      }
    }
  }
}

TEST(SolveMixed, LeavesMatricesThatF32CannotSolveToF64) {
  Array nearly(DType::f64, {2, 2});  // singular in f32
  const double rows[] = {1, 1, 1, 1 + 1e-12};
  std::memcpy(nearly.raw(), rows, sizeof rows);
  for (const Array& a : {hilbert(9), hilbert(12), nearly}) {
    const int64_t n = a.shape()[0];
    const Array b = random_numbers({n, 3}, 3);
    const Solution s = solved(a, b), plain = solved(a, b, "ref");
    EXPECT_EQ(s.iterations[0], -1) << n;
    EXPECT_EQ(plain.iterations[0], -1) << n;
    EXPECT_LT(excess(a, s.x, b), 10) << n;
  }
}

TEST(SolveMixed, EachMatrixOfABatchHasItsOwnIterations) {
  constexpr int64_t kCount = 9, kSize = 10;
  Array a = random_numbers({3, 3, kSize, kSize}, 5);
  const Array bad = hilbert(kSize), b = random_numbers({3, 3, kSize, 2}, 6);
  std::memcpy(a.data<double>() + 4 * kSize * kSize, bad.raw(), bad.bytes());
  const Solution s = solved(a, b);
  ASSERT_EQ(s.iterations.size(), static_cast<size_t>(kCount));
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t iterations = s.iterations[static_cast<size_t>(i)];
    EXPECT_EQ(iterations == -1, i == 4) << i;
    Array ai(DType::f64, {kSize, kSize}), bi(DType::f64, {kSize, 2}), xi(DType::f64, {kSize, 2});
    std::memcpy(ai.raw(), a.data<double>() + i * kSize * kSize, ai.bytes());
    std::memcpy(bi.raw(), b.data<double>() + i * kSize * 2, bi.bytes());
    std::memcpy(xi.raw(), s.x.data<double>() + i * kSize * 2, xi.bytes());
    EXPECT_LT(excess(ai, xi, bi), 10) << i;
  }
}

// Numbers beyond the range of f32 are scaled by powers of two, each right side by its own: the solution is, but for
// such a power, the same bits. Numbers that two such powers together would move out of f64 are left to f64.
TEST(SolveMixed, ScalesWhatDoesNotFitF32) {
  constexpr int64_t kSize = 40, kColumns = 2;
  const Array a = random_numbers({kSize, kSize}, 1), b = random_numbers({kSize, kColumns}, 2);
  const Solution plain = solved(a, b);
  ASSERT_GE(plain.iterations[0], 1);
  struct Row {
    int of_a, of_b;  // exponents; of b in its second column only
    bool refined;
  };
  for (const Row& row : {Row{200, 0, true}, Row{-200, 0, true}, Row{140, 300, true}, Row{-160, -300, true},
                         Row{3, -45, true}, Row{700, 0, false}, Row{-700, 0, false}, Row{0, 600, false}}) {
    Array as = a.clone(), bs = b.clone();
    for (int64_t i = 0; i < as.numel(); ++i) as.data<double>()[i] = std::ldexp(as.data<double>()[i], row.of_a);
    for (int64_t i = 1; i < bs.numel(); i += 2) bs.data<double>()[i] = std::ldexp(bs.data<double>()[i], row.of_b);
    const Solution s = solved(as, bs);
    EXPECT_EQ(s.iterations[0] >= 0, row.refined) << row.of_a << ", " << row.of_b;
    for (int64_t i = 0; i < bs.numel(); ++i) {
      const double got = std::ldexp(s.x.data<double>()[i], row.of_a - (i % 2 == 1 ? row.of_b : 0));
      EXPECT_NEAR(got, plain.x.data<double>()[i], 1e-9) << i << " of " << row.of_a << ", " << row.of_b;
    }
  }
}

TEST(SolveMixed, ARightSideOf0HasTheSolution0) {
  const Array a = random_numbers({12, 12}, 1), zero(DType::f64, {12, 2});
  std::memset(zero.raw(), 0, zero.bytes());
  const Solution s = solved(a, zero);
  EXPECT_EQ(s.iterations[0], 0);
  for (const double v : s.x.to_vector<double>()) EXPECT_EQ(v, 0);
}

TEST(SolveMixed, NamesTheFirstSingularMatrixAsTheReferenceDoes) {
  Array a = random_numbers({2, 3, 4, 4}, 8);
  for (const int64_t matrix : {4, 5}) {
    for (int64_t i = 0; i < 4; ++i) a.data<double>()[matrix * 16 + i * 4 + 2] = 0;
  }
  const Array b = random_numbers({2, 3, 4, 1}, 9);
  std::vector<std::string> texts;
  for (const char* backend : {"cpu", "ref"}) {
    try {
      solved(a, b, backend);
      ADD_FAILURE() << backend << " accepts a singular matrix";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::data);
      texts.push_back(e.message());
    }
  }
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[0].find("(1, 1)"), std::string::npos) << texts[0];
}

TEST(SolveMixed, NanIsNotLost) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    Array a = random_numbers({20, 20}, 1), b = random_numbers({20, 2}, 2);
    b.data<double>()[7] = bad;  // of the second column
    const Solution of_b = solved(a, b);
    EXPECT_EQ(of_b.iterations[0], -1);
    bool lost = true;
    for (int64_t i = 0; i < b.numel(); ++i) {
      const double v = of_b.x.data<double>()[i];
      if (i % 2 == 0) {
        EXPECT_TRUE(std::isfinite(v)) << i;
      }
      lost = lost && std::isfinite(v);
    }
    EXPECT_FALSE(lost);
    a.data<double>()[45] = bad;
    const Solution of_a = solved(a, random_numbers({20, 2}, 2));
    EXPECT_EQ(of_a.iterations[0], -1);
    lost = true;
    for (const double v : of_a.x.to_vector<double>()) lost = lost && std::isfinite(v);
    if (std::isnan(bad)) {
      EXPECT_FALSE(lost);
    }
  }
}

TEST(SolveMixed, BitsDoNotDependOnTheNumberOfThreads) {
  struct Row {
    int64_t batch, n, k;
  };
  const int threads = omp_get_max_threads();
  for (const Row& row : {Row{1, 33, 1}, Row{1, 450, 1}, Row{1, 450, 70}, Row{3, 260, 2}, Row{50, 17, 3}}) {
    const Array a = random_numbers({row.batch, row.n, row.n}, 5), b = random_numbers({row.batch, row.n, row.k}, 6);
    Solution first;
    for (const int count : {1, 2, 4}) {
      omp_set_num_threads(count);
      clear_plan_cache();
      const Solution got = solved(a, b);
      if (count == 1) first = got;
      EXPECT_EQ(got.iterations, first.iterations);
      EXPECT_EQ(std::memcmp(got.x.raw(), first.x.raw(), got.x.bytes()), 0) << row.n << ", " << count << " threads";
    }
  }
  omp_set_num_threads(threads);
  clear_plan_cache();
}

}  // namespace
}  // namespace freight::cpu
