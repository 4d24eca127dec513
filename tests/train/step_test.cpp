// The training step: parts of a batch against the whole batch.
#include "freight/train/step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "freight/base/philox.h"
#include "freight/nn/nn.h"

namespace freight::train {
namespace {

Array random_images(const Shape& shape) {
  Array a(DType::f32, shape);
  PhiloxStream rng(7, 0, 0);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<float>()[i] = rng.normal();
  return a;
}
Array labels(int64_t n) {
  Array y(DType::i64, {n});
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = (3 * i + 1) % 10;
  return y;
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights;
  TrainStep::Summary summary;
};

// No ReLU and no maximum: rounding has no kink to fall over.
models::Model smooth_net() {
  return models::from_spec(R"({"format": "freight-model-1", "name": "smooth", "input": [1, 28, 28], "net": [
      {"type": "Conv2d", "out": 6, "kernel": 5}, {"type": "Tanh"}, {"type": "AvgPool2d", "kernel": 4},
      {"type": "Flatten"}, {"type": "Linear", "out": 10}]})");
}

// Ten steps of a net on one batch of 24 samples, in so many parts.
Trained trained(models::Model (*make)(), int64_t parts) {
  set_default_backend("cpu");
  seed(3);
  const models::Model model = make();
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3, .clip_grad_norm = 1});
  optim::EMA ema(*model.net, {.decay = 0.9});
  TrainStep step(model, sgd, &ema, {.label_smoothing = 0.1, .parts = parts}, {.deterministic = true});
  const Array x = random_images(model.batch_type(24).shape), y = labels(24);
  Trained t;
  for (int i = 0; i < 10; ++i) t.losses.push_back(step.run(x, y).loss);
  for (const auto& list : {model.net->state_dict(), ema.state_dict()}) {
    for (const nn::NamedVariable& v : list) {
      const std::vector<float> more = v.variable.array().to_vector<float>();
      t.weights.insert(t.weights.end(), more.begin(), more.end());
    }
  }
  t.summary = step.summary({x.dtype(), x.shape()}, {y.dtype(), y.shape()});
  return t;
}

TEST(TrainStep, PartsOfABatchTrainAsTheWholeBatchDoes) {
  const Trained whole = trained(smooth_net, 1);
  for (const int64_t parts : {2, 5, 24}) {  // 5 leaves a shorter last part
    SCOPED_TRACE(parts);
    const Trained cut = trained(smooth_net, parts);
    for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(cut.losses[i], whole.losses[i], 1e-5);
    ASSERT_EQ(cut.weights.size(), whole.weights.size());
    double worst = 0;
    for (size_t i = 0; i < whole.weights.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::fabs(cut.weights[i] - whole.weights[i])));
    }
    EXPECT_LT(worst, 1e-5);
  }
}

TEST(TrainStep, PartsNeedLessMemoryForTheSameWork) {
  const auto resnet = [] { return models::create("resnet20"); };
  const Trained whole = trained(resnet, 1), cut = trained(resnet, 4);
  EXPECT_LT(cut.summary.arena_bytes, whole.summary.arena_bytes / 3);
  EXPECT_NEAR(cut.summary.flops / whole.summary.flops, 1.0, 0.02);
}

TEST(TrainStep, ALossThatIsNotFiniteLeavesTheModelAsItWas) {
  set_default_backend("cpu");
  for (const int64_t parts : {1, 3}) {
    seed(3);
    const models::Model model = smooth_net();
    model.net->train();
    optim::SGD sgd(model.net->parameters(), {.lr = 0.1});
    TrainStep step(model, sgd, nullptr, {.parts = parts}, {});
    Array x = random_images({6, 1, 28, 28});
    x.data<float>()[5 * 784 + 3] = NAN;  // in the last part
    const Array before = model.net->parameters()[0].array().clone();
    EXPECT_FALSE(std::isfinite(step.run(x, labels(6)).loss));
    EXPECT_EQ(model.net->parameters()[0].array().to_vector<float>(), before.to_vector<float>());
    EXPECT_NE(step.first_nonfinite(x, labels(6)).find("0 (conv"), std::string::npos)
        << step.first_nonfinite(x, labels(6));
  }
}

}  // namespace
}  // namespace freight::train
