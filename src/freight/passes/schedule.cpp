// Orders the nodes of a graph. Two wishes: a state is read by everybody before the node that overwrites it runs (so the
// update can happen in place), and nodes that free more memory than they take run as soon as they can (so a gradient
// dies in its optimizer update right after it was made). A sum over ranks that no other node reads runs as soon as its
// operand is there, since it travels beside what comes after it. Otherwise the order of the program is kept.
#include <algorithm>
#include <set>

#include "freight/passes/passes.h"

namespace freight::passes {

namespace {

struct Dependencies {
  ByNode<std::vector<NodeId>> after;  // nodes that must come later
  ByNode<int32_t> missing;            // how many must come first
};

void add_edge(Dependencies& d, NodeId from, NodeId to) {
  d.after[from].push_back(to);
  ++d.missing[to];
}

// True when `to` can be reached from `from`.
bool reaches(const Dependencies& d, NodeId from, NodeId to) {
  ByNode<bool> seen(d.after.size());
  std::vector<NodeId> stack{from};
  while (!stack.empty()) {
    const NodeId n = stack.back();
    stack.pop_back();
    if (n == to) return true;
    if (seen[n]) continue;
    seen[n] = true;
    for (const NodeId next : d.after[n]) stack.push_back(next);
  }
  return false;
}

Dependencies dependencies(const Graph& g) {
  Dependencies d{ByNode<std::vector<NodeId>>(g), ByNode<int32_t>(g)};
  ByValue<std::vector<NodeId>> readers(g);
  for (const NodeId i : g.node_ids()) {
    for (Value v : g.node(i).inputs) {
      add_edge(d, g.node_of(v), i);
      readers[v].push_back(i);
    }
  }
  // All who share a batch make the sums that are read within the step together: one order for all shapes of a part.
  const ByNode<bool> sums = sums_read_within(g);
  NodeId last;
  for (const NodeId i : g.node_ids()) {
    if (!sums[i]) continue;
    if (last.valid()) add_edge(d, last, i);
    last = i;
  }
  // Views of a state read its memory as well: their readers count.
  for (const Update& u : g.updates) {
    const NodeId writer = g.node_of(u.next);
    if (info(g.node(writer).op).kind == OpKind::leaf) continue;  // copied after the last step
    std::vector<Value> aliases{u.state};
    for (size_t k = 0; k < aliases.size(); ++k) {
      for (const NodeId reader : readers[aliases[k]]) {
        const Node& n = g.node(reader);
        if (info(n.op).kind == OpKind::view) aliases.push_back(n.out());
        if (reader != writer && !reaches(d, writer, reader)) add_edge(d, reader, writer);
      }
    }
  }
  return d;
}

}  // namespace

Graph schedule(const Graph& graph) {
  Dependencies d = dependencies(graph);
  ByValue<int> uses = graph.use_counts();
  const auto frees = [&](NodeId i) {
    const Node& n = graph.node(i);
    int64_t delta = 0;
    for (Value v : n.outputs) delta -= static_cast<int64_t>(graph.type(v).bytes());
    for (Value v : n.inputs) {
      const Op producer = graph.def(v).op;
      if (producer != Op::input && producer != Op::state && uses[v] == 1) {
        delta += static_cast<int64_t>(graph.type(v).bytes());
      }
    }
    return delta;
  };
  // A state's next value takes no memory of its own when written in place.
  ByValue<bool> is_update(graph);
  for (const Update& u : graph.updates) {
    is_update[u.next] = true;
    if (graph.def(u.next).op == Op::all_reduce) is_update[graph.def(u.next).in(0)] = true;
  }
  const auto eager = [&](NodeId i) {
    const Node& n = graph.node(i);
    bool update = !n.outputs.empty() && info(n.op).kind != OpKind::leaf;
    for (Value v : n.outputs) update = update && is_update[v];
    return update || info(n.op).kind == OpKind::view || frees(i) >= 0;
  };
  const ByNode<bool> within = sums_read_within(graph);
  const auto travels = [&](NodeId i) { return graph.node(i).op == Op::all_reduce && !within[i]; };
  std::set<NodeId> ready;
  for (const NodeId i : graph.node_ids()) {
    if (d.missing[i] == 0) ready.insert(i);
  }
  Rewriter r(graph);
  size_t done = 0;
  const auto place = [&](NodeId i) {
    const Node& n = graph.node(i);
    r.copy(n);
    ready.erase(i);
    ++done;
    for (Value v : n.inputs) --uses[v];
    for (const NodeId next : d.after[i]) {
      if (--d.missing[next] == 0) ready.insert(next);
    }
  };
  // Leaves first: they cost nothing and keep their order, which is the signature.
  for (const NodeId i : graph.node_ids()) {
    if (info(graph.node(i).op).kind == OpKind::leaf) place(i);
  }
  while (!ready.empty()) {
    auto pick = std::find_if(ready.begin(), ready.end(), travels);
    if (pick == ready.end()) pick = std::find_if(ready.begin(), ready.end(), eager);
    place(pick == ready.end() ? *ready.begin() : *pick);
  }
  return done == graph.nodes.size() ? r.finish() : graph;
}

}  // namespace freight::passes
