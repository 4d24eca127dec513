// See interpret.h.
#include "freight/backend/ref/interpret.h"

#include <algorithm>

#include "freight/backend/backend.h"
#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/ir/builder.h"

namespace freight {

namespace {

std::vector<Array> execute(const Graph& graph, const Node& node, const std::vector<Array>& in) {
  if (info(node.op).kind == OpKind::composite) return interpret(definition(node, input_types(graph, node)), in);
  StepSpec spec;
  spec.graph = &graph;
  spec.node = &node;
  std::vector<void*> addresses;
  std::vector<Array> out;
  for (size_t i = 0; i < in.size(); ++i) {
    spec.in.push_back({graph.type(node.inputs[i]), Layout::row_major(in[i].shape())});
    addresses.push_back(in[i].raw());
  }
  for (Value v : node.outputs) {
    const Type& type = graph.type(v);
    out.emplace_back(type.dtype, type.shape);
    spec.out.push_back({type, Layout::row_major(type.shape)});
    addresses.push_back(out.back().raw());
  }
  const auto kernel = backend("ref").prepare(spec);
  const auto scratch = Storage::allocate(kernel->scratch_bytes());
  addresses.push_back(scratch->data());
  kernel->run(addresses.data());
  return out;
}

bool any_read(const Node& node, const std::vector<int>& readers) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](Value v) { return readers[v.index()] > 0; });
}

// Per value: how many live nodes, outputs and updates read it; 0 for what no result depends on.
std::vector<int> live_readers(const Graph& graph) {
  std::vector<int> readers(graph.values.size());
  for (Value v : graph.results()) ++readers[v.index()];
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!any_read(*node, readers)) continue;
    for (Value v : node->inputs) ++readers[v.index()];
  }
  return readers;
}

}  // namespace

std::vector<Array> interpret(const Graph& graph, const std::vector<Array>& inputs, std::vector<Array>& states) {
  std::vector<Array> values(graph.values.size());
  std::vector<int> readers = live_readers(graph);
  const auto slot = [&](Value v) -> Array& { return values[v.index()]; };
  const auto bind = [&](Op kind, const std::vector<Array>& given) {
    const std::vector<Value> leaves = graph.leaves(kind);
    need_count("interpret", cat("tensors for the ", name(kind), " leaves"), given.size(), leaves.size());
    for (size_t i = 0; i < leaves.size(); ++i) {
      const Type& type = graph.type(leaves[i]);
      if (given[i].dtype() != type.dtype || given[i].shape() != type.shape) {
        fail(ErrorKind::usage, "interpret", name(kind), " '", leaf_name(graph, leaves[i]), "': expected ", type,
             ", got ", given[i].dtype(), given[i].shape());
      }
      slot(leaves[i]) = given[i];
    }
  };
  bind(Op::input, inputs);
  bind(Op::state, states);
  for (const Node& node : graph.nodes) {
    if (node.op == Op::input || node.op == Op::state) continue;
    if (!any_read(node, readers)) continue;
    std::vector<Array> in;
    for (Value v : node.inputs) in.push_back(slot(v));
    std::vector<Array> out = execute(graph, node, in);
    for (size_t i = 0; i < out.size(); ++i) slot(node.outputs[i]) = std::move(out[i]);
    for (Value v : node.inputs) {
      if (--readers[v.index()] == 0) slot(v) = Array();  // outputs and updates count as readers
    }
  }
  std::vector<Array> results;
  for (Value v : graph.outputs) results.push_back(slot(v));
  const std::vector<Value> leaves = graph.leaves(Op::state);
  for (const Update& u : graph.updates) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i] == u.state) states[i] = slot(u.next);
    }
  }
  return results;
}

std::vector<Array> interpret(const Graph& graph, const std::vector<Array>& inputs) {
  std::vector<Array> states;
  return interpret(graph, inputs, states);
}

}  // namespace freight
