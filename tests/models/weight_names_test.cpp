// The names that others give the weights of the zoo's networks become the networks' own. other_names.json has the names
// and shapes that timm and Hugging Face's library give; other_names.py writes it.
#include "freight/models/weight_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "tests/support/folders.h"

namespace freight::models {
namespace {

using Names = std::vector<std::string>;

// "name shape", in order.
Names listed(const std::vector<nn::NamedArray>& entries) {
  Names all;
  for (const nn::NamedArray& e : entries) all.push_back(cat(e.name, " ", e.array.shape()));
  std::sort(all.begin(), all.end());
  return all;
}

Names own_names(const Model& model) {
  Names all;
  for (const nn::NamedVariable& v : model.net->state_dict()) all.push_back(cat(v.name, " ", v.variable.shape()));
  std::sort(all.begin(), all.end());
  return all;
}

TEST(WeightNames, ThoseOfTimmAndHuggingFaceBecomeTheNetworksOwn) {
  const auto lists = nlohmann::json::parse(std::ifstream(source_dir() + "/tests/models/other_names.json"));
  EXPECT_GE(lists.size(), 11u);
  for (const auto& [list, names] : lists.items()) {
    const Model model = create(list.substr(0, list.find(' ')));
    std::vector<nn::NamedArray> entries;
    for (const auto& [name, shape] : names.items()) {
      entries.push_back({name, Array(DType::f32, Shape(shape.get<std::vector<int64_t>>()))});
    }
    EXPECT_EQ(listed(with_own_names(*model.net, std::move(entries))), own_names(model)) << list;
  }
}

// A network of a few layers with the names of a vision transformer.
Model small_transformer() {
  return from_spec(R"({"format":"freight-model-1","input":[3,4],"net":[
    {"type":"ClassToken","name":"class_token"},
    {"type":"Sequential","name":"encoder","layers":[{"type":"Sequential","name":"layers","layers":[
      {"type":"Sequential","name":"encoder_layer_0","layers":[
        {"type":"MultiheadAttention","name":"self_attention","heads":2},
        {"type":"Sequential","name":"mlp","layers":[{"type":"Linear","out":4},{"type":"GELU"},
                                                    {"type":"Identity"},{"type":"Linear","out":4}]}]}]}]}]})");
}

TEST(WeightNames, QueriesKeysAndValuesAreJoinedInThisOrder) {
  const Model model = small_transformer();
  std::vector<nn::NamedArray> entries;
  for (const char* part : {"value", "key", "query"}) {
    const std::string name = cat("vit.encoder.layer.0.attention.attention.", part);
    const float number = *part == 'q' ? 1 : *part == 'k' ? 2 : 3;
    entries.push_back({name + ".weight", Array::of<float>(std::vector<float>(16, number), {4, 4})});
    entries.push_back({name + ".bias", Array::of<float>(std::vector<float>(4, number), {4})});
  }
  entries.push_back({"vit.embeddings.cls_token", Array(DType::f32, {1, 1, 4})});
  const auto got = with_own_names(*model.net, entries);
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].name, "encoder.layers.encoder_layer_0.self_attention.in_proj_weight");
  EXPECT_EQ(got[0].array.shape(), (Shape{12, 4}));
  EXPECT_EQ(got[1].array.to_vector<float>(), (std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
  EXPECT_EQ(got[2].name, "class_token");
}

TEST(WeightNames, OlderNamesOfTorchvisionBecomeThePresentOnes) {
  const Model model = small_transformer();
  std::vector<nn::NamedArray> entries;
  for (const nn::NamedVariable& v : model.net->state_dict()) entries.push_back({v.name, v.variable.array()});
  const Names own = listed(entries);
  for (nn::NamedArray& e : entries) {
    for (const auto& [now, before] : {std::pair{"mlp.0.", "mlp.linear_1."}, std::pair{"mlp.3.", "mlp.linear_2."}}) {
      if (const size_t at = e.name.find(now); at != std::string::npos) e.name.replace(at, 6, before);
    }
  }
  EXPECT_NE(listed(entries), own);
  EXPECT_EQ(listed(with_own_names(*model.net, entries)), own);
  const Model dense = create("densenet121");
  std::vector<nn::NamedArray> old;
  for (const nn::NamedVariable& v : dense.net->state_dict()) {
    std::string name = v.name;
    for (const char* layer : {".norm1.", ".norm2.", ".conv1.", ".conv2."}) {
      if (const size_t at = name.find(layer); at != std::string::npos) name.insert(at + 5, ".");
    }
    old.push_back({name, Array(DType::f32, v.variable.shape())});
  }
  EXPECT_EQ(listed(with_own_names(*dense.net, std::move(old))), own_names(dense));
}

TEST(WeightNames, OwnAndUnknownNamesStayAsTheyAre) {
  const Model model = create("squeezenet1_1", {.size = {64, 64}});
  std::vector<nn::NamedArray> entries;
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    entries.push_back({v.name, Array(DType::f32, v.variable.shape())});
  }
  const Names own = listed(entries);
  EXPECT_EQ(listed(with_own_names(*model.net, entries)), own);
  for (nn::NamedArray& e : entries) e.name = "model.body." + e.name;  // a wrapper, such as Lightning's
  EXPECT_EQ(listed(with_own_names(*model.net, entries)), own);
  for (nn::NamedArray& e : entries) e.name += ".other";
  const Names unknown = listed(entries);
  EXPECT_EQ(listed(with_own_names(*model.net, entries)), unknown);
  // A part that does not fit is left for the error of loading.
  const Model transformer = small_transformer();
  const auto got = with_own_names(
      *transformer.net, {{"vit.encoder.layer.0.attention.attention.query.weight", Array(DType::f32, {4, 4})},
                         {"vit.encoder.layer.0.attention.attention.key.weight", Array(DType::f32, {4, 5})},
                         {"vit.encoder.layer.0.attention.attention.value.weight", Array(DType::f32, {4, 4})}});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].array.shape(), (Shape{4, 4}));
}

}  // namespace
}  // namespace freight::models
