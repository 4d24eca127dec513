// The gradient of the weight of a convolution with dilation and steps (kernels/conv_taps.h) is what the loops of the
// reference give, whatever the groups and the padding, in f32 and bf16, and has the same bits for any number of
// threads.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "tests/backend/grad_weight.h"

namespace freight::test {
namespace {

struct TapsCase {
  int64_t n, c, o, groups;
  std::vector<int64_t> sizes;  // of the spatial axes
  int64_t kernel, stride, dilation, low, high;
};

Graph grad_weight_of(const TapsCase& p, DType dtype) {
  Shape x{p.n, p.c}, w{p.o, p.c / p.groups}, y{p.n, p.o};
  ConvAttrs a{{}, {}, {}, {}, p.groups, {}, {}};
  for (const int64_t size : p.sizes) {
    x.push_back(size);
    w.push_back(p.kernel);
    y.push_back((size + p.low + p.high - p.dilation * (p.kernel - 1) - 1) / p.stride + 1);
    a.stride.push_back(p.stride);
    a.pad_low.push_back(p.low);
    a.pad_high.push_back(p.high);
    a.dilation.push_back(p.dilation);
  }
  return grad_weight_graph(dtype, x, w, y, a);
}

void expect_as_reference(const TapsCase& p, DType dtype) {
  SCOPED_TRACE(cat(dtype, " ", p.n, " x ", p.c, " of ", Shape(p.sizes), " to ", p.o, " in ", p.groups,
                   " groups, kernel ", p.kernel, " stride ", p.stride, " dilation ", p.dilation, " padding ", p.low,
                   " ", p.high));
  expect_graph_as_reference(grad_weight_of(p, dtype), dtype);
}

// Many pixels are cut into slices; many weights for few pixels are not.
constexpr DType kTypes[] = {DType::f32, DType::bf16};
TEST(ConvTaps, GiveTheReferencesGradients) {
  const TapsCase kCases[] = {
      {2, 8, 8, 1, {97, 95}, 3, 2, 2, 2, 2},
      {1, 3, 5, 1, {150, 131}, 2, 2, 7, 0, 3},
      {4, 6, 9, 3, {70, 70}, 3, 2, 3, 3, 0},
      {1, 16, 16, 16, {140, 141}, 3, 2, 2, 2, 2},
      {2, 70, 33, 1, {9, 11}, 3, 3, 2, 2, 1},
      {3, 5, 7, 1, {20'011}, 4, 3, 5, 9, 2},
      {1, 2, 2, 2, {300}, 3, 2, 100, 40, 0},
      {1, 4, 4, 1, {7, 7}, 3, 2, 3, 0, 0},
      // In bf16 oneDNN 2.6 computes these wrongly: channels that do not fill vectors, and results of one column.
      {2, 64, 64, 64, {32, 32}, 3, 1, 2, 2, 2},
      {1, 17, 5, 1, {31, 40}, 3, 1, 3, 3, 3},
      {2, 24, 24, 2, {33, 35}, 3, 1, 2, 2, 2},
      {2, 6, 6, 3, {9, 3}, 3, 2, 1, 0, 0},
      {1, 8, 8, 8, {12, 2}, 2, 2, 1, 0, 0},
  };
  for (const TapsCase& p : kCases) {
    for (const DType dtype : kTypes) expect_as_reference(p, dtype);
  }
}

TEST(ConvTaps, GiveTheReferencesGradientsOfRandomShapes) {
  std::mt19937 random(17);
  const auto draw = [&](int64_t from, int64_t to) { return from + static_cast<int64_t>(random() % (to - from + 1)); };
  for (int i = 0; i < 60; ++i) {
    TapsCase p{.n = draw(1, 3),
               .c = 0,
               .o = 0,
               .groups = draw(1, 3),
               .sizes = {},
               .kernel = draw(1, 4),
               .stride = draw(1, 4),
               .dilation = draw(1, 5),
               .low = draw(0, 6),
               .high = draw(0, 6)};
    p.c = p.groups * draw(1, 9);
    p.o = p.groups * draw(1, 9);
    const int64_t axes = draw(1, 2), least = p.dilation * (p.kernel - 1) + 1;
    for (int64_t k = 0; k < axes; ++k) p.sizes.push_back(draw(least, least + (axes == 1 ? 3000 : 40)));
    expect_as_reference(p, kTypes[i % 2]);
  }
}

TEST(ConvTaps, HaveTheSameBitsForAnyNumberOfThreads) {
  for (const TapsCase& p :
       {TapsCase{2, 8, 8, 1, {97, 95}, 3, 2, 2, 2, 2}, TapsCase{2, 70, 33, 1, {9, 11}, 3, 3, 2, 2, 1}}) {
    const Graph g = grad_weight_of(p, DType::f32);
    const std::vector<Array> in = normal_inputs(g);
    const Array all = run_planned("cpu", g, in)[0];
    const ThreadLimit alone(1);
    const Array one = run_planned("cpu", g, in)[0];
    ASSERT_EQ(all.bytes(), one.bytes());
    EXPECT_EQ(std::memcmp(all.raw(), one.raw(), all.bytes()), 0);
  }
}

}  // namespace
}  // namespace freight::test
