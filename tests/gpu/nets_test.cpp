// Whole nets on the OpenCL device: some training steps against the CPU backend (itself compared with the reference
// elsewhere), and a short training. Nearly all of the time goes into the driver's compiler.
#include <gtest/gtest.h>

#include <cmath>

#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/base/philox.h"
#include "freight/data/digits.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/train/step.h"
#include "freight/train/trainer.h"

#include "tests/support/files.h"

namespace freight::train {
namespace {

#define NEEDS_OPENCL() \
  if (opencl_devices().devices.empty()) GTEST_SKIP() << opencl_devices().why_none

struct Trained {
  std::vector<double> losses;
  std::vector<std::pair<std::string, std::vector<float>>> states;
};

Trained trained(const std::string& backend, const models::Model& model, int64_t batch, int steps, double lr) {
  seed(3);
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = lr, .momentum = 0.9, .weight_decay = 1e-3});
  TrainStep step(model, sgd, nullptr, {}, {.backend = backend, .deterministic = true});
  const Type x_type = model.batch_type(batch);
  Trained t;
  for (int s = 0; s < steps; ++s) {
    PhiloxStream random(7, static_cast<uint64_t>(s), 0);
    Array x(x_type.dtype, x_type.shape);
    const bool tokens = model.reads_tokens();
    for (int64_t i = 0; i < x.numel(); ++i) {
      if (tokens) {
        x.data<int32_t>()[i] = static_cast<int32_t>(random.below(30));
      } else {
        x.data<float>()[i] = random.normal();
      }
    }
    Array y(model.language_model() ? DType::i32 : DType::i64, model.language_model() ? x.shape() : Shape{batch});
    if (model.language_model()) {
      for (int64_t i = 0; i < y.numel(); ++i) y.data<int32_t>()[i] = static_cast<int32_t>(random.below(30));
    } else {
      for (int64_t i = 0; i < batch; ++i) y.data<int64_t>()[i] = (3 * i + s) % 2;
    }
    t.losses.push_back(step.run(x, y).loss);
  }
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    t.states.emplace_back(v.name, v.variable.array().to_vector<float>());
  }
  return t;
}

void trains_as_on_the_cpu(models::Model (*make)(), int64_t batch, int steps, double lr) {
  seed(3);
  const Trained expected = trained("cpu", make(), batch, steps, lr);
  seed(3);
  const Trained got = trained("opencl:0", make(), batch, steps, lr);
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], 2e-4 * (1 + std::fabs(expected.losses[i]))) << "step " << i;
  }
  ASSERT_EQ(got.states.size(), expected.states.size());
  for (size_t i = 0; i < got.states.size(); ++i) {
    const auto &g = got.states[i].second, &e = expected.states[i].second;
    ASSERT_EQ(g.size(), e.size());
    double error = 0, size = 0;
    for (size_t k = 0; k < g.size(); ++k) {
      error += (g[k] - e[k]) * (g[k] - e[k]);
      size += e[k] * e[k];
    }
    EXPECT_LE(std::sqrt(error), 1e-3 * std::sqrt(size) + 1e-5) << got.states[i].first;
  }
}

TEST(OpenClNets, LenetTrainsAsOnTheCpu) {
  NEEDS_OPENCL();
  trains_as_on_the_cpu([] { return models::create("lenet"); }, 32, 20, 0.02);
}

TEST(OpenClNets, ResnetTrainsAsOnTheCpu) {
  NEEDS_OPENCL();
  trains_as_on_the_cpu([] { return models::create("resnet20"); }, 4, 2, 0.02);
}

TEST(OpenClNets, TextcnnTrainsAsOnTheCpu) {
  NEEDS_OPENCL();
  trains_as_on_the_cpu([] { return models::create("textcnn", {.classes = 2, .vocabulary = 50, .length = 12}); }, 4, 3,
                       0.02);
}

TEST(OpenClNets, TheTransformerTrainsAsOnTheCpu) {
  NEEDS_OPENCL();
  trains_as_on_the_cpu(
      [] { return models::create("gpt_char", {.vocabulary = 30, .length = 12, .layers = 1, .width = 64}); }, 4, 3,
      0.02);
}

TEST(OpenClNets, LenetLearnsTheDigits) {
  NEEDS_OPENCL();
  constexpr int64_t kBatch = 32, kSteps = 160, kJudged = 32;
  const data::Dataset digits = data::draw_digits(0, kBatch * kSteps);
  seed(3);
  const models::Model model = models::create("lenet");
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.03, .momentum = 0.9});
  TrainStep step(model, sgd, nullptr, {}, {.backend = "opencl:0", .deterministic = true});
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

TEST(OpenClNets, LenetReaches98Point5PercentOfMnistInOneEpoch) {
  NEEDS_OPENCL();
  const std::string root = freight::testing::real_data("mnist/train-images-idx3-ubyte.gz");
  if (root.empty()) GTEST_SKIP() << "no MNIST in $FREIGHT_DATA or beside the checkout";
  const freight::testing::TemporaryDir dir;
  Config c = recipe("mnist", "fast", root);
  c.data_dir = root;
  c.model = "lenet";
  c.lr = 0.1;
  c.backend = "opencl:0";
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
