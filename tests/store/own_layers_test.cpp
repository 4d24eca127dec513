// Modules of one's own in stored models: a declared one is saved, loaded and predicts as before; another is refused.
#include <gtest/gtest.h>

#include "freight/deploy/predictor.h"
#include "freight/nn/nn.h"
#include "freight/ops/elementwise.h"
#include "freight/store/bundle.h"
#include "tests/support/files.h"

namespace freight::store {
namespace {

using freight::testing::expect_error;
using freight::testing::TemporaryDir;

struct GainOptions {
  double factor = 2;
  int64_t width = 0;
};
class Gain : public nn::Module {
 public:
  using Fields = GainOptions;
  explicit Gain(const Fields& f) : fields_(nn::checked<Gain>(f)) {
    shift_ = parameter("shift", {f.width}, nn::init::uniform(-1, 1));
  }
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return x * fields_.factor + shift_; }

 private:
  Fields fields_;
  Variable shift_;
};
class Undeclared : public nn::Linear {
 public:
  Undeclared() : nn::Linear(4, 2) {}
  Tensor forward(const Tensor& x) override { return nn::Linear::forward(x) * 3.0; }
};

// A layer of two inputs within a declared one.
class Gate : public nn::ModuleOf<Tensor(const Tensor& x, const Tensor& context)> {
 public:
  explicit Gate(int64_t width) : fc_(add<nn::Linear>("fc", width, width)) {}
  Tensor forward(const Tensor& x, const Tensor& context) override { return x * sigmoid(fc_(context)); }

 private:
  nn::Linear& fc_;
};
struct GatedOptions {
  int64_t width = 0;
};
class Gated : public nn::Module {
 public:
  using Fields = GatedOptions;
  explicit Gated(const Fields& f) : fields_(nn::checked<Gated>(f)), gate_(add<Gate>("gate", f.width)) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return gate_(x, x * 0.5); }

 private:
  Fields fields_;
  Gate& gate_;
};

template <class M>
Bundle bundle_with(M layer) {
  Bundle b;
  nn::Sequential net;
  net.append("mine", std::move(layer));
  b.model = {.name = "own", .input = {DType::f32, {4}}, .net = std::make_shared<nn::Sequential>(std::move(net))};
  b.preprocessing.input = {4};
  return b;
}

TEST(OwnLayers, ADeclaredOneIsStoredAndAnswersAsBefore) {
  nn::register_layer(nn::Layer<Gain>("Gain", "x times a number, plus a learned vector")
                         .size("width", &GainOptions::width, -1, "numbers per row")
                         .field("factor", &GainOptions::factor, "the number"));
  const TemporaryDir dir;
  const Bundle before = bundle_with(Gain({.factor = 0.5, .width = 4}));
  save_bundle(dir / "own.safetensors", before);
  const std::vector<Array> x = {Array::of<float>({1, 2, 3, 4}, {4})};
  deploy::Predictor first(before), second(load_bundle(dir / "own.safetensors"));
  EXPECT_EQ(first.run(x).to_vector<float>(), second.run(x).to_vector<float>());
}

TEST(OwnLayers, LayersOfSeveralInputsAreStoredWithinADeclaredOne) {
  nn::register_layer(nn::Layer<Gated>("Gated", "x times a gate of its half")
                         .size("width", &GatedOptions::width, -1, "numbers per row"));
  const TemporaryDir dir;
  const Bundle before = bundle_with(Gated({.width = 4}));
  save_bundle(dir / "gated.safetensors", before);
  const Bundle after = load_bundle(dir / "gated.safetensors");
  EXPECT_EQ(after.model.net->state_dict()[0].name, "mine.gate.fc.weight");
  const std::vector<Array> x = {Array::of<float>({1, 2, 3, 4}, {4})};
  deploy::Predictor first(before), second(after);
  EXPECT_EQ(first.run(x).to_vector<float>(), second.run(x).to_vector<float>());
}

// A class that is derived from a known layer computes something else: saved as that layer it would predict otherwise
// without a word.
TEST(OwnLayers, OneThatNobodyDeclaredIsRefusedByName) {
  const TemporaryDir dir;
  expect_error(ErrorKind::usage, {"'mine'", "is not declared", "nn::register_layer"},
               [&] { save_bundle(dir / "own.safetensors", bundle_with(Undeclared())); });
}

TEST(OwnLayers, OneThatNobodyDeclaredIsStoredAsAGraph) {
  const TemporaryDir dir;
  Bundle before = bundle_with(Undeclared());
  const Bundle code = before;
  std::string untrained;
  before.model = models::as_graph(before.model, &untrained);
  EXPECT_EQ(untrained, "");
  save_bundle(dir / "own.safetensors", before);
  const Bundle loaded = load_bundle(dir / "own.safetensors");
  EXPECT_EQ(loaded.model.net->config().type, "GraphModule");
  EXPECT_EQ(loaded.model.net->state_dict()[0].name, code.model.net->state_dict()[0].name);
  const std::vector<Array> x = {Array::of<float>({1, 2, 3, 4}, {4}), Array::of<float>({-1, 2, -3, 4}, {4})};
  deploy::Predictor first(code), second(loaded);
  EXPECT_EQ(first.run(x).to_vector<float>(), second.run(x).to_vector<float>());
  load_weights(*code.model.net, dir / "own.safetensors");
}

struct ShyOptions {
  double factor = 1;
};
// Its fields do not say what it computes in evaluation.
class Shy : public nn::Module {
 public:
  using Fields = ShyOptions;
  explicit Shy(const Fields& f, double beside = 2) : fields_(f), beside_(beside) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return training() ? x : x * beside_; }

 private:
  Fields fields_;
  double beside_;
};

TEST(OwnLayers, OneThatWouldAnswerOtherwiseInEvaluationIsRefused) {
  nn::register_layer(nn::Layer<Shy>("Shy", "x, or a multiple").field("factor", &ShyOptions::factor, "a number"));
  const TemporaryDir dir;
  save_bundle(dir / "same.safetensors", bundle_with(Shy(ShyOptions{})));
  expect_error(ErrorKind::usage, {"in evaluation the network of the spec computes something else"},
               [&] { save_bundle(dir / "other.safetensors", bundle_with(Shy(ShyOptions{}, 7))); });
}

TEST(OwnLayers, AModelWithoutANetIsRefused) {
  const TemporaryDir dir;
  Bundle none = bundle_with(Shy(ShyOptions{}));
  none.model.net = nullptr;
  expect_error(ErrorKind::usage, {"has no network"}, [&] { save_bundle(dir / "none.safetensors", none); });
}

// Its weights can be kept all the same: they go back into the class that has them, and into nothing else.
TEST(OwnLayers, TheWeightsOfOneThatNobodyDeclaredAreReadBack) {
  const TemporaryDir dir;
  const std::string path = dir / "weights.safetensors";
  const Bundle before = bundle_with(Undeclared());
  io::save_safetensors(path, sealed(to_file(before)));
  expect_error(ErrorKind::checkpoint, {path, "weights of a network without a spec form", "load_weights"},
               [&] { load_bundle(path); });
  Bundle after = bundle_with(Undeclared());
  load_weights(after.model, path);
  const Array x = Array::of<float>({1, 2, 3, 4}, {1, 4});
  EXPECT_EQ((*before.model.net)(x).to_vector<float>(), (*after.model.net)(x).to_vector<float>());
}

nn::Linear& linear_in(const nn::Module& net, size_t i) { return dynamic_cast<nn::Linear&>(*net.children()[i].module); }

TEST(TiedWeights, AreTiedAgainInTheModelThatIsLoaded) {
  const TemporaryDir dir;
  const auto net = std::make_shared<nn::Sequential>(nn::Linear(4, 4), nn::Tanh(), nn::Linear(4, 4));
  Bundle b;
  b.model = {.name = "auto", .input = {DType::f32, {4}}, .net = net, .loss = models::Loss::mse};
  b.preprocessing.input = {4};
  save_bundle(dir / "free.safetensors", b);
  linear_in(*net, 2).weight = linear_in(*net, 0).weight;
  save_bundle(dir / "tied.safetensors", b);
  const Bundle again = load_bundle(dir / "tied.safetensors"), apart = load_bundle(dir / "free.safetensors");
  const auto same = [](const Bundle& of) {
    return linear_in(*of.model.net, 0).weight == linear_in(*of.model.net, 2).weight;
  };
  EXPECT_TRUE(same(again));
  EXPECT_FALSE(same(apart));
  EXPECT_EQ(again.model.net->parameters().size(), 3u);
  EXPECT_EQ(again.parameters(), 16 + 4 + 4);
  EXPECT_EQ(again.model.net->state_dict().size(), 4u);  // both names, as in PyTorch
  const Tensor x = Array::of<float>({1, -2, 0.5, 3}, {1, 4});
  EXPECT_EQ((*again.model.net)(x).to_vector<float>(), (*net)(x).to_vector<float>());
  Bundle made = b;
  made.model = models::again(b.model);
  EXPECT_TRUE(same(made));
  // Stored once more they are the same file, and a file that ties what is not there is refused.
  io::SafeTensors file = to_file(again);
  EXPECT_EQ(file.metadata.at("ties"), R"([["0.weight","2.weight"]])");
  EXPECT_FALSE(to_file(apart).metadata.contains("ties"));
  file.metadata["ties"] = R"([["0.weight","3.weight"]])";
  expect_error(ErrorKind::checkpoint, {"has no variable '3.weight'"}, [&] { from_file(file, "f"); });
  file.metadata["ties"] = R"([["0.weight","2.bias"]])";
  expect_error(ErrorKind::checkpoint, {"tied weights: '0.weight' is f32[4,4], '2.bias' is f32[4]"},
               [&] { from_file(file, "f"); });
  file.metadata["ties"] = R"({"a": 1})";
  expect_error(ErrorKind::checkpoint, {"metadata is damaged"}, [&] { from_file(file, "f"); });
}

TEST(TiedWeights, ALayerThatIsUsedTwiceKeepsOneSetOfThem) {
  const auto lin = std::make_shared<nn::Linear>(4, 4);
  Bundle b;
  b.model = {.name = "twice",
             .input = {DType::f32, {4}},
             .net = std::make_shared<nn::Sequential>(lin, lin),
             .loss = models::Loss::mse};
  b.preprocessing.input = {4};
  const Bundle again = from_file(to_file(b), "file");
  EXPECT_EQ(again.parameters(), 20);
  EXPECT_EQ(again.model.net->state_dict().size(), 4u);
}

TEST(Hooks, ThatTakePartInANetAreNamedWhereItIsStored) {
  const TemporaryDir dir;
  const auto net = std::make_shared<nn::Sequential>(nn::Linear(4, 4), nn::Linear(4, 2));
  Bundle b;
  b.model = {.name = "hooked", .input = {DType::f32, {4}}, .net = net, .loss = models::Loss::mse};
  b.preprocessing.input = {4};
  const nn::HookHandle gradients =
      net->children()[0].module->on_output_gradient([](const Tensor& g, size_t) { return clamp(g, -1, 1); });
  save_bundle(dir / "fine.safetensors", b);  // changes no result
  nn::HookHandle looks = net->on_output([](const nn::Module&, const auto&, auto&) {});
  save_bundle(dir / "looks.safetensors", b);
  const nn::HookHandle changes = net->children()[1].module->on_output(
      [](const nn::Module&, const auto&, std::vector<Tensor>& out) { out[0] = out[0] * 2.0; });
  looks.remove();
  expect_error(ErrorKind::usage, {"the network 'hooked'", "a hook (on_output) on '1' takes part", "remove it first"},
               [&] { save_bundle(dir / "no.safetensors", b); });
}

}  // namespace
}  // namespace freight::store
