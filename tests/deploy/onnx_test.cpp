// ONNX files against ONNX's own checker and ONNX Runtime: every net of the zoo, several batches through one file.
#include "freight/deploy/onnx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/base/philox.h"
#include "freight/deploy/predictor.h"
#include "freight/io/npy.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "freight/train/trainer.h"
#include "tests/deploy/onnx_runtime.h"
#include "tests/support/small_digits.h"

namespace freight::deploy {
namespace {

using freight::testing::expect_error;
using freight::testing::peer_python;
using freight::testing::TemporaryDir;
using test::relative_difference;
using test::Runtime;

Array random_input(const Type& type, int64_t vocabulary, uint64_t seed) {
  PhiloxStream random(seed, 0, 0);
  Array x(type.dtype, type.shape);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (type.dtype == DType::i32) {
      x.data<int32_t>()[i] = static_cast<int32_t>(random.bits() % static_cast<uint32_t>(vocabulary));
    } else {
      x.data<float>()[i] = random.uniform(-2, 2);
    }
  }
  if (type.dtype == DType::i32) {  // texts of different lengths: 0 pads
    const int64_t length = type.shape[1];
    for (int64_t n = 0; n < type.shape[0]; ++n) std::fill_n(x.data<int32_t>() + (n + 1) * length - n * 3, n * 3, 0);
  }
  return x;
}

store::Bundle bundle_of(models::Model model) {
  store::Bundle b;
  b.preprocessing.input = model.input.shape;
  b.model = std::move(model);
  return b;
}

Array forward(const models::Model& model, const Array& x) {
  model.net->eval();
  auto step = compile([&](const Tensor& t) { return (*model.net)(t); }, {.deterministic = true});
  return step(x).array().clone();
}

// A named net of small inputs. The classifiers of the large old nets are made narrow, since they are nearly all of the
// nets' bytes; the layers are the same.
models::Model small(const std::string& name) {
  models::Options options{.classes = 7};
  const bool narrow = starts_with(name, "vgg") || name == "alexnet";
  const Shape usual = models::create(name).input.shape;
  if (name == "alexnet" || name == "googlenet") {
    options.size = {64, 64};
  } else if (usual[0] == 3 && usual.back() >= 224) {
    options.size = {32, 32};
  } else if (name == "gpt_char") {
    options = {.length = 24, .layers = 2, .width = 128};
  } else if (models::create(name).reads_tokens()) {
    options.length = 24;
  }
  models::Model model = models::create(name, options);
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    if (v.name != "heads.head.weight")
      continue;  // a head of zeros, as the vision transformer starts with, hides all else
    std::vector<float> values(static_cast<size_t>(v.variable.shape().numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.05f * std::sin(static_cast<float>(i));
    v.variable.set(Array::of<float>(values, v.variable.shape()));
  }
  if (!narrow) return model;
  std::string spec = models::to_spec(model);
  for (size_t at; (at = spec.find("4096")) != std::string::npos;) spec.replace(at, 4, "256");
  return models::from_spec(spec);
}

class OnnxZoo : public ::testing::TestWithParam<std::vector<const char*>> {};

TEST_P(OnnxZoo, AgreesWithOurForwardForEveryBatch) {
  if (peer_python().empty()) GTEST_SKIP() << "needs tests/requirements.txt";
  Runtime runtime;
  std::vector<std::string> names;
  std::vector<Array> expected;
  for (const char* name : GetParam()) {
    const models::Model model = small(name);
    const std::string file = runtime / (std::string(name) + ".onnx");
    export_onnx(bundle_of(model), file, {.softmax = false});
    for (const int64_t batch : {1, 3}) {
      const Array x = random_input(model.batch_type(batch), model.vocabulary(), 5);
      runtime.add(file, x);
      names.push_back(cat(name, ", batch ", batch));
      expected.push_back(forward(model, x));
    }
  }
  // A spec may have no name, a graph of ONNX may not.
  models::Model nameless = small(GetParam()[0]);
  nameless.name.clear();
  export_onnx(bundle_of(nameless), runtime / "nameless.onnx", {.softmax = false});
  const Array x = random_input(nameless.batch_type(2), nameless.vocabulary(), 6);
  runtime.add(runtime / "nameless.onnx", x);
  names.push_back("without a name");
  expected.push_back(forward(nameless, x));
  const std::vector<Array> results = runtime.results();
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const double difference = relative_difference(results[i], expected[i]);
    EXPECT_LE(difference, 1e-5) << names[i];
    RecordProperty(names[i], cat(difference));
  }
}

using Names = std::vector<const char*>;
const Names kFamilies[] = {
    {"linear_regression", "logistic_regression", "mlp", "mlp_wide", "lenet", "convnet", "cifarnet"},
    {"resnet20", "resnet32", "resnet56", "resnet18", "resnet34"},
    {"resnet50", "resnet101", "resnet152"},
    {"googlenet", "alexnet"},
    {"vgg11", "vgg11_bn", "vgg13", "vgg13_bn"},
    {"vgg16", "vgg16_bn", "vgg19", "vgg19_bn"},
    {"resnext50_32x4d", "wide_resnet50_2", "densenet121", "squeezenet1_0", "squeezenet1_1"},
    {"mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "regnet_y_400mf"},
    {"efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3"},
    {"convnext_tiny", "vit_b_16"},
    {"textcnn", "text_bow", "lstm_text", "gru_text", "gpt_char"},
};
INSTANTIATE_TEST_SUITE_P(Families, OnnxZoo, ::testing::ValuesIn(kFamilies));

TEST(Onnx, NoNetOfTheZooIsForgottenAbove) {
  std::vector<std::string> tested, known;
  for (const Names& names : kFamilies) tested.insert(tested.end(), names.begin(), names.end());
  for (const models::Entry& e : models::registry()) known.emplace_back(e.name);
  std::sort(tested.begin(), tested.end());
  std::sort(known.begin(), known.end());
  EXPECT_EQ(tested, known);
}

// A module of one's own is exported by its graph: nobody has to declare it.
class OwnBlock : public nn::Module {
 public:
  OwnBlock() : first_(&add<nn::Linear>("first", 6, 8)), second_(&add<nn::Linear>("second", 8, 3)) {
    scale_ = parameter("scale", {8}, nn::init::uniform(0.5, 1.5));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor h = tanh((*first_)(x)) * scale_;
    return (*second_)(h * sigmoid(h) + mean(h, {1}, Keep::yes));
  }

 private:
  nn::Linear *first_, *second_;
  Variable scale_;
};
TEST(Onnx, AModuleThatNobodyDeclaredIsExportedByItsGraph) {
  if (peer_python().empty()) GTEST_SKIP() << "needs tests/requirements.txt";
  Runtime runtime;
  const models::Model model{.name = "own", .input = {DType::f32, {6}}, .net = std::make_shared<OwnBlock>()};
  const std::string file = runtime / "own.onnx";
  export_onnx(bundle_of(model), file, {.softmax = false});
  std::vector<Array> expected;
  for (const int64_t batch : {1, 5}) {
    const Array x = random_input(model.batch_type(batch), 0, 5);
    runtime.add(file, x);
    expected.push_back(forward(model, x));
  }
  const std::vector<Array> results = runtime.results();
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) EXPECT_LE(relative_difference(results[i], expected[i]), 1e-5) << i;
}

// What a user has: images as bytes, and a model that was trained.
TEST(Onnx, ATrainedModelTellsTheSameProbabilitiesOfPixels) {
  if (peer_python().empty()) GTEST_SKIP() << "needs tests/requirements.txt";
  Runtime runtime;
  test::write_small_digits(runtime.path());
  train::Config config = train::recipe(runtime.path());
  config.model = "convnet";
  config.epochs = 1;
  config.deterministic = true;
  config.output_dir = runtime / "run";
  train::Observer silent;
  Predictor predictor(store::load_bundle(train::train(config, silent).model_path));
  const store::Preprocessing& p = predictor.bundle().preprocessing;
  ASSERT_EQ(p.mean.size(), 1u);
  const data::Dataset digits = data::draw_digits(30000, 20);
  std::vector<Array> samples;
  Array normalised(DType::f32, digits.images.shape());
  for (int64_t i = 0; i < digits.count(); ++i) samples.push_back(digits.slice(i, 1).images.reshaped({1, 28, 28}));
  for (int64_t i = 0; i < normalised.numel(); ++i) {
    normalised.data<float>()[i] =
        (static_cast<float>(digits.images.data<uint8_t>()[i]) / 255.0f - p.mean[0]) / p.std[0];
  }
  export_onnx(predictor.bundle(), runtime / "pixels.onnx", {.preprocessing = true});
  const OnnxSummary plain = export_onnx(predictor.bundle(), runtime / "plain.onnx");
  EXPECT_EQ(plain.input, "input f32 (N, 1, 28, 28)");
  EXPECT_EQ(plain.output, "probabilities f32 (N, 10)");
  runtime.add(runtime / "pixels.onnx", digits.images);
  runtime.add(runtime / "plain.onnx", normalised);
  const Array expected = predictor.run(samples);
  const std::vector<Array> results = runtime.results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_LE(relative_difference(results[0], expected), 1e-5);
  EXPECT_LE(relative_difference(results[1], expected), 1e-5);
}

// Padding a text more than the predictor does would change what convolutions see, so the length stays free; in a
// recurrent net padding does not count.
TEST(Onnx, TextsOfAllLengthsAreToldAsThePredictorTellsThem) {
  if (peer_python().empty()) GTEST_SKIP() << "needs tests/requirements.txt";
  Runtime runtime;
  std::vector<Array> expected;
  const std::string words = "the old man and the sea is a film to remember but not one to see for a second time at all";
  for (const std::string name : {"textcnn", "text_bow", "gru_text", "lstm_text"}) {
    store::Bundle b;
    b.preprocessing.input = {16};
    b.preprocessing.tokenizer = data::learn_tokenizer({words, words}, {});
    b.preprocessing.lengths = {6, 9, 16};
    b.model = models::create(name, {.classes = 3, .vocabulary = b.preprocessing.tokenizer->size(), .length = 16});
    const std::string file = runtime / (name + ".onnx");
    const OnnxSummary summary = export_onnx(b, file);
    EXPECT_EQ(summary.input, "tokens i32 (N, T)");
    EXPECT_EQ(summary.notes.size(), 0u);
    EXPECT_LT(summary.nodes, 50);
    Predictor predictor(b, {.deterministic = true});
    for (const size_t end : {12, 20, 27, 60}) {
      const Array tokens = predictor.sample_of_text(words.substr(0, end));
      const auto fits = [&](int64_t n) { return n >= tokens.numel(); };
      const auto& lengths = b.preprocessing.lengths;
      const bool padding_counts = name == "textcnn" || name == "text_bow";
      Array padded(DType::i32, {1, padding_counts ? *std::find_if(lengths.begin(), lengths.end(), fits) : 16});
      std::copy_n(tokens.data<int32_t>(), tokens.numel(), padded.data<int32_t>());
      runtime.add(file, padded);
      expected.push_back(predictor.run({tokens}));
    }
  }
  const std::vector<Array> results = runtime.results();
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) EXPECT_LE(relative_difference(results[i], expected[i]), 1e-5) << i;
}

// Two results, of which ONNX may lack the second.
class TwoResults : public nn::Module {
 public:
  explicit TwoResults(bool odd) : odd_(odd), fc_(add("fc", nn::Linear(4, 3))) {}
  Tensor forward(const Tensor& x) override { return forward_all({x})[0]; }
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override {
    return {fc_(inputs[0]), odd_ ? nextafter(inputs[0], 1.0) : relu(inputs[0])};
  }

 private:
  bool odd_;
  nn::Linear& fc_;
};

TEST(Onnx, AllResultsOfAGraphAreWritten) {
  const TemporaryDir dir;
  for (const bool odd : {false, true}) {
    models::Model model;
    model.name = "two";
    model.input = {DType::f32, {4}};
    model.net = std::make_shared<TwoResults>(odd);
    const OnnxSummary summary = export_onnx(bundle_of(models::as_graph(model)), dir / "two.onnx", {.softmax = false});
    EXPECT_EQ(summary.output, odd ? "logits f32 (N, 3)" : "logits f32 (N, 3), output_2 f32 (N, 4)");
    ASSERT_EQ(summary.notes.size(), odd ? 1u : 0u);
    for (const std::string& note : summary.notes) {
      EXPECT_EQ(note.find("the first of 2 results is written: "), 0u) << note;
      EXPECT_NE(note.find("nextafter (onnx_test.cpp:255)"), std::string::npos) << note;
    }
  }
}

TEST(Onnx, WhatCannotBeExportedIsSaid) {
  const TemporaryDir dir;
  const std::string file = dir / "m.onnx";
  const models::Model text = models::create("text_bow", {.length = 8});
  expect_error(ErrorKind::usage, {"preprocessing", "text_bow", "i32[8]"},
               [&] { export_onnx(bundle_of(text), file, {.preprocessing = true}); });
  models::Model huge = models::create("mlp");
  huge.net = std::make_shared<nn::Sequential>(nn::Flatten(), nn::Linear(784, 700'000));  // 2.2 GB, never made
  expect_error(ErrorKind::capacity, {"mlp", "2198000000"}, [&] { export_onnx(bundle_of(huge), file); });
  EXPECT_EQ(dir.entries(), 0u);
  expect_error(ErrorKind::runtime, {dir / "none/m.onnx"},
               [&] { export_onnx(bundle_of(models::create("lenet")), dir / "none/m.onnx"); });
}

}  // namespace
}  // namespace freight::deploy
