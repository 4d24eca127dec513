// Reverse-mode differentiation as a graph-to-graph transform: walk the nodes from the loss back, ask each op's rule
// (op table) for the cotangents of its inputs, and add up where a value is used more than once.
#include "freight/base/error.h"
#include "freight/ir/vjp.h"
#include "freight/passes/passes.h"

namespace freight {

namespace {
// Which values, up to node `last`, depend on one of `wrt` through differentiable paths. `stands_for`: the definition of
// an alias.
ByValue<bool> depends_on(const Graph& graph, const std::vector<Value>& wrt, NodeId last,
                         const ByValue<Value>& stands_for) {
  ByValue<bool> depends(graph);
  for (Value v : wrt) depends[v] = true;
  for (const NodeId i : graph.node_ids()) {
    if (i > last) break;
    const Node& n = graph.node(i);
    for (Value v : n.outputs) {
      const Value d = stands_for.empty() ? Value{} : stands_for[v];
      if (d.valid() && depends[d]) depends[v] = true;
    }
    if (!info(n.op).vjp) continue;
    bool any = false;
    for (Value v : n.inputs) any = any || depends[v];
    for (Value v : n.outputs) {
      if (any && is_floating(graph.type(v).dtype)) depends[v] = true;
    }
  }
  return depends;
}

// Adds `gradient` to what has arrived at `slot` so far.
void accumulate(Builder& b, Value& slot, Value gradient) {
  slot = slot.valid() ? b.binary(Op::add, slot, gradient) : gradient;
}

}  // namespace

// The definition is appended (its values equal the node's; simplify removes whichever is not used) and walked in turn.
std::vector<Value> through_definition(Builder& b, const Node& node, const std::vector<Value>& cotangents) {
  Graph& graph = b.graph();
  Graph body = definition(node, input_types(graph, node));
  const std::vector<Value> leaves = body.leaves(Op::input), results = body.outputs;
  std::vector<Value> wrt;
  for (Value v : leaves) {
    if (is_floating(body.type(v).dtype)) wrt.push_back(v);
  }
  std::vector<Value> sums(leaves.size());
  for (size_t k = 0; k < results.size(); ++k) {
    if (!cotangents[k].valid()) continue;
    const Value seed = body.add(Op::input, LeafAttrs{"", graph.type(cotangents[k])}, {}, node)[0];
    const std::vector<Value> g = grad(body, results[k], wrt, seed);
    // Import the body, seed replaced by the cotangent.
    ByValue<Value> map(body);
    size_t leaf = 0;
    for (const Node& n : body.nodes) {
      if (n.op == Op::input) {
        map[n.out()] = n.out() == seed ? cotangents[k] : leaf < leaves.size() ? node.inputs[leaf] : Value{};
        ++leaf;
        continue;
      }
      std::vector<Value> in;
      bool known = true;
      for (Value v : n.inputs) {
        in.push_back(map[v]);
        known = known && in.back().valid();
      }
      if (!known) continue;  // the walk of an earlier result
      const std::vector<Value> out = b.add(n.op, n.attrs, in);
      for (size_t i = 0; i < out.size(); ++i) map[n.outputs[i]] = out[i];
    }
    for (size_t i = 0; i < wrt.size(); ++i) {
      if (!g[i].valid()) continue;
      for (size_t j = 0; j < leaves.size(); ++j) {
        if (leaves[j] == wrt[i]) accumulate(b, sums[j], map[g[i]]);
      }
    }
  }
  return sums;
}

std::vector<Value> grad(Graph& graph, Value loss, const std::vector<Value>& wrt, Value seed,
                        const std::vector<Alias>& aliases, const std::vector<GradientChange>& changes) {
  const NodeId last = graph.node_of(loss);
  if (!seed.valid() && graph.type(loss).numel() != 1) {
    fail(ErrorKind::usage, "grad", "the loss must be a single number: got ", graph.type(loss),
         "; reduce it with mean or sum");
  }
  if (!is_floating(graph.type(loss).dtype))
    fail(ErrorKind::usage, "grad", "the loss must be floating: got ", graph.type(loss));
  ByValue<Value> stands_for(aliases.empty() ? 0 : graph.values.size()), leaf_of(stands_for.size());
  for (const Alias& a : aliases) {
    stands_for[a.leaf] = a.definition;
    leaf_of[a.definition] = a.leaf;
  }
  ByValue<const GradientChange*> changed(changes.empty() ? 0 : graph.values.size());
  for (const GradientChange& c : changes) changed[c.value] = &c;
  const ByValue<bool> wanted = depends_on(graph, wrt, last, stands_for);
  ByValue<Value> cotangent(graph);
  const Node& end = graph.node(last);
  Builder b(graph, end);
  if (wanted[loss]) cotangent[loss] = seed.valid() ? seed : b.constant_like(1, loss);

  for (const NodeId i : IdRange<NodeId>(last.index() + 1).reversed()) {
    Node node = graph.node(i);  // a copy: the graph grows below
    if (!aliases.empty()) {
      for (Value v : node.outputs) {
        const Value to = stands_for[v], from = cotangent[v];
        if (!to.valid() || !from.valid()) continue;
        b.set_location(node);
        accumulate(b, cotangent[to], from);
      }
    }
    if (!info(node.op).vjp) continue;
    bool arrived = false, leads = false;
    std::vector<Value> arriving;
    for (Value v : node.outputs) {
      arriving.push_back(cotangent[v]);
      arrived = arrived || arriving.back().valid();
    }
    std::vector<bool> needed;
    for (Value v : node.inputs) {
      needed.push_back(wanted[v]);
      leads = leads || needed.back();
    }
    if (!arrived || !leads) continue;
    const Value result = node.out();  // itself, no leaf that stands for it
    for (Value& v : node.outputs) {
      if (!aliases.empty() && leaf_of[v].valid()) v = leaf_of[v];
    }
    b.set_location(node);
    if (!changes.empty() && changed[result]) arriving[0] = changed[result]->change(arriving[0]);
    VjpContext context(b, node, arriving, needed);
    info(node.op).vjp(context);
    const std::vector<Value> gradients =
        context.through_definition ? through_definition(b, node, arriving) : context.gradients();
    for (size_t k = 0; k < gradients.size(); ++k) {
      if (needed[k] && gradients[k].valid()) accumulate(b, cotangent[node.inputs[k]], gradients[k]);
    }
  }
  std::vector<Value> result;
  for (Value v : wrt) result.push_back(cotangent[v]);
  return result;
}

}  // namespace freight
