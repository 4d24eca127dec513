// Orders the nodes of a graph. Two wishes: a state is read by everybody before the node that overwrites it runs (so the
// update can happen in place), and nodes that free more memory than they take run as soon as they can (so a gradient
// dies in its optimizer update right after it was made). Otherwise the order of the program is kept.
#include <algorithm>
#include <set>

#include "freight/passes/passes.h"

namespace freight::passes {

namespace {

struct Dependencies {
  std::vector<std::vector<int32_t>> after;  // node -> nodes that must come later
  std::vector<int32_t> missing;             // node -> how many must come first
};

int32_t node_of(const Graph& g, Value v) { return g.values[v.index()].node; }

void add_edge(Dependencies& d, int32_t from, int32_t to) {
  d.after[static_cast<size_t>(from)].push_back(to);
  ++d.missing[static_cast<size_t>(to)];
}

// True when `to` can be reached from `from`.
bool reaches(const Dependencies& d, int32_t from, int32_t to) {
  std::vector<bool> seen(d.after.size());
  std::vector<int32_t> stack{from};
  while (!stack.empty()) {
    const int32_t n = stack.back();
    stack.pop_back();
    if (n == to) return true;
    if (seen[static_cast<size_t>(n)]) continue;
    seen[static_cast<size_t>(n)] = true;
    for (int32_t next : d.after[static_cast<size_t>(n)]) stack.push_back(next);
  }
  return false;
}

Dependencies dependencies(const Graph& g) {
  Dependencies d;
  d.after.resize(g.nodes.size());
  d.missing.resize(g.nodes.size());
  std::vector<std::vector<int32_t>> readers(g.values.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for (Value v : g.nodes[i].inputs) {
      add_edge(d, node_of(g, v), static_cast<int32_t>(i));
      readers[v.index()].push_back(static_cast<int32_t>(i));
    }
  }
  // Views of a state read its memory as well: their readers count.
  for (const Update& u : g.updates) {
    const int32_t writer = node_of(g, u.next);
    if (info(g.nodes[static_cast<size_t>(writer)].op).kind == OpKind::leaf) continue;  // copied after the last step
    std::vector<Value> aliases{u.state};
    for (size_t k = 0; k < aliases.size(); ++k) {
      for (int32_t reader : readers[aliases[k].index()]) {
        const Node& n = g.nodes[static_cast<size_t>(reader)];
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
  std::vector<int> uses = graph.use_counts();
  const auto frees = [&](int32_t i) {
    const Node& n = graph.nodes[static_cast<size_t>(i)];
    int64_t delta = 0;
    for (Value v : n.outputs) delta -= static_cast<int64_t>(graph.type(v).bytes());
    for (Value v : n.inputs) {
      const Op producer = graph.def(v).op;
      if (producer != Op::input && producer != Op::state && uses[v.index()] == 1) {
        delta += static_cast<int64_t>(graph.type(v).bytes());
      }
    }
    return delta;
  };
  // A state's next value takes no memory of its own when written in place.
  std::vector<bool> is_update(graph.values.size());
  for (const Update& u : graph.updates) is_update[u.next.index()] = true;
  const auto eager = [&](int32_t i) {
    const Node& n = graph.nodes[static_cast<size_t>(i)];
    bool update = !n.outputs.empty() && info(n.op).kind != OpKind::leaf;
    for (Value v : n.outputs) update = update && is_update[v.index()];
    return update || info(n.op).kind == OpKind::view || frees(i) >= 0;
  };
  std::set<int32_t> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (d.missing[i] == 0) ready.insert(static_cast<int32_t>(i));
  }
  Rewriter r(graph);
  size_t done = 0;
  const auto place = [&](int32_t i) {
    const Node& n = graph.nodes[static_cast<size_t>(i)];
    r.copy(n);
    ready.erase(i);
    ++done;
    for (Value v : n.inputs) --uses[v.index()];
    for (int32_t next : d.after[static_cast<size_t>(i)]) {
      if (--d.missing[static_cast<size_t>(next)] == 0) ready.insert(next);
    }
  };
  // Leaves first: they cost nothing and keep their order, which is the signature.
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (info(graph.nodes[i].op).kind == OpKind::leaf) place(static_cast<int32_t>(i));
  }
  while (!ready.empty()) {
    const auto pick = std::find_if(ready.begin(), ready.end(), eager);
    place(pick == ready.end() ? *ready.begin() : *pick);
  }
  return done == graph.nodes.size() ? r.finish() : graph;
}

}  // namespace freight::passes
