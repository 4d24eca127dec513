// What every op must pass on a backend, as graphs and operands made from the rows of op_rows.h: results and gradients,
// operands that are views, other element types; and the comparison with the oracle in f64.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "freight/base/strings.h"

#include "tests/ops/op_rows.h"
#include "tests/support/run.h"

namespace freight::test {

struct OpCase {
  std::string what;
  Graph graph;
  std::vector<Array> inputs;
  double slack = 1;
};

// The results of the graph and the gradients of a weighted sum of them.
inline Graph with_gradients(Graph g) {
  const Value loss = weighted_sum(g, g.outputs, 100);
  if (!loss.valid()) return g;
  for (Value v : grad(g, loss, floating_inputs(g))) {
    if (v.valid()) g.outputs.push_back(v);
  }
  return g;
}

inline std::vector<OpCase> cases_with_gradients(Op op) {
  std::vector<OpCase> cases;
  for (const OpRow& row : op_rows()) {
    if (row.op != op) continue;
    const Graph g = with_gradients(graph_of(row));
    cases.push_back({to_string(row), g, inputs_of(row, g, 1), row.slack});
  }
  return cases;
}

inline std::vector<OpCase> cases_of_views(Op op) {
  std::vector<OpCase> cases;
  for (const OpRow& row : op_rows()) {
    if (row.op != op) continue;
    for (Through through : {Through::transpose, Through::slice, Through::broadcast}) {
      // Of values that are all alike the weights have no gradient: only rounding would be compared.
      if (row.op == Op::attention_grad && through == Through::broadcast) continue;
      const Graph g = graph_of(row, through);
      cases.push_back({to_string(row) + " of views", g, inputs_of(row, g, 2), row.slack});
    }
  }
  return cases;
}

// The rows whose floating operands are all f32, in another floating type.
inline std::vector<OpCase> cases_in(Op op, DType dtype) {
  std::vector<OpCase> cases;
  for (const OpRow& row : op_rows()) {
    bool floating = row.op == op;
    for (const Operand& o : row.in) floating = floating && (o.type.dtype == DType::f32 || !is_floating(o.type.dtype));
    if (!floating) continue;
    const Graph g = retype(graph_of(row), dtype);
    cases.push_back({cat(to_string(row), " in ", dtype), g, retype(inputs_of(row, g, 3), dtype), row.slack});
  }
  return cases;
}

inline void compare_with_oracle(const OpCase& c, const std::vector<std::string>& backends) {
  double allowed = tolerance(DType::f32) * c.slack;
  for (const ValueInfo& v : c.graph.values) {
    if (wide(v.type.dtype) != v.type.dtype)
      allowed = std::max(allowed, tolerance(v.type.dtype) * std::min(c.slack, 4.0));
  }
  const std::vector<Array> expected = interpret(retype(c.graph, DType::f64), retype(c.inputs, DType::f64));
  for (const std::string& backend : backends) {
    const std::vector<Array> got = run_planned(backend, c.graph, c.inputs);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(close(got[i], expected[i], allowed)) << "output " << i << " on " << backend << " of " << c.what << "\n"
                                                       << print(c.graph).substr(0, 2000);
    }
  }
}

}  // namespace freight::test
