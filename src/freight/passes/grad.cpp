// Reverse-mode differentiation as a graph-to-graph transform: walk the nodes from the loss back, ask each op's rule
// (op table) for the cotangents of its inputs, and add up where a value is used more than once.
#include "freight/base/error.h"
#include "freight/ir/vjp.h"
#include "freight/passes/passes.h"

namespace freight {

namespace {

size_t index(Value v) { return static_cast<size_t>(v.id); }

// Which values, up to node `last`, depend on one of `wrt` through differentiable paths.
std::vector<bool> depends_on(const Graph& graph, const std::vector<Value>& wrt, size_t last) {
  std::vector<bool> depends(graph.values.size());
  for (Value v : wrt) depends[index(v)] = true;
  for (size_t i = 0; i <= last; ++i) {
    const Node& n = graph.nodes[i];
    if (!info(n.op).vjp) continue;
    bool any = false;
    for (Value v : n.inputs) any = any || depends[index(v)];
    for (Value v : n.outputs) {
      if (any && is_floating(graph.type(v).dtype)) depends[index(v)] = true;
    }
  }
  return depends;
}

// Adds `gradient` to what has arrived at `slot` so far.
void accumulate(Builder& b, Value& slot, Value gradient) {
  slot = slot.valid() ? b.binary(Op::add, slot, gradient) : gradient;
}

// A composite without a rule of its own: differentiate its definition. The definition is appended (its values equal the
// node's; simplify removes whichever is not used) and walked in turn.
void through_definition(Graph& graph, Builder& b, const Node& node, const std::vector<Value>& cotangents,
                        std::vector<Value>& gradients) {
  Graph body;
  Builder inner(body, node.scope, node.where);
  std::vector<Value> leaves;
  for (Value v : node.inputs) leaves.push_back(inner.one(Op::input, LeafAttrs{"", graph.type(v)}, {}));
  const std::vector<Value> results = info(node.op).decompose(inner, node, leaves);
  std::vector<Value> wrt;
  for (Value v : leaves) {
    if (is_floating(body.type(v).dtype)) wrt.push_back(v);
  }
  std::vector<Value> sums(leaves.size());
  for (size_t k = 0; k < results.size(); ++k) {
    if (!cotangents[k].valid()) continue;
    const Value seed = inner.one(Op::input, LeafAttrs{"", graph.type(cotangents[k])}, {});
    const std::vector<Value> g = grad(body, results[k], wrt, seed);
    // Import the body, seed replaced by the cotangent.
    std::vector<Value> map(body.values.size());
    size_t leaf = 0;
    for (const Node& n : body.nodes) {
      if (n.op == Op::input) {
        map[index(n.out())] = n.out() == seed ? cotangents[k] : leaf < leaves.size() ? node.inputs[leaf] : Value{};
        ++leaf;
        continue;
      }
      std::vector<Value> in;
      bool known = true;
      for (Value v : n.inputs) {
        in.push_back(map[index(v)]);
        known = known && in.back().valid();
      }
      if (!known) continue;  // the walk of an earlier result
      const std::vector<Value> out = b.add(n.op, n.attrs, in);
      for (size_t i = 0; i < out.size(); ++i) map[index(n.outputs[i])] = out[i];
    }
    for (size_t i = 0; i < wrt.size(); ++i) {
      if (!g[i].valid()) continue;
      for (size_t j = 0; j < leaves.size(); ++j) {
        if (leaves[j] == wrt[i]) accumulate(b, sums[j], map[index(g[i])]);
      }
    }
  }
  gradients = sums;
}

}  // namespace

std::vector<Value> grad(Graph& graph, Value loss, const std::vector<Value>& wrt, Value seed) {
  const size_t last = static_cast<size_t>(graph.values[index(loss)].node);
  if (!seed.valid() && graph.type(loss).numel() != 1) {
    fail(ErrorKind::usage, "grad", "the loss must be a single number: got ", graph.type(loss),
         "; reduce it with mean or sum");
  }
  if (!is_floating(graph.type(loss).dtype))
    fail(ErrorKind::usage, "grad", "the loss must be floating: got ", graph.type(loss));
  const std::vector<bool> wanted = depends_on(graph, wrt, last);
  std::vector<Value> cotangent(graph.values.size());
  const Node& end = graph.nodes[last];
  Builder b(graph, end.scope, end.where);
  if (wanted[index(loss)]) cotangent[index(loss)] = seed.valid() ? seed : b.constant_like(1, loss);

  for (size_t i = last + 1; i-- > 0;) {
    const Node node = graph.nodes[i];  // a copy: the graph grows below
    if (!info(node.op).vjp) continue;
    bool arrived = false, leads = false;
    std::vector<Value> arriving;
    for (Value v : node.outputs) {
      arriving.push_back(cotangent[index(v)]);
      arrived = arrived || arriving.back().valid();
    }
    std::vector<bool> needed;
    for (Value v : node.inputs) {
      needed.push_back(wanted[index(v)]);
      leads = leads || needed.back();
    }
    if (!arrived || !leads) continue;
    b.set_location(node.scope, node.where);
    std::vector<Value> gradients;
    if (info(node.op).vjp == vjp::decomposed) {
      through_definition(graph, b, node, arriving, gradients);
    } else {
      VjpContext context(b, node, arriving, needed);
      info(node.op).vjp(context);
      gradients = context.gradients();
    }
    for (size_t k = 0; k < gradients.size(); ++k) {
      if (needed[k] && gradients[k].valid()) accumulate(b, cotangent[index(node.inputs[k])], gradients[k]);
    }
  }
  std::vector<Value> result;
  for (Value v : wrt) result.push_back(cotangent[index(v)]);
  return result;
}

}  // namespace freight
