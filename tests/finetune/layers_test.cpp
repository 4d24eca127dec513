// The order of layers, heads, depths, and what is trained of a network at which rate.
#include "freight/finetune/layers.h"

#include <map>

#include "freight/finetune/rates.h"
#include "freight/optim/create.h"
#include "tests/support/files.h"

namespace freight::finetune {
namespace {

using freight::testing::expect_error;

std::string head_of(const models::Model& model) {
  std::string path;
  for (const Layer& l : layers_of(model)) {
    if (l.head) path += path.empty() ? l.path : ", " + l.path;
  }
  return path;
}

std::map<std::string, int64_t> depths_of(const models::Model& model) {
  std::map<std::string, int64_t> depths;
  for (const Layer& l : layers_of(model)) depths[l.path] = l.depth;
  return depths;
}

TEST(Layers, TheHeadOfEveryBuiltInClassifierIsTheLayerWithARowPerClass) {
  for (const models::Entry& e : models::registry()) {
    const models::Model model = models::create(e.name, {.classes = 7});
    if (model.language_model()) continue;
    for (const Layer& l : layers_of(model)) {
      if (!l.head) continue;
      EXPECT_EQ(l.variables.front().variable.shape()[0], 7) << e.name << ": " << l.path;
    }
    EXPECT_EQ(head_of(model).find(','), std::string::npos) << e.name;
  }
}

TEST(Layers, DepthCountsBlocksFromTheHeadAndANormIsOfTheBlockBefore) {
  const auto depths = depths_of(models::create("resnet18"));
  EXPECT_EQ(depths.at("fc"), 0);
  EXPECT_EQ(depths.at("layer4.1.conv1"), 1);
  EXPECT_EQ(depths.at("layer4.1.bn2"), 1);
  EXPECT_EQ(depths.at("layer4.0.downsample.0"), 2);
  EXPECT_EQ(depths.at("layer1.0.conv1"), 8);
  EXPECT_EQ(depths.at("bn1"), 9);
  EXPECT_EQ(depths.at("conv1"), 9);
}

TEST(Layers, AuxiliaryHeadsAreNoHead) {
  const models::Model model = models::create("googlenet", {.classes = 5});
  EXPECT_EQ(head_of(model), "fc");
  for (const Layer& l : layers_of(model)) EXPECT_EQ(l.auxiliary, l.path.rfind("aux", 0) == 0) << l.path;
}

TEST(Layers, APatternMatchesNamesAndAllBelowAModule) {
  EXPECT_TRUE(matches("conv1", "conv1.weight"));
  EXPECT_TRUE(matches("layer[1-3].*", "layer2.0.conv1.weight"));
  EXPECT_TRUE(matches("layer[1-3]", "layer2.0.conv1.weight"));
  EXPECT_TRUE(matches("*.bias", "fc.bias"));
  EXPECT_FALSE(matches("layer[1-3].*", "layer4.0.conv1.weight"));
  EXPECT_FALSE(matches("conv", "conv1.weight"));
}

TEST(Freeze, KeepsTheHeadAloneTrainableOfABackbone) {
  const models::Model model = models::create("resnet20", {.classes = 3});
  const std::string line = freeze(model, "backbone");
  EXPECT_NE(line.find("195 are trained"), std::string::npos) << line;  // 3 x 64 + 3
  EXPECT_EQ(model.net->parameters().size(), 2u);
}

TEST(Freeze, NamesTheNearestLayersForAPatternWithoutAMatch) {
  const models::Model model = models::create("resnet20");
  expect_error(ErrorKind::usage, {"--freeze: the pattern 'layers1.*' matches no layer", "did you mean layer1", "conv1"},
               [&] { freeze(model, "conv1,layers1.*"); });
  expect_error(ErrorKind::usage, {"--freeze", "freezes all", "nothing is left to train"}, [&] { freeze(model, "*"); });
  expect_error(ErrorKind::usage, {"--freeze", "a comma between them"}, [&] { freeze(model, "conv1,,fc"); });
}

std::map<std::string, double> rates_of(const optim::Optimizer& optimizer) {
  std::map<std::string, double> rates;
  for (const std::string& group : optimizer.groups()) rates[group] = optimizer.lr(group);
  return rates;
}

TEST(Rates, TheHeadHasItsOwnRateAndBlocksDecayAwayFromIt) {
  const models::Model model = models::create("mlp");
  const std::vector<Layer> layers = layers_of(model);
  const auto groups = groups_of(model, {.lr = 0.1, .head_lr = 1, .decay = 0.5});
  std::map<const void*, double> rate;
  for (const auto& g : groups) {
    for (const Variable& p : g.parameters) rate[p.impl().get()] = g.lr.value_or(0.1);
  }
  for (const Layer& l : layers) {
    const double expected = l.head ? 1 : 0.1 * std::pow(0.5, static_cast<double>(l.depth));
    for (const nn::NamedVariable& v : l.variables)
      EXPECT_DOUBLE_EQ(rate.at(v.variable.impl().get()), expected) << v.name;
  }
}

TEST(Rates, FactorsOfLayersMultiplyAndEveryOptimizerTakesThem) {
  for (const std::string& name : optim::names()) {
    const models::Model model = models::create("resnet20");
    const auto groups = groups_of(model, {.lr = 0.1, .scale = "layer3.*=0.5,layer3.0.*=0.5"});
    const auto optimizer = optim::create(name, *model.net, {.lr = 0.1}, groups);
    const auto rates = rates_of(*optimizer);
    EXPECT_NEAR(rates.at("lr*0.5"), 0.05, 1e-8) << name;
    EXPECT_NEAR(rates.at("lr*0.25"), 0.025, 1e-8) << name;
    EXPECT_EQ(optimizer->parameters().size(), model.net->parameters().size()) << name;
  }
}

TEST(Rates, RefuseFactorsThatAreNone) {
  const models::Model model = models::create("mlp");
  for (const auto& [scale, says] : std::map<std::string, std::string>{{"fc1", "like layer4.*=0.1"},
                                                                      {"=2", "like layer4.*=0.1"},
                                                                      {"*=0", "--freeze leaves layers unchanged"},
                                                                      {"*=nan", "--lr-scale"},
                                                                      {"conv9=2", "matches no layer"}}) {
    expect_error(ErrorKind::usage, {"--lr-scale", says}, [&] { groups_of(model, {.lr = 0.1, .scale = scale}); });
  }
}

}  // namespace
}  // namespace freight::finetune
