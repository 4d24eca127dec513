// Winograd's convolutions against plain loops: sizes that no tile divides, single pixels, paddings, epilogues, both
// ways of sharing the work, tiles across images, equal bits for any number of threads.
#include "freight/backend/cpu/kernels/winograd.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/gemm_tile.h"
#include "freight/base/dtype.h"
#include "freight/base/strings.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"
#include "tests/backend/cpu_kernels.h"
#include "tests/support/arrays.h"
#include "tests/support/run.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

struct Size {
  int64_t n, c, h, w, o, pad, taps = 3;
};

ConvProblem convolution(const Size& s) {
  return with_result(
      {.n = s.n, .c = s.c, .h = s.h, .w = s.w, .o = s.o, .kh = s.taps, .kw = s.taps, .pad_h = s.pad, .pad_w = s.pad},
      s.pad, s.pad);
}

ConvProblem transposed(const ConvProblem& p) {
  ConvProblem t = p;
  std::swap(t.c, t.o);
  std::swap(t.h, t.oh);
  std::swap(t.w, t.ow);
  t.pad_h = p.kh - 1 - p.pad_h;
  t.pad_w = p.kw - 1 - p.pad_w;
  return t;
}

void check_all_products(ConvProblem p, const ConvReference& r) {
  ASSERT_TRUE(winograd_fits(p));
  for (bool relu : {false, true}) {
    p.relu = relu;
    const auto forward = [&] {
      const Winograd<float> conv(p, Winograd<float>::Weights::stored, WinogradImages::joined, relu);
      Array out(DType::f32, {r.dy.numel()}), s = scratch(conv.scratch_bytes());
      conv.run(r.x.data<float>(), r.w.data<float>(), r.b.data<float>(), nullptr, out.data<float>(), s.raw());
      return out;
    };
    expect_near(forward(), r.y, relu, 3e-5);
    for_any_threads(forward);
  }
  p.relu = false;
  const auto input_gradient = [&] {
    const Winograd<float> conv(transposed(p), Winograd<float>::Weights::transposed, WinogradImages::joined, false);
    Array out(DType::f32, {r.x.numel()}), s = scratch(conv.scratch_bytes());
    conv.run(r.dy.data<float>(), r.w.data<float>(), nullptr, nullptr, out.data<float>(), s.raw());
    return out;
  };
  expect_near(input_gradient(), r.dx, false, 3e-5);
  for_any_threads(input_gradient);
  const auto weight_gradient = [&] {
    const WinogradGradWeight<float> conv(p);
    Array out(DType::f32, {r.w.numel()}), s = scratch(conv.scratch_bytes());
    conv.run(r.x.data<float>(), r.dy.data<float>(), out.data<float>(), s.raw());
    return out;
  };
  expect_near(weight_gradient(), r.dw, false, 3e-5);
  for_any_threads(weight_gradient);
}

// Numbers of `of` rounded to bf16, and those as f32, so that both are the same.
std::vector<Bf16> rounded(Array& of) {
  std::vector<Bf16> bits(static_cast<size_t>(of.numel()));
  for (size_t i = 0; i < bits.size(); ++i) {
    const BFloat16 v(of.data<float>()[i]);
    bits[i] = v.bits;
    of.data<float>()[i] = static_cast<float>(v);
  }
  return bits;
}

void expect_rounded(const std::vector<Bf16>& got, const Array& expected) {
  double largest = 1e-3;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(expected.data<float>()[i])));
  }
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const double e = static_cast<double>(expected.data<float>()[i]);
    const double v = static_cast<double>(static_cast<float>(std::bit_cast<BFloat16>(got[static_cast<size_t>(i)])));
    ASSERT_NEAR(v, e, std::fabs(e) / 256 + 3e-5 * largest) << i;  // half a unit of bf16
  }
}

// The products of bf16 are those of f32 on the same numbers, rounded once.
void check_bf16(ConvProblem p) {
  Array x = random(p.n * p.h * p.w * p.c, 1), w = random(p.o * p.c * p.kh * p.kw, 2), b = random(p.o, 3),
        dy = random(p.n * p.oh * p.ow * p.o, 4), residual = random(dy.numel(), 5);
  const std::vector<Bf16> x16 = rounded(x), w16 = rounded(w), b16 = rounded(b), dy16 = rounded(dy),
                          residual16 = rounded(residual);
  const auto run = [&](const auto& exact, const auto& narrow, const Array& left, const std::vector<Bf16>& left16,
                       bool epilogue, int64_t results) {
    Array y(DType::f32, {results}), s = scratch(std::max(exact.scratch_bytes(), narrow.scratch_bytes()));
    std::vector<Bf16> y16(static_cast<size_t>(results));
    exact.run(left.data<float>(), w.data<float>(), epilogue ? b.data<float>() : nullptr,
              epilogue ? residual.data<float>() : nullptr, y.data<float>(), s.raw());
    narrow.run(left16.data(), w16.data(), epilogue ? b16.data() : nullptr, epilogue ? residual16.data() : nullptr,
               y16.data(), s.raw());
    expect_rounded(y16, y);
  };
  p.relu = true;
  using F32 = Winograd<float>;
  using Narrow = Winograd<Bf16>;
  run(F32(p, F32::Weights::stored, WinogradImages::joined, false),
      Narrow(p, Narrow::Weights::stored, WinogradImages::joined, true), x, x16, true, dy.numel());
  p.relu = false;
  const ConvProblem t = transposed(p);
  run(F32(t, F32::Weights::transposed, WinogradImages::joined, false),
      Narrow(t, Narrow::Weights::transposed, WinogradImages::joined, false), dy, dy16, false, x.numel());
  const WinogradGradWeight<float> exact(p);
  const WinogradGradWeight<Bf16> narrow(p);
  Array dw(DType::f32, {w.numel()}), s = scratch(std::max(exact.scratch_bytes(), narrow.scratch_bytes()));
  std::vector<Bf16> dw16(w16.size());
  exact.run(x.data<float>(), dy.data<float>(), dw.data<float>(), s.raw());
  narrow.run(x16.data(), dy16.data(), dw16.data(), s.raw());
  expect_rounded(dw16, dw);
}

class WinogradOf : public testing::TestWithParam<Size> {};

TEST_P(WinogradOf, EqualsPlainLoopsForAnyNumberOfThreads) {
  const ConvProblem p = convolution(GetParam());
  const ConvReference r(p);
  test::for_each_simd_target([&] { check_all_products(p, r); });
}

TEST_P(WinogradOf, RoundsBf16Once) {
  const ConvProblem p = convolution(GetParam());
  test::for_each_simd_target([&] { check_bf16(p); });
}

INSTANTIATE_TEST_SUITE_P(Sizes, WinogradOf,
                         testing::Values(Size{1, 16, 4, 4, 16, 1}, Size{2, 16, 7, 9, 48, 1}, Size{1, 32, 1, 1, 16, 1},
                                         Size{1, 16, 3, 5, 32, 0}, Size{1, 16, 6, 6, 16, 2}, Size{3, 48, 14, 14, 80, 1},
                                         Size{2, 256, 5, 6, 32, 1}, Size{1, 32, 58, 57, 16, 1},
                                         Size{1, 16, 4, 4, 16, 2, 5}, Size{2, 16, 7, 9, 48, 2, 5},
                                         Size{1, 32, 1, 1, 16, 2, 5}, Size{1, 16, 6, 5, 32, 0, 5},
                                         Size{1, 16, 6, 6, 16, 4, 5}, Size{1, 48, 27, 27, 80, 2, 5},
                                         Size{2, 256, 5, 6, 32, 1, 5}, Size{4, 32, 40, 38, 16, 2, 5},
                                         // Tiles across images.
                                         Size{4, 16, 13, 13, 32, 1}, Size{6, 16, 9, 14, 16, 1},
                                         Size{3, 16, 14, 13, 16, 0}, Size{8, 16, 11, 6, 16, 2},
                                         Size{4, 16, 9, 9, 16, 1, 5}, Size{3, 16, 6, 6, 16, 2, 5}),
                         [](const auto& each) {
                           const Size& s = each.param;
                           return cat("n", s.n, "c", s.c, "h", s.h, "w", s.w, "o", s.o, "pad", s.pad, "taps", s.taps);
                         });

// Frozen weights are served with: what is no number in one image must not reach its neighbors.
TEST(WinogradFrozen, ImagesStayApart) {
  const ConvProblem p = convolution({2, 16, 13, 13, 16, 1});
  ConvReference r(p);
  Array filters(DType::f32, {filter_floats(p.c, p.o, 3)}), y(DType::f32, {r.dy.numel()});
  transform_filters(r.w.data<float>(), filters.data<float>(), p.o, p.c, 3, 1, p.c * 9, 9);
  r.x.data<float>()[12 * 13 * 16] = std::numeric_limits<float>::quiet_NaN();  // the last row of the first image
  const Winograd<float> conv(p, Winograd<float>::Weights::transformed, WinogradImages::apart, false);
  Array s = scratch(conv.scratch_bytes());
  conv.run(r.x.data<float>(), filters.data<float>(), nullptr, nullptr, y.data<float>(), s.raw());
  const float *first = y.data<float>(), *second = first + y.numel() / 2;
  EXPECT_TRUE(std::any_of(first, second, [](float v) { return std::isnan(v); }));
  EXPECT_FALSE(std::any_of(second, second + y.numel() / 2, [](float v) { return std::isnan(v); }));
}

// So are those that change, where no gradient of theirs is computed: predictions during training, gradients of images.
TEST(WinogradPlans, ASampleKeepsItsResultWhateverTheOthersAre) {
  struct Case {
    DType dtype;
    int64_t n, channels;
  };
  for (const Case& k : {Case{DType::f32, 4, 16}, Case{DType::bf16, 16, 64}}) {
    for (const bool gradient : {false, true}) {
      SCOPED_TRACE(cat(to_string(k.dtype), gradient ? ", gradient of the images" : ", result"));
      Graph g;
      Builder b(g);
      const Shape image{k.n, k.channels, 14, 14};
      const auto leaf = [&](Op op, const Shape& s) {
        return b.cast(b.one(op, LeafAttrs{"x", {DType::f32, s}}, {}), k.dtype);
      };
      const Value x = leaf(Op::input, image), w = leaf(Op::state, {k.channels, k.channels, 3, 3});
      const ConvAttrs same{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {}, {}};
      const Value y = b.one(Op::conv, same, {x, w});
      Value result = y;
      if (gradient) {
        const Value loss = b.reshape(b.sum(b.unary(Op::square, b.cast(y, DType::f32)), {0, 1, 2, 3}), {});
        result = freight::grad(g, loss, {x})[0];
      }
      g.outputs = {b.cast(result, DType::f32)};
      const Array weight = test::random_array({{DType::f32, {k.channels, k.channels, 3, 3}}, test::Fill::unit}, 1);
      const auto with = [&](float factor) {
        Array images = test::random_array({{DType::f32, image}, test::Fill::unit}, 2);
        const int64_t sample = images.numel() / k.n;
        for (int64_t i = 2 * sample; i < 3 * sample; ++i) images.data<float>()[i] *= factor;
        return test::run_planned("cpu", g, {images}, {weight})[0];
      };
      const Array expected = with(1);
      const int64_t sample = expected.numel() / k.n;
      for (const float factor : {1e4f, std::numeric_limits<float>::quiet_NaN()}) {
        const Array got = with(factor);
        for (const int64_t i : {1, 3}) {
          EXPECT_EQ(std::memcmp(got.data<float>() + i * sample, expected.data<float>() + i * sample,
                                static_cast<size_t>(sample) * sizeof(float)),
                    0)
              << "sample " << i << " beside one times " << factor;
        }
      }
    }
  }
}

TEST(WinogradFits, SquareFiltersOfUnitStrideWithFullVectors) {
  const ConvProblem p = convolution({1, 16, 8, 8, 16, 1});
  EXPECT_TRUE(winograd_fits(p));
  const auto with = [&](auto change) {
    ConvProblem q = p;
    change(q);
    return winograd_fits(q);
  };
  EXPECT_FALSE(with([](ConvProblem& q) { q.c = 3; }));
  EXPECT_FALSE(with([](ConvProblem& q) { q.o = 10; }));
  EXPECT_TRUE(with([](ConvProblem& q) { q.kh = q.kw = 5; }));
  EXPECT_FALSE(with([](ConvProblem& q) { q.kw = 5; }));
  EXPECT_FALSE(with([](ConvProblem& q) { q.kh = q.kw = 7; }));
  EXPECT_FALSE(with([](ConvProblem& q) { q.stride_h = 2; }));
  EXPECT_FALSE(with([](ConvProblem& q) { q.pad_w = 3; }));
}

}  // namespace
}  // namespace freight::cpu
