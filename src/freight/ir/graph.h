// Graph: a flat SSA vector of nodes in topological order. Leaves are inputs (given per call), states (tensors that live
// across calls: parameters, optimizer state, statistics) and constants. A graph returns `outputs` and, at the end of a
// call, replaces each updated state by its `next` value. Nodes may have several results; values are numbered densely.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/ir/by_id.h"
#include "freight/ir/op.h"
#include "freight/ir/value_list.h"

namespace freight {

struct Node {
  Op op = Op::input;
  Attrs attrs;
  ValueList inputs;
  ValueList outputs;
  std::string scope;               // module path, "layer3.0.conv2"
  std::string where;               // the user's source line, "train.cpp:42"
  const char* function = nullptr;  // the function of ops/ that the user called, a literal; null: the op itself

  Value out(int i = 0) const { return outputs[static_cast<size_t>(i)]; }
  Value in(int i) const { return inputs[static_cast<size_t>(i)]; }
  // "enc.fc1, train.cpp:42" for messages.
  std::string location() const;
  // The name by which errors speak of the node: "inv" of an lu_factor that inv() is made of.
  const char* called() const;
};

struct ValueInfo {
  Type type;
  NodeId node;        // the node that defines it
  int32_t index = 0;  // which of the node's results
};

struct Update {
  Value state, next;
  friend bool operator==(const Update&, const Update&) = default;
};

struct Graph {
  std::vector<Node> nodes;
  ByValue<ValueInfo> values;
  std::vector<Value> outputs;
  std::vector<Update> updates;

  const Type& type(Value v) const { return values[v].type; }
  NodeId node_of(Value v) const { return values[v].node; }
  const Node& node(NodeId id) const { return nodes[id.index()]; }
  const Node& def(Value v) const { return node(node_of(v)); }
  // All nodes, all values, in order.
  IdRange<NodeId> node_ids() const { return IdRange<NodeId>(nodes.size()); }
  IdRange<Value> value_ids() const { return values.ids(); }
  // Appends a node; checks the number of inputs, infers the result types and returns the results.
  ValueList add(Op op, Attrs attrs, const ValueList& inputs, const std::string& scope = {},
                const std::string& where = {}, const char* function = nullptr);
  // The same for a node that stands for `origin`, or for a part of it: errors about it name what the user called.
  ValueList add(Op op, Attrs attrs, const ValueList& inputs, const Node& origin);
  // The leaves of one kind (Op::input, Op::state) in order of appearance.
  std::vector<Value> leaves(Op kind) const;
  // What a run leaves: the outputs, then the next values of updated states.
  std::vector<Value> results() const;
  // How many times each value is read by nodes, outputs and updates.
  ByValue<int> use_counts() const;
};

inline size_t count_of(const Graph& graph, NodeId) { return graph.nodes.size(); }
inline size_t count_of(const Graph& graph, Value) { return graph.values.size(); }

template <class A>
const A& attrs(const Node& node) {
  return std::get<A>(node.attrs);
}
template <class A>
A& attrs(Node& node) {
  return std::get<A>(node.attrs);
}

// Types of the node's inputs / outputs.
std::vector<Type> input_types(const Graph& graph, const Node& node);
std::vector<Type> output_types(const Graph& graph, const Node& node);
// FLOPs and the bytes that must move at least, from the op table.
Cost cost(const Graph& graph, const Node& node);
// True of a node that may refuse its elements when it runs (CanFail): an index out of range, a matrix that is singular.
bool may_refuse(const Graph& graph, const Node& node);
// Equal for graphs of equal structure (ops, attributes, types, wiring); names, scopes and source lines do not count.
uint64_t structural_hash(const Graph& graph);
bool structurally_equal(const Graph& a, const Graph& b);
// The name of an input or state leaf.
const std::string& leaf_name(const Graph& graph, Value leaf);
// True for a splat constant; `value` receives its number, rounded to the constant's type.
bool splat_value(const Graph& graph, Value v, double& value);

// Text form; see docs/graph-text.md. parse(print(g)) is structurally equal to g and keeps names and scopes.
std::string print(const Graph& graph);
// Throws Error(data) naming `source` and the line.
Graph parse(const std::string& text, const std::string& source = "graph");
// Re-infers every node and checks all references; throws Error(runtime) that shows the fault's neighborhood.
void verify(const Graph& graph, const char* after = "");

// Copies a graph node by node while a pass changes some of them; keeps the map from old to new values.
class Rewriter {
 public:
  explicit Rewriter(const Graph& source) : src(source), map_(source) {}
  Value operator()(Value old) const;
  ValueList operator()(const ValueList& old) const;
  void replace(Value old, Value now) { map_[old] = now; }
  bool mapped(Value old) const { return map_[old].valid(); }
  // Copies a node of the source, or one that makes some of its results, with mapped inputs.
  void copy(const Node& node);
  // Maps outputs and updates; returns the new graph.
  Graph finish();

  const Graph& src;
  Graph dst;

 private:
  ByValue<Value> map_;
};

}  // namespace freight
