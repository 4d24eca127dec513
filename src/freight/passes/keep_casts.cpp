// Mixed precision reads a weight in 16 bits, and the update at the end of the step writes it in 32. Here the copy in
// 16 bits becomes a state of its own: the update, which has the new weight in registers, writes it as well, and no step
// of the next run has to read the weight for it. Executable makes the copies before the first run, and where somebody
// else changed the weights.
#include "freight/passes/passes.h"

namespace freight::passes {

namespace {

// The casts to 16 bits of states whose next values are made element by element. Other next values, such as a table in
// which a few rows change, would have to be read for the copy.
std::vector<NodeId> kept_casts(const Graph& g) {
  ByValue<bool> updated(g), result(g);
  for (const Update& u : g.updates) updated[u.state] = is_pointwise(g.def(u.next).op);
  for (Value v : g.results()) result[v] = true;
  std::vector<NodeId> kept;
  for (const NodeId i : g.node_ids()) {
    const Node& n = g.node(i);
    if (n.op != Op::cast || result[n.out()] || !updated[n.in(0)]) continue;
    const DType from = g.type(n.in(0)).dtype, to = g.type(n.out()).dtype;
    if (from == DType::f32 && to != DType::f32 && wide(to) == DType::f32) kept.push_back(i);
  }
  return kept;
}

}  // namespace

Graph keep_casts(const Graph& graph) {
  const std::vector<NodeId> casts = kept_casts(graph);
  if (casts.empty()) return graph;  // with its nodes in their order, which the schedule follows
  ByNode<bool> kept(graph);
  ByValue<NodeId> cast_of(graph);  // by state
  Rewriter r(graph);
  for (const Node& n : graph.nodes) {
    if (info(n.op).kind == OpKind::leaf) r.copy(n);
  }
  for (const NodeId i : casts) {
    const Node& n = graph.node(i);
    kept[i] = true;
    cast_of[n.in(0)] = i;
    const Type& type = graph.type(n.out());
    const std::string name = leaf_name(graph, n.in(0)) + "." + to_string(type.dtype);
    r.replace(n.out(), r.dst.add(Op::state, LeafAttrs{name, type}, {}, n)[0]);
  }
  for (const NodeId i : graph.node_ids()) {
    const Node& n = graph.node(i);
    if (!kept[i] && info(n.op).kind != OpKind::leaf) r.copy(n);
  }
  ByValue<Value> next_copy(graph);  // by state
  for (const Update& u : graph.updates) {
    const NodeId cast = cast_of[u.state];
    if (!cast.valid()) continue;
    const Node& n = graph.node(cast);
    next_copy[u.state] = r.dst.add(Op::cast, n.attrs, {r(u.next)}, graph.def(u.next))[0];
  }
  Graph out = r.finish();
  std::vector<Update> updates;
  for (size_t k = 0; k < graph.updates.size(); ++k) {
    const Value state = graph.updates[k].state;
    updates.push_back(out.updates[k]);
    if (next_copy[state].valid()) updates.push_back({r(graph.node(cast_of[state]).out()), next_copy[state]});
  }
  out.updates = std::move(updates);
  return out;
}

std::vector<KeptCast> kept_casts_of(const Graph& lowered, size_t states) {
  const std::vector<Value> leaves = lowered.leaves(Op::state);
  ByValue<size_t> number(lowered);
  for (size_t i = 0; i < leaves.size(); ++i) number[leaves[i]] = i;
  std::vector<KeptCast> kept(leaves.size() - states);
  for (size_t k = 1; k < lowered.updates.size(); ++k) {
    const Value copy = lowered.updates[k].state;
    if (number[copy] < states) continue;
    kept[number[copy] - states] = {number[lowered.updates[k - 1].state], lowered.type(copy).dtype};
  }
  return kept;
}

}  // namespace freight::passes
