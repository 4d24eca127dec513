// Functions at the edges of their domains: infinite logits, weights of 0, kinks, windows that reach beyond the image,
// labels that name no class. The values are PyTorch's; where the limit is given instead, the test says so.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "freight/base/error.h"
#include "freight/ops/ops.h"
#include "tests/support/error_of.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

using freight::testing::error_of;
using freight::testing::message_of;
using Floats = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// The tests of this file run on every backend that computes.
class Edges : public ::testing::TestWithParam<std::string> {
 protected:
  const DeviceScope on_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Backends, Edges, ::testing::Values("ref", "cpu"),
                         [](const auto& instance) { return instance.param; });

void expect_equal(const Tensor& got, const Floats& expected, const char* what) {
  const Floats values = got.to_vector<float>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    const float e = expected[i], v = values[i];
    const bool same = std::isnan(e)   ? std::isnan(v)
                      : std::isinf(e) ? v == e
                                      : std::fabs(v - e) <= 2e-6f * std::max(1.0f, std::fabs(e));
    EXPECT_TRUE(same) << what << " element " << i << ": got " << v << ", expected " << e;
  }
}

using Function = std::function<Tensor(const Tensor&)>;
void expect_value_and_gradient(const char* what, const Function& f, const Tensor& x, const Floats& value,
                               const Floats& gradient) {
  const Tensor y = f(x);
  const Tensor dx = grad(sum(y), std::vector<Tensor>{x})[0];
  expect_equal(y, value, what);
  expect_equal(dx, gradient, (std::string("gradient of ") + what).c_str());
}

TEST_P(Edges, CrossEntropyOfInfiniteLogitsIsTheLimit) {
  const Tensor x = Tensor::of<float>({1, -kInf, 2, 1, -kInf, 2, -kInf, -kInf, -kInf}, {3, 3});
  const Tensor labels = Tensor::of<int64_t>({0, 1, 0}, {3});
  expect_value_and_gradient(
      "cross_entropy", [&](const Tensor& t) { return cross_entropy(t, labels, {.reduction = Reduction::none}); }, x,
      {1.31326163f, kInf, kNan}, {-0.73105860f, 0, 0.73105860f, 0.26894143f, -1, 0.73105860f, kNan, kNan, kNan});
  const Tensor row = Tensor::of<float>({1, -kInf, 2}, {1, 3}), first = Tensor::of<int32_t>({0}, {1});
  expect_value_and_gradient(
      "smoothed",
      [&](const Tensor& t) { return cross_entropy(t, first, {.label_smoothing = 0.1, .reduction = Reduction::none}); },
      row, {kInf}, {-0.66439190f, -0.03333333f, 0.69772524f});
  // PyTorch gives NaN, 0 times infinity; the limit is that of the label.
  const Tensor certain = Tensor::of<float>({1, 0, 0}, {1, 3});
  expect_value_and_gradient("of probabilities",
                            [&](const Tensor& t) { return cross_entropy(t, certain, {.reduction = Reduction::none}); },
                            row, {1.31326163f}, {-0.73105860f, 0, 0.73105860f});
  expect_value_and_gradient("softmax",
                            [](const Tensor& t) {
                              return softmax(t, 1) * Tensor::of<float>({1, 2, 3}, {3});
                            },
                            Tensor::of<float>({1, -kInf, 2, -kInf, -kInf, -kInf}, {2, 3}),
                            {0.26894143f, 0, 2.19317579f, kNan, kNan, kNan},
                            {-0.39322388f, 0, 0.39322388f, kNan, kNan, kNan});
}

TEST_P(Edges, ALabelThatNamesNoClassIsAnError) {
  const Tensor x = ones({2, 3});
  for (const int64_t bad : {int64_t{3}, int64_t{-1}, int64_t{-100}, int64_t{1} << 33}) {
    const Tensor labels = Tensor::of<int64_t>({2, bad}, {2});
    for (const Function& f :
         {Function([&](const Tensor& t) { return cross_entropy(t, labels); }),
          Function([&](const Tensor& t) { return cross_entropy(t, labels, {.label_smoothing = 0.1}); }),
          Function([&](const Tensor& t) { return nll_loss(t, labels); }),
          Function([&](const Tensor&) { return one_hot(labels, 3); }),
          Function([&](const Tensor& t) { return grad(cross_entropy(t, labels), std::vector<Tensor>{t})[0]; })}) {
      const Error error = error_of([&] { f(x).to_vector<float>(); });
      const std::string text = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::data) << text;
      EXPECT_NE(text.find("index out of range: expected 0 to 2, got " + std::to_string(bad)), std::string::npos)
          << text;
      if (GetParam() == "cpu") {
        EXPECT_NE(text.find("edges_test.cpp:"), std::string::npos) << text;
      }
    }
  }
}

TEST_P(Edges, IgnoredLabelsLeaveLossGradientAndDivisor) {
  const Tensor x = Tensor::of<float>({2, 1, 0, 0, 1, 3, 1, 1, 1}, {3, 3});
  const Tensor labels = Tensor::of<int64_t>({0, -100, 2}, {3});
  const auto loss = [&](const CrossEntropyOptions& o) { return cross_entropy(x, labels, o); };
  expect_equal(loss({.reduction = Reduction::none, .ignore_index = -100}), {0.40760595f, 0, 1.09861231f}, "rows");
  expect_equal(loss({.reduction = Reduction::sum, .ignore_index = -100}), {1.50621826f}, "sum");
  expect_equal(loss({.ignore_index = -100}), {0.75310916f}, "mean");
  expect_equal(loss({.label_smoothing = 0.1, .ignore_index = -100}), {0.80310916f}, "smoothed");
  const Floats g = grad(loss({.ignore_index = -100}), std::vector<Tensor>{x})[0].to_vector<float>();
  EXPECT_EQ(Floats(g.begin() + 3, g.begin() + 6), (Floats{0, 0, 0}));
  EXPECT_NEAR(g[8], (1.0 / 3 - 1) / 2, 1e-6);
  EXPECT_TRUE(std::isnan(cross_entropy(x, full({3}, 7, DType::i32), {.ignore_index = 7}).item<float>()));
  EXPECT_NE(message_of([&] { cross_entropy(x, x, {.ignore_index = 0}); }).find("needs integer classes: got f32[3,3]"),
            std::string::npos);
}

// A map of places is as many rows; the values are those of the rows one by one.
TEST_P(Edges, LossesOfPlacesAreThoseOfTheirRows) {
  const Tensor x = Tensor::of<float>({2, 1, 0, 0, 1, 3, 1, 1, 1, -1, 2, 0}, {2, 3, 2});  // (N, C, d)
  const Tensor labels = Tensor::of<int64_t>({0, 1, 2, -100}, {2, 2}), w = Tensor::of<float>({1, 2, 0.5f}, {3});
  const Tensor rows = reshape(transpose(x, 1, 2), {4, 3}), flat = reshape(labels, {4});
  const Tensor log_p = log_softmax(x, 1), log_rows = log_softmax(rows, 1);
  for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const CrossEntropyOptions o{.reduction = r, .ignore_index = -100, .weight = w};
    const NllOptions n{.reduction = r, .ignore_index = -100, .weight = w};
    const Floats expected = cross_entropy(rows, flat, o).to_vector<float>();
    expect_equal(reshape(cross_entropy(x, labels, o), {-1}), expected, "cross_entropy");
    expect_equal(reshape(nll_loss(log_p, labels, n), {-1}), expected, "nll_loss of places");
    expect_equal(reshape(nll_loss(log_rows, flat, n), {-1}), expected, "nll_loss of rows");
  }
  EXPECT_EQ(cross_entropy(x, labels, {.reduction = Reduction::none, .ignore_index = -100}).shape(), (Shape{2, 2}));
  const Tensor q = softmax(x * 2.0, 1);
  expect_equal(cross_entropy(x, q), cross_entropy(rows, softmax(rows * 2.0, 1)).to_vector<float>(), "probabilities");
  EXPECT_NE(
      message_of([&] { nll_loss(log_p, flat); }).find("expected (N, C, d1, ...) and (N, d1, ...) integer classes"),
      std::string::npos);
}

TEST_P(Edges, BinaryCrossEntropyIsWeighted) {
  const Tensor x = Tensor::of<float>({0, 1, -2, 3}, {2, 2}), t = Tensor::of<float>({1, 0, 1, 0}, {2, 2});
  const Tensor weight = Tensor::of<float>({2, 0.5f}, {2}), positive = Tensor::of<float>({3, 4}, {2});
  const auto plus = [](double v) { return static_cast<float>(std::log1p(std::exp(v))); };
  expect_equal(bce_with_logits(x, t, {.reduction = Reduction::none, .weight = weight, .pos_weight = positive}),
               {6 * plus(0), 0.5f * plus(1), 6 * plus(2), 0.5f * plus(3)}, "weighted");
  expect_equal(bce_with_logits(x, t, {.weight = weight}),
               {(2 * plus(0) + 0.5f * plus(1) + 2 * plus(2) + 0.5f * plus(3)) / 4}, "mean");
  EXPECT_NE(message_of([&] {
              bce_with_logits(x, t, {.pos_weight = ones({3})});
            }).find("pos_weight must be floating and broadcast to f32[2,2]: got f32[3]"),
            std::string::npos);
}

// Numbers of type u8 end at 255: counted in it, class 300 was class 44 once more.
TEST_P(Edges, LabelsInBytesNameOneClassAmongMoreThanTheyCanCount) {
  expect_equal(sum(one_hot(Tensor::of<uint8_t>({44, 255}, {2}), 600), 1), {1, 1}, "one_hot");
}

TEST_P(Edges, BinaryCrossEntropyHasTheSlopesOfTheSigmoid) {
  const Tensor x = Tensor::of<float>({-100, 0, 30, 100}, {4});
  const auto loss = [](double target) {
    return [=](const Tensor& t) { return bce_with_logits(t, full(t.shape(), target), {.reduction = Reduction::none}); };
  };
  expect_value_and_gradient("target 0", loss(0), x, {0, 0.69314718f, 30, 100}, {0, 0.5f, 1, 1});
  expect_value_and_gradient("target 1", loss(1), x, {100, 0.69314718f, 0, 0}, {-1, -0.5f, 0, 0});
  expect_value_and_gradient("target 0.5", loss(0.5), x, {50, 0.69314718f, 15, 50}, {-0.5f, 0, 0.5f, 0.5f});
  // PyTorch gives NaN at infinite logits; these are the limits.
  const Tensor ends = Tensor::of<float>({-kInf, kInf}, {2});
  expect_value_and_gradient("target 0 at the ends", loss(0), ends, {0, kInf}, {0, 1});
  expect_value_and_gradient("target 1 at the ends", loss(1), ends, {kInf, 0}, {-1, 0});
  EXPECT_NEAR(bce_with_logits(full({1}, 30.0), ones({1})).item<double>(), std::exp(-30.0), 1e-19);
}

TEST_P(Edges, ActivationsHaveTheSlopesOfTheirLimits) {
  const Tensor x = Tensor::of<float>({-kInf, -100, 0, 100, kInf, kNan}, {6});
  expect_value_and_gradient("softplus", softplus, x, {0, 0, 0.69314718f, 100, kInf, kNan}, {0, 0, 0.5f, 1, 1, kNan});
  const Tensor finite = Tensor::of<float>({-kInf, -100, 0, 100, kInf}, {5});
  expect_value_and_gradient("elu", [](const Tensor& t) { return elu(t, 2); }, finite, {-2, -2, 0, 100, kInf},
                            {0, 0, 2, 1, 1});
  expect_value_and_gradient("leaky_relu", [](const Tensor& t) { return leaky_relu(t, 0.1); }, finite,
                            {-kInf, -10, 0, 100, kInf}, {0.1f, 0.1f, 0.1f, 1, 1});
  // The second derivative of softplus at 0 is that of any smooth function: s (1 - s).
  const Tensor zero = zeros({1});
  const Tensor slope = grad(sum(softplus(zero)), std::vector<Tensor>{zero})[0];
  expect_equal(grad(sum(slope), std::vector<Tensor>{zero})[0], {0.25f}, "second derivative of softplus");
}

TEST_P(Edges, PowersOfZeroAndOfNegativeNumbers) {
  const Tensor x = Tensor::of<float>({0, 0, 0, -2, -2, 2}, {6}), e = Tensor::of<float>({0, 2, -1, 2, 0.5f, 0}, {6});
  expect_value_and_gradient("pow by its base", [&](const Tensor& t) { return pow(t, e); }, x, {1, 0, kInf, 4, kNan, 1},
                            {0, 0, -kInf, -4, kNan, 0});
  expect_value_and_gradient("pow by its exponent", [&](const Tensor& t) { return pow(x, t); }, e,
                            {1, 0, kInf, 4, kNan, 1}, {0, 0, -kInf, kNan, kNan, 0.69314718f});
}

// x^0, x and x^2 are smooth at 0, whatever the powers of 0 are that their derivatives are made of.
TEST_P(Edges, SmallWholePowersHaveAllDerivativesAtZero) {
  const Tensor x = Tensor::of<float>({0, 0, 0, 0, 2});
  const Tensor exponents = Tensor::of<float>({0, 1, 2, 3, 3});
  Tensor y = pow(x, exponents);
  for (const Floats& expected :
       {Floats{0, 1, 0, 0, 12}, Floats{0, 0, 2, 0, 12}, Floats{0, 0, 0, 6, 6}, Floats{0, 0, 0, 0, 0}}) {
    y = grad(sum(y), {x}, {.allow_unused = true})[0];
    expect_equal(y, expected, "derivative of a power");
  }
  const Tensor slope = grad(sum(pow(x, 0)), {x})[0];
  expect_equal(grad(sum(slope * slope + slope), {x})[0], {0, 0, 0, 0, 0}, "second derivative of x^0");
}

struct Pooled {
  PoolOptions options;
  Floats y, dx;  // of 1, 2, ..., 25 in a square
};

TEST_P(Edges, AveragesDoNotCountWhatReachesBeyondThePadding) {
  const Tensor x = reshape(cast(arange(25), DType::f32) + 1.0, {1, 1, 5, 5});
  const float q = 0.25f, n = 1 / 9.0f;
  const std::vector<Pooled> cases = {
      {{.kernel = 2, .ceil_mode = true},
       {4, 6, 7.5f, 14, 16, 17.5f, 21.5f, 23.5f, 25},
       {q, q, q, q, 0.5f, q, q, q, q, 0.5f, q, q, q, q, 0.5f, q, q, q, q, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 1}},
      {{.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true},
       {1.77777779f, 3.66666675f, 3.11111116f, 7.66666651f, 13, 9.66666698f, 8.44444466f, 13.6666670f, 9.77777767f},
       {n,     2 * n, n,     2 * n, n,     2 * n, 4 * n, 2 * n, 4 * n, 2 * n, n,     2 * n, n,
        2 * n, n,     2 * n, 4 * n, 2 * n, 4 * n, 2 * n, n,     2 * n, n,     2 * n, n}},
      {{.kernel = 4, .stride = 3, .padding = 2, .ceil_mode = true},
       {1, 3, 1.25000000f, 7, 16, 5.83333349f, 3.58333325f, 7.83333349f, 2.77777767f},
       {0.06250000f, 0.12500000f, 0.06250000f, 0.06250000f, 0.14583334f, 0.12500000f, 0.25000000f,
        0.12500000f, 0.12500000f, 0.29166669f, 0.06250000f, 0.12500000f, 0.06250000f, 0.06250000f,
        0.14583334f, 0.06250000f, 0.12500000f, 0.06250000f, 0.06250000f, 0.14583334f, 0.14583334f,
        0.29166669f, 0.14583334f, 0.14583334f, 0.34027779f}},
  };
  for (const Pooled& c : cases) {
    expect_value_and_gradient(
        "avg_pool2d", [&](const Tensor& t) { return avg_pool2d(t, c.options); }, x, c.y, c.dx);
  }
  const auto shape = [](int64_t size, const PoolOptions& o) { return avg_pool1d(ones({1, 1, size}), o).shape(); };
  EXPECT_EQ(shape(2, {.kernel = 3, .stride = 2, .ceil_mode = true}), (Shape{1, 1, 1}));
  EXPECT_EQ(shape(2, {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}), (Shape{1, 1, 2}));
  for (const int64_t stride : {1, 2}) {
    EXPECT_NE(message_of([&] { shape(1, {.kernel = 3, .stride = stride, .ceil_mode = true}); }).find("does not fit"),
              std::string::npos);
  }
  EXPECT_NE(message_of([&] { shape(9, {.kernel = 3, .padding = 2}); }).find("padding must be from 0 to half"),
            std::string::npos);
}

// Windows of 2, 3 and 2 elements of five: those that do not see the infinite one are finite.
TEST_P(Edges, CellsOfUnequalWindowsDoNotMixWhatTheyDoNotSee) {
  const Tensor x = reshape(Tensor::of<float>({kInf, 1, 2, 3, 4}), {1, 1, 1, 5});
  expect_value_and_gradient("adaptive_avg_pool2d",
                            [](const Tensor& t) {
                              return adaptive_avg_pool2d(t, {1, 3});
                            },
                            x, {kInf, 2, 3.5f}, {0.5f, 0.5f + 1 / 3.0f, 1 / 3.0f, 1 / 3.0f + 0.5f, 0.5f});
}

TEST_P(Edges, TheSoftmaxOfAnEmptyAxisIsEmpty) {
  for (const auto f : {softmax, log_softmax}) {
    for (const Shape& s : {Shape{2, 0}, Shape{5, 0, 0}, Shape{0, 3}}) {
      const Tensor x = zeros(s), y = f(x, -1);
      EXPECT_EQ(y.array().shape(), s);
      EXPECT_EQ(grad(sum(y), std::vector<Tensor>{x})[0].array().shape(), s);
    }
  }
}

TEST_P(Edges, WhatHasNoMeaningIsToldInItsOwnWords) {
  const Tensor x = ones({4, 3}), w = ones({3});
  EXPECT_NE(message_of([&] { batch_norm(x, w, w, 0); }).find("batch_norm: eps must be positive: got 0"),
            std::string::npos);
  EXPECT_NE(message_of([&] { sum(ones({}), 0); }).find("sum: a tensor of rank 0 has no axes: got axis 0 for f32[]"),
            std::string::npos);
}

}  // namespace
}  // namespace freight::test
