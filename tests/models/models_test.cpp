// Named models: parameter counts, names, spec files equal to builders, options, summaries.
#include "freight/models/models.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "freight/base/error.h"
#include "freight/models/summary.h"
#include "freight/nn/nn.h"
#include "freight/trace/compile.h"

namespace freight::models {
namespace {

std::string read(const std::string& path) {
  std::ifstream f(path);
  std::stringstream s;
  s << f.rdbuf();
  return s.str();
}

TEST(Models, ParameterCountsAreThoseOfPyTorch) {
  EXPECT_EQ(create("mlp").net->parameter_count(), 101770);
  EXPECT_EQ(create("mlp_wide").net->parameter_count(), 1863690);
  EXPECT_EQ(create("lenet").net->parameter_count(), 61706);
  EXPECT_EQ(create("resnet20").net->parameter_count(), 272474);  // tests/peers/torch_counts: with projection shortcuts
}

TEST(Models, BuildersEqualTheirSpecFiles) {
  for (const Entry& e : registry()) {
    const std::string path = std::string(FREIGHT_SOURCE_DIR) + "/models/" + e.name + ".json";
    const Model built = create(e.name);
    EXPECT_EQ(to_spec(built), read(path)) << "models/" << e.name << ".json differs from the builder";
    const Model loaded = from_spec_file(path);
    EXPECT_EQ(to_spec(loaded), to_spec(built));
    const auto a = built.net->state_dict(), b = loaded.net->state_dict();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].name, b[i].name);
      EXPECT_EQ(a[i].variable.type(), b[i].variable.type());
    }
  }
}

TEST(Models, SpecAndBuilderDrawTheSameWeights) {
  seed(4);
  const Model a = create("lenet");
  seed(4);
  const Model b = from_spec(to_spec(a));
  EXPECT_EQ(a.net->state_dict()[2].variable.array().to_vector<float>(),
            b.net->state_dict()[2].variable.array().to_vector<float>());
}

TEST(Models, NamesFollowTorchvision) {
  const auto names = [](const Model& m) {
    std::vector<std::string> out;
    for (const auto& v : m.net->state_dict()) out.push_back(v.name);
    return out;
  };
  const auto r = names(create("resnet20"));
  for (const char* name : {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
                           "layer2.0.downsample.1.running_var", "layer3.2.bn2.bias", "fc.weight"}) {
    EXPECT_NE(std::find(r.begin(), r.end(), name), r.end()) << name;
  }
  EXPECT_EQ(names(create("lenet"))[0], "0.weight");
  const Model m = create("resnet20");
  EXPECT_EQ(m.net->state_dict()[6].name, m.net->state_dict()[6].variable.name());
}

TEST(Models, OptionsChangeInputAndClasses) {
  const Model m = create("lenet", {.classes = 100, .input = {3, 32, 32}});
  EXPECT_EQ(m.output_type(4), (Type{DType::f32, {4, 100}}));
  EXPECT_EQ(create("convnet", {.input = {3, 32, 32}}).classes(), 10);
  EXPECT_THROW(create("lenet", {.input = {1, 4, 4}}), Error);
  EXPECT_THROW(create("mlp", {.classes = -1}), Error);
}

TEST(Models, UnknownNamesPointToTheNearest) {
  try {
    create("lenett");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("did you mean 'lenet'?"), std::string::npos);
  }
  EXPECT_THROW(load("no/such/file.json"), Error);
}

TEST(Models, SummaryListsLayersAndAddsUp) {
  const Summary s = summarize(create("lenet"), 1);
  EXPECT_EQ(s.layers.size(), 12u);
  EXPECT_EQ(s.layers[0].path, "0");
  EXPECT_EQ(s.layers[0].type, "Conv2d");
  EXPECT_EQ(s.layers[0].out, (Type{DType::f32, {1, 6, 28, 28}}));
  int64_t parameters = 0;
  double flops = 0;
  for (const LayerRow& r : s.layers) parameters += r.parameters, flops += r.flops;
  EXPECT_EQ(parameters, 61706);
  EXPECT_EQ(flops, s.flops);
  // Multiply-adds of the convolutions and linear layers, twice: 117,600 + 240,000 + 48,000 + 10,080 + 840.
  EXPECT_GE(s.flops, 2 * 416520.0);
  EXPECT_LT(s.flops, 2.1 * 416520.0);
  EXPECT_NE(to_text(s).find("61,706"), std::string::npos);
  EXPECT_NE(to_json(s).find("\"parameters\":61706"), std::string::npos);
  EXPECT_EQ(summarize(create("resnet20"), 2).output, (Type{DType::f32, {2, 10}}));
}

TEST(Models, SummaryAllocatesNoWeights) {
  const Model m = from_spec(R"({"format":"freight-model-1","name":"huge","input":[100000],
                               "net":[{"type":"Linear","out":1000000}]})");
  EXPECT_EQ(summarize(m).parameters, 100001000000);
}

}  // namespace
}  // namespace freight::models
