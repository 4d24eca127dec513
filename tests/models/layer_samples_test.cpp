// Samples of every declared layer, as a spec and an input: in training and in evaluation, with its parameters and
// statistics as operands, it passes the checks that ops and functions pass (tests/ops/case_checks.h): results,
// gradients and new statistics against the oracle on every backend, gradients against differences to second order,
// equal bits on a repeat, the text form; and its errors name it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "tests/ops/function_rows.h"
#include "tests/support/error_of.h"

#include "tests/ops/case_checks.h"

namespace freight::test {
namespace {

using namespace rows;

struct LayerRow {
  const char* layer;  // its spec
  Operand input;      // with the axis of samples
  double slack = 20;
};

inline Operand tokens(const Shape& shape, int64_t bound) { return index(shape, bound); }

const std::vector<LayerRow>& layer_rows() {
  const Fill d = Fill::distinct;
  static const std::vector<LayerRow> kRows = {
      {R"({"type":"Linear","out":5})", f32({3, 4})},
      {R"({"type":"Linear","out":1,"bias":false})", f32({2, 7, 4})},
      {R"({"type":"Linear","out":5})", f32({0, 4})},
      {R"({"type":"Conv1d","out":4,"kernel":3,"stride":2,"padding":1,"dilation":2,"groups":2})", f32({2, 2, 9})},
      {R"({"type":"Conv2d","out":4,"kernel":[3,2],"stride":[2,1],"padding":[0,1]})", f32({2, 3, 5, 4})},
      {R"({"type":"Conv2d","out":2,"kernel":1,"bias":false})", f32({1, 1, 1, 1})},
      {R"({"type":"Conv2d","out":3,"kernel":3,"padding":1})", f32({0, 2, 4, 4})},
      {R"({"type":"Conv2d","out":3,"kernel":[3,4],"padding":-1,"dilation":[2,1]})", f32({2, 2, 5, 4})},
      {R"({"type":"Conv2d","out":2,"kernel":3,"padding":[2,1],"padding_mode":"reflect"})", f32({2, 2, 4, 3})},
      {R"({"type":"Conv2d","out":2,"kernel":2,"padding":-1,"padding_mode":"replicate"})", f32({1, 2, 4, 3})},
      {R"({"type":"Conv1d","out":2,"kernel":3,"padding":2,"padding_mode":"circular"})", f32({2, 2, 5})},
      {R"({"type":"ConvTranspose1d","out":4,"kernel":3,"stride":2,"padding":1,"output_padding":1,"groups":2})",
       f32({2, 2, 5})},
      {R"({"type":"ConvTranspose2d","out":3,"kernel":[3,2],"stride":[2,1],"padding":[0,1],"dilation":[1,2]})",
       f32({2, 2, 3, 4})},
      {R"({"type":"ConvTranspose2d","out":2,"kernel":2,"bias":false})", f32({1, 3, 2, 2})},
      {R"({"type":"MaxPool1d","kernel":3,"stride":2,"dilation":2})", f32({2, 3, 9}, d)},
      {R"({"type":"AvgPool1d","kernel":3,"padding":1})", f32({2, 3, 7})},
      {R"({"type":"AdaptiveAvgPool1d","output":3})", f32({2, 3, 7})},
      {R"({"type":"AdaptiveMaxPool1d","output":3})", f32({2, 3, 7}, d)},
      {R"({"type":"AdaptiveMaxPool2d","output":[2,3]})", f32({2, 3, 4, 5}, d)},
      {R"({"type":"Upsample","factor":2})", f32({2, 3, 4})},
      {R"({"type":"Upsample","size":[5,3]})", f32({2, 2, 3, 4})},
      {R"({"type":"Upsample","factor":1.5,"mode":"linear"})", f32({2, 3, 5})},
      {R"({"type":"Upsample","size":[5,7],"mode":"bilinear","align_corners":true})", f32({2, 2, 3, 4})},
      {R"({"type":"Upsample","factor":2,"mode":"bicubic"})", f32({1, 2, 3, 4})},
      {R"({"type":"Unflatten","axis":1,"sizes":[2,-1]})", f32({3, 6, 2})},
      {R"({"type":"MaxPool2d","kernel":2})", f32({2, 3, 4, 6}, d)},
      {R"({"type":"MaxPool2d","kernel":[3,2],"stride":[2,1],"padding":[1,0],"ceil_mode":true})", f32({1, 2, 5, 6}, d)},
      {R"({"type":"AvgPool2d","kernel":3,"stride":2,"padding":1,"count_include_pad":false})", f32({2, 2, 5, 4})},
      {R"({"type":"AvgPool2d","kernel":3,"stride":2,"ceil_mode":true,"divisor":5})", f32({2, 2, 6, 4})},
      {R"({"type":"AdaptiveAvgPool2d","output":[2,3]})", f32({2, 3, 5, 4})},
      {R"({"type":"AdaptiveAvgPool2d","output":[0,3]})", f32({2, 3, 5, 4})},
      {R"({"type":"AdaptiveMaxPool2d","output":[2,0]})", f32({2, 3, 4, 5}, d)},
      {R"({"type":"Dropout","p":0.3})", f32({5, 13})},
      {R"({"type":"Flatten"})", f32({2, 3, 4, 2})},
      {R"({"type":"Flatten"})", f32({0, 3, 4, 2})},
      {R"({"type":"Embedding","rows":7,"width":4})", tokens({3, 5}, 7)},
      {R"({"type":"EmbeddingBag","rows":7,"width":4})", tokens({3, 5}, 7)},
      {R"({"type":"EmbeddingBag","rows":7,"width":4,"mode":"sum"})", tokens({3, 5}, 7)},
      {R"({"type":"EmbeddingBag","rows":7,"width":4,"mode":"max","padding_idx":-1})", tokens({3, 5}, 7)},
      {R"({"type":"BatchNorm1d"})", f32({7, 3})},
      {R"({"type":"BatchNorm1d","momentum":0.5,"eps":0.01})", f32({2, 3, 5})},
      {R"({"type":"BatchNorm2d"})", f32({2, 3, 4, 2})},
      {R"({"type":"BatchNorm2d","momentum":-1})", f32({2, 3, 4, 2})},
      {R"({"type":"BatchNorm1d","running":false})", f32({2, 3, 5})},
      {R"({"type":"LayerNorm"})", f32({3, 17})},
      {R"({"type":"LayerNorm","shape":[3,4]})", f32({2, 3, 4})},
      {R"({"type":"GroupNorm","groups":2})", f32({2, 4, 3, 2})},
      {R"({"type":"BatchNorm2d","affine":false})", f32({2, 3, 4, 2})},
      {R"({"type":"BatchNorm1d","bias":false})", f32({7, 3})},
      {R"({"type":"GroupNorm","groups":2,"bias":false})", f32({2, 4, 3})},
      {R"({"type":"LayerNorm","bias":false})", f32({3, 17})},
      {R"({"type":"LayerNorm","affine":false})", f32({3, 17})},
      {R"({"type":"GroupNorm","groups":2,"affine":false})", f32({2, 4, 3})},
      {R"({"type":"InstanceNorm1d"})", f32({2, 3, 5})},
      {R"({"type":"InstanceNorm2d","affine":true})", f32({2, 3, 4, 2})},
      {R"({"type":"InstanceNorm1d","running":true})", f32({2, 3, 5})},
      {R"({"type":"InstanceNorm2d","affine":true,"bias":false,"running":true,"momentum":0.25})", f32({2, 3, 4, 2})},
      {R"({"type":"RMSNorm"})", f32({3, 17})},
      {R"({"type":"RMSNorm","shape":[3,4],"affine":false,"eps":0.01})", f32({2, 3, 4})},
      {R"({"type":"LayerNorm2d","eps":0.01})", f32({2, 5, 3, 2})},
      {R"({"type":"LayerScale","shape":[3,1,1],"value":0.5})", f32({2, 3, 4, 2})},
      {R"({"type":"StochasticDepth","p":0.4})", f32({5, 3, 2})},
      {R"({"type":"ClassToken"})", f32({2, 3, 4})},
      {R"({"type":"Select","axis":2,"index":-1})", f32({2, 3, 4})},
      {R"({"type":"Permute","axes":[0,2,3,1]})", f32({2, 3, 4, 5})},
      {R"({"type":"Transpose"})", f32({2, 3, 4})},
      {R"({"type":"MaxOverTime"})", f32({2, 3, 7}, d)},
      {R"({"type":"PositionEmbedding","length":7})", f32({2, 5, 3})},
      {R"({"type":"PositionEmbedding","length":7,"batch_axis":true})", f32({2, 5, 3})},
      {R"({"type":"MultiheadAttention","heads":2,"causal":true})", f32({2, 5, 6})},
      {R"({"type":"MultiheadAttention","heads":1,"bias":false})", f32({1, 1, 3})},
      {R"({"type":"TransformerBlock","heads":2,"hidden":5})", f32({2, 3, 4}), 40},
      {R"({"type":"LSTM","hidden":3,"layers":2,"bidirectional":true})", f32({2, 3, 4}, Fill::unit), 40},
      {R"({"type":"LSTM","hidden":3,"last":true})", f32({1, 1, 2}, Fill::unit), 40},
      {R"({"type":"LSTM","hidden":3,"bias":false})", f32({2, 3, 4}, Fill::unit), 40},
      {R"({"type":"LSTM","hidden":4,"projection":2,"layers":2,"bidirectional":true})", f32({2, 3, 4}, Fill::unit), 40},
      {R"({"type":"GRU","hidden":3,"layers":2,"bidirectional":true})", f32({2, 3, 4}, Fill::unit), 40},
      {R"({"type":"GRU","hidden":3,"last":true})", f32({0, 2, 2}, Fill::unit), 40},
      {R"({"type":"GRU","hidden":3,"bias":false})", f32({2, 3, 4}, Fill::unit), 40},
      {R"({"type":"ReLU"})", f32({3, 7})},
      {R"({"type":"SiLU"})", f32({3, 7})},
      {R"({"type":"Tanh"})", f32({3, 7})},
      {R"({"type":"Sigmoid"})", f32({3, 7})},
      {R"({"type":"Softplus"})", f32({3, 7})},
      {R"({"type":"Softplus","beta":3,"threshold":2})", f32({3, 7})},
      {R"({"type":"SELU"})", f32({3, 7})},
      {R"({"type":"Mish"})", f32({3, 7})},
      {R"({"type":"LogSigmoid"})", f32({3, 7})},
      {R"({"type":"Tanhshrink"})", f32({3, 7})},
      {R"({"type":"LogSoftmax","axis":1})", f32({2, 5, 3})},
      {R"({"type":"Softmin"})", f32({2, 5, 3})},
      {R"({"type":"GLU","axis":1})", f32({2, 6, 3})},
      {R"({"type":"CELU","alpha":3})", f32({3, 7})},
      {R"({"type":"Hardtanh","min_val":-0.55,"max_val":1.45})", f32({3, 7})},
      {R"({"type":"Hardshrink","lambda":0.55})", f32({3, 7})},
      {R"({"type":"Softshrink","lambda":0.55})", f32({3, 7})},
      {R"({"type":"Threshold","threshold":0.45,"value":-0.5})", f32({3, 7})},
      {R"({"type":"PReLU"})", f32({3, 7})},
      {R"({"type":"PReLU","channels":3,"value":0.5})", f32({2, 3, 4})},
      {R"({"type":"Softsign"})", f32({3, 7})},
      {R"({"type":"ReLU6"})", f32({3, 7})},
      {R"({"type":"Hardsigmoid"})", f32({3, 7})},
      {R"({"type":"Hardswish"})", f32({3, 7})},
      {R"({"type":"Identity"})", f32({3, 7})},
      {R"({"type":"GELU","approximate":"tanh"})", f32({3, 7})},
      {R"({"type":"LeakyReLU","slope":-0.5})", f32({3, 7})},
      {R"({"type":"ELU","alpha":3})", f32({3, 7})},
      {R"({"type":"Softmax","axis":1})", f32({2, 5, 3})},
      {R"({"type":"Sequential","layers":[{"type":"Linear","out":5},{"type":"Tanh"}]})", f32({3, 4})},
      {R"({"type":"Residual","main":{"type":"Linear","out":4},"activation":{"type":"Tanh"}})", f32({3, 4})},
      {R"({"type":"Residual","main":{"type":"Linear","out":2},"shortcut":{"type":"Linear","out":2}})", f32({3, 4})},
      {R"({"type":"Concat","branches":[{"type":"Identity"},{"type":"Conv2d","out":2,"kernel":1}]})", f32({2, 3, 2, 2})},
      {R"({"type":"Sum","branches":[{"type":"Identity"},{"type":"Linear","out":4}]})", f32({3, 4})},
      {R"({"type":"Product","branches":[{"type":"AdaptiveAvgPool2d","output":1},{"type":"Identity"}]})",
       f32({2, 3, 2, 2})},
      {R"({"type":"Auxiliary","head":{"type":"Linear","out":2}})", f32({3, 4})},
      {R"({"type":"GraphModule","buffers":"s","graph":"graph { %0 = input \"x\" : f32[N,4] %1 = state \"w\" : f32[3,4] )"
       R"(%2 = state \"s\" : f32[3] %3 = matmul(%0, %1) {trans_b=true} : f32[N,3] @\"fc\" return %3 }",)"
       R"("training_graph":"graph { %0 = input \"x\" : f32[N,4] %9 = input \"rng\" : i64[2] %1 = state \"w\" : f32[3,4] )"
       R"(%2 = state \"s\" : f32[3] %3 = matmul(%0, %1) {trans_b=true} : f32[N,3] @\"fc\" )"
       R"(%4 = dropout(%3, %9) {p=0.25} : f32[N,3] %5 = sum(%4) {axes=[0]} : f32[1,3] )"
       R"(%6 = reshape(%5) {shape=[3]} : f32[3] update %2 = %6 return %4 }"})",
       f32({3, 4})},
  };
  return kRows;
}

std::string type_of(const LayerRow& row) { return nlohmann::json::parse(row.layer).at("type"); }

models::Model model_of(const LayerRow& row) {
  const std::vector<int64_t> extents = row.input.type.shape.vector();
  const nlohmann::json spec = {{"format", "freight-model-1"},
                               {"input", std::vector<int64_t>(extents.begin() + 1, extents.end())},
                               {"input_dtype", to_string(row.input.type.dtype)},
                               {"net", {nlohmann::json::parse(row.layer)}}};
  return models::from_spec(spec.dump());
}

Graph trace(const models::Model& model, const Type& input) {
  const auto body = [](void* net, const detail::TensorList& in) {
    return detail::TensorList{{(*static_cast<nn::Module*>(net))(in.tensors[0])}, {}};
  };
  const std::vector<freight::Argument> arguments = {input};
  CompiledFunction function({});
  return function.graph({arguments, {}, body, model.net.get()});
}

enum class Mode { training, evaluation };

OpCase case_of(const LayerRow& row, Mode mode, uint64_t seed = 1) {
  const models::Model model = model_of(row);
  mode == Mode::training ? model.net->train() : model.net->eval();
  OpCase c{cat(row.layer, " on ", row.input.type, mode == Mode::training ? " in training" : " in evaluation"),
           states_as_inputs(trace(model, row.input.type)),
           {},
           row.slack};
  for (const Value v : c.graph.leaves(Op::input)) {
    const std::string& leaf = leaf_name(c.graph, v);
    Operand o{c.graph.type(v), Fill::unit};
    if (leaf == "x0") o = row.input;
    if (leaf == "rng") o.fill = Fill::key;
    if (leaf.ends_with("running_var")) o.fill = Fill::positive;
    c.inputs.push_back(random_array(o, seed + c.inputs.size()));
  }
  return c;
}

class LayerSamples : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<OpCase> cases(uint64_t seed) const {
    std::vector<OpCase> all;
    for (const LayerRow& row : layer_rows()) {
      if (type_of(row) != GetParam()) continue;
      for (const Mode mode : {Mode::training, Mode::evaluation}) all.push_back(case_of(row, mode, seed));
    }
    return all;
  }
};

TEST_P(LayerSamples, AgreeWithTheOracle) {
  std::vector<OpCase> all = cases(1);
  EXPECT_FALSE(all.empty()) << GetParam() << " has no row";
  for (OpCase& c : all) c.graph = with_gradients(c.graph);
  compare_with_oracle(all, computing_backends());
}

TEST_P(LayerSamples, HaveTheGradientOfDifferencesToSecondOrder) {
  for (const OpCase& c : cases(11)) {
    if (is_probed(c)) {
      EXPECT_TRUE(gradients_agree_with_differences(c)) << c.what;
    }
  }
}

TEST_P(LayerSamples, RepeatThemselvesAndRoundTripAsText) {
  for (OpCase& c : cases(5)) {
    c.graph = with_gradients(c.graph);
    EXPECT_TRUE(text_form_round_trips(c)) << c.what;
    EXPECT_TRUE(repeats_itself(c, "cpu")) << c.what;
  }
}

// An input of another rank, or of truth values: where the layer refuses it, the message names its place in the net.
TEST_P(LayerSamples, NameTheirPlaceInErrors) {
  for (const LayerRow& row : layer_rows()) {
    if (type_of(row) != GetParam()) continue;
    const models::Model model = model_of(row);
    for (const Type& wrong :
         {Type{DType::boolean, row.input.type.shape}, Type{DType::f32, {2, 3, 1, 2, 1, 5, 7}}, Type{DType::f32, {}}}) {
      const std::string text = freight::testing::message_of([&] { trace(model, wrong); });
      if (text != "no error") {
        EXPECT_NE(text.find("(0"), std::string::npos) << row.layer << " on " << to_string(wrong) << ": " << text;
      }
    }
  }
}

std::vector<std::string> declared_layers() {
  std::vector<std::string> names;
  for (const nn::LayerType* type : nn::layer_types()) names.push_back(type->name());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Declared, LayerSamples, ::testing::ValuesIn(declared_layers()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace freight::test
