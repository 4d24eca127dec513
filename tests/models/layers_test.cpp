// The declarations of the layers: what they say is what specs read and print, what constructors refuse, and what
// docs/layers.md lists. Layers of one's own are declared in the same form.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/models/models.h"
#include "freight/models/summary.h"
#include "freight/nn/nn.h"
#include "tests/support/document.h"
#include "tests/support/folders.h"

namespace freight::models {
namespace {

using freight::testing::cell;
using freight::testing::expect_error;
using nlohmann::ordered_json;
using Kind = nn::Setting::Kind;
using Presence = nn::Field::Presence;

std::string number(double v) {
  const std::string whole = cat(v);
  return whole == "20000" ? "20,000" : whole;
}

std::string kind_text(const nn::Field& f) {
  if (!f.choices.empty()) return join(f.choices, ", ");
  std::string range;
  if (std::isfinite(f.range.least)) range += cat(", at least ", number(f.range.least));
  if (f.range.most < 1e300) range += cat(f.range.below_most ? ", below " : ", at most ", number(f.range.most));
  switch (f.usual.kind) {
    case Kind::integer: return "integer" + range;
    case Kind::number: return "number" + range;
    case Kind::flag: return "true or false";
    case Kind::extents: return "integer or list" + range;
    case Kind::layer: return "layer";
    case Kind::layers: return "list of layers";
    case Kind::text: break;
  }
  return "text";
}

std::string default_text(const nn::Field& f) {
  if (f.presence == Presence::required) return "";
  if (f.presence == Presence::from_input) return "of the input";
  switch (f.usual.kind) {
    case Kind::integer: return cat(f.usual.integer);
    case Kind::number: return cat(f.usual.number);
    case Kind::flag: return f.usual.flag ? "true" : "false";
    case Kind::text: return f.usual.text;
    case Kind::extents: return cat(f.usual.extents.values[0]);
    default: return "none";
  }
}

std::string layers_table() {
  std::string out = "| layer, setting | value | default | meaning |\n|---|---|---|---|\n";
  for (const nn::LayerType* type : nn::layer_types()) {
    out += cat("| **`", type->name(), "`** | | | ", cell(type->doc()), " |\n");
    for (const nn::Field& f : type->fields()) {
      out += cat("| `", f.key(), "` | ", kind_text(f), " | ", default_text(f), " | ", cell(f.doc), " |\n");
    }
  }
  return out;
}

TEST(Layers, TheTableOfTheDocumentIsThatOfTheDeclarations) {
  freight::testing::expect_tables(source_dir() + "/docs/layers.md", {{"layers", layers_table()}});
}

// A value other than the default that the field allows.
ordered_json other_value(const nn::Field& f) {
  switch (f.usual.kind) {
    case Kind::integer: return f.presence == Presence::optional ? f.usual.integer + 1 : 4;
    case Kind::number: return f.usual.number == 0 ? 0.25 : f.usual.number / 2;
    case Kind::flag: return !f.usual.flag;
    case Kind::text:
      if (!f.choices.empty()) return f.choices[f.choices.size() > 2 ? 1 : f.usual.text == f.choices[0]];
      return f.key() == "buffers" ? "w" : R"(graph { %0 = input "x" : f32[N,4] %1 = state "w" : f32[4] return %0 })";
    case Kind::extents: return f.presence == Presence::optional ? f.usual.extents.values[0] + 1 : 2;
    default: return nullptr;
  }
}

nn::Setting setting_of(const nn::Field& f, const ordered_json& j) {
  nn::Setting s = f.usual;
  switch (f.usual.kind) {
    case Kind::integer: s.integer = j.get<int64_t>(); break;
    case Kind::number: s.number = j.get<double>(); break;
    case Kind::flag: s.flag = j.get<bool>(); break;
    case Kind::text: s.text = j.get<std::string>(); break;
    case Kind::extents: s.extents = j.get<int64_t>(); break;
    default: break;
  }
  return s;
}

// The layer with its sizes 4, and one optional field at a time other than usual: it says this field and no other.
TEST(Layers, EveryFieldIsReadAndPrinted) {
  int checked = 0;
  for (const nn::LayerType* type : nn::layer_types()) {
    if (type->container()) continue;
    for (size_t changed = 0; changed <= type->fields().size(); ++changed) {
      std::vector<nn::Setting> values;
      std::vector<nn::Setting> want;
      for (size_t i = 0; i < type->fields().size(); ++i) {
        const nn::Field& f = type->fields()[i];
        const bool other = i == changed || f.presence != Presence::optional;
        values.push_back(other ? setting_of(f, other_value(f)) : f.usual);
        if (other) want.push_back(values.back());
      }
      SCOPED_TRACE(cat(type->name(), " ", changed < values.size() ? values[changed].key : ""));
      const nn::Config config = type->make(values)->config();
      EXPECT_EQ(config.type, type->name());
      EXPECT_EQ(config.settings, want);
      ++checked;
    }
  }
  EXPECT_GT(checked, 90);
}

// Below the least and above the most that a field allows, every constructor refuses by layer and field.
TEST(Layers, EveryRangeIsHeld) {
  int checked = 0;
  for (const nn::LayerType* type : nn::layer_types()) {
    if (type->container()) continue;
    for (size_t bad = 0; bad < type->fields().size(); ++bad) {
      const nn::FieldRange& range = type->fields()[bad].range;
      for (const double v : {range.least - 1, range.below_most ? range.most : range.most + 1}) {
        if (!std::isfinite(v)) continue;
        std::vector<nn::Setting> values;
        for (const nn::Field& f : type->fields()) values.push_back(setting_of(f, other_value(f)));
        nn::Setting& s = values[bad];
        s.integer = static_cast<int64_t>(v);
        s.extents = s.integer;
        s.number = v;
        SCOPED_TRACE(cat(type->name(), " ", s.key, " ", v));
        expect_error(ErrorKind::usage, {type->name() + ":", s.key, cat("got ", v)}, [&] { type->make(values); });
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 35);
}

TEST(Layers, SoftsignIsALayer) {
  const Model m = from_spec(R"({"format":"freight-model-1","input":[3],"net":[{"type":"Softsign"}]})");
  const std::vector<float> y = (*m.net)(Array::of<float>({-3, 0, 1}, {1, 3})).to_vector<float>();
  EXPECT_EQ(y, (std::vector<float>{-0.75f, 0, 0.5f}));
}

// Layers of one's own.
struct ScaleOptions {
  double factor = 2;
  int64_t width = 0;
};
struct Scale : nn::Module {
  using Fields = ScaleOptions;
  explicit Scale(const Fields& f = {}) : fields_(nn::checked<Scale>(f)) {
    shift = parameter("shift", {f.width}, nn::init::constant(1));
  }
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return x * fields_.factor + shift; }
  Variable shift;

 private:
  Fields fields_;
};
struct Unknown : nn::Module {
  Tensor forward(const Tensor& x) override { return x; }
};

void declare_scale() {
  static const bool done = [] {
    nn::register_layer(nn::Layer<Scale>("Scale", "x times a number, plus a learned vector")
                           .size("width", &ScaleOptions::width, -1, "numbers per row")
                           .field("factor", &ScaleOptions::factor, "the number", nn::kNotNegative));
    return true;
  }();
  EXPECT_TRUE(done);
}

TEST(Layers, OnesOwnIsACitizenOfSpecs) {
  declare_scale();
  const std::string spec =
      R"({"format":"freight-model-1","name":"own","input":[3],"net":[{"type":"Scale","factor":0.5}]})";
  const Model m = from_spec(spec);
  EXPECT_EQ((*m.net)(Array::of<float>({2, 4, 6}, {1, 3})).to_vector<float>(), (std::vector<float>{2, 3, 4}));
  const std::string printed = to_spec(m);
  EXPECT_NE(printed.find(R"({"type":"Scale","width":3,"factor":0.5})"), std::string::npos) << printed;
  EXPECT_EQ(to_spec(from_spec(printed)), printed);
  EXPECT_EQ(summarize(m, 1).layers.at(0).type, "Scale");
  expect_error(ErrorKind::usage, {"Scale", "factor must not be negative", "got -1", "(0, net.json)"}, [] {
    from_spec(R"({"format":"freight-model-1","input":[3],"net":[{"type":"Scale","factor":-1}]})", "net.json");
  });
  expect_error(ErrorKind::usage, {"unknown layer 'Scales'", "did you mean Scale?"},
               [] { from_spec(R"({"format":"freight-model-1","input":[3],"net":[{"type":"Scales"}]})"); });
}

TEST(Layers, ANameOrAClassIsDeclaredOnce) {
  declare_scale();
  expect_error(ErrorKind::usage, {"register_layer", "there is a layer 'ReLU' already"},
               [] { nn::register_layer(nn::Layer<Scale>("ReLU", "")); });
  expect_error(ErrorKind::usage, {"register_layer", "is declared already, as 'Scale'"},
               [] { nn::register_layer(nn::Layer<Scale>("Other", "")); });
}

TEST(Layers, WhatSpecsCannotMakeIsNotDeclared) {
  struct Nameless : nn::Module {
    using Fields = nn::NoFields;
    Tensor forward(const Tensor& x) override { return x; }
  };
  expect_error(ErrorKind::usage, {"register_layer", "a layer needs a name"},
               [] { nn::register_layer(nn::Layer<Nameless>("", "")); });
}

// A container of one's own: x + gate main(x), then a list of layers on the sum where it has one.
struct GatedOptions {
  std::shared_ptr<nn::Module> main;
  std::vector<nn::Child> then;
  double gate = 0.5;
};
class Gated : public nn::Module {
 public:
  using Fields = GatedOptions;
  explicit Gated(const Fields& f) : fields_(nn::checked<Gated>(f)) {
    adopt("main", f.main);
    for (const nn::Child& c : f.then) adopt("then" + c.name, c.module);
    scale_ = parameter("scale", {1}, nn::init::constant(f.gate));
  }
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override {
    Tensor y = x + (*fields_.main)(x)*scale_;
    for (const nn::Child& c : fields_.then) y = (*c.module)(y);
    return y;
  }

 private:
  Fields fields_;
  Variable scale_;
};
struct IdleOptions {
  std::shared_ptr<nn::Module> spare;
};
struct Idle : nn::Module {  // never calls its layer
  using Fields = IdleOptions;
  explicit Idle(const Fields& f) : fields_(f) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return x; }
  Fields fields_;
};

void declare_containers() {
  static const bool done = [] {
    nn::register_layer(nn::Layer<Gated>("Gated", "x + gate main(x), then more layers")
                           .required("main", &GatedOptions::main, "a layer or a list")
                           .field("then", &GatedOptions::then, "layers on the sum")
                           .field("gate", &GatedOptions::gate, "what the branch counts at first", nn::kNotNegative));
    nn::register_layer(nn::Layer<Idle>("Idle", "").required("spare", &IdleOptions::spare, "a layer"));
    return true;
  }();
  EXPECT_TRUE(done);
}

std::string net_of(const std::string& layers) {
  return R"({"format":"freight-model-1","name":"own","input":[3],"net":)" + layers + "}";
}

TEST(Layers, OnesOwnContainerIsACitizenOfSpecs) {
  declare_containers();
  // Sizes within follow from what the container calls its children with, also in a container in a container.
  const Model m = from_spec(net_of(R"([{"name":"a","type":"Gated","gate":2,"main":{"type":"Linear","out":3},
      "then":[{"type":"Gated","main":[{"type":"Linear","out":3},{"type":"Tanh"}]},{"name":"end","type":"Linear","out":2}]}])"));
  EXPECT_EQ(m.output_type(4), (Type{DType::f32, {4, 2}}));
  std::vector<std::string> names;
  for (const nn::NamedVariable& v : m.net->state_dict()) names.push_back(v.name);
  EXPECT_EQ(join(names, " "),
            "a.scale a.main.weight a.main.bias a.then0.scale a.then0.main.0.weight a.then0.main.0.bias "
            "a.thenend.weight a.thenend.bias");
  // It computes what the same modules do when they are called by hand.
  const Array x = Array::of<float>({1, -2, 3, 0.5, 1, 1}, {2, 3});
  const auto& gated = static_cast<const Gated&>(*m.net->children()[0].module);
  const auto child = [](const nn::Module& of, size_t i) -> nn::Module& { return *of.children()[i].module; };
  const Tensor sum = x + child(gated, 0)(x) * 2.0;
  const Tensor inner = sum + child(child(gated, 1), 0)(sum) * 0.5;
  const std::vector<float> got = (*m.net)(x).to_vector<float>();
  const std::vector<float> want = child(gated, 2)(inner).to_vector<float>();
  ASSERT_EQ(got.size(), 4u);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;

  const std::string printed = to_spec(m);
  EXPECT_NE(printed.find(R"({"type":"Linear","name":"end","in":3,"out":2})"), std::string::npos) << printed;
  EXPECT_EQ(to_spec(from_spec(printed)), printed);
  check_spec(m);
  const Summary s = summarize(m, 1);
  int64_t listed = 0;
  for (const LayerRow& r : s.layers) listed += r.parameters;
  EXPECT_EQ(listed, s.parameters);  // the container's own weight has a row, too
}

TEST(Layers, WhatAContainerLacksIsTold) {
  declare_containers();
  const auto refused = [](const std::string& layers, const std::vector<std::string>& parts) {
    expect_error(ErrorKind::usage, parts, [&] { from_spec(net_of(layers), "net.json"); });
  };
  refused(R"([{"type":"Gated"}])", {"Gated", "'main' is missing", "(0, net.json)"});
  refused(R"([{"type":"Gated","main":[],"then":{"type":"ReLU"}}])", {"Gated", "'then' is wrong", "a list of layers"});
  refused(R"([{"type":"Gated","main":{"type":"Linear","out":2}}])", {"f32[2,3]", "f32[2,2]", "(0, net.json)"});
  refused(R"([{"type":"Gated","main":{"type":"Linear","in":4,"out":3}}])", {"f32[2,3]", "f32[3,4]", "(0.main, "});
  refused(R"([{"type":"Gated","main":[],"then":[{"name":"x.y","type":"ReLU"}]}])", {"'name'", "without dots"});
  refused(R"([{"type":"Concat","branches":[]}])", {"Concat", "'branches' must have at least 1", "got 0"});
  refused(R"([{"type":"Idle","spare":{"type":"ReLU"}}])", {"Idle", "does not call its layer 'spare'", "(0, net.json)"});
  expect_error(ErrorKind::usage, {"Gated", "'main' must be a layer"}, [] { Gated(GatedOptions{}); });
}

// Weights whose number is no field, and a factor that fields() does not give: both would be lost.
struct Deep : nn::Module {
  using Fields = nn::NoFields;
  explicit Deep(int64_t depth = 1) {
    for (int64_t i = 0; i < depth; ++i) parameter(cat("w", i), {3}, nn::init::constant(1));
  }
  Tensor forward(const Tensor& x) override { return x; }
};
struct Steep : nn::Module {
  using Fields = nn::NoFields;
  explicit Steep(double by = 1) : factor(by) {}
  Tensor forward(const Tensor& x) override { return x * factor; }
  double factor;
};

TEST(Layers, ADeclarationThatLeavesSomethingOutIsFoundBeforeItIsStored) {
  static const bool done = [] {
    nn::register_layer(nn::Layer<Deep>("Deep", ""));
    nn::register_layer(nn::Layer<Steep>("Steep", ""));
    return true;
  }();
  ASSERT_TRUE(done);
  const auto net_with = [](auto layer) {
    nn::Sequential net;
    net.append("mine", std::move(layer));
    return Model{.name = "own", .input = {DType::f32, {3}}, .net = std::make_shared<nn::Sequential>(std::move(net))};
  };
  check_spec(net_with(Deep()));
  expect_error(ErrorKind::usage, {"'own'", "is not reproduced", "mine.w1 f32[3]", "no more"},
               [&] { check_spec(net_with(Deep(2))); });
  check_spec(net_with(Steep()));
  expect_error(ErrorKind::usage, {"'own'", "computes something else", "in 'mine'"},
               [&] { check_spec(net_with(Steep(2))); });
  nn::Sequential dotted;
  dotted.append("a.b", nn::ReLU());
  expect_error(ErrorKind::usage, {"'own'", "not built by its own spec", "without dots"}, [&] {
    check_spec({.name = "own", .input = {DType::f32, {3}}, .net = std::make_shared<nn::Sequential>(dotted.fields())});
  });
}

TEST(Layers, ANamedNetComesBackFromItsSpec) {
  for (const char* name : {"lenet", "resnet20", "textcnn", "lstm_text", "gpt_char"}) {
    SCOPED_TRACE(name);
    const Model m = create(name);
    check_spec(m);
    m.net->eval();
    check_spec(m);
    m.net->train();
    for (const Variable& v : m.net->parameters()) v.set_trainable(false);  // BatchNorm keeps its statistics then
    check_spec(m);
  }
  Model shared = create("mlp");  // a variable of two paths is stored under both
  const auto layer = std::make_shared<nn::Linear>(784, 784);
  shared.net = std::make_shared<nn::Sequential>(nn::Flatten(), layer, layer);
  check_spec(shared);
}

TEST(Layers, AClassThatNobodyDeclaredIsRefusedByName) {
  Model m = from_spec(R"({"format":"freight-model-1","input":[3],"net":[]})");
  nn::Sequential net;
  net.append("mine", Unknown());
  m.net = std::make_shared<nn::Sequential>(std::move(net));
  expect_error(ErrorKind::usage, {"'mine'", "is not declared", "register_layer"}, [&] { to_spec(m); });
}

}  // namespace
}  // namespace freight::models
