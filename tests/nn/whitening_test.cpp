// Whitening filters: the windows that pass through them have no correlation left, whatever way the images come in.
#include "freight/nn/whitening.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/freight.h"
#include "tests/support/files.h"

namespace freight::nn {
namespace {

using freight::testing::expect_error;

float noise(int64_t i) { return random_normal(7, 0, 0, static_cast<uint64_t>(i)); }

// Images whose neighbors are alike, in space and among the channels.
Array smooth_images(int64_t n, int64_t channels = 3, int64_t side = 9) {
  Array out(DType::f32, {n, channels, side, side});
  for (int64_t i = 0; i < out.numel(); ++i) {
    float* at = out.data<float>() + i;
    const bool first_column = i % side == 0, first_row = i / side % side == 0;
    *at = 0.5f * noise(i);
    if (!first_column) *at += 0.7f * at[-1];
    if (!first_row) *at += 0.2f * at[-side];
    if (i / (side * side) % channels > 0) *at += 0.5f * at[-side * side];
  }
  return out;
}

TEST(Whitening, ResponsesAreUncorrelatedAndOfUnitVariance) {
  const DeviceScope on("ref");
  const Array images = smooth_images(200);
  Conv2d conv(3, 24, 2, {.bias = false, .init = WeightInit::whiten});
  Whitening whitening(conv.weight.shape());
  whitening.add(images);
  EXPECT_EQ(whitening.windows(), 200 * 8 * 8);
  conv.weight.set(whitening.filters());
  const Tensor y = reshape(transpose(reshape(conv(images), {200, 24, 64}), 0, 1), {24, 200 * 64});
  const auto product = (matmul(y, transpose(y)) / (200.0 * 64)).to_vector<double>();
  for (size_t i = 0; i < 24; ++i) {
    for (size_t j = 0; j < 24; ++j) {
      // v / (v + 0.0005), the least v being a tenth or so.
      const double want = i == j ? 1 : i % 12 == j % 12 ? -1 : 0;
      EXPECT_NEAR(product[i * 24 + j], want, 0.01) << i << " " << j;
    }
  }
}

TEST(Whitening, FewerFiltersAreThoseOfMostVariance) {
  const Array images = smooth_images(50);
  const auto filters = [&](int64_t out) {
    Whitening whitening({out, 3, 2, 2});
    whitening.add(images);
    return whitening.filters().to_vector<float>();
  };
  const auto all = filters(24), some = filters(8);
  EXPECT_EQ(std::vector<float>(some.begin(), some.begin() + 4 * 12),
            std::vector<float>(all.begin(), all.begin() + 4 * 12));
  for (size_t i = 0; i < 4 * 12; ++i) EXPECT_EQ(some[4 * 12 + i], -some[i]);
}

TEST(Whitening, TheSameImagesInOtherBatchesGiveTheSameBits) {
  const Array images = smooth_images(30);
  const int64_t each = 3 * 9 * 9;
  Whitening whole({24, 3, 2, 2}), parts({24, 3, 2, 2});
  whole.add(images);
  for (int64_t first = 0; first < 30; first += 7) {
    const int64_t n = std::min<int64_t>(7, 30 - first);
    Array part(DType::f32, {n, 3, 9, 9});
    std::copy_n(images.data<float>() + first * each, n * each, part.data<float>());
    parts.add(part);
  }
  EXPECT_EQ(whole.filters().to_vector<float>(), parts.filters().to_vector<float>());
}

TEST(Whitening, ImagesThatCannotServeAreRefused) {
  Whitening whitening({24, 3, 2, 2});
  expect_error(ErrorKind::data, {"whiten", "f32[2,1,9,9]", "(N, 3, H, W)"},
               [&] { whitening.add(smooth_images(2, 1)); });
  expect_error(ErrorKind::data, {"whiten", "2 x 2 pixels"}, [&] { whitening.add(smooth_images(2, 3, 1)); });
  whitening.add(smooth_images(2, 3, 3));
  expect_error(ErrorKind::data, {"whiten", "12 windows, one per value of a window, got 8", "12"},
               [&] { whitening.filters(); });
}

// One color everywhere: all directions but one have no variance at all.
TEST(Whitening, FlatImagesGiveFiniteFilters) {
  Array grey(DType::f32, {4, 1, 6, 6});
  std::fill_n(grey.data<float>(), grey.numel(), 0.25f);
  Whitening whitening({8, 1, 2, 2});
  whitening.add(grey);
  for (const float w : whitening.filters().to_vector<float>()) EXPECT_LE(std::fabs(w), 1 / std::sqrt(5e-4f));
}

TEST(Whitening, LayersThatItDoesNotSuitAreRefused) {
  const ConvLayerOptions whiten{.bias = false, .init = WeightInit::whiten};
  const auto with = [&](auto change) {
    ConvLayerOptions o = whiten;
    change(o);
    return o;
  };
  expect_error(ErrorKind::usage, {"Conv2d", "got out = 25", "up to 24"}, [&] { Conv2d(3, 25, 2, whiten); });
  expect_error(ErrorKind::usage, {"Conv2d", "got out = 26", "up to 24"}, [&] { Conv2d(3, 26, 2, whiten); });
  expect_error(ErrorKind::usage, {"Conv2d", "whiten", "one group"},
               [&] { Conv2d(4, 8, 2, with([](auto& o) { o.groups = 2; })); });
  expect_error(ErrorKind::usage, {"Conv2d", "requires dilation 1, got 2"},
               [&] { Conv2d(3, 8, 2, with([](auto& o) { o.dilation = 2; })); });
  expect_error(ErrorKind::usage, {"whiten", "Conv2d"}, [&] { Conv1d(3, 6, 2, whiten); });
  expect_error(ErrorKind::usage, {"whiten", "Conv2d"}, [&] { Linear(3, 6, {.init = WeightInit::whiten}); });
  expect_error(ErrorKind::usage, {"Conv2d", "dirac", "one group"},
               [&] { Conv2d(4, 8, 3, {.groups = 2, .init = WeightInit::dirac}); });
}

}  // namespace
}  // namespace freight::nn
