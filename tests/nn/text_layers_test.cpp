// Layers of nets for text: padding has no part in a mean and no gradient.
#include "freight/nn/text_layers.h"

#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/freight.h"

namespace freight::nn {
namespace {

using Values = std::vector<double>;

class TextLayers : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
  void SetUp() override { seed(0); }
};

TEST_F(TextLayers, ThePaddingRowBeginsAsZeroAndStaysSo) {
  Embedding padded(5, 3, {.padding_idx = 2}), plain(5, 3);
  EmbeddingBag bag(5, 3);
  const auto row = [](const Variable& w, int64_t i) {
    const Values all = w.array().to_vector<double>();
    return Values(all.begin() + i * 3, all.begin() + (i + 1) * 3);
  };
  EXPECT_EQ(row(padded.weight, 2), Values(3, 0));
  EXPECT_EQ(row(bag.weight, 0), Values(3, 0));
  for (const int64_t i : {0, 1, 3, 4}) EXPECT_NE(row(padded.weight, i), Values(3, 0)) << i;
  for (const int64_t i : {0, 2, 4}) EXPECT_NE(row(plain.weight, i), Values(3, 0)) << i;
  const Tensor x = Tensor::of<int32_t>({2, 1, 2, 4}, {2, 2});
  const Values gradient = grad(sum(square(padded(x))), {padded.weight})[0].to_vector<double>();
  EXPECT_EQ(Values(gradient.begin() + 6, gradient.begin() + 9), Values(3, 0));
  EXPECT_NE(Values(gradient.begin() + 3, gradient.begin() + 6), Values(3, 0));
}

TEST_F(TextLayers, EmbeddingBagLeavesPaddingOut) {
  EmbeddingBag bag(4, 2);
  bag.weight.set(Array::of<float>({9, 9, 1, 2, 3, 6, -5, 0}, {4, 2}));  // a padding row that is not zero must not show
  const Tensor x = Tensor::of<int32_t>({1, 2, 0, 0, 3, 3, 3, 1, 0, 0, 0, 0}, {3, 4});
  EXPECT_EQ(bag(x).to_vector<double>(), (Values{2, 4, -3.5, 0.5, 0, 0}));
  const Values gradient = grad(sum(bag(x)), {bag.weight})[0].to_vector<double>();
  EXPECT_EQ(gradient, (Values{0, 0, 0.75, 0.75, 0.5, 0.5, 0.75, 0.75}));
  EmbeddingBag all(4, 2, {.padding_idx = -1});
  all.weight.set(bag.weight.array());
  EXPECT_EQ(all(Tensor::of<int32_t>({1, 0}, {1, 2})).to_vector<double>(), (Values{5, 5.5}));
  EmbeddingBag sums(4, 2, {.mode = BagMode::sum}), largest(4, 2, {.mode = BagMode::max});
  for (EmbeddingBag* other : {&sums, &largest}) other->weight.set(bag.weight.array());
  EXPECT_EQ(sums(x).to_vector<double>(), (Values{4, 8, -14, 2, 0, 0}));
  EXPECT_EQ(largest(x).to_vector<double>(), (Values{3, 6, 1, 2, 0, 0}));
  EXPECT_THROW(EmbeddingBag(0, 2), Error);
  EXPECT_THROW(EmbeddingBag(4, 2, {.padding_idx = 4}), Error);
  EXPECT_THROW(bag(ones({2, 2})), Error);
}

TEST_F(TextLayers, MaxOverTimeAndTranspose) {
  const Tensor x = Tensor::of<float>({1, 5, 2, -1, -7, -3, 0, 0, 4, 8, 8, 1}, {2, 2, 3});
  EXPECT_EQ(MaxOverTime()(x).to_vector<double>(), (Values{5, -1, 4, 8}));
  EXPECT_EQ(Transpose()(x).shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(Transpose(0, 1)(x).to_vector<double>()[3], 0);
  EXPECT_THROW(MaxOverTime()(ones({2, 2})), Error);
}

}  // namespace
}  // namespace freight::nn
