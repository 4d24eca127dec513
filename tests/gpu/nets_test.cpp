// Whole nets on the test's device (device.h): some training steps against the CPU backend (itself compared with the
// reference elsewhere), and a short training. Nearly all of the time goes into the driver's compiler.
#include <gtest/gtest.h>

#include <algorithm>

#include "freight/base/strings.h"
#include "freight/data/digits.h"
#include "freight/train/trainer.h"

#include "tests/gpu/device.h"
#include "tests/support/files.h"
#include "tests/support/trained.h"

namespace freight::train {
namespace {

TEST(GpuNets, LenetTrainsAsOnTheCpu) {
  NEEDS_TEST_DEVICE();
  trains_as_on_the_cpu(
      test::test_device(), [] { return models::create("lenet"); }, 32, 20, 0.02);
}

// Norms that end three deviations above zero keep the ReLUs' inputs clear of their edge but for one in several hundred:
// at the edge rounding decides which of a quarter of a million elements count, on the CPU as well.
models::Model gated_resnet() {
  models::Model model = models::create("resnet20");
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    if (v.name.find("bn") == std::string::npos || !ends_with(v.name, ".bias")) continue;
    Array high(DType::f32, v.variable.shape());
    std::fill_n(high.data<float>(), high.numel(), 3.0F);
    v.variable.set(high);
  }
  return model;
}

TEST(GpuNets, ResnetTrainsAsOnTheCpu) {
  NEEDS_TEST_DEVICE();
  trains_as_on_the_cpu(test::test_device(), gated_resnet, 4, 2, 0.02);
}

TEST(GpuNets, TextcnnTrainsAsOnTheCpu) {
  NEEDS_TEST_DEVICE();
  trains_as_on_the_cpu(
      test::test_device(), [] { return models::create("textcnn", {.classes = 2, .vocabulary = 50, .length = 12}); }, 4,
      3, 0.02);
}

TEST(GpuNets, TheTransformerTrainsAsOnTheCpu) {
  NEEDS_TEST_DEVICE();
  trains_as_on_the_cpu(
      test::test_device(),
      [] { return models::create("gpt_char", {.vocabulary = 30, .length = 12, .layers = 1, .width = 64}); }, 4, 3,
      0.02);
}

TEST(GpuNets, LenetLearnsTheDigits) {
  NEEDS_TEST_DEVICE();
  constexpr int64_t kBatch = 32, kSteps = 160, kJudged = 32;
  const data::Dataset digits = data::draw_digits(0, kBatch * kSteps);
  seed(3);
  const models::Model model = models::create("lenet");
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.03, .momentum = 0.9});
  TrainStep step(model, sgd, nullptr, {}, {.backend = test::test_device(), .deterministic = true});
  const auto* pixels = digits.images.data<uint8_t>();
  double right = 0;
  for (int64_t s = 0; s < kSteps; ++s) {
    Array x(DType::f32, {kBatch, 1, 28, 28}), y(DType::i64, {kBatch});
    for (int64_t i = 0; i < x.numel(); ++i) {
      x.data<float>()[i] = (static_cast<float>(pixels[s * x.numel() + i]) / 255 - 0.13f) / 0.31f;
    }
    for (int64_t i = 0; i < kBatch; ++i) y.data<int64_t>()[i] = digits.labels.data<int64_t>()[s * kBatch + i];
    const double now = step.run(x, y).right;
    if (s >= kSteps - kJudged) right += now;
  }
  EXPECT_GE(right / (kJudged * kBatch), 0.9);
}

TEST(GpuNets, LenetReaches98Point5PercentOfMnistInOneEpoch) {
  NEEDS_TEST_DEVICE();
  const std::string root = freight::testing::real_data("mnist/train-images-idx3-ubyte.gz");
  if (root.empty()) GTEST_SKIP() << "no MNIST in $FREIGHT_DATA or beside the checkout";
  const freight::testing::TemporaryDir dir;
  Config c = recipe(data::Source("mnist", {.data_dir = root}), "fast");
  c.data_dir = root;
  c.model = "lenet";
  c.lr = 0.1;
  c.backend = test::test_device();
  c.deterministic = true;
  c.output_dir = dir / "run";
  Observer silent;
  const Result r = train(c, silent);
  EXPECT_EQ(r.epochs, 1);
  EXPECT_EQ(r.test.count, 10000);
  EXPECT_GE(r.test.top1.value(), 98.5);
}

}  // namespace
}  // namespace freight::train
