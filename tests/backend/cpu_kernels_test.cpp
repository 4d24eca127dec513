// The CPU backend's own matrix product and convolutions against plain loops: odd sizes, strides, epilogues, equal bits
// for any number of threads; the memory of measured choices; the
// two loops of max_pool.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "freight/backend/cpu/kernels/conv.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/ir/builder.h"
#include "tests/backend/cpu_kernels.h"
#include "tests/support/run.h"

namespace freight::cpu {
namespace {

struct GemmCase {
  int64_t m, n, k;
  bool trans_a, trans_b;
};

void check_gemm(const GemmCase& c, int64_t batch, bool bias, bool residual, bool relu, int64_t gap) {
  SCOPED_TRACE(
      cat(c.m, "x", c.n, "x", c.k, c.trans_a ? " ta" : "", c.trans_b ? " tb" : "", " batch ", batch, " gap ", gap));
  GemmProblem p;
  p.m = c.m;
  p.n = c.n;
  p.k = c.k;
  p.batch = batch;
  const int64_t a_line = (c.trans_a ? c.m : c.k) + gap, b_line = (c.trans_b ? c.k : c.n) + gap;
  p.a_row = c.trans_a ? 1 : a_line;
  p.a_col = c.trans_a ? a_line : 1;
  p.b_row = c.trans_b ? 1 : b_line;
  p.b_col = c.trans_b ? b_line : 1;
  p.c_row = c.n;
  p.a_batch = a_line * (c.trans_a ? c.k : c.m);
  p.b_batch = b_line * (c.trans_b ? c.n : c.k);
  p.c_batch = c.m * c.n;
  p.relu = relu;
  const Array a = random(batch * p.a_batch, 1), b = random(batch * p.b_batch, 2), t = random(c.n, 3),
              r = random(batch * p.c_batch, 4);
  const auto run = [&] {
    const Gemm gemm(p);
    Array y(DType::f32, {batch * p.c_batch}), s = scratch(gemm.scratch_bytes());
    gemm.run(a.data<float>(), b.data<float>(), y.data<float>(), bias ? t.data<float>() : nullptr,
             residual ? r.data<float>() : nullptr, s.raw());
    return y;
  };
  const Array y = run();
  double worst = 0;
  for (int64_t q = 0; q < batch; ++q) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double v = bias ? static_cast<double>(t.data<float>()[j]) : 0;
        for (int64_t k = 0; k < c.k; ++k) {
          v += static_cast<double>(a.data<float>()[q * p.a_batch + i * p.a_row + k * p.a_col]) *
               static_cast<double>(b.data<float>()[q * p.b_batch + k * p.b_row + j * p.b_col]);
        }
        const int64_t at = q * p.c_batch + i * c.n + j;
        if (residual) v += static_cast<double>(r.data<float>()[at]);
        if (relu) v = std::max(v, 0.0);
        worst = std::max(worst, std::fabs(v - static_cast<double>(y.data<float>()[at])));
      }
    }
  }
  EXPECT_LT(worst, 1e-6 * std::sqrt(static_cast<double>(c.k)) * 4 + 1e-6);
  for_any_threads(run);
}

TEST(CpuGemm, AgreesWithPlainLoopsForAllSizesAndTransposes) {
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
    for (int t = 0; t < 4; ++t) {
      const GemmCase c{m, n, k, (t & 1) != 0, (t & 2) != 0};
      check_gemm(c, 1, false, false, false, 0);
      check_gemm(c, 1, true, true, true, 3);
    }
  }
}

TEST(CpuGemm, RunsBatches) {
  for (int t = 0; t < 4; ++t) check_gemm({9, 21, 33, (t & 1) != 0, (t & 2) != 0}, 5, true, true, false, 1);
}

struct ConvCase {
  int64_t n, c, h, w, o, kh, kw, stride, pad;
};

TEST(CpuConv, ForwardAndWeightGradientAgreeWithPlainLoops) {
  for (const ConvCase& k : {ConvCase{1, 1, 1, 1, 1, 1, 1, 1, 0}, ConvCase{3, 1, 28, 28, 6, 5, 5, 1, 2},
                            ConvCase{2, 6, 14, 14, 16, 5, 5, 1, 0}, ConvCase{2, 3, 9, 7, 17, 3, 3, 2, 1},
                            ConvCase{3, 17, 8, 8, 33, 3, 3, 1, 1}, ConvCase{40, 1, 1, 65, 7, 1, 5, 1, 2},
                            ConvCase{2, 5, 12, 11, 8, 3, 2, 3, 0}, ConvCase{2, 16, 6, 6, 16, 1, 1, 2, 0},
                            ConvCase{3, 2, 6, 6, 1, 3, 3, 1, 0}, ConvCase{2, 4, 10, 9, 3, 3, 3, 1, 1},
                            ConvCase{2, 1, 7, 33, 8, 3, 3, 1, 0}, ConvCase{1, 1, 9, 3, 4, 2, 3, 1, 0}}) {
    const int64_t pad_h = k.h == 1 ? 0 : k.pad;
    ConvProblem p = with_result({.n = k.n,
                                 .c = k.c,
                                 .h = k.h,
                                 .w = k.w,
                                 .o = k.o,
                                 .kh = k.kh,
                                 .kw = k.kw,
                                 .stride_h = k.stride,
                                 .stride_w = k.stride,
                                 .pad_h = pad_h,
                                 .pad_w = k.pad},
                                pad_h, k.pad);
    SCOPED_TRACE(cat(k.n, "x", k.c, "x", k.h, "x", k.w, " ", k.o, " kernel ", k.kh, "x", k.kw, " stride ", k.stride,
                     " pad ", k.pad));
    const ConvReference r(p);
    const auto expect_close = [](const Array& got, const std::vector<double>& expected, bool relu) {
      expect_near(got, expected, relu, 3e-6);
    };
    for (bool relu : {false, true}) {
      p.relu = relu;
      const auto forward = [&] {
        const ConvForward conv(p);
        Array out(DType::f32, {r.dy.numel()}), s = scratch(conv.scratch_bytes());
        conv.run(r.x.data<float>(), r.w.data<float>(), r.b.data<float>(), out.data<float>(), s.raw());
        return out;
      };
      expect_close(forward(), r.y, relu);
      for_any_threads(forward);
    }
    const auto gradient = [&] {
      const ConvGradWeight conv(p);
      Array out(DType::f32, {r.w.numel()}), s = scratch(conv.scratch_bytes());
      conv.run(r.x.data<float>(), r.dy.data<float>(), out.data<float>(), s.raw());
      return out;
    };
    expect_close(gradient(), r.dw, false);
    for_any_threads(gradient);
  }
}

// Where nobody reads the indices, another loop finds the values.
TEST(CpuPool, MaximumAloneIsThatWithIndices) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [c, h, w, kernel, stride, pad] :
         {std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>{6, 28, 28, 2, 2, 0},
          {64, 15, 14, 3, 2, 1},
          {17, 5, 9, 3, 1, 1},
          {1, 4, 3, 2, 1, 1},
          {35, 2, 2, 5, 1, 2}}) {
      SCOPED_TRACE(cat(to_string(dtype), " ", c, "x", h, "x", w, " kernel ", kernel, " stride ", stride, " pad ", pad));
      const PoolAttrs a{{kernel, kernel}, {stride, stride}, {pad, pad}, {pad, pad}, true, {}};
      Graph both;
      Builder b(both);
      const Value x = b.one(Op::input, LeafAttrs{"x", {dtype, {2, c, h, w}}}, {});
      both.outputs = b.add(Op::max_pool, a, {x});
      Graph alone = both;
      alone.outputs.pop_back();
      Array input = random(2 * c * h * w, 5).reshaped({2, c, h, w});
      for (const int64_t at : {int64_t{0}, int64_t{7}, input.numel() / 2}) input.data<float>()[at] = NAN;
      const std::vector<Array> in{input.cast(dtype)};
      const Array need = test::run_planned("cpu", both, in)[0], got = test::run_planned("cpu", alone, in)[0];
      EXPECT_EQ(std::memcmp(got.raw(), need.raw(), need.bytes()), 0);
    }
  }
}

}  // namespace
}  // namespace freight::cpu
