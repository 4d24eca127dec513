// Module trees to JSON specs, in the layout of models/*.json: one line per layer without children. Reading: spec.cpp.

#include <algorithm>

#include "freight/base/error.h"
#include "freight/io/json_library.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"

namespace freight::models {

namespace {

using Json = nlohmann::ordered_json;

Json extents_json(const Extents& e) {
  if (e.uniform) return e.values[0];
  return Json(e.values.vector());
}

// True for a size that from_spec infers from the input where a spec leaves it out.
bool inferred(const nn::LayerType& type, const std::string& key) {
  const auto& fields = type.fields();
  return std::any_of(fields.begin(), fields.end(), [&](const nn::Field& f) {
    return f.key() == key && f.presence == nn::Field::Presence::from_input;
  });
}

Json layer_json(const nn::Module& m, const std::string& name, const std::string& usual_name, SpecSizes sizes) {
  const nn::Config config = m.config();
  if (config.type.empty())
    fail(ErrorKind::usage, "spec", "the module '", name,
         "' is of a class that is not declared and has no spec form: nn::register_layer gives it one, models::as_graph "
         "makes a graph of the network");
  Json j;
  j["type"] = config.type;
  if (name != usual_name) j["name"] = name;
  const nn::LayerType& type = *nn::find_layer_type(config.type);
  for (const nn::Setting& s : config.settings) {
    if (sizes == SpecSizes::required && inferred(type, s.key)) continue;
    switch (s.kind) {
      case nn::Setting::Kind::integer: j[s.key] = s.integer; break;
      case nn::Setting::Kind::number: j[s.key] = s.number; break;
      case nn::Setting::Kind::flag: j[s.key] = s.flag; break;
      case nn::Setting::Kind::text: j[s.key] = s.text; break;
      case nn::Setting::Kind::extents: j[s.key] = extents_json(s.extents); break;
      case nn::Setting::Kind::layer:
        if (!s.children.empty()) j[s.key] = layer_json(*s.children[0].module, "", "", sizes);
        break;
      case nn::Setting::Kind::layers:
        j[s.key] = Json::array();
        for (size_t i = 0; i < s.children.size(); ++i) {
          const nn::Child& c = s.children[i];
          j[s.key].push_back(layer_json(*c.module, c.name, std::to_string(i), sizes));
        }
        break;
    }
  }
  return j;
}

bool is_declared(const nn::Module& m) {
  const nn::Config config = m.config();
  if (config.type.empty()) return false;
  for (const nn::Setting& s : config.settings) {
    for (const nn::Child& c : s.children) {
      if (!is_declared(*c.module)) return false;
    }
  }
  return true;
}

// One line per layer without children; containers are spread.
void write(const Json& j, int indent, std::string& out) {
  bool flat = true;
  for (const Json& e : j) flat = flat && !e.is_object() && !(e.is_array() && !e.empty() && e[0].is_object());
  if (!j.is_structured() || (flat && indent > 0)) {
    out += j.dump();
    return;
  }
  const std::string inner(static_cast<size_t>(indent + 2), ' '), outer(static_cast<size_t>(indent), ' ');
  out += j.is_array() ? "[" : "{";
  bool first = true;
  for (const auto& [key, value] : j.items()) {
    out += first ? "\n" : ",\n";
    first = false;
    out += inner;
    if (j.is_object()) out += Json(key).dump() + ": ";
    write(value, indent + 2, out);
  }
  out += "\n" + outer + (j.is_array() ? "]" : "}");
}

std::string printed(const Model& model, SpecSizes sizes) {
  Json root;
  root["format"] = "freight-model-1";
  root["name"] = model.name;
  root["input"] = model.input.shape.vector();
  if (model.input.dtype != DType::f32) root["input_dtype"] = to_string(model.input.dtype);
  if (model.loss != Loss::cross_entropy) root["loss"] = to_string(model.loss);
  root["net"] = layer_json(*model.net, "", "", sizes);
  std::string out;
  write(root, 0, out);
  return out + "\n";
}

// A layer that is not applied to what the layer before it returns may be built with other sizes when they are inferred.
bool infers_all(const std::string& spec, const std::string& complete) {
  try {
    return printed(from_spec(spec), SpecSizes::all) == complete;
  } catch (const Error&) {
    return false;
  }
}
}  // namespace

bool has_spec(const Model& model) { return is_declared(*model.net); }

Model again(const Model& model) {
  Model m = from_spec(to_spec(model), model.name);
  m.own = model.own;
  m.temperature = model.temperature;
  m.target_scale = model.target_scale;
  nn::tie(m.net->state_dict(), nn::ties_of(model.net->state_dict()), model.name);
  return m;
}

Model as_graph(const Model& model, std::string* untrained) {
  Model m = model;
  m.own = {};
  m.net = nn::trace_module(*model.net, model.input, untrained);
  if (!model.net->training()) m.net->eval();
  return m;
}

std::string to_spec(const Model& model, SpecSizes sizes) {
  const std::string complete = printed(model, SpecSizes::all);
  if (sizes == SpecSizes::all) return complete;
  const std::string adaptable = printed(model, SpecSizes::required);
  return infers_all(adaptable, complete) ? adaptable : complete;
}

}  // namespace freight::models
