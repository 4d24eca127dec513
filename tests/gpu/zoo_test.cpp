// Every net of the zoo at small size on the OpenCL device: losses of some training steps as on the CPU. The first one
// says that the forward pass agrees, the next that gradients and updates do.
#include <gtest/gtest.h>

#include <cmath>

#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/base/philox.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/train/step.h"

namespace freight::train {
namespace {

#define NEEDS_OPENCL() \
  if (opencl_devices().devices.empty()) GTEST_SKIP() << opencl_devices().why_none

// The nets of the registry at the smallest size that all of their layers take.
models::Model small(const models::Entry& e) {
  models::Options o;
  if (e.loss == models::Loss::cross_entropy) o.classes = 10;
  if (e.vocabulary != 0) {
    const bool language = std::string(e.name).starts_with("gpt");
    if (language) o.classes = 0;
    o.vocabulary = 50;
    o.length = 12;
    if (language) o.layers = 1, o.width = 64;
  } else if (e.input.rank() == 3 && e.input[1] > 64) {
    const std::string name = e.name;  // the last norms of a resnet need more than one value per sample
    o.size = name == "alexnet" || name.starts_with("resnet") ? Shape{64, 64} : Shape{32, 32};
  }
  return models::create(e.name, o);
}

// Where many norms follow one another over few values, the loss is so steep (the gradient of resnet50 has a norm of
// 350) that rounding decides where a second update leads, on every backend: one short update is compared there.
struct Updates {
  int count = 2;
  double lr = 0.002;
};
Updates updates_of(const std::string& name) {
  if (name == "resnet50") return {1, 1e-6};
  if (name == "resnet101") return {1, 1e-7};
  if (name == "resnet152")
    return {0};  // so steep that no update above rounding can be compared: the forward pass alone
  return {2, name == "googlenet" ? 0.0002 : 0.002};
}

std::vector<double> losses(const std::string& backend, const models::Entry& e, int64_t batch) {
  seed(3);
  const models::Model model = small(e);
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = updates_of(e.name).lr});
  TrainStep step(model, sgd, nullptr, {}, {.backend = backend, .deterministic = true});
  const Type x_type = model.batch_type(batch);
  const bool values = model.loss == models::Loss::mse;
  PhiloxStream random(7, 0, 0);
  Array x(x_type.dtype, x_type.shape);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (model.reads_tokens()) {
      x.data<int32_t>()[i] = static_cast<int32_t>(1 + random.below(40));
    } else {
      x.data<float>()[i] = random.normal();
    }
  }
  Array y(values                   ? DType::f32
          : model.language_model() ? DType::i32
                                   : DType::i64,
          values                   ? Shape{batch, model.classes()}
          : model.language_model() ? x.shape()
                                   : Shape{batch});
  for (int64_t i = 0; i < y.numel(); ++i) {
    const auto drawn = static_cast<int64_t>(random.below(10));
    if (values) y.data<float>()[i] = static_cast<float>(drawn) / 10;
    if (y.dtype() == DType::i32) y.data<int32_t>()[i] = static_cast<int32_t>(drawn);
    if (y.dtype() == DType::i64) y.data<int64_t>()[i] = drawn;
  }
  std::vector<double> all;
  for (int s = 0; s <= updates_of(e.name).count; ++s)
    all.push_back(step.run(x, y).loss);  // the same batch: the loss moves by the update
  return all;
}

class OpenClZoo : public testing::TestWithParam<std::string> {};

TEST_P(OpenClZoo, TrainsAsOnTheCpu) {
  NEEDS_OPENCL();
  const auto& all = models::registry();
  const auto e = std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.name == GetParam(); });
  const int64_t batch = e->name == std::string("googlenet") ? 12 : 4;  // its last norms see as many values as samples
  const std::vector<double> expected = losses("cpu", *e, batch), got = losses("opencl:0", *e, batch);
  EXPECT_NEAR(got[0], expected[0], 1e-4 * (1 + std::fabs(expected[0])));
  // An update that is wrong is off by its own size. From the second on statistics over few values amplify rounding.
  for (size_t s = 1; s < got.size(); ++s) {
    const double moved = expected[s] - expected[s - 1];
    EXPECT_GT(std::fabs(moved), 1e-4 * std::fabs(expected[s])) << "too little to tell anything";
    EXPECT_NEAR(got[s] - got[s - 1], moved,
                (s == 1 ? 0.05 : 0.4) * std::fabs(moved) + 1e-4 * (1 + std::fabs(expected[s])))
        << "step " << s << ": " << got[s] << ", on the CPU " << expected[s];
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const models::Entry& e : models::registry()) all.emplace_back(e.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Nets, OpenClZoo, testing::ValuesIn(names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace freight::train
