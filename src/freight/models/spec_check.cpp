// Whether a net comes back from its spec: what is stored must load as the same net, and a layer of one's own is only as
// good as its declaration.
#include <algorithm>
#include <set>

#include "freight/base/error.h"
#include "freight/models/models.h"
#include "freight/nn/evaluating.h"
#include "freight/trace/tracer.h"

namespace freight::models {

namespace {

constexpr const char* kDeclaration =
    "; the fields of a layer (nn::Layer) must determine it completely, and fields() must return them";

// Refuses to save a network that its spec does not describe.
template <class... Parts>
[[noreturn]] void refuse(const Model& model, const Parts&... parts) {
  fail(ErrorKind::usage, "spec", "the network '", model.name, "' ", parts...);
}

// The net's own message, or what it is not built again for.
Model built_again(const Model& model) {
  const std::string spec = to_spec(model);
  try {
    return from_spec(spec, "its spec");
  } catch (const Error& e) {
    refuse(model, "is not built by its own spec: ", e.what(), kDeclaration);
  }
}

std::string described(const nn::NamedVariable& v) {
  return cat(v.name, " ", to_string(v.variable.type()),
             v.variable.role() == Variable::Role::parameter ? "" : " (not trained)");
}

// A spec without the lines of programs that the graphs in it note, @"net.py:12", which is a text within a text there.
std::string without_lines(std::string spec) {
  const std::string_view begin = " @\\\"", end = "\\\"";
  for (size_t at = spec.find(begin); at != std::string::npos; at = spec.find(begin, at)) {
    spec.erase(at, spec.find(end, at + begin.size()) + end.size() - at);
  }
  return spec;
}

// The path of the first module that has an on_output hook; false where none has.
bool find_hook(const nn::Module& m, const std::string& path, std::string& found) {
  if (m.output_hooks() > 0) return found = path.empty() ? "the network itself" : cat("'", path, "'"), true;
  return std::any_of(m.children().begin(), m.children().end(), [&](const nn::Child& c) {
    return find_hook(*c.module, path.empty() || c.name.empty() ? path + c.name : cat(path, ".", c.name), found);
  });
}

// Whether all modules are in training, or none is: what a spec builds is.
bool one_mode(const nn::Module& m, bool training) {
  if (m.training() != training) return false;
  const auto& children = m.children();
  return std::all_of(children.begin(), children.end(), [&](const auto& c) { return one_mode(*c.module, training); });
}

Graph graph_of(const Model& model) {
  const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  const trace::Recording recording(tape);
  const nn::GradientHooksOff no_hooks;  // they change no result, and a stored model has no gradients
  const Tensor y = (*model.net)(tape->input("x", model.batch_type(2)));
  tape->finish({tape->value_of(y)});
  return tape->graph();
}

void need_same_variables(const Model& model, const Model& again) {
  std::vector<std::string> names, others;
  std::set<std::string> paths;
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    names.push_back(described(v));
    if (paths.insert(v.name).second) continue;
    refuse(model, "has two variables of the path ", v.name,
           ": children without a name of their own (adopt(\"\", ...)) must not have the names of others");
  }
  for (const nn::NamedVariable& v : again.net->state_dict()) others.push_back(described(v));
  const auto [mine, other] = std::mismatch(names.begin(), names.end(), others.begin(), others.end());
  if (mine == names.end() && other == others.end()) return;
  refuse(model, "is not reproduced by its spec: it has ", mine == names.end() ? "no more variables" : *mine,
         " where the network of the spec has ", other == others.end() ? "no more" : *other, kDeclaration);
}

void need_same_graph(const Model& model, const Model& again, const char* when) {
  const Graph mine = graph_of(model), other = graph_of(again);
  if (structurally_equal(mine, other)) return;
  if (std::string hooked; find_hook(*model.net, "", hooked)) {
    refuse(model, "computes ", when, " what its spec does not contain: a hook ", "(on_output) on ", hooked,
           " takes part, and hooks are not saved; remove it first, or make it the forward of ", "a custom layer");
  }
  std::string at;
  for (size_t i = 0; i < mine.nodes.size() && at.empty(); ++i) {
    const Node& n = mine.nodes[i];
    const bool same = i < other.nodes.size() && other.nodes[i].op == n.op && equal(other.nodes[i].attrs, n.attrs);
    if (!same) at = cat(" in '", n.scope, "', at ", name(n.op));
  }
  refuse(model, "is not reproduced by its spec: ", when, " the network of the spec computes something else", at,
         kDeclaration);
}

}  // namespace

bool is_of_spec(const Model& model, const std::string& spec, const std::string& source) {
  return without_lines(to_spec(from_spec(spec, source))) == without_lines(to_spec(model));
}

void check_spec(const Model& model) {
  if (!model.net) fail(ErrorKind::usage, "spec", "the model '", model.name, "' has no network: got a null pointer");
  const Model again = built_again(model);
  need_same_variables(model, again);
  const std::vector<nn::NamedVariable> variables = model.net->state_dict(), others = again.net->state_dict();
  nn::tie(others, nn::ties_of(variables), model.name);
  // A spec does not say what is frozen, and BatchNorm that is frozen trains with its running statistics.
  for (size_t i = 0; i < others.size(); ++i) {
    if (!variables[i].variable.trainable()) others[i].variable.set_trainable(false);
  }
  // Parts in another mode than the rest compute what no net of a spec does.
  const bool training = model.net->training();
  if (!one_mode(*model.net, training)) return;
  if (training) need_same_graph(model, again, "in training");
  const nn::Evaluating mine(*model.net), other(*again.net);
  need_same_graph(model, again, "in evaluation");
}

}  // namespace freight::models
