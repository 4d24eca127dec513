// Gradients of every op, generated from op_rows.h: the gradient rules against central differences in f64, to first and
// second order, and the rules of composites against the gradient of their definition.
#include "tests/ops/op_rows.h"

namespace freight::test {
namespace {

class Gradient : public testing::TestWithParam<Op> {};
class CompositeGradient : public testing::TestWithParam<Op> {};

// The rows whose gradient can be probed by differences: floating operands, not empty, not too large.
std::vector<OpRow> differentiable_rows(Op op) {
  std::vector<OpRow> rows;
  for (const OpRow& row : op_rows()) {
    if (row.op != op || !info(op).vjp) continue;
    const auto* embedding = std::get_if<EmbeddingAttrs>(&row.attrs);
    if (embedding && embedding->padding_idx >= 0) continue;  // its gradient is not the derivative, by design
    if (has_choices(graph_of(row))) continue;                // linalg_test.cpp
    int64_t elements = 0;
    bool floating = false;
    for (const Operand& o : row.in) {
      elements += o.type.numel();
      floating = floating || is_floating(o.type.dtype);
    }
    if (floating && elements <= 3000) rows.push_back(row);
  }
  return rows;
}

TEST_P(Gradient, AgreesWithDifferencesToSecondOrder) {
  for (const OpRow& row : differentiable_rows(GetParam())) {
    SCOPED_TRACE(to_string(row));
    Graph g = retype(graph_of(row), DType::f64);
    const std::vector<Array> inputs = retype(inputs_of(row, g, 11), DType::f64);
    const Value loss = weighted_sum(g, g.outputs, 100);
    if (!loss.valid()) continue;
    EXPECT_TRUE(gradient_agrees(g, loss, inputs));

    const Value slope = weighted_sum(g, grad(g, loss, floating_inputs(g)), 200);
    if (slope.valid()) {
      EXPECT_TRUE(gradient_agrees(g, slope, inputs, 1e-5)) << "second order";
    }
  }
}

TEST_P(CompositeGradient, EqualsThatOfTheDefinition) {
  for (const OpRow& row : differentiable_rows(GetParam())) {
    SCOPED_TRACE(to_string(row));
    Graph whole = retype(graph_of(row), DType::f64);
    const std::vector<Array> inputs = retype(inputs_of(row, whole, 11), DType::f64);
    const auto gradients = [&](Graph g) {
      const Value loss = weighted_sum(g, g.outputs, 100);
      g.outputs.clear();
      for (Value v : grad(g, loss, floating_inputs(g))) {
        if (v.valid()) g.outputs.push_back(v);
      }
      return interpret(g, inputs);
    };
    const std::vector<Array> a = gradients(whole), b = gradients(passes::decompose(whole, nullptr));
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(close(a[i], b[i], 1e-9)) << "input " << i;
  }
}

std::vector<Op> composites_with_rows() {
  std::vector<Op> composites;
  for (const Op op : ops_with_rows()) {
    if (info(op).kind == OpKind::composite) composites.push_back(op);
  }
  return composites;
}

INSTANTIATE_TEST_SUITE_P(Ops, CompositeGradient, testing::ValuesIn(composites_with_rows()),
                         [](const auto& instance) { return std::string(name(instance.param)); });
INSTANTIATE_TEST_SUITE_P(Ops, Gradient, testing::ValuesIn(ops_with_rows()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace freight::test
