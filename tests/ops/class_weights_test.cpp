// Class weights of cross_entropy beside ignored labels and label smoothing, as PyTorch's weight=. The numbers are those
// of PyTorch's documented formulas, computed in double by NumPy; gradients by complex steps.
#include <gtest/gtest.h>

#include <cmath>

#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

using Doubles = std::vector<double>;
using freight::testing::message_of;

const std::vector<float> kLogits = {2, 1, 0, 0, 1, 3, 1, -1, 0.5F, 0.25F, 2, -1}, kWeights = {0.5F, 2, 1};

class ClassWeights : public ::testing::TestWithParam<const char*> {
 protected:
  const DeviceScope on_{GetParam()};
  const Tensor logits_ = Tensor::of<float>(kLogits, {4, 3}), weight_ = Tensor::of<float>(kWeights, {3});
};

void expect_near(const Tensor& got, const Doubles& need) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), need.size());
  for (size_t i = 0; i < need.size(); ++i) EXPECT_NEAR(values[i], need[i], 2e-6 * (1 + std::fabs(need[i]))) << i;
}

struct Case {
  std::vector<int64_t> labels;
  CrossEntropyOptions options;
  double loss;
  Doubles gradient;
};

TEST_P(ClassWeights, GiveTheLossAndGradientOfPyTorch) {
  const std::vector<int64_t> all = {0, 2, 1, 1}, some = {0, 2, -100, 1};
  const Reduction sum = Reduction::sum;
  const std::vector<Case> cases = {
      {all,
       {},
       1.070380687,
       {-0.03043264038, 0.02224804282, 0.008184597561, 0.007638193843, 0.02076276352, -0.02840095737, 0.2087625429,
        -0.3353834258, 0.1266208829, 0.05164476825, -0.06644124208, 0.01479647384}},
      {all,
       {.reduction = sum},
       5.88709378,
       {-0.1673795221, 0.1223642355, 0.04501528659, 0.04201006613, 0.1141951994, -0.1562052655, 1.148193986,
        -1.844608842, 0.6964148558, 0.2840462254, -0.3654268315, 0.08138060609}},
      {all,
       {.label_smoothing = 0.1},
       1.09997662,
       {-0.01630850759, 0.01309323641, 0.003215271175, 0.004735194043, 0.008987597462, -0.0137227915, 0.1970338006,
        -0.3123182073, 0.1152844067, 0.04646259987, -0.0545819479, 0.008119348032}},
      {some,
       {.ignore_index = -100},
       0.2220514115,
       {-0.0478227206, 0.03496121015, 0.01286151045, 0.01200287604, 0.03262719982, -0.04463007586, 0, 0, 0,
        0.08115606439, -0.1044076661, 0.02325160174}},
      {some,
       {.label_smoothing = 0.1, .ignore_index = -100},
       0.3532011379,
       {-0.02562765478, 0.02057508579, 0.005052568989, 0.00744101921, 0.01412336744, -0.02156438665, 0, 0, 0,
        0.07301265694, -0.08577163242, 0.01275897548}},
      {some,
       {.label_smoothing = 0.1, .reduction = sum, .ignore_index = -100},
       1.236203983,
       {-0.08969679173, 0.07201280026, 0.01768399146, 0.02604356724, 0.04943178604, -0.07547535328, 0, 0, 0,
        0.2555442993, -0.3002007135, 0.04465641417}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.loss);
    CrossEntropyOptions options = c.options;
    options.weight = weight_;
    const Tensor labels = Tensor::of<int64_t>(c.labels, {4});
    const Tensor loss = cross_entropy(logits_, labels, options);
    expect_near(loss, {c.loss});
    expect_near(grad(loss, std::vector<Tensor>{logits_})[0], c.gradient);
    auto step = compile([options](const Tensor& x, const Tensor& y) { return cross_entropy(x, y, options); });
    expect_near(step(logits_, labels), {c.loss});
  }
  const Tensor labels = Tensor::of<int64_t>(some, {4});
  expect_near(
      cross_entropy(logits_, labels,
                    {.label_smoothing = 0.1, .reduction = Reduction::none, .ignore_index = -100, .weight = weight_}),
      {0.3643100465, 0.3560101199, 0, 0.5158838161});
}

// The mean over probabilities is that over N, whatever the weights.
TEST_P(ClassWeights, CountProbabilitiesAsPyTorchDoes) {
  const Tensor q = Tensor::of<float>({0.2F, 0.3F, 0.5F, 1, 0, 0, 0, 0.5F, 0.5F, 0.1F, 0.1F, 0.8F}, {4, 3});
  const Tensor plain = cross_entropy(logits_, q, {.weight = weight_});
  expect_near(plain, {2.363959822});
  expect_near(grad(plain, std::vector<Tensor>{logits_})[0],
              {0.1745722867, -0.07658145868, -0.09799082805, -0.1197487417, 0.01427439992, 0.1054743418, 0.2152863724,
               -0.2208641578, 0.005577785456, 0.02478106708, 0.1645377284, -0.1893187955});
  expect_near(cross_entropy(logits_, q, {.label_smoothing = 0.1, .weight = weight_}), {2.315435593});
}

TEST_P(ClassWeights, OfOneChangeNothingAndOfZeroLeaveTheirRowsOut) {
  const Tensor labels = Tensor::of<int64_t>({0, 2, 1, 1}, {4});
  expect_near(cross_entropy(logits_, labels, {.label_smoothing = 0.1, .weight = ones({3})}),
              cross_entropy(logits_, labels, {.label_smoothing = 0.1}).to_vector<double>());
  // Class 1 has a logit of -inf, and no weight: nothing of it is left, where 0 times infinity would be NaN.
  const Tensor certain = Tensor::of<float>({0, -INFINITY, 0, 0, -INFINITY, 0}, {2, 3});
  const Tensor weight = Tensor::of<float>({1, 0, 1}, {3});
  expect_near(cross_entropy(certain, Tensor::of<int64_t>({0, 1}, {2}), {.weight = weight}), {std::log(2.0)});
}

TEST_P(ClassWeights, AreRefusedWhereTheyDoNotFit) {
  const Tensor labels = Tensor::of<int64_t>({0, 2, 1, 1}, {4});
  for (const Tensor& wrong : {ones({4}), ones({1, 3}), ones({3}, DType::i32)}) {
    const std::string text = message_of([&] { cross_entropy(logits_, labels, {.weight = wrong}); });
    EXPECT_NE(text.find("cross_entropy: weight needs one floating number for each of the 3 classes"), std::string::npos)
        << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ClassWeights, ::testing::Values("cpu", "ref"));

}  // namespace
}  // namespace freight
