// dead_code and decompose: the passes that only drop nodes or write them out.
#include <algorithm>

#include "freight/backend/backend.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"

namespace freight::passes {

ByValue<Value> memory_roots(const Graph& graph) {
  ByValue<Value> root(graph);
  for (const Node& n : graph.nodes) {
    for (Value v : n.outputs) root[v] = info(n.op).kind == OpKind::view ? root[n.in(0)] : v;
  }
  return root;
}

Graph dead_code(Graph graph) {
  ByValue<bool> live(graph);
  for (Value v : graph.results()) live[v] = true;
  ByNode<bool> keep(graph);
  for (const NodeId i : graph.node_ids().reversed()) {
    const Node& n = graph.node(i);
    keep[i] = n.op == Op::input || n.op == Op::state;  // the signature stays
    for (Value v : n.outputs) keep[i] = keep[i] || live[v];
    if (!keep[i]) continue;
    for (Value v : n.inputs) live[v] = true;
  }
  if (std::all_of(keep.begin(), keep.end(), [](bool k) { return k; })) return graph;
  ByValue<Value> now(graph);
  const auto renumber = [&](Value& v) { v = now[v]; };
  size_t nodes = 0, values = 0;
  for (const NodeId i : graph.node_ids()) {  // what stays moves up
    if (!keep[i]) continue;
    Node& n = graph.nodes[nodes];
    if (nodes != i.index()) n = std::move(graph.nodes[i.index()]);
    std::for_each(n.inputs.begin(), n.inputs.end(), renumber);
    for (Value& v : n.outputs) {
      const Value to{static_cast<int32_t>(values++)};
      graph.values[to] = graph.values[v];
      graph.values[to].node = NodeId{static_cast<int32_t>(nodes)};
      v = now[v] = to;
    }
    ++nodes;
  }
  graph.nodes.resize(nodes);
  graph.values.resize(values);
  std::for_each(graph.outputs.begin(), graph.outputs.end(), renumber);
  for (Update& u : graph.updates) u = {now[u.state], now[u.next]};
  return graph;
}

Graph decompose(Graph graph, const Backend* backend) {
  return decompose_unless(std::move(graph), [&](const Graph& g, const Node& n) {
    const DecomposeIfFn anyway = info(n.op).decompose_if;
    return backend && backend->has_kernel(g, n) && !(anyway && anyway(g, n));
  });
}

Graph decompose_unless(Graph graph, const std::function<bool(const Graph&, const Node&)>& keep) {
  const auto stays = [&](const Node& n) { return info(n.op).kind != OpKind::composite || keep(graph, n); };
  if (std::all_of(graph.nodes.begin(), graph.nodes.end(), stays)) return graph;
  Rewriter r(graph);
  Builder b(r.dst);
  for (const Node& n : graph.nodes) {
    if (stays(n)) {
      r.copy(n);
      continue;
    }
    b.set_location(n);
    const std::vector<Value> out = info(n.op).decompose(b, n, r(n.inputs));
    for (size_t i = 0; i < out.size(); ++i) r.replace(n.outputs[i], out[i]);
  }
  return decompose_unless(r.finish(), keep);  // definitions may use composites
}

}  // namespace freight::passes
