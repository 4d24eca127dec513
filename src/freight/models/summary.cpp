// See summary.h.
#include "freight/models/summary.h"

#include <algorithm>
#include <map>

#include "freight/base/strings.h"
#include "freight/io/json_library.h"
#include "freight/nn/container.h"
#include "freight/nn/evaluating.h"
#include "freight/nn/graph_module.h"
#include "freight/trace/tracer.h"

namespace freight::models {

namespace {

std::string pad_right(const std::string& s, size_t width) {
  return s.size() < width ? s + std::string(width - s.size(), ' ') : s;
}
std::string pad_left(const std::string& s, size_t width) {
  return s.size() < width ? std::string(width - s.size(), ' ') + s : s;
}
std::string human_flops(double f) {
  static constexpr const char* kUnits[] = {"", " K", " M", " G", " T"};
  int unit = 0;
  while (f >= 10000 && unit < 4) f /= 1000, ++unit;
  return fixed(f, unit == 0 ? 0 : 1) + kUnits[unit];
}

int64_t own_parameters(const nn::Module& m) {
  int64_t n = 0;
  for (const nn::NamedVariable& v : m.variables()) n += v.variable.trainable() ? v.variable.type().numel() : 0;
  return n;
}

int64_t auxiliary_parameters(const nn::Module& m) {
  if (dynamic_cast<const nn::Auxiliary*>(&m)) return m.parameter_count();
  int64_t n = 0;
  for (const nn::Child& c : m.children()) n += auxiliary_parameters(*c.module);
  return n;
}

// The rows of a graph, by the modules that it was traced from. Its type is the op with most of the work.
void add_scopes(const nn::ModuleCall& call, const Graph& graph, std::vector<LayerRow>& rows) {
  const std::string prefix = call.path.empty() ? "" : call.path + ".";
  std::map<std::string, size_t> places;
  std::vector<double> most;
  const size_t first = rows.size();
  for (const Node& n : graph.nodes) {
    if (n.inputs.empty() || (n.scope != call.path && !n.scope.starts_with(prefix))) continue;
    const auto [at, fresh] = places.try_emplace(n.scope, rows.size());
    if (fresh) {
      rows.push_back({n.scope, name(n.op), graph.type(n.in(0)), {}, 0, 0});
      most.push_back(0);
    }
    LayerRow& row = rows[at->second];
    const double flops = cost(graph, n).flops;
    row.flops += flops;
    row.out = graph.type(n.out());
    double& largest = most[at->second - first];
    if (flops <= largest) continue;
    largest = flops;
    row.type = name(n.op);
  }
  for (const nn::NamedVariable& v : call.module->variables()) {
    const size_t dot = v.name.rfind('.');
    const std::string owner = dot == std::string::npos ? call.path : prefix + v.name.substr(0, dot);
    if (const auto at = places.find(owner); at != places.end() && v.variable.trainable())
      rows[at->second].parameters += v.variable.type().numel();
  }
}

}  // namespace

Summary summarize(const Model& model, int64_t batch) {
  const nn::Evaluating evaluating(*model.net);
  const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  const trace::Recording recording(tape);
  nn::CallRecorder recorder;
  Summary s;
  s.name = model.name;
  s.input = model.batch_type(batch);
  const Tensor result = (*model.net)(tape->input("x", s.input));
  s.output = result.type();
  s.parameters = model.net->parameter_count();
  s.auxiliary_parameters = auxiliary_parameters(*model.net);
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    if (!v.variable.trainable()) s.state_numbers += v.variable.type().numel();
  }
  for (const nn::ModuleCall& call : recorder.calls) {
    if (!call.module->children().empty() && call.module->variables().empty()) continue;
    if (dynamic_cast<const nn::GraphModule*>(call.module)) {
      add_scopes(call, tape->graph(), s.layers);
      continue;
    }
    LayerRow row{call.path, call.module->config().type, call.in, call.out, own_parameters(*call.module), 0};
    for (const Node& n : tape->graph().nodes) {
      if (n.scope == call.path) row.flops += cost(tape->graph(), n).flops;
    }
    s.layers.push_back(row);
  }
  for (const Node& n : tape->graph().nodes) s.flops += cost(tape->graph(), n).flops;
  return s;
}

std::string to_text(const Summary& s) {
  std::vector<std::vector<std::string>> table = {{"layer", "type", "input", "output", "parameters", "FLOPs"}};
  for (const LayerRow& r : s.layers) {
    table.push_back(
        {r.path, r.type, to_string(r.in), to_string(r.out), with_commas(r.parameters), human_flops(r.flops)});
  }
  table.push_back(
      {"total", s.name, to_string(s.input), to_string(s.output), with_commas(s.parameters), human_flops(s.flops)});
  std::vector<size_t> widths(table[0].size());
  for (const auto& row : table) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : table) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out += "  ";
      out += i < 4 ? pad_right(row[i], widths[i]) : pad_left(row[i], widths[i]);
    }
    out += "\n";
  }
  if (s.auxiliary_parameters > 0) {
    out +=
        with_commas(s.auxiliary_parameters) + " of the parameters are in auxiliary heads, which only training runs\n";
  }
  return out;
}

std::string to_json(const Summary& s) {
  nlohmann::ordered_json j;
  j["name"] = s.name;
  j["input"] = to_string(s.input);
  j["output"] = to_string(s.output);
  j["parameters"] = s.parameters;
  j["auxiliary_parameters"] = s.auxiliary_parameters;
  j["state_numbers"] = s.state_numbers;
  j["flops"] = s.flops;
  j["layers"] = nlohmann::ordered_json::array();
  for (const LayerRow& r : s.layers) {
    j["layers"].push_back({{"path", r.path},
                           {"type", r.type},
                           {"in", to_string(r.in)},
                           {"out", to_string(r.out)},
                           {"parameters", r.parameters},
                           {"flops", r.flops}});
  }
  return j.dump();
}

}  // namespace freight::models
