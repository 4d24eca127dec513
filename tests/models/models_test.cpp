// Named models: parameter counts, names, spec files equal to builders, options, summaries.
#include "freight/models/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "freight/base/error.h"
#include "freight/models/summary.h"
#include "freight/nn/nn.h"
#include "freight/trace/compile.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"

namespace freight::models {
namespace {

std::string read(const std::string& path) {
  std::ifstream f(path);
  std::stringstream s;
  s << f.rdbuf();
  return s.str();
}

TEST(Models, ParameterCountsAreThoseOfPyTorch) {
  const std::map<std::string, int64_t> want = {
      {"linear_regression", 9},
      {"logistic_regression", 7850},
      {"mlp", 101770},
      {"mlp_wide", 1863690},
      {"lenet", 61706},
      {"convnet", 19874},
      {"cifarnet", 1160970},  // 288 more are fixed: the whitening stem
      {"resnet20", 272474},   // these three with projection shortcuts
      {"resnet32", 466906},
      {"resnet56", 855770},
      {"alexnet", 61100840},  // from here on torchvision's
      {"vgg11", 132863336},
      {"vgg11_bn", 132868840},
      {"vgg13", 133047848},
      {"vgg13_bn", 133053736},
      {"vgg16", 138357544},
      {"vgg16_bn", 138365992},
      {"vgg19", 143667240},
      {"vgg19_bn", 143678248},
      {"googlenet", 13004888},
      {"resnet18", 11689512},
      {"resnet34", 21797672},
      {"resnet50", 25557032},
      {"resnet101", 44549160},
      {"resnet152", 60192808},
      {"resnext50_32x4d", 25028904},
      {"wide_resnet50_2", 68883240},
      {"densenet121", 7978856},
      {"squeezenet1_0", 1248424},
      {"squeezenet1_1", 1235496},
      {"mobilenet_v2", 3504872},
      {"mobilenet_v3_small", 2542856},
      {"mobilenet_v3_large", 5483032},
      {"efficientnet_b0", 5288548},
      {"efficientnet_b1", 7794184},
      {"efficientnet_b2", 9109994},
      {"efficientnet_b3", 12233232},
      {"regnet_y_400mf", 4344144},
      {"convnext_tiny", 28589128},
      {"vit_b_16", 86567656},
      {"textcnn", 20000 * 128 + 100 * (3 + 4 + 5) * 128 + 300 + 602},
      {"text_bow", 20000 * 64 + 130},
      // torch.nn.LSTM and GRU between an Embedding and a Linear layer; embeddings, 6 blocks, norm, head
      {"lstm_text", 2692612},
      {"gru_text", 2659588},
      {"gpt_char", 10795841},
  };
  std::map<std::string, int64_t> got;
  for (const Entry& e : registry()) got[e.name] = create(e.name).net->parameter_count();
  EXPECT_EQ(got, want);
}

// The file is written by torch_zoo.py --names.
TEST(Models, NamesAndShapesAreThoseOfTorchvision) {
  const auto want = nlohmann::json::parse(read(source_dir() + "/tests/peers/torchvision_names.json"));
  size_t compared = 0;
  for (const Entry& e : registry()) {
    if (!want.contains(e.name)) continue;
    const Model m = create(e.name);
    std::vector<std::string> lines;
    for (const nn::NamedVariable& v : m.net->state_dict()) {
      std::string line = v.name + " ";
      for (const int64_t d : v.variable.shape()) line += (line.back() == ' ' ? "[" : ",") + std::to_string(d);
      lines.push_back(line + "]\n");
    }
    std::sort(lines.begin(), lines.end());
    uint64_t hash = 0xCBF29CE484222325;
    for (const std::string& line : lines) {
      for (const char c : line) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
    }
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    EXPECT_EQ(text, want[e.name]["names"]) << e.name;
    EXPECT_EQ(m.net->parameter_count(), want[e.name]["parameters"]) << e.name;
    ++compared;
  }
  EXPECT_EQ(compared, want.size());
}

TEST(Models, AuxiliaryHeadsAreCountedApart) {
  const Summary s = summarize(create("googlenet"));
  EXPECT_EQ(s.parameters, 13004888);
  EXPECT_EQ(s.parameters - s.auxiliary_parameters, 6624904);  // torchvision's googlenet without its heads
  int64_t in_layers = 0;
  for (const LayerRow& r : s.layers) in_layers += r.parameters;
  EXPECT_EQ(in_layers, 6624904);
  EXPECT_NE(to_text(s).find("6,379,984 of the parameters are in auxiliary heads"), std::string::npos);
  EXPECT_EQ(summarize(create("lenet")).auxiliary_parameters, 0);
}

TEST(Models, BuildersEqualTheirSpecsAndSpecFiles) {
  constexpr int64_t kLines = 300;  // a longer spec is had from `freight models show NAME --spec` only
  for (const Entry& e : registry()) {
    const std::string path = source_dir() + "/models/" + e.name + ".json";
    const Model built = create(e.name);
    const std::string spec = to_spec(built), printed = to_spec(built, SpecSizes::required);
    const bool kept = std::count(printed.begin(), printed.end(), '\n') <= kLines;
    EXPECT_EQ(to_spec(from_spec(printed)), spec);
    EXPECT_EQ(kept ? printed : "", read(path)) << "models/" << e.name << ".json differs from the builder";
    const Model loaded = from_spec(spec);
    EXPECT_EQ(to_spec(loaded), spec);
    EXPECT_EQ(loaded.loss, built.loss);
    const auto a = built.net->state_dict(), b = loaded.net->state_dict();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].name, b[i].name);
      EXPECT_EQ(a[i].variable.type(), b[i].variable.type());
    }
  }
}

TEST(Models, APrintedSpecAdaptsToOtherDataByItsInputAlone) {
  const std::string printed = to_spec(create("convnet"), SpecSizes::required);
  EXPECT_EQ(printed.find("\"in\""), std::string::npos) << printed;
  EXPECT_EQ(printed.find("\"channels\""), std::string::npos) << printed;
  std::string other = printed;
  const std::string input = "\"input\": [1,28,28]";
  other.replace(other.find(input), input.size(), "\"input\": [3,64,64]");
  const Model m = from_spec(other);
  EXPECT_EQ(m.output_type(2).shape, (Shape{2, 10}));
  EXPECT_EQ(m.net->state_dict()[0].variable.shape(), (Shape{8, 3, 5, 5}));
}

TEST(Models, ASpecWhoseSizesCannotAllBeInferredPrintsThem) {
  // The rows of this weight are not the features of its input: from_spec would infer another size.
  Model m = create("mlp");
  m.input.shape = {1, 28, 27};
  EXPECT_EQ(to_spec(m, SpecSizes::required), to_spec(m));
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
  const auto g = names(create("googlenet"));
  for (const char* name : {"conv1.conv.weight", "inception3a.branch1.bn.weight", "inception3a.branch2.1.conv.weight",
                           "inception5b.branch4.1.bn.running_var", "aux1.conv.conv.weight", "aux2.fc2.bias"}) {
    EXPECT_NE(std::find(g.begin(), g.end(), name), g.end()) << name;
  }
  const Model m = create("resnet20");
  EXPECT_EQ(m.net->state_dict()[6].name, m.net->state_dict()[6].variable.name());
}

TEST(Models, OptionsChangeInputAndClasses) {
  const Model m = create("lenet", {.classes = 100, .input = {3, 32, 32}});
  EXPECT_EQ(m.output_type(4), (Type{DType::f32, {4, 100}}));
  EXPECT_EQ(create("convnet", {.input = {3, 32, 32}}).classes(), 10);
  EXPECT_EQ(create("resnet18", {.classes = 7, .size = {64, 96}}).input.shape, (Shape{3, 64, 96}));
  EXPECT_EQ(create("vgg11", {.classes = 7, .size = {64, 64}}).classes(), 7);
  EXPECT_EQ(create("linear_regression", {.classes = 3, .input = {5, 2}}).output_type(4), (Type{DType::f32, {4, 3}}));
  EXPECT_THROW(create("linear_regression", {.size = {64, 64}}), Error);
  EXPECT_THROW(create("alexnet", {.size = {32, 32}}), Error);
  EXPECT_EQ(create("vit_b_16", {.size = {32, 48}}).net->state_dict()[3].variable.shape(), (Shape{1, 7, 768}));
  EXPECT_THROW(create("vit_b_16", {.size = {32, 40}}), Error);
  EXPECT_THROW(load("models/lenet.json", {.classes = 3}), Error);
  EXPECT_THROW(create("lenet", {.input = {1, 4, 4}}), Error);
  EXPECT_THROW(create("mlp", {.classes = -1}), Error);
}

TEST(Models, NetsForTextTakeVocabularyAndLength) {
  const Model m = create("textcnn", {.classes = 4, .vocabulary = 50, .length = 40});
  EXPECT_EQ(m.batch_type(3), (Type{DType::i32, {3, 40}}));
  EXPECT_EQ(m.output_type(3), (Type{DType::f32, {3, 4}}));
  EXPECT_EQ(m.vocabulary(), 50);
  EXPECT_TRUE(m.reads_tokens());
  EXPECT_FALSE(m.language_model());
  EXPECT_TRUE(m.takes({7}));
  EXPECT_FALSE(m.takes({4}));  // the widest filter has 5
  EXPECT_EQ(create("lenet").vocabulary(), 0);
  EXPECT_FALSE(create("lenet").reads_tokens());
  EXPECT_THROW(create("lenet", {.vocabulary = 50}), Error);
  EXPECT_THROW(create("textcnn", {.length = 3}), Error);
  EXPECT_THROW(create("text_bow", {.vocabulary = 2}), Error);
  EXPECT_THROW(load("models/textcnn.json", {.vocabulary = 50}), Error);
}

TEST(Models, TokenNetsTakeVocabularyLengthLayersAndDirections) {
  const Model gpt = create("gpt_char", {.vocabulary = 30, .length = 12, .layers = 2, .dropout = 0.1});
  EXPECT_EQ(gpt.input, (Type{DType::i32, {12}}));
  EXPECT_EQ(gpt.output_type(3), (Type{DType::f32, {3, 12, 30}}));
  const Model text = create("lstm_text", {.classes = 3, .vocabulary = 50, .layers = 2, .bidirectional = true});
  EXPECT_EQ(text.output_type(5), (Type{DType::f32, {5, 3}}));
  EXPECT_EQ(text.net->state_dict()[5].name, "rnn.weight_ih_l0_reverse");
  EXPECT_EQ(to_spec(from_spec(to_spec(text))), to_spec(text));
  EXPECT_EQ(to_spec(from_spec(to_spec(gpt))), to_spec(gpt));
  const Model narrow = create("gpt_char", {.vocabulary = 30, .length = 12, .layers = 1, .width = 128});
  EXPECT_EQ(narrow.net->state_dict()[0].variable.shape(), (Shape{30, 128}));
  EXPECT_EQ(create("gru_text", {.vocabulary = 9, .width = 32}).net->state_dict()[0].variable.shape(), (Shape{9, 32}));
  EXPECT_THROW(create("gpt_char", {.width = 100}), Error);
  for (const char* name : {"textcnn", "text_bow"}) {
    const Model m = create(name, {.vocabulary = 9, .width = 32});
    EXPECT_EQ(m.net->state_dict()[0].variable.shape(), (Shape{9, 32}));
    EXPECT_EQ(m.output_type(3), (Type{DType::f32, {3, m.output_type(1).shape[1]}}));
    EXPECT_THROW(create(name, {.layers = 2}), Error);
    EXPECT_THROW(create(name, {.bidirectional = true}), Error);
  }
  EXPECT_THROW(create("lenet", {.width = 128}), Error);
  EXPECT_THROW(create("gpt_char", {.vocabulary = 1}), Error);
  EXPECT_THROW(create("lenet", {.vocabulary = 10}), Error);
  EXPECT_THROW(create("lenet", {.dropout = 0.5}), Error);
  EXPECT_THROW(create("lstm_text", {.size = {8, 8}}), Error);
}

TEST(Models, TheTransformerBeginsWithSmallResidualProjections) {
  seed(0);
  const Model m = create("gpt_char", {.length = 8, .layers = 2});
  const auto deviation = [&](const std::string& name) {
    for (const auto& v : m.net->state_dict()) {
      if (v.name != name) continue;
      double squares = 0;
      const std::vector<float> values = v.variable.array().to_vector<float>();
      for (float x : values) squares += static_cast<double>(x) * x;
      return std::sqrt(squares / static_cast<double>(values.size()));
    }
    return -1.0;
  };
  EXPECT_NEAR(deviation("embedding.weight"), 0.02, 0.001);
  EXPECT_NEAR(deviation("positions.weight"), 0.02, 0.002);
  EXPECT_NEAR(deviation("blocks.0.attention.in_proj_weight"), 0.02, 0.0005);
  EXPECT_NEAR(deviation("blocks.1.attention.out_proj.weight"), 0.01, 0.0005);  // 0.02 / sqrt(2 * 2)
  EXPECT_NEAR(deviation("blocks.0.linear2.weight"), 0.01, 0.0005);
  EXPECT_NEAR(deviation("head.weight"), 0.02, 0.001);
  EXPECT_EQ(deviation("blocks.0.linear1.bias"), 0);
}

TEST(Models, SizesAreReadFromText) {
  EXPECT_EQ(parse_size("224"), (Shape{224, 224}));
  EXPECT_EQ(parse_size("64x96"), (Shape{64, 96}));
  for (const char* bad : {"", "0", "-3", "3x", "x3", "1x2x3", "2.5", "99999999999"}) {
    EXPECT_THROW(parse_size(bad), Error) << bad;
  }
}

TEST(Models, UnknownNamesPointToTheNearest) {
  try {
    create("lenett");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("did you mean lenet?"), std::string::npos);
  }
  EXPECT_THROW(load("no/such/file.json"), Error);
}

TEST(Models, WeightsWithoutANetworkNameTheConversion) {
  const freight::testing::TemporaryDir dir;
  const std::string path = dir / "w.pth";
  std::ofstream(path) << "PK";
  try {
    load(path);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("freight models convert " + path), std::string::npos) << e.what();
  }
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

// A layer may be kept in evaluation mode, its statistics as they are, while the net around it is trained.
TEST(Models, SummaryLeavesEachLayerInItsMode) {
  const Model m = create("convnet");
  nn::Module& norm = *m.net->children().at(1).module;
  norm.eval();
  summarize(m, 4);
  EXPECT_TRUE(m.net->training());
  EXPECT_TRUE(m.net->children().at(0).module->training());
  EXPECT_FALSE(norm.training());
}

TEST(Models, SummaryAllocatesNoWeights) {
  const Model m = from_spec(R"({"format":"freight-model-1","name":"huge","input":[100000],
                               "net":[{"type":"Linear","out":1000000}]})");
  EXPECT_EQ(summarize(m).parameters, 100001000000);
}

}  // namespace
}  // namespace freight::models
