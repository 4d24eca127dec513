// The CPU backend's own matrix product in f32 and f64 against plain loops in long double: all transpositions, strides,
// batches, epilogues and sizes around the tile, results that are added to, and equal bits for any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/base/error.h"
#include "tests/backend/cpu_kernels.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

template <class T>
class CpuGemm : public testing::Test {};
using Numbers = testing::Types<float, double>;
TYPED_TEST_SUITE(CpuGemm, Numbers);
template <class T>
constexpr DType kDType = std::is_same_v<T, float> ? DType::f32 : DType::f64;

struct GemmCase {
  int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  int64_t batch = 1;
  int64_t gap = 0;  // numbers between the rows of each operand, and of the result
  bool bias = false, residual = false, relu = false;
  bool accumulate = false, subtract = false;
};

GemmProblem problem_of(const GemmCase& c) {
  const int64_t a_line = (c.trans_a ? c.m : c.k) + c.gap, b_line = (c.trans_b ? c.k : c.n) + c.gap;
  GemmProblem p{.m = c.m, .n = c.n, .k = c.k, .batch = c.batch};
  p.a_row = c.trans_a ? 1 : a_line;
  p.a_col = c.trans_a ? a_line : 1;
  p.b_row = c.trans_b ? 1 : b_line;
  p.b_col = c.trans_b ? b_line : 1;
  p.c_row = c.n + c.gap;
  p.a_batch = a_line * (c.trans_a ? c.k : c.m);
  p.b_batch = b_line * (c.trans_b ? c.n : c.k);
  p.c_batch = c.m * p.c_row;
  p.relu = c.relu;
  p.accumulate = c.accumulate;
  p.subtract = c.subtract;
  return p;
}

template <class T>
Array numbers(int64_t count, uint64_t seed) {
  return random(count, seed).cast(kDType<T>);
}

// Compares the result with sums in long double: a sum in T may be off by some units in the last place times the root of
// the number of terms.
template <class T>
void expect_product(const GemmCase& c) {
  SCOPED_TRACE(cat(c.m, "x", c.n, "x", c.k, c.trans_a ? " ta" : "", c.trans_b ? " tb" : "", " batch ", c.batch, " gap ",
                   c.gap,
                   c.accumulate ? " accumulate"
                   : c.subtract ? " subtract"
                                : ""));
  const GemmProblem p = problem_of(c);
  const Array a = numbers<T>(c.batch * p.a_batch, 1), b = numbers<T>(c.batch * p.b_batch, 2), bias = numbers<T>(c.n, 3),
              residual = numbers<T>(c.batch * p.c_batch, 4), before = numbers<T>(c.batch * p.c_batch, 5);
  const auto run = [&] {
    const Gemm<T> gemm(p);
    Array y = before.clone(), s = scratch(gemm.scratch_bytes());
    gemm.run(a.data<T>(), b.data<T>(), y.data<T>(), c.bias ? bias.data<T>() : nullptr,
             c.residual ? residual.data<T>() : nullptr, s.raw());
    return y;
  };
  const Array y = run();
  const auto at = [](const Array& x, int64_t i) { return static_cast<long double>(x.data<T>()[i]); };
  long double worst = 0;
  // Some rows of large results are looked at: in time, each row of a tile.
  const int64_t checked = c.m * c.n * c.k > 10'000'000 ? 7 : 1;
  for (int64_t q = 0; q < c.batch; ++q) {
    for (int64_t i = 0; i < c.m; i += checked) {
      const int64_t row = q * p.c_batch + i * p.c_row;
      for (int64_t j = 0; j < c.n; ++j) {
        long double v = 0;
        for (int64_t k = 0; k < c.k; ++k) {
          v += at(a, q * p.a_batch + i * p.a_row + k * p.a_col) * at(b, q * p.b_batch + k * p.b_row + j * p.b_col);
        }
        if (c.accumulate) v = at(before, row + j) + v;
        if (c.subtract) v = at(before, row + j) - v;
        if (c.bias) v += at(bias, j);
        if (c.residual) v += at(residual, row + j);
        if (c.relu) v = std::max(v, 0.0L);
        worst = std::max(worst, std::fabs(v - at(y, row + j)));
      }
      for (int64_t j = row + c.n; j < row + p.c_row; ++j) ASSERT_EQ(at(y, j), at(before, j)) << "between the rows";
    }
  }
  const long double unit = std::numeric_limits<T>::epsilon();
  EXPECT_LT(worst, unit * (33 * std::sqrt(static_cast<long double>(c.k)) + 8));
  for_any_threads(run);
}

// Calls f with each transposition.
template <class F>
void for_transpositions(GemmCase c, F f) {
  for (int t = 0; t < 4; ++t) {
    c.trans_a = (t & 1) != 0;
    c.trans_b = (t & 2) != 0;
    f(c);
  }
}

TYPED_TEST(CpuGemm, AgreesWithPlainLoopsForAllSizesAndTranspositions) {
  for (const auto& [m, n, k] : {std::tuple<int, int, int>{1, 1, 1},
                                {7, 17, 65},
                                {65, 7, 17},
                                {17, 65, 7},
                                {64, 10, 128},
                                {13, 96, 300},
                                {130, 33, 1},
                                {5, 128, 1024},
                                {100, 64, 900},
                                {40, 130, 800},
                                {330, 700, 401}}) {
    for_transpositions({m, n, k}, [](GemmCase c) {
      expect_product<TypeParam>(c);
      c.bias = c.residual = c.relu = true;
      c.gap = 3;
      expect_product<TypeParam>(c);
    });
  }
}

// Every number of rows and columns that a tile may be left with.
TYPED_TEST(CpuGemm, AgreesWithPlainLoopsForSizesAroundTheTile) {
  const int rows = gemm_table<TypeParam>().rows, width = 2 * gemm_table<TypeParam>().lanes;
  for (int m = 1; m <= 2 * rows + 1; ++m)
    for_transpositions({m, width + 1, 19}, [](const GemmCase& c) { expect_product<TypeParam>(c); });
  for (int n = 1; n <= 2 * width + 1; ++n)
    for_transpositions({rows + 1, n, 19, false, false, 1, 1}, [](const GemmCase& c) { expect_product<TypeParam>(c); });
}

TYPED_TEST(CpuGemm, AgreesWithPlainLoopsWithEachInstructionSet) {
  test::for_each_simd_target([] {
    const int rows = gemm_table<TypeParam>().rows, width = 2 * gemm_table<TypeParam>().lanes;
    for (const auto& [m, n, k] :
         {std::tuple<int, int, int>{1, 1, 1}, {rows + 1, width + 1, 19}, {2 * rows - 1, 3 * width - 2, 300}}) {
      for_transpositions({m, n, k}, [](GemmCase c) {
        expect_product<TypeParam>(c);
        c.bias = c.residual = c.relu = true;
        c.gap = 3;
        expect_product<TypeParam>(c);
      });
    }
  });
}

// A matrix beyond the second-level cache is packed in long stretches for the rows of a few tiles; sums of few steps,
// and columns and steps that fill no block.
TYPED_TEST(CpuGemm, ReadsALargeMatrixForFewRows) {
  for (const int64_t m : {3, 8, 12, 13, 40, 64}) {
    for (const bool trans_b : {false, true}) {
      expect_product<TypeParam>({m, 1100, 1030, m == 13, trans_b, 1, 0, true, true, m == 8});
    }
  }
  for (const int64_t k : {1, 7, 65, 300}) {
    expect_product<TypeParam>({9, 700'000 / k + 5, k});
    expect_product<TypeParam>({30, 700'000 / k + 5, k, false, k == 65});
  }
  GemmCase in_place{8, 1024, 1024, false, false, 1, 64};  // rows a multiple of a cache line apart
  in_place.accumulate = true;
  expect_product<TypeParam>(in_place);
}

TYPED_TEST(CpuGemm, RunsBatches) {
  for_transpositions({9, 21, 33, false, false, 5, 1, true, true},
                     [](const GemmCase& c) { expect_product<TypeParam>(c); });
}

// Sums of several passes over k, blocks inside a larger matrix, batches, and few rows by columns that lie along k.
TYPED_TEST(CpuGemm, AddsToTheResultOrSubtractsFromIt) {
  for (const auto& [m, n, k, batch, gap] : {std::tuple<int, int, int, int, int>{1, 1, 1, 1, 0},
                                            {37, 53, 64, 1, 11},
                                            {48, 64, 900, 1, 64},
                                            {9, 300, 450, 1, 5},
                                            {130, 96, 200, 1, 0},
                                            {12, 35, 20, 3, 2}}) {
    for_transpositions({m, n, k, false, false, batch, gap}, [](GemmCase c) {
      c.accumulate = true;
      expect_product<TypeParam>(c);
      c.bias = c.relu = true;
      expect_product<TypeParam>(c);
      c.accumulate = false;
      c.subtract = true;
      expect_product<TypeParam>(c);
      c.bias = c.relu = false;
      expect_product<TypeParam>(c);
    });
  }
  EXPECT_THROW(Gemm<TypeParam>({.m = 1, .n = 1, .k = 1, .accumulate = true, .subtract = true}), Error);
}

TYPED_TEST(CpuGemm, AnEmptySumIsZeroAndAnEmptyResultIsLeftAlone) {
  for_transpositions({7, 19, 0, false, false, 1, 2}, [](GemmCase c) {
    expect_product<TypeParam>(c);
    c.bias = c.residual = c.relu = true;
    expect_product<TypeParam>(c);
    c.bias = c.residual = c.relu = false;
    c.subtract = true;
    expect_product<TypeParam>(c);
    c.batch = 3;
    expect_product<TypeParam>(c);
  });
  for_transpositions({0, 5, 6}, [](const GemmCase& c) { expect_product<TypeParam>(c); });
  for_transpositions({5, 0, 6}, [](const GemmCase& c) { expect_product<TypeParam>(c); });
}

// NaN is neither lost by relu nor by a sum that another element's tile shares.
TYPED_TEST(CpuGemm, NaNPasses) {
  for_transpositions({20, 40, 30, false, false, 1, 0}, [](GemmCase c) {
    c.relu = true;
    const GemmProblem p = problem_of(c);
    Array a = numbers<TypeParam>(p.a_batch, 1), b = numbers<TypeParam>(p.b_batch, 2), y(kDType<TypeParam>, {800});
    a.data<TypeParam>()[3 * p.a_row + 4 * p.a_col] = NAN;
    const Gemm<TypeParam> gemm(p);
    Array s = scratch(gemm.scratch_bytes());
    gemm.run(a.data<TypeParam>(), b.data<TypeParam>(), y.data<TypeParam>(), nullptr, nullptr, s.raw());
    for (int64_t i = 0; i < 800; ++i) ASSERT_EQ(std::isnan(y.data<TypeParam>()[i]), i / 40 == 3) << i;
  });
}

}  // namespace
}  // namespace freight::cpu
