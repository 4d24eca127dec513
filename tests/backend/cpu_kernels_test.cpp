// The CPU backend's own convolutions against plain loops: odd sizes, strides, epilogues, equal bits for any number of
// threads; the two loops of max_pool.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "freight/backend/cpu/kernels/conv.h"
#include "freight/ir/builder.h"
#include "tests/backend/cpu_kernels.h"
#include "tests/support/run.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

struct ConvCase {
  int64_t n, c, h, w, o, kh, kw, stride, pad;
};

void compare_convolutions_with_plain_loops() {
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

TEST(CpuConv, ForwardAndWeightGradientAgreeWithPlainLoops) {
  test::for_each_simd_target(compare_convolutions_with_plain_loops);
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
