// See layers.h.
#include "freight/finetune/layers.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

#include "freight/nn/container.h"
#include "freight/trace/tracer.h"

namespace freight::finetune {

namespace {

using VariableId = const trace::VariableImpl*;
VariableId id_of(const Variable& v) { return v.impl().get(); }

std::string module_path(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

// The position of each variable among those that a pass through the network uses.
std::map<VariableId, size_t> order_of_use(const models::Model& model) {
  const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  const trace::Recording recording(tape);
  (*model.net)(tape->input("x", model.batch_type(2)));
  std::map<VariableId, size_t> order;
  for (const trace::StateUse& s : tape->states()) order.emplace(s.variable.get(), order.size() + 1);
  return order;
}

// The module that says in which block a variable is, and whether that is part of an auxiliary head.
struct Owner {
  const nn::Module* block = nullptr;
  bool auxiliary = false;
};

void collect_owners(const nn::Module& m, Owner owner, bool top, std::map<VariableId, Owner>& out) {
  owner.auxiliary = owner.auxiliary || dynamic_cast<const nn::Auxiliary*>(&m);
  const bool list = top || dynamic_cast<const nn::Sequential*>(&m);
  if (!owner.block && !list) owner.block = &m;
  for (const nn::NamedVariable& v : m.variables()) {
    Owner& of = out[id_of(v.variable)];
    of = {owner.block ? owner.block : &m, owner.auxiliary};
  }
  for (const nn::Child& c : m.children()) collect_owners(*c.module, owner, false, out);
}

bool has_matrix(const Layer& layer) {
  return std::any_of(layer.variables.begin(), layer.variables.end(),
                     [](const nn::NamedVariable& v) { return v.variable.shape().rank() >= 2; });
}

// Counts the blocks from the head back. A norm is of the block before it.
void set_depths(std::vector<Layer>& layers, const std::map<VariableId, Owner>& owners) {
  std::vector<const nn::Module*> blocks;
  for (const Layer& l : layers) {
    const bool joins = !blocks.empty() && (l.auxiliary || !has_matrix(l));
    blocks.push_back(joins ? blocks.back() : owners.at(id_of(l.variables.front().variable)).block);
  }
  int64_t depth = 0;
  for (size_t i = layers.size(); i-- > 0;) {
    if (i + 1 < layers.size() && blocks[i] != blocks[i + 1]) ++depth;
    layers[i].depth = depth;
  }
}

}  // namespace

std::vector<Layer> layers_of(const models::Model& model) {
  const std::map<VariableId, size_t> order = order_of_use(model);
  std::map<VariableId, Owner> owners;
  collect_owners(*model.net, {}, true, owners);
  const auto position = [&](const Layer& l) {
    size_t first = order.size() + 1;
    for (const nn::NamedVariable& v : l.variables) {
      const auto at = order.find(id_of(v.variable));
      first = std::min(first, at == order.end() ? 0 : at->second);
    }
    return first;
  };
  std::vector<Layer> layers;
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    const std::string path = module_path(v.name);
    auto at = std::find_if(layers.begin(), layers.end(), [&](const Layer& l) { return l.path == path; });
    if (at == layers.end()) at = layers.insert(layers.end(), Layer{.path = path});
    at->variables.push_back(v);
    at->auxiliary = at->auxiliary || owners[id_of(v.variable)].auxiliary;
  }
  std::stable_sort(layers.begin(), layers.end(),
                   [&](const Layer& a, const Layer& b) { return position(a) < position(b); });
  for (size_t i = layers.size(); i-- > 0;) {
    if (layers[i].auxiliary) continue;
    layers[i].head = true;
    break;
  }
  set_depths(layers, owners);
  return layers;
}

bool matches(const std::string& pattern, const std::string& name) {
  for (std::string path = name; !path.empty(); path = module_path(path)) {
    if (::fnmatch(pattern.c_str(), path.c_str(), 0) == 0) return true;
  }
  return false;
}

int64_t count_parameters(const nn::Module& net) {
  std::set<VariableId> seen;
  int64_t count = 0;
  for (const nn::NamedVariable& v : net.state_dict()) {
    if (v.variable.role() == Variable::Role::parameter && seen.insert(id_of(v.variable)).second) {
      count += v.variable.type().numel();
    }
  }
  return count;
}

}  // namespace freight::finetune
