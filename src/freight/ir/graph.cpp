// Graph: appending nodes, structural hash, rewriting; see graph.h.
#include "freight/ir/graph.h"

#include "freight/base/error.h"
#include "freight/ir/infer.h"

namespace freight {

std::string Node::location() const {
  if (scope.empty()) return where;
  return where.empty() ? scope : cat(scope, ", ", where);
}

const char* Node::called() const { return function ? function : name(op); }

ValueList Graph::add(Op op, Attrs attributes, const ValueList& inputs, const Node& origin) {
  return add(op, std::move(attributes), inputs, origin.scope, origin.where, origin.called());
}

ValueList Graph::add(Op op, Attrs attributes, const ValueList& inputs, const std::string& scope,
                     const std::string& where, const char* function) {
  Node n{op, std::move(attributes), inputs, {}, scope, where, function};
  const OpInfo& row = info(op);
  const int count = static_cast<int>(inputs.size());
  std::vector<Type> in, out;
  in.reserve(inputs.size());
  for (Value v : inputs) {
    FREIGHT_CHECK(v.valid() && v.id < static_cast<int32_t>(values.size()), row.name,
                  ": operand is not a value of this graph");
    in.push_back(type(v));
  }
  FREIGHT_CHECK(n.attrs.index() == row.attrs.index(), row.name, ": wrong kind of attributes");
  try {
    if (count < row.min_inputs || (row.max_inputs >= 0 && count > row.max_inputs)) {
      fail(ErrorKind::usage, row.name, "expected ", row.min_inputs,
           row.max_inputs < 0                ? " or more"
           : row.max_inputs > row.min_inputs ? cat(" to ", row.max_inputs)
                                             : "",
           ", got ", count, " inputs: ", row.signature);
    }
    out = infer_types(n, in);
  } catch (const Error& e) {
    if (!e.where().empty() || (n.location().empty() && !function)) throw;
    throw Error(e.kind(), e.op() == row.name ? n.called() : e.op(), e.message(), n.location());
  }
  n.outputs.reserve(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    n.outputs.push_back(Value{static_cast<int32_t>(values.size())});
    values.push_back({out[i], NodeId{static_cast<int32_t>(nodes.size())}, static_cast<int32_t>(i)});
  }
  nodes.push_back(std::move(n));
  return nodes.back().outputs;
}

std::vector<Value> Graph::leaves(Op kind) const {
  std::vector<Value> found;
  for (const Node& n : nodes) {
    if (n.op == kind) found.push_back(n.out());
  }
  return found;
}

std::vector<Value> Graph::results() const {
  std::vector<Value> all = outputs;
  for (const Update& u : updates) all.push_back(u.next);
  return all;
}

ByValue<int> Graph::use_counts() const {
  ByValue<int> uses(*this);
  for (const Node& n : nodes) {
    for (Value v : n.inputs) ++uses[v];
  }
  for (Value v : results()) ++uses[v];
  return uses;
}

std::vector<Type> input_types(const Graph& graph, const Node& node) {
  std::vector<Type> types;
  for (Value v : node.inputs) types.push_back(graph.type(v));
  return types;
}

std::vector<Type> output_types(const Graph& graph, const Node& node) {
  std::vector<Type> types;
  for (Value v : node.outputs) types.push_back(graph.type(v));
  return types;
}

namespace {
// Leaves count by kind and type only: names do not change what is computed.
uint64_t node_hash(const Node& n) {
  uint64_t h = hash_combine(0x46524754, static_cast<uint64_t>(n.op));
  if (n.op == Op::input || n.op == Op::state) {
    LeafAttrs anonymous = attrs<LeafAttrs>(n);
    anonymous.name.clear();
    h = hash_combine(h, hash(Attrs{anonymous}));
  } else {
    h = hash_combine(h, hash(n.attrs));
  }
  for (Value v : n.inputs) h = hash_combine(h, static_cast<uint64_t>(v.id));
  return h;
}
bool node_equal(const Node& a, const Node& b) {
  if (a.op != b.op || a.inputs != b.inputs || a.outputs != b.outputs) return false;
  if (a.op == Op::input || a.op == Op::state) return attrs<LeafAttrs>(a).type == attrs<LeafAttrs>(b).type;
  return equal(a.attrs, b.attrs);
}
}  // namespace

bool may_refuse(const Graph& graph, const Node& node) {
  const auto indexes = [&](Value v) { return is_integer(graph.type(v).dtype); };
  const CanFail can_fail = info(node.op).can_fail;
  if (can_fail != CanFail::by_index) return can_fail == CanFail::yes;
  return std::any_of(node.inputs.begin(), node.inputs.end(), indexes);
}

uint64_t structural_hash(const Graph& graph) {
  uint64_t h = graph.nodes.size();
  for (const Node& n : graph.nodes) h = hash_combine(h, node_hash(n));
  for (Value v : graph.outputs) h = hash_combine(h, static_cast<uint64_t>(v.id));
  for (const Update& u : graph.updates) {
    h = hash_combine(h, static_cast<uint64_t>(u.state.id));
    h = hash_combine(h, static_cast<uint64_t>(u.next.id));
  }
  return h;
}

bool structurally_equal(const Graph& a, const Graph& b) {
  if (a.nodes.size() != b.nodes.size() || a.outputs != b.outputs || a.updates != b.updates) return false;
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    if (!node_equal(a.nodes[i], b.nodes[i])) return false;
  }
  return true;
}

const std::string& leaf_name(const Graph& graph, Value leaf) { return attrs<LeafAttrs>(graph.def(leaf)).name; }

bool splat_value(const Graph& graph, Value v, double& value) {
  const Node& n = graph.def(v);
  if (n.op != Op::constant) return false;
  const auto& a = attrs<ConstantAttrs>(n);
  value = a.value;
  if (is_floating(a.type.dtype)) {
    dispatch(a.type.dtype, [&]<class T>(T) {
      if constexpr (!kIsComplex<T>) value = element_cast<double>(element_cast<T>(value));
    });
  }
  return !a.data.defined();
}

Value Rewriter::operator()(Value old) const {
  const Value v = map_[old];
  FREIGHT_CHECK(v.valid(), "value %", old.id, " (", name(src.def(old).op), ") was not rewritten before its use");
  return v;
}

ValueList Rewriter::operator()(const ValueList& old) const {
  ValueList now;
  now.reserve(old.size());
  for (Value v : old) now.push_back((*this)(v));
  return now;
}

void Rewriter::copy(const Node& node) {
  if (dst.nodes.empty()) {  // most passes change little
    dst.nodes.reserve(src.nodes.size());
    dst.values.reserve(src.values.size());
  }
  ValueList in = (*this)(node.inputs);
  bool alike = true;
  for (size_t i = 0; i < in.size() && alike; ++i) alike = dst.type(in[i]) == src.type(node.inputs[i]);
  if (!alike) {
    dst.add(node.op, node.attrs, in, node);
  } else {  // its results have the types that were inferred before
    const NodeId id{static_cast<int32_t>(dst.nodes.size())};
    Node& n = dst.nodes.emplace_back();
    n.op = node.op;
    n.attrs = node.attrs;
    n.inputs = std::move(in);
    n.scope = node.scope;
    n.where = node.where;
    n.function = node.function;
    n.outputs.reserve(node.outputs.size());
    for (Value v : node.outputs) {
      n.outputs.push_back(Value{static_cast<int32_t>(dst.values.size())});
      dst.values.push_back({src.type(v), id, static_cast<int32_t>(n.outputs.size()) - 1});
    }
  }
  const ValueList& out = dst.nodes.back().outputs;
  for (size_t i = 0; i < out.size(); ++i) replace(node.outputs[i], out[i]);
}

Graph Rewriter::finish() {
  dst.outputs = (*this)(src.outputs);
  for (const Update& u : src.updates) dst.updates.push_back({(*this)(u.state), (*this)(u.next)});
  return std::move(dst);
}

}  // namespace freight
