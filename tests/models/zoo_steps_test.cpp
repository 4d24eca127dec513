// One step of training lowers the loss of the nets of the zoo that are for photographs, on small images.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "freight/models/loss.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/optim/optimizer.h"
#include "freight/trace/compile.h"

namespace freight::models {
namespace {

void without_dropout(nlohmann::json& spec) {
  const std::string type = spec.is_object() ? spec.value("type", "") : "";
  if (type == "Dropout" || type == "StochasticDepth") spec["p"] = 0;
  for (nlohmann::json& inner : spec) {
    if (inner.is_structured()) without_dropout(inner);
  }
}

class ZooSteps : public ::testing::TestWithParam<const char*> {};

TEST_P(ZooSteps, AStepLowersTheLoss) {
  seed(5);
  auto spec = nlohmann::json::parse(to_spec(create(GetParam(), {.classes = 3, .size = {64, 64}})));
  without_dropout(spec);
  const Model model = from_spec(spec.dump());
  // With ends of residual branches that start small, as tests/gpu/zoo_test.cpp explains.
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    if (!v.name.ends_with(".bn3.weight")) continue;
    v.variable.set(
        Array::of<float>(std::vector<float>(static_cast<size_t>(v.variable.shape()[0]), 0.1f), v.variable.shape()));
  }
  // A longer step overshoots where BatchNorm sees few values per channel.
  optim::SGD sgd(model.net->parameters(), {.lr = 1e-5});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = score(model, x, y).loss;
    sgd.step(loss);
    return loss;
  });
  Array x(DType::f32, model.batch_type(4).shape), y(DType::i64, {4});
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>((i * 7919) % 1009) / 504.0f - 1;
  for (int64_t i = 0; i < 4; ++i) y.data<int64_t>()[i] = i % 3;
  const double before = step(x, y).item<double>();
  EXPECT_LT(step(x, y).item<double>(), before);
}

INSTANTIATE_TEST_SUITE_P(Small, ZooSteps, ::testing::Values("squeezenet1_1", "mobilenet_v3_small"),
                         [](const auto& tested) { return std::string(tested.param); });
INSTANTIATE_TEST_SUITE_P(Large, ZooSteps,
                         ::testing::Values("resnext50_32x4d", "wide_resnet50_2", "densenet121", "squeezenet1_0",
                                           "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "efficientnet_b1",
                                           "efficientnet_b2", "efficientnet_b3", "regnet_y_400mf", "convnext_tiny",
                                           "vit_b_16"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace freight::models
