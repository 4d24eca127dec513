// See sample_rows.h.
#include "freight/ir/sample_rows.h"

#include <algorithm>

#include "freight/ir/builder.h"

namespace freight {

namespace {

using enum Dependence;

bool of_no_sample(Dependence d) { return d == constant || d == uniform; }

// The node's operands, and what they depend on.
struct Operands {
  const Graph& graph;
  const Node& node;
  std::vector<Dependence> of;
  int64_t n;

  const Shape& shape(size_t i) const { return graph.type(node.inputs[i]).shape; }
  const Shape& result() const { return graph.type(node.out()).shape; }
  bool all(Dependence a, Dependence b) const {
    return std::all_of(of.begin(), of.end(), [&](Dependence d) { return d == a || d == b; });
  }
  // True where axis 0 has as many parts as there are samples.
  bool divides(const Shape& s) const { return s.rank() > 0 && s[0] > 0 && s[0] % n == 0; }
};

// Elements keep their places along axis 0, or move within it without leaving a sample's part.
Dependence of_view(const Operands& o) {
  const Dependence d = o.of[0];
  const Shape &from = o.shape(0), &to = o.result();
  if (!o.divides(to)) return d == rows ? other : constant;
  switch (o.node.op) {
    case Op::reshape: return d == constant ? constant : d;  // parts are contiguous in row-major order
    case Op::broadcast:
      if (from[0] == to[0]) return d;
      return d == rows ? other : uniform;  // from 1: all parts are equal
    case Op::transpose: return attrs<PermAttrs>(o.node).perm[0] == 0 ? d : (d == rows ? other : constant);
    case Op::slice: {
      const auto& a = attrs<SliceAttrs>(o.node);
      return a.start[0] == 0 && a.limit[0] == from[0] && a.step[0] == 1 ? d : (d == rows ? other : constant);
    }
    default: return other;
  }
}

Dependence of_movement(const Operands& o) {
  const bool any = !o.all(constant, uniform);
  const Dependence joined = o.all(uniform, uniform) ? uniform : o.all(rows, uniform) ? rows : any ? other : constant;
  switch (o.node.op) {
    case Op::copy: return o.of[0];
    case Op::concat: return attrs<AxisAttrs>(o.node).axis != 0 ? joined : (any ? other : constant);
    case Op::pad: {
      const auto& a = attrs<PadAttrs>(o.node);
      return a.low[0] == 0 && a.high[0] == 0 && a.interior[0] == 0 ? joined : (any ? other : constant);
    }
    default: return other;
  }
}

// One operand of the product has the samples; of matrices (M, K) they are the rows of the first.
Dependence of_contract(const Operands& o) {
  const auto& a = attrs<MatmulAttrs>(o.node);
  if (a.epilogue.bias || a.epilogue.residual) return other;
  if (o.shape(0).rank() == 2) return o.of[0] == rows && !a.trans_a && of_no_sample(o.of[1]) ? rows : other;
  return o.all(rows, uniform) && o.divides(o.result()) ? rows : other;
}

Dependence of_index(const Operands& o) {
  switch (o.node.op) {
    case Op::check_index: return o.of[0];
    case Op::argmax:
    case Op::argmin: return attrs<AxisAttrs>(o.node).axis != 0 ? o.of[0] : other;
    case Op::argsort: return attrs<SortAttrs>(o.node).axis != 0 ? o.of[0] : other;
    case Op::gather: {
      const int64_t axis = attrs<AxisAttrs>(o.node).axis;
      if (axis == 0) return of_no_sample(o.of[0]) && o.of[1] == rows ? rows : other;
      return o.of[0] == rows && of_no_sample(o.of[1]) ? rows : other;
    }
    case Op::gather_elements: return attrs<AxisAttrs>(o.node).axis != 0 && o.all(rows, uniform) ? rows : other;
    default: return other;
  }
}

std::vector<Dependence> of_definition(const Operands& o);

// The dependence of each result of a node that has a sample among its operands, none of which is `other`.
std::vector<Dependence> of_node(const Operands& o) {
  const auto same = [&](Dependence d) { return std::vector<Dependence>(o.node.outputs.size(), d); };
  switch (info(o.node.op).kind) {
    case OpKind::unary:
    case OpKind::binary:
    case OpKind::ternary: return same(o.all(rows, uniform) ? rows : other);
    case OpKind::view: return same(of_view(o));
    case OpKind::movement: return same(of_movement(o));
    case OpKind::reduce: {
      const Shape& axes = attrs<AxesAttrs>(o.node).axes;
      return same(std::find(axes.begin(), axes.end(), 0) == axes.end() ? o.of[0] : other);
    }
    case OpKind::contract: return same(of_contract(o));
    case OpKind::convolve: {
      const bool forward = o.node.op == Op::conv || o.node.op == Op::conv_grad_input;
      return same(forward && o.of.size() == 2 && o.of[0] == rows && of_no_sample(o.of[1]) ? rows : other);
    }
    case OpKind::pool: return same(o.node.op == Op::max_pool || o.node.op == Op::avg_pool ? o.of[0] : other);
    case OpKind::index: return same(of_index(o));
    case OpKind::composite: return of_definition(o);
    default: return same(other);
  }
}

// Values that depend on no sample: uniform if the parts along axis 0 are known to be equal, else constant.
Dependence of_constant(const Operands& o) {
  if (!o.divides(o.result())) return constant;
  double value = 0;
  switch (info(o.node.op).kind) {
    case OpKind::leaf: return splat_value(o.graph, o.node.out(), value) ? uniform : constant;
    case OpKind::generator: {
      const auto* const iota = std::get_if<IotaAttrs>(&o.node.attrs);
      return iota && iota->axis != 0 ? uniform : constant;
    }
    case OpKind::unary:
    case OpKind::binary:
    case OpKind::ternary: return o.all(uniform, uniform) ? uniform : constant;
    case OpKind::view: return of_view(o);
    case OpKind::contract: {  // equal rows have equal products, as the first step of a recurrent layer from zeros
      const auto& a = attrs<MatmulAttrs>(o.node);
      const bool plain = o.shape(0).rank() == 2 && !a.trans_a && !a.epilogue.bias && !a.epilogue.residual;
      return plain && o.of[0] == uniform ? uniform : constant;
    }
    default: return constant;
  }
}

std::vector<Dependence> of_any(const Operands& o) {
  const auto same = [&](Dependence d) { return std::vector<Dependence>(o.node.outputs.size(), d); };
  const auto has = [&](Dependence d) { return std::find(o.of.begin(), o.of.end(), d) != o.of.end(); };
  const OpInfo& of_op = info(o.node.op);
  if (of_op.random || has(other)) return same(other);
  if (!has(rows)) return same(of_op.kind == OpKind::collective ? other : of_constant(o));
  std::vector<Dependence> found = of_node(o);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == rows && !o.divides(o.graph.type(o.node.outputs[i]).shape)) found[i] = other;
  }
  return found;
}

std::vector<Dependence> of_definition(const Operands& o) {
  const OpInfo& of_op = info(o.node.op);
  if (!of_op.decompose) return std::vector<Dependence>(o.node.outputs.size(), other);
  Graph body;
  Builder b(body);
  std::vector<Value> in;
  for (const Value v : o.node.inputs) in.push_back(body.add(Op::input, LeafAttrs{"x", o.graph.type(v)}, {})[0]);
  const std::vector<Value> out = of_op.decompose(b, o.node, in);
  ByValue<Dependence> of(body.values.size(), constant);
  for (size_t i = 0; i < in.size(); ++i) of[in[i]] = o.of[i];
  for (const Node& n : body.nodes) {
    if (n.op == Op::input) continue;
    Operands inner{body, n, {}, o.n};
    for (const Value v : n.inputs) inner.of.push_back(of[v]);
    const std::vector<Dependence> found = of_any(inner);
    for (size_t i = 0; i < found.size(); ++i) of[n.outputs[i]] = found[i];
  }
  std::vector<Dependence> results;
  for (const Value v : out) results.push_back(of[v]);
  return results;
}

}  // namespace

ByValue<Dependence> dependences_of(const Graph& graph, int64_t n, const std::function<Dependence(Value leaf)>& leaf) {
  ByValue<Dependence> of(graph.values.size(), constant);
  for (const Node& node : graph.nodes) {
    if (node.op == Op::input || node.op == Op::state) {
      of[node.out()] = leaf(node.out());
      continue;
    }
    Operands o{graph, node, {}, n};
    for (const Value v : node.inputs) o.of.push_back(of[v]);
    const std::vector<Dependence> found = of_any(o);
    for (size_t i = 0; i < found.size(); ++i) of[node.outputs[i]] = found[i];
  }
  return of;
}

}  // namespace freight
