// See floor.h.
#include "freight/plan/floor.h"

#include "freight/ir/builder.h"
#include "freight/ir/graph.h"
#include "freight/plan/work.h"

namespace freight::plan {

namespace {

class Counter {
 public:
  Counter(Floor& floor, DType compute) : floor_(floor), compute_(compute) {}

  // Adds the products of `g` among the nodes of `counted`. `trained`: the values through which gradients flow; those of
  // the leaves are given, those of the other nodes are found.
  void add(const Graph& g, const ByNode<bool>& counted, ByValue<bool>& trained) {
    for (const NodeId i : g.node_ids()) {
      const Node& n = g.node(i);
      if (!counted[i] || info(n.op).kind == OpKind::leaf) continue;
      int gradients = 0;
      for (const Value v : n.inputs) gradients += int(trained[v]);
      for (const Value v : n.outputs) trained[v] = gradients > 0;
      if (info(n.op).kind == OpKind::contract || info(n.op).kind == OpKind::convolve) {
        floor_.flops += cost(g, n).flops * (1 + gradients);
        floor_.bytes += bytes(g.type(n.out())) * (gradients > 0 ? 4 : 2);
      } else if (info(n.op).decompose) {
        add_composite(g, n, trained);
      }
    }
  }

 private:
  double bytes(const Type& t) const {
    const DType stored = t.dtype == DType::f32 ? compute_ : t.dtype;
    return static_cast<double>(t.numel()) * static_cast<double>(size_of(stored));
  }
  void add_composite(const Graph& g, const Node& n, const ByValue<bool>& trained) {
    const Graph inner = definition(n, input_types(g, n));
    ByNode<bool> all(inner, true);
    ByValue<bool> inside(inner);
    const std::vector<Value> operands = inner.leaves(Op::input);
    for (size_t i = 0; i < operands.size(); ++i) inside[operands[i]] = trained[n.inputs[i]];
    add(inner, all, inside);
  }

  Floor& floor_;
  DType compute_;
};

}  // namespace

Floor floor_of(const Graph& source, DType compute) {
  Floor floor;
  const ByNode<bool> counted = forward_nodes(source);
  ByValue<bool> trained(source);
  for (const Update& u : source.updates) {
    trained[u.state] = is_floating(source.type(u.state).dtype);
    floor.bytes += 2 * static_cast<double>(source.type(u.state).bytes());
  }
  for (const NodeId i : source.node_ids()) {
    const Node& n = source.node(i);
    if (!counted[i] || (n.op != Op::input && n.op != Op::state) || trained[n.out()]) continue;
    floor.bytes += static_cast<double>(source.type(n.out()).bytes());
  }
  Counter(floor, compute).add(source, counted, trained);
  return floor;
}

}  // namespace freight::plan
