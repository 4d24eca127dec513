// Training end to end: a compiled step of forward, loss, gradient and update makes the loss fall.
#include <gtest/gtest.h>

#include "freight/base/philox.h"
#include "freight/freight.h"

namespace freight {
namespace {

// N points in two dimensions; class 1 inside of the unit circle.
struct Rings {
  Array x, y;
};
Rings rings(int64_t n) {
  Rings r{Array(DType::f32, {n, 2}), Array(DType::i32, {n})};
  PhiloxStream rng(1, 0, 9);
  for (int64_t i = 0; i < n; ++i) {
    const float a = rng.normal(), b = rng.normal();
    r.x.data<float>()[2 * i] = a;
    r.x.data<float>()[2 * i + 1] = b;
    r.y.data<int32_t>()[i] = a * a + b * b < 1 ? 1 : 0;
  }
  return r;
}

class TrainTest : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
  void SetUp() override { seed(0); }
};

TEST_F(TrainTest, AnMlpLearnsRingsInACompiledStep) {
  nn::Sequential net(nn::Linear(2, 32), nn::Tanh(), nn::Linear(32, 2));
  optim::SGD opt(net.parameters(), {.lr = 0.5, .momentum = 0.9});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(net(x), y);
    opt.step(loss);
    return loss;
  });
  auto correct = compile([&](const Tensor& x, const Tensor& y) { return count_correct(net(x), y); });
  const Rings data = rings(256);
  const float first = step(data.x, data.y).item<float>();
  float last = first;
  for (int i = 0; i < 150; ++i) last = step(data.x, data.y).item<float>();
  EXPECT_GT(first, 0.5f);
  EXPECT_LT(last, 0.1f);
  EXPECT_GT(correct(data.x, data.y).item<int>(), 245);
  EXPECT_EQ(step.traces(), 1u);
}

TEST_F(TrainTest, EagerAndCompiledStepsAgree) {
  const Rings data = rings(32);
  const auto run = [&](bool compiled) {
    seed(1);
    nn::Sequential net(nn::Linear(2, 8), nn::ReLU(), nn::Linear(8, 2));
    optim::Adam opt(net.parameters(), {.lr = 0.01});
    const auto body = [&](const Tensor& x, const Tensor& y) {
      const Tensor loss = cross_entropy(net(x), y);
      opt.step(loss);
      return loss;
    };
    auto step = compile(body);
    std::vector<float> losses;
    for (int i = 0; i < 5; ++i) {
      losses.push_back((compiled ? step(data.x, data.y) : body(Tensor(data.x), Tensor(data.y))).item<float>());
    }
    return losses;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_F(TrainTest, AConvNetWithBatchNormTrains) {
  nn::Sequential net(nn::Conv2d(1, 4, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(4), nn::ReLU(),
                     nn::MaxPool2d(2), nn::Flatten(), nn::Linear(4 * 4 * 4, 2));
  optim::AdamW opt(net.parameters(), {.lr = 0.01, .weight_decay = 0.01, .clip_grad_norm = 1.0});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(net(x), y);
    opt.step(loss);
    return loss;
  });
  Array x(DType::f32, {16, 1, 8, 8}), y(DType::i32, {16});
  PhiloxStream rng(2, 0, 9);
  for (int64_t i = 0; i < 16; ++i) {
    y.data<int32_t>()[i] = static_cast<int32_t>(i % 2);
    for (int64_t k = 0; k < 64; ++k) x.data<float>()[i * 64 + k] = rng.normal() + (i % 2 && k % 8 > 4 ? 2.0f : 0.0f);
  }
  const float first = step(x, y).item<float>();
  float last = first;
  for (int i = 0; i < 30; ++i) last = step(x, y).item<float>();
  EXPECT_LT(last, 0.5f * first);
  net.eval();
  auto evaluate = compile([&](const Tensor& in) { return net(in); });
  EXPECT_EQ(evaluate(x).shape(), (Shape{16, 2}));
}

}  // namespace
}  // namespace freight
