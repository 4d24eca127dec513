// The declarations of the layers: what they say is what specs read and print, what constructors refuse, and what
// docs/model-spec.md lists. Layers of one's own are declared in the same form.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/models/models.h"
#include "freight/models/summary.h"
#include "freight/nn/nn.h"
#include "tests/support/document.h"

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
  freight::testing::expect_tables(FREIGHT_SOURCE_DIR "/docs/model-spec.md", {{"layers", layers_table()}});
}

// A value other than the default that the field allows.
ordered_json other_value(const nn::Field& f) {
  switch (f.usual.kind) {
    case Kind::integer: return f.presence == Presence::optional ? f.usual.integer + 1 : 4;
    case Kind::number: return f.usual.number == 0 ? 0.25 : f.usual.number / 2;
    case Kind::flag: return !f.usual.flag;
    case Kind::text: return f.choices[f.choices.size() > 2 ? 1 : f.usual.text == f.choices[0]];
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
      const nn::Range& range = type->fields()[bad].range;
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
  expect_error(ErrorKind::usage, {"unknown layer 'Scales'", "did you mean 'Scale'?"},
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
  expect_error(ErrorKind::usage, {"register_layer", "'Pair' has children"},
               [] { nn::register_layer(nn::Layer<Nameless>("Pair", "").layer("first", "")); });
}

TEST(Layers, AClassThatNobodyDeclaredIsRefusedByName) {
  Model m = from_spec(R"({"format":"freight-model-1","input":[3],"net":[]})");
  nn::Sequential net;
  net.append("mine", Unknown());
  m.net = std::make_shared<nn::Sequential>(std::move(net));
  expect_error(ErrorKind::usage, {"'mine'", "no one has declared", "register_layer"}, [&] { to_spec(m); });
}

}  // namespace
}  // namespace freight::models
