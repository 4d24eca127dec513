// Model specs: JSON to module trees; spec_print.cpp goes back. Each layer is built and at once applied in a trace that
// is thrown away: so sizes can be inferred, and shapes that do not fit are reported with the layer's path. Never
// allocates weights.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/io/safetensors.h"
#include "freight/io/weights_file.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/trace/tracer.h"

namespace freight::models {

namespace {

using Json = nlohmann::ordered_json;
using trace::fail_here;
using ModulePtr = std::shared_ptr<nn::Module>;

constexpr int64_t kMaxExtent = 1 << 30;  // of one setting
constexpr double kMaxElements = 0x1p44;  // of one tensor: beyond is a typing error
constexpr int kMaxDepth = 64, kMaxLayers = 20000;

std::string excerpt(const Json& j) { return freight::excerpt(j.dump(-1, ' ', false, Json::error_handler_t::replace)); }

// Reads the settings of one layer; remembers which keys were asked for.
class Settings {
 public:
  Settings(const Json& object, std::string type) : object_(object), type_(std::move(type)) {}

  const std::string& type() const { return type_; }
  const Json* find(const char* key) {
    keys_.emplace_back(key);
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  const Json& need(const char* key) {
    const Json* j = find(key);
    if (!j) fail_here(type_, "the setting '", key, "' is missing");
    return *j;
  }
  // Makes the children that a field holds of what the spec says there.
  using Children = std::function<std::vector<nn::Child>(const nn::Field& field, const Json& json)>;
  // One value per field of a layer; those that are left out are the defaults, or sizes of the input x.
  std::vector<nn::Setting> values(const nn::LayerType& type, const Tensor& x, const Children& children) {
    std::vector<nn::Setting> out;
    for (const nn::Field& f : type.fields()) {
      const char* key = f.key().c_str();
      const bool required = f.presence == nn::Field::Presence::required;
      nn::Setting value = f.usual;
      if (const Json* j = required ? &need(key) : find(key)) {
        parse(f, *j, value, children);
      } else if (f.presence == nn::Field::Presence::from_input) {
        value.integer = x.dim(f.axis);
        value.extents = value.integer;
      }
      out.push_back(std::move(value));
    }
    return out;
  }
  void parse(const nn::Field& f, const Json& j, nn::Setting& value, const Children& children) {
    const char* key = f.key().c_str();
    switch (f.usual.kind) {
      case nn::Setting::Kind::integer: value.integer = parse_integer(key, j); break;
      case nn::Setting::Kind::number:
        if (!j.is_number()) bad(key, j, "a number");
        value.number = j.get<double>();
        break;
      case nn::Setting::Kind::flag:
        if (!j.is_boolean()) bad(key, j, "true or false");
        value.flag = j.get<bool>();
        break;
      case nn::Setting::Kind::text:
        if (!j.is_string()) bad(key, j, "a text");
        value.text = j.get<std::string>();
        if (!f.choices.empty() && std::find(f.choices.begin(), f.choices.end(), value.text) == f.choices.end()) {
          fail_here(type_, "unknown ", key, " '", freight::excerpt(value.text), "' (known: ", join(f.choices, ", "),
                    ")");
        }
        break;
      case nn::Setting::Kind::extents: value.extents = parse_extents(key, j); break;
      case nn::Setting::Kind::layers:
        if (!j.is_array()) bad(key, j, "a list of layers");
        [[fallthrough]];
      case nn::Setting::Kind::layer: value.children = children(f, j); break;
    }
  }
  // Every key must have been asked for.
  void finish() {
    keys_.insert(keys_.end(), {"type", "name"});
    for (const auto& [key, value] : object_.items()) {
      if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) continue;
      fail_here(type_, "unknown setting '", freight::excerpt(key), "'", did_you_mean(key, keys_));
    }
  }

 private:
  int64_t parse_integer(const char* key, const Json& j) {
    if (!j.is_number_integer()) bad(key, j, "an integer");
    const bool large = j.is_number_unsigned() && j.get<uint64_t>() > static_cast<uint64_t>(kMaxExtent);
    if (large || j.get<int64_t>() < -kMaxExtent || j.get<int64_t>() > kMaxExtent) bad(key, j, "a smaller number");
    return j.get<int64_t>();
  }
  Extents parse_extents(const char* key, const Json& j) {
    if (!j.is_array()) return parse_integer(key, j);
    if (j.empty() || j.size() > Shape::kMaxRank) bad(key, j, "an integer or a list of one per axis");
    Shape s;
    for (const Json& e : j) s.push_back(parse_integer(key, e));
    return Extents(s);
  }
  [[noreturn]] void bad(const char* key, const Json& j, const char* need) {
    fail_here(type_, "'", key, "' is wrong: expected ", need, ", got ", excerpt(j));
  }
  const Json& object_;
  std::string type_;
  std::vector<std::string> keys_;
};

void need_rank(const Settings& s, const Tensor& x, int rank) {
  if (x.rank() < rank) fail_here(s.type(), "the input ", x.type(), " has too few axes: expected at least ", rank);
}

// The values of a layer's fields, as the spec has them or as they follow from its input.
std::vector<nn::Setting> values_of(const nn::LayerType& type, const Json& object, const Tensor& x,
                                   const Settings::Children& children) {
  Settings settings(object, type.name());
  need_rank(settings, x, type.rank());
  std::vector<nn::Setting> values = settings.values(type, x, children);
  settings.finish();
  // A layer whose weights would overflow every memory is refused before its shape is computed.
  if (const double elements = type.weight_size(values); elements > kMaxElements) {
    fail_here(type.name(), "the layer would have ", elements, " weights");
  }
  return values;
}

const nn::LayerType& layer_type(const std::string& name) {
  if (const nn::LayerType* type = nn::find_layer_type(name)) return *type;
  std::vector<std::string> names;
  for (const nn::LayerType* type : nn::layer_types()) names.push_back(type->name());
  fail_here("spec", "unknown layer '", freight::excerpt(name), "'",
            did_you_mean(name, names, cat(" (known: ", join(names, ", "), ")")),
            "; a custom layer is declared by nn::register_layer, for the command in a --plugin");
}

class SpecBuilder {
 public:
  explicit SpecBuilder(const Json& root) {
    if (const auto it = root.find("defs"); it != root.end()) {
      if (!it->is_object()) fail_here("spec", "'defs' must be an object of named layers: got ", excerpt(*it));
      defs_ = &*it;
    }
  }

  // Builds a layer and applies it: x becomes its result.
  ModulePtr build(const Json& j, Tensor& x) {
    if (++depth_ > kMaxDepth) fail_here("spec", "layers are nested deeper than ", kMaxDepth);
    if (++layers_ > kMaxLayers) fail_here("spec", "the network has more than ", kMaxLayers, " layers");
    ModulePtr m;
    if (!j.is_array() && !j.is_object()) {
      fail_here("spec", "a layer must be an object with a 'type', or a list of layers: got ", excerpt(j));
    } else if (j.is_object() && j.contains("ref")) {
      m = reference(j, x);
    } else {
      m = layer(j, x);
    }
    double elements = 1;
    for (int64_t d : x.shape()) elements *= static_cast<double>(d);
    if (elements > kMaxElements) fail_here("spec", "the layer's result ", x.type(), " is too large");
    --depth_;
    return m;
  }

 private:
  // A child of a container before the container has called it: what it is called with tells its sizes, so that it is
  // built then, and a container says by its forward function alone what its children are fed with.
  class Awaited : public nn::Module {
   public:
    Awaited(SpecBuilder& builder, const Json& json) : builder_(builder), json_(json) {}
    Tensor forward(const Tensor& x) override {
      if (built_) return (*built_)(x);
      Tensor y = x;
      built_ = builder_.build(json_, y);
      return y;
    }
    const ModulePtr& built() const { return built_; }

   private:
    SpecBuilder& builder_;
    const Json& json_;
    ModulePtr built_;
  };

  // The name of child `i` of a list.
  static std::string child_name(const Json& j, size_t i) {
    if (!j.is_object() || !j.contains("name")) return std::to_string(i);
    const Json& n = j["name"];
    const std::string text = n.is_string() ? n.get<std::string>() : "";
    if (!n.is_string() || text.size() > 100 || text.find('.') != std::string::npos) {
      fail_here("spec", "'name' must be a text without dots: got ", excerpt(n));
    }
    return text;
  }

  std::vector<nn::Child> awaited(const nn::Field& field, const Json& j) {
    if (field.usual.kind == nn::Setting::Kind::layer) return {{"", std::make_shared<Awaited>(*this, j)}};
    std::vector<nn::Child> all;
    for (size_t i = 0; i < j.size(); ++i) all.push_back({child_name(j[i], i), std::make_shared<Awaited>(*this, j[i])});
    return all;
  }

  // The children that the container has called by now take the places of those that it awaited.
  static void settle(const nn::LayerType& type, std::vector<nn::Setting>& values) {
    for (nn::Setting& value : values) {
      for (nn::Child& c : value.children) {
        const auto* const awaited = dynamic_cast<const Awaited*>(c.module.get());
        if (!awaited) {
          fail_here(type.name(), "its layer '", value.key,
                    "' has a usual one, which all layers of the type would share: ",
                    "make the field null, and the usual layer in the constructor");
        }
        ModulePtr built = awaited->built();
        if (!built) {
          fail_here(type.name(), "does not call its layer '", value.key, c.name.empty() ? "" : "." + c.name,
                    "' in training: the sizes of a layer follow from what it is called with");
        }
        c.module = std::move(built);
      }
    }
  }

  ModulePtr layer(const Json& j, Tensor& x) {
    static const Json kSequence = {{"type", "Sequential"}};
    const Json& object = j.is_array() ? kSequence : j;
    const auto it = object.find("type");
    if (it == object.end() || !it->is_string()) fail_here("spec", "a layer needs a 'type': got ", excerpt(j));
    const nn::LayerType& type = layer_type(it->get<std::string>());
    try {
      std::vector<nn::Setting> values;
      if (j.is_array()) {
        values = {type.fields()[0].usual};
        values[0].children = awaited(type.fields()[0], j);
      } else {
        values = values_of(type, j, x, [&](const nn::Field& f, const Json& child) { return awaited(f, child); });
      }
      ModulePtr m = type.make(values);
      x = (*m)(x);
      if (!type.container()) return m;
      settle(type, values);
      return type.make(values);
    } catch (const Error& e) {
      if (!e.where().empty()) throw;
      throw Error(e.kind(), e.op(), e.message(), trace::location());
    }
  }

  ModulePtr reference(const Json& j, Tensor& x) {
    if (!j["ref"].is_string()) fail_here("spec", "'ref' must name an entry of 'defs': got ", excerpt(j["ref"]));
    const std::string name = j["ref"].get<std::string>();
    for (const auto& [key, value] : j.items()) {
      if (key != "ref" && key != "name") fail_here("spec", "unknown setting '", key, "' next to 'ref'");
    }
    open_.push_back(name);
    if (std::count(open_.begin(), open_.end(), name) > 1) {
      fail_here("spec", "the definitions form a cycle: ", join(open_, " -> "));
    }
    if (!defs_ || !defs_->contains(name)) {
      std::vector<std::string> names;
      if (defs_) {
        for (const auto& [key, value] : defs_->items()) names.push_back(key);
      }
      fail_here("spec", "'ref' names '", freight::excerpt(name), "', which is not in 'defs'",
                did_you_mean(name, names));
    }
    ModulePtr m = build((*defs_)[name], x);
    open_.pop_back();
    return m;
  }

  const Json* defs_ = nullptr;
  std::vector<std::string> open_;
  int depth_ = 0, layers_ = 0;
};

Type input_type(const Json& root) {
  const auto it = root.find("input");
  if (it == root.end()) fail_here("spec", "the key 'input' is missing: the shape of one sample, like [1,28,28]");
  Type t;
  bool ok = it->is_array() && !it->empty() && it->size() < Shape::kMaxRank;
  double elements = 1;
  for (size_t i = 0; ok && i < it->size(); ++i) {
    const Json& d = (*it)[i];
    ok = d.is_number_integer() && d.get<int64_t>() > 0 && d.get<int64_t>() <= kMaxExtent;
    if (!ok) break;
    t.shape.push_back(d.get<int64_t>());
    elements *= static_cast<double>(t.shape.back());
  }
  if (!ok || elements > kMaxElements) {
    fail_here("spec", "'input' must be a list of positive sizes, like [1,28,28]: got ", excerpt(*it));
  }
  if (const auto dtype = root.find("input_dtype"); dtype != root.end()) {
    if (!dtype->is_string() || !parse_dtype(dtype->get<std::string>(), t.dtype)) {
      fail_here("spec", "'input_dtype' is unknown: got ", excerpt(*dtype));
    }
  }
  return t;
}

Loss loss_of(const Json& root) {
  const auto it = root.find("loss");
  Loss loss{};
  if (it == root.end()) return loss;
  if (!it->is_string() || !parse_loss(it->get<std::string>(), loss)) {
    fail_here("spec", "'loss' is unknown: expected one of ", join(loss_names(), ", "), ", got ", excerpt(*it));
  }
  return loss;
}

void check_keys(const Json& root) {
  const std::vector<std::string> known = {"format", "name", "input", "input_dtype",
                                          "loss",   "defs", "net",   "description"};
  for (const auto& [key, value] : root.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail_here("spec", "unknown key '", freight::excerpt(key), "'", did_you_mean(key, known));
  }
}

// Layers with an empty name leave no trace in paths, so that those of others may be the same.
void need_paths(const Model& model) {
  std::set<std::string> paths;
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    if (v.name.empty()) fail_here("spec", "a weight has no path: give its layer a name");
    if (paths.insert(v.name).second) continue;
    fail_here("spec", "two weights have the path '", v.name, "': layers whose name is \"\" must not have layers or ",
              "weights of the same name");
  }
}

}  // namespace

Model from_spec(const std::string& text, const std::string& source) {
  const Frame frame(source.c_str());
  const auto root = io::parse_json<Json>(text, source);
  if (!root.is_object()) fail_here("spec", "a spec is a JSON object: got ", excerpt(root));
  const auto format = root.find("format");
  if (format == root.end() || *format != "freight-model-1") {
    fail_here("spec", "'format' must be \"freight-model-1\"",
              format == root.end() ? "; it is missing" : ": got " + excerpt(*format));
  }
  check_keys(root);
  if (!root.contains("net")) fail_here("spec", "the key 'net' is missing");
  Model model;
  if (const auto name = root.find("name"); name != root.end()) {
    constexpr size_t kLongest = 200;
    if (!name->is_string() || name->get_ref<const std::string&>().size() > kLongest) {
      fail_here("spec", "'name' is wrong: expected a text of at most ", kLongest, " bytes, got ", excerpt(*name));
    }
    model.name = name->get<std::string>();
  }
  model.input = input_type(root);
  model.loss = loss_of(root);
  const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  const trace::Recording recording(tape);
  Tensor x = tape->input("x", model.batch_type(2));
  try {
    SpecBuilder builder(root);
    model.net = builder.build(root["net"], x);
  } catch (const Error& e) {
    if (!e.where().empty()) throw;
    throw Error(e.kind(), e.op(), e.message(), source);
  }
  need_paths(model);
  return model;
}

Model from_spec_file(const std::string& path) {
  if (!io::file_exists(path)) {
    std::vector<std::string> names;  // google/vit-base-patch16-224 is no path, but a name elsewhere
    for (const Entry& e : registry()) names.emplace_back(e.name);
    fail(ErrorKind::usage, "model", "there is no spec file '", path, "'",
         ends_with(path, ".json") ? "" : did_you_mean(path, names));
  }
  if (ends_with(path, ".safetensors")) {
    io::load_safetensors(path);  // says what is wrong with a damaged one
    fail(ErrorKind::usage, "model", "'", path,
         "' is a saved model, expected a built-in model or a spec file: ", "freight models show ", path,
         " --spec prints its spec");
  }
  if (io::names_torch_file(path)) {
    fail(ErrorKind::usage, "model", "'", path, "' contains weights without a network: freight models convert ", path,
         " OUT.safetensors --model NAME makes a saved model, --model NAME --weights ", path, " trains from them");
  }
  return from_spec(io::read_text(path), path);
}

}  // namespace freight::models
