// Layers of current image networks: what their samples in tests/models/layer_samples_test.cpp do not show.
#include "freight/nn/image_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/nn/nn.h"
#include "freight/ops/shape.h"
#include "tests/support/files.h"

namespace freight::nn {
namespace {

using freight::testing::expect_error;

TEST(ImageLayers, ActivationsHaveTheirKinks) {
  const Array x = Array::of<float>({-4, -3, -1, 0, 1, 3, 5, 7}, {8});
  EXPECT_EQ(ReLU6()(x).to_vector<float>(), (std::vector<float>{0, 0, 0, 0, 1, 3, 5, 6}));
  const auto gate = Hardsigmoid()(x).to_vector<float>(), swish = Hardswish()(x).to_vector<float>();
  const std::vector<float> want{0, 0, 2.0f / 6, 0.5f, 4.0f / 6, 1, 1, 1}, in = x.to_vector<float>();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(gate[i], want[i], 1e-6) << in[i];
    EXPECT_NEAR(swish[i], in[i] * want[i], 1e-5) << in[i];
  }
}

TEST(ImageLayers, StochasticDepthKeepsOrZeroesWholeSamples) {
  seed(1);
  StochasticDepth layer(0.25);
  constexpr int64_t kSamples = 2000, kNumbers = 6;
  const Tensor x = full({kSamples, 2, 3}, 3.0);
  const std::vector<float> y = layer(x).to_vector<float>();
  int64_t kept = 0;
  for (int64_t n = 0; n < kSamples; ++n) {
    const float first = y[static_cast<size_t>(n * kNumbers)];
    kept += first != 0;
    if (first != 0) {
      EXPECT_NEAR(first, 4, 1e-5);
    }
    for (int64_t i = 1; i < kNumbers; ++i) EXPECT_EQ(y[static_cast<size_t>(n * kNumbers + i)], first);
  }
  EXPECT_NEAR(static_cast<double>(kept) / kSamples, 0.75, 0.04);
  layer.eval();
  EXPECT_EQ(layer(x).to_vector<float>(), x.to_vector<float>());
}

TEST(ImageLayers, LayerNorm2dNormalizesTheChannelsOfEachPixel) {
  LayerNorm2d layer(3);
  const std::vector<float> y = layer(Array::of<float>({1, 10, 2, 20, 3, 60}, {1, 3, 1, 2})).to_vector<float>();
  EXPECT_NEAR(y[0], -std::sqrt(1.5), 1e-4);
  EXPECT_NEAR(y[2], 0, 1e-5);
  EXPECT_NEAR(y[4], std::sqrt(1.5), 1e-4);
  EXPECT_NEAR(y[1] + y[3] + y[5], 0, 1e-5);
}

TEST(ImageLayers, TheClassTokenComesFirstAndSelectGetsItBack) {
  ClassToken token(2);
  token.token.set(Array::of<float>({7, 8}, {1, 1, 2}));
  const Tensor y = token(Array::of<float>({1, 2, 3, 4}, {2, 1, 2}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{7, 8, 1, 2, 7, 8, 3, 4}));
  EXPECT_EQ(Select()(y).to_vector<float>(), (std::vector<float>{7, 8, 7, 8}));
  EXPECT_EQ(Permute({2, 0, 1})(y).shape(), (Shape{2, 2, 2}));
  expect_error(ErrorKind::usage, {"ClassToken", "(N, T, 2)"}, [&] { token(full({2, 3}, 1.0)); });
}

TEST(ImageLayers, AParameterWithoutANameHasThePathOfItsLayer) {
  Sequential inner, net;
  inner.append("layer_scale", LayerScale({4, 1, 1})).append("", Conv2d(4, 2, 1)).append("", BatchNorm2d(2, {}));
  inner.append("positions", PositionEmbedding(5, 4, {.batch_axis = true}));
  net.append("block", std::move(inner));
  std::vector<std::string> names;
  for (const NamedVariable& v : net.state_dict()) {
    names.push_back(v.name);
    if (v.name == "block.weight") continue;  // of the convolution, and of the norm
    EXPECT_EQ(v.variable.name(), v.name);
  }
  EXPECT_EQ(names[0], "block.layer_scale");
  EXPECT_EQ(names[1], "block.weight");
  EXPECT_EQ(names.back(), "block.positions");
  EXPECT_EQ(net.state_dict().back().variable.shape(), (Shape{1, 5, 4}));
}

TEST(ImageLayers, InitialValuesHaveTheDeviationThatIsAskedFor) {
  seed(2);
  const auto values = [](const Module& m) { return m.state_dict()[0].variable.array().to_vector<float>(); };
  const Linear uniform(60, 70, {.init = WeightInit::uniform, .deviation = 0.5});
  double squares = 0, largest = 0;
  for (const float v : values(uniform)) {
    squares += static_cast<double>(v) * v;
    largest = std::max(largest, std::fabs(static_cast<double>(v)));
  }
  EXPECT_NEAR(std::sqrt(squares / 4200), 0.5, 0.02);
  EXPECT_NEAR(largest, 0.5 * std::sqrt(3.0), 0.01);
  squares = 0;
  for (const float v : values(Conv2d(20, 30, 3, {.init = WeightInit::normal, .deviation = 0.1}))) {
    squares += static_cast<double>(v) * v;
  }
  EXPECT_NEAR(std::sqrt(squares / 5400), 0.1, 0.005);
  for (const float v : values(Linear(3, 4, {.init = WeightInit::normal, .deviation = 0}))) EXPECT_EQ(v, 0);
}

TEST(ImageLayers, BranchesAreAddedAndMultiplied) {
  Sum sum;
  sum.append(Identity()).append(ReLU());
  Product product;
  product.append(Identity()).append(AdaptiveAvgPool2d(1));
  EXPECT_EQ(sum(Array::of<float>({-1, 2}, {2})).to_vector<float>(), (std::vector<float>{-1, 4}));
  EXPECT_EQ(product(Array::of<float>({1, 3}, {1, 1, 1, 2})).to_vector<float>(), (std::vector<float>{2, 6}));
  Sum unequal;
  unequal.append(Identity()).append(Linear(2, 3));
  expect_error(ErrorKind::usage, {"Sum", "shapes differ", "f32[1,2]", "f32[1,3]"}, [&] { unequal(full({1, 2}, 1.0)); });
}

}  // namespace
}  // namespace freight::nn
