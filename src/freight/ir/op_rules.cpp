// See op_rules.h.
#include "freight/ir/op_rules.h"

#include <algorithm>

namespace freight {

bool has_factors(const Graph& graph, const Node& node) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
    return n.op == Op::lu_factor && n.in(0) == node.in(0) && attrs<LuAttrs>(n).refuse_singular;
  });
}

bool transposes::matmul(Attrs& attrs, size_t operand) {
  if (operand > 1) return false;
  auto& a = std::get<MatmulAttrs>(attrs);
  bool& flag = operand == 0 ? a.trans_a : a.trans_b;
  flag = !flag;
  return true;
}

// The transpose of a triangle is the other one.
bool transposes::solve_triangular(Attrs& attrs, size_t operand) {
  if (operand > 0) return false;
  auto& a = std::get<TriangularAttrs>(attrs);
  a.upper = !a.upper;
  a.transposed = !a.transposed;
  return true;
}

// scale / sqrt(variance + eps), and shift - mean times that.
ScaleAndShift per_channel::batch_norm_inference(Builder& b, const Node& node, const std::vector<Value>& in) {
  const Ex gamma{&b, in[1]}, beta{&b, in[2]}, mean{&b, in[3]}, variance{&b, in[4]};
  const Ex scale = gamma * apply(Op::rsqrt, variance + attrs<NormAttrs>(node).eps);
  return {scale, beta - mean * scale};
}

Value choose(Builder& b, Value condition, Value yes, Value no) {
  const Shape shape = b.shape(yes);
  return b.where(b.broadcast(b.reshape(condition, Shape::filled(shape.rank(), 1)), shape), yes, no);
}

// Subtracts 0 from the rows where the condition does not hold: a choice between two tables would read and write them
// whole.
Value only_if::sgd_rows(Builder& b, Value update, Value condition) {
  const Node n = b.graph().def(update);  // a copy: the graph grows below
  const Value none = b.constant(0, b.type(n.in(2)));
  return b.one(Op::sgd_rows, NoAttrs{}, {n.in(0), n.in(1), choose(b, condition, n.in(2), none), n.in(3)});
}

}  // namespace freight
