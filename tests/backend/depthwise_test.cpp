// The gradient of a depthwise convolution's weight (kernels/depthwise.h) is what the loops of the reference give, in
// f32 and bf16, for each instruction set, and has the same bits for any number of threads.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "freight/backend/cpu/kernels/simd_tables.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "tests/backend/grad_weight.h"

namespace freight::test {
namespace {

struct DepthwiseCase {
  int64_t n, c, h, w, kh, kw, stride_h, stride_w, low, high;
};

Graph grad_weight_of(const DepthwiseCase& p, DType dtype) {
  const auto extent = [&](int64_t size, int64_t kernel, int64_t stride) {
    return (size + p.low + p.high - kernel) / stride + 1;
  };
  const Shape x{p.n, p.c, p.h, p.w}, w{p.c, 1, p.kh, p.kw},
      y{p.n, p.c, extent(p.h, p.kh, p.stride_h), extent(p.w, p.kw, p.stride_w)};
  ConvAttrs a{{p.stride_h, p.stride_w}, {p.low, p.low}, {p.high, p.high}, {1, 1}, p.c, {}, {}};
  return grad_weight_graph(dtype, x, w, y, a);
}

void expect_as_reference(const DepthwiseCase& p, DType dtype) {
  SCOPED_TRACE(cat(dtype, " ", p.n, " x ", p.c, " of ", p.h, " x ", p.w, ", kernel ", p.kh, " x ", p.kw, " stride ",
                   p.stride_h, " ", p.stride_w, " padding ", p.low, " ", p.high));
  expect_gradient_as_reference(grad_weight_of(p, dtype), dtype);
}

TEST(Depthwise, GivesTheReferencesGradientsOfWeights) {
  const DepthwiseCase kCases[] = {
      {2, 96, 14, 15, 7, 7, 1, 1, 3, 3}, {3, 67, 13, 12, 5, 5, 2, 2, 2, 2}, {5, 8, 9, 30, 3, 5, 2, 1, 1, 1},
      {1, 130, 3, 2, 7, 7, 1, 1, 3, 3},  {2, 33, 11, 8, 1, 5, 1, 1, 0, 2},  {70, 2, 5, 5, 5, 5, 3, 4, 4, 0},
  };
  for (const std::string& target : cpu::simd_targets()) {
    SCOPED_TRACE(target);
    const cpu::ForcedSimdTarget forced(target);
    for (const DepthwiseCase& p : kCases) {
      for (const DType dtype : {DType::f32, DType::bf16}) expect_as_reference(p, dtype);
    }
  }
}

TEST(Depthwise, GivesTheReferencesGradientsOfWeightsOfRandomShapes) {
  std::mt19937 random(29);
  const auto draw = [&](int64_t from, int64_t to) { return from + static_cast<int64_t>(random() % (to - from + 1)); };
  for (int i = 0; i < 60; ++i) {
    const int64_t kh = draw(1, 7), kw = 3 + 2 * draw(1, 2);
    expect_as_reference({.n = draw(1, 5),
                         .c = draw(2, 150),
                         .h = draw(kh, 20),
                         .w = draw(kw, 20),
                         .kh = kh,
                         .kw = kw,
                         .stride_h = draw(1, 3),
                         .stride_w = draw(1, 3),
                         .low = draw(0, 4),
                         .high = draw(0, 4)},
                        i % 2 == 0 ? DType::f32 : DType::bf16);
  }
}

TEST(Depthwise, HasTheSameBitsForAnyNumberOfThreads) {
  const Graph g = grad_weight_of({9, 70, 14, 14, 5, 5, 1, 1, 2, 2}, DType::f32);
  const std::vector<Array> in = normal_inputs(g);
  const Array all = run_planned("cpu", g, in)[0];
  const ThreadLimit alone(1);
  const Array one = run_planned("cpu", g, in)[0];
  ASSERT_EQ(all.bytes(), one.bytes());
  EXPECT_EQ(std::memcmp(all.raw(), one.raw(), all.bytes()), 0);
}

}  // namespace
}  // namespace freight::test
