// The part of a network that is computed once per sample: where it ends and why, and that nothing changes by it.
#include "freight/finetune/frozen_part.h"

#include <cmath>

#include "freight/base/philox.h"
#include "freight/finetune/rates.h"
#include "freight/models/loss.h"
#include "freight/nn/evaluating.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "freight/trace/tracer.h"
#include "tests/support/files.h"

namespace freight::finetune {
namespace {

Array noise(const Shape& shape) {
  PhiloxStream random(5, 0, 0);
  Array x(DType::f32, shape);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = random.normal();
  return x;
}

models::Model spec(const std::string& layers) {
  return models::from_spec(cat(R"({"format":"freight-model-1","name":"own","input":[3,8,8],"net":[)", layers, "]}"));
}

constexpr const char* kConv = R"({"name":"conv","type":"Conv2d","out":4,"kernel":3},{"name":"bn","type":"BatchNorm2d"},
                                 {"type":"ReLU"},)";
constexpr const char* kEnd = R"({"type":"Flatten"},{"name":"fc","type":"Linear","out":5})";

TEST(FrozenPart, TheRestOfTheNetworkOnFeaturesGivesTheLogitsOfTheWhole) {
  for (const char* name : {"resnet20", "vgg11", "densenet121", "mobilenet_v2", "vit_b_16", "squeezenet1_1"}) {
    const models::Entry* entry = nullptr;
    for (const models::Entry& e : models::registry()) entry = name == std::string(e.name) ? &e : entry;
    if (!entry || std::string(name) == "vgg11" || std::string(name) == "vit_b_16")
      continue;  // their weights fill memory
    models::Model model = models::create(name, {.classes = 5, .size = {64, 64}});
    freeze(model, "backbone");
    const nn::Evaluating evaluating(*model.net);
    const FrozenPart part(model, model.input);
    ASSERT_TRUE(part.exists()) << name << ": " << join(part.ends(), ", ");
    EXPECT_GT(part.share(), 0.9) << name;
    models::Model rest = part.rest();
    auto whole = compile([&](const Tensor& x) { return (*model.net)(x); });
    auto features = compile([&](const Tensor& x) { return part.features(x); });
    auto logits = compile([&](const Tensor& f) { return (*rest.net)(f); });
    const Array x = noise({3, model.input.shape[0], 64, 64});
    const Array f = features(x).array();
    EXPECT_EQ(f.shape(), (Shape{3, part.width()})) << name;
    const auto expected = whole(x).to_vector<float>(),
               got = logits(f.reshaped({3, 1, part.width()})).to_vector<float>();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 1e-4 * (1 + std::fabs(expected[i]))) << name;
    }
  }
}

TEST(FrozenPart, TheGradientsOfTheRestAreThoseOfTheWhole) {
  const models::Model model = spec(std::string(kConv) + R"({"name":"second","type":"Conv2d","out":4,"kernel":3},
                                                           {"name":"bn2","type":"BatchNorm2d"},)" +
                                   kEnd);
  freeze(model, "conv,bn");
  const FrozenPart part(model, model.input);
  ASSERT_TRUE(part.exists());
  const models::Model rest = part.rest();
  const Variable weight = model.net->parameters()[0];
  const auto gradient = [&](const models::Model& of) {
    return compile([&](const Tensor& x, const Tensor& y) { return grad(models::score(of, x, y).loss, {weight})[0]; });
  };
  const Array x = noise({4, 3, 8, 8}), y = Array::of<int64_t>({0, 1, 2, 3}, {4});
  auto features = compile([&](const Tensor& in) { return part.features(in); });
  auto of_whole = gradient(model), of_rest = gradient(rest);
  const auto expected = of_whole(x, y).to_vector<float>();
  const auto mean = [&] { return nn::values_of(model.net->state_dict())[10].array.to_vector<float>(); };
  const auto after = mean();  // the second step starts with it, and adds the same batch once more
  const auto got = of_rest(features(x).array().reshaped({4, 1, part.width()}), y).to_vector<float>();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
  EXPECT_NE(mean(), after) << "statistics of trained layers follow";
}

TEST(FrozenPart, OneSampleAloneHasTheFeaturesAndTheLogitsThatItHasInABatch) {
  // Traces of one sample lack the views that change no shape there: of biases, of layers without an image around them.
  std::vector<models::Model> networks;
  for (const char* body : {
           R"({"type":"Flatten"},{"name":"one","type":"Linear","out":8},{"type":"ReLU"},)",
           R"({"name":"conv","type":"Conv2d","out":4,"kernel":8},{"type":"ReLU"},{"type":"Flatten"},)",
           R"({"name":"conv","type":"Conv2d","out":4,"kernel":3},{"name":"bn","type":"BatchNorm2d"},{"type":"ReLU"},
              {"type":"AdaptiveAvgPool2d","output":1},{"type":"Flatten"},{"name":"ln","type":"LayerNorm"},)",
       }) {
    networks.push_back(spec(cat(body, R"({"name":"fc","type":"Linear","out":5})")));
  }
  for (const models::Entry& e : models::registry()) {
    for (const char* name : {"resnet20", "mobilenet_v2", "lenet", "mlp", "convnet"}) {
      if (name == std::string(e.name)) networks.push_back(models::create(name, {.classes = 5, .size = {32, 32}}));
    }
  }
  ASSERT_GE(networks.size(), 5u);
  for (models::Model& model : networks) {
    freeze(model, "backbone");
    const nn::Evaluating evaluating(*model.net);
    const FrozenPart part(model, model.input);
    ASSERT_TRUE(part.exists()) << model.name << ": " << join(part.ends(), ", ");
    const models::Model rest = part.rest();
    auto whole = compile([&](const Tensor& x) { return (*model.net)(x); });
    auto features = compile([&](const Tensor& x) { return part.features(x); });
    auto logits = compile([&](const Tensor& f) { return (*rest.net)(f); });
    Shape one = model.input.shape;
    one.insert(0, 1);
    const Array x = noise(one), f = features(x).array();
    ASSERT_EQ(f.shape(), (Shape{1, part.width()})) << model.name;
    const auto expected = whole(x).to_vector<float>(),
               got = logits(f.reshaped({1, 1, part.width()})).to_vector<float>();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4 * (1 + std::fabs(expected[i])));
  }
}

TEST(FrozenPart, EndsWhereSomethingPreventsItAndSaysWhat) {
  const auto ends = [](const models::Model& model, const std::string& frozen) {
    freeze(model, frozen);
    const FrozenPart part(model, model.input);
    return cat(part.exists() ? "computed once until " : "nothing: ", join(part.ends(), ", "));
  };
  EXPECT_EQ(ends(spec(std::string(kConv) + kEnd), "backbone"), "computed once until fc is trained");
  EXPECT_EQ(ends(spec(std::string(kConv) + kEnd), "fc"), "nothing: conv is trained");
  EXPECT_EQ(ends(spec(std::string(kConv) + R"({"name":"drop","type":"Dropout","p":0.5},
                        {"name":"second","type":"Conv2d","out":2,"kernel":3},)" +
                      kEnd),
                 "backbone"),
            "computed once until drop draws random numbers (dropout)");
  // A BatchNorm of which the shift alone is frozen takes the statistics of the batch.
  EXPECT_NE(ends(spec(std::string(kConv) + kEnd), "conv,bn.bias").find("bn"), std::string::npos);
}

}  // namespace
}  // namespace freight::finetune
