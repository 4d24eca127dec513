// What every op must pass on a backend, as graphs and operands made from the rows of op_rows.h: results and gradients,
// operands that are views, other element types; and the comparison with the oracle in f64.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "freight/base/strings.h"
#include "freight/ir/infer.h"

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
  if ((is_linear_algebra(op) || op == Op::nextafter) && wide(dtype) != dtype) return cases;  // refused
  for (const OpRow& row : op_rows()) {
    bool floating = row.op == op;
    for (const Operand& o : row.in) floating = floating && (o.type.dtype == DType::f32 || !is_floating(o.type.dtype));
    if (!floating) continue;
    const Graph g = retype(graph_of(row), dtype);
    cases.push_back({cat(to_string(row), " in ", dtype), g, retype(inputs_of(row, g, 3), dtype), row.slack});
  }
  return cases;
}

// The oracle's results of a case.
inline std::vector<Array> expected_of(const OpCase& c) {
  return interpret(retype(c.graph, DType::f64), retype(c.inputs, DType::f64));
}

// Compares results of a case on a backend with those of the oracle.
inline void check_results(const OpCase& c, const std::vector<Array>& got, const std::vector<Array>& expected,
                          const std::string& backend) {
  double allowed = tolerance(DType::f32) * c.slack;
  for (const ValueInfo& v : c.graph.values) {
    if (wide(v.type.dtype) != v.type.dtype)
      allowed = std::max(allowed, tolerance(v.type.dtype) * std::min(c.slack, 4.0));
  }
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(close(got[i], expected[i], allowed)) << "output " << i << " on " << backend << " of " << c.what << "\n"
                                                     << print(c.graph).substr(0, 2000);
  }
}

inline void check_results(const OpCase& c, const std::vector<Array>& got, const std::string& backend) {
  check_results(c, got, expected_of(c), backend);
}

inline void compare_with_oracle(const std::vector<OpCase>& cases, const std::vector<std::string>& backends) {
  for (const OpCase& c : cases) {
    for (const std::string& backend : backends) check_results(c, run_planned(backend, c.graph, c.inputs), backend);
  }
}

// All cases as one graph: for backends whose compiler takes longer for many programs than for one of many kernels.
inline Graph side_by_side(const std::vector<OpCase>& cases) {
  Graph all;
  for (const OpCase& c : cases) {
    std::vector<Value> copies(c.graph.values.size());
    for (const Node& n : c.graph.nodes) {
      std::vector<Value> in;
      for (Value v : n.inputs) in.push_back(copies[v.index()]);
      const std::vector<Value> out = all.add(n.op, n.attrs, in);
      for (size_t i = 0; i < out.size(); ++i) copies[n.outputs[i].index()] = out[i];
    }
    for (Value v : c.graph.outputs) all.outputs.push_back(copies[v.index()]);
  }
  return all;
}

// Compares as compare_with_oracle does, with all cases in one plan.
inline void compare_together(const std::vector<OpCase>& cases, const std::string& backend) {
  std::vector<Array> inputs;
  for (const OpCase& c : cases) inputs.insert(inputs.end(), c.inputs.begin(), c.inputs.end());
  const std::vector<Array> got = run_planned(backend, side_by_side(cases), inputs);
  auto next = got.begin();
  for (const OpCase& c : cases) {
    const auto end = next + static_cast<std::ptrdiff_t>(c.graph.outputs.size());
    check_results(c, {next, end}, backend);
    next = end;
  }
}

// NaN, infinities, zeros of both signs and large numbers, in pairs.
inline void pointwise_special_values_agree(const std::vector<std::string>& backends) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> specials = {nan,  inf,   -inf, 0.0f,  -0.0f,  1.0f, -1.0f,
                                       0.5f, -2.5f, 3.5f, 1e30f, -1e30f, 90.0f};
  std::vector<float> left, right;
  for (float a : specials) {
    for (float b : specials) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  const auto n = static_cast<int64_t>(left.size());
  const std::vector<Array> inputs = {Array::of<float>(left, {n}), Array::of<float>(right, {n})};
  for (Op op : ops_with_rows()) {
    const OpInfo& row = info(op);
    if ((row.kind != OpKind::unary && row.kind != OpKind::binary) || op == Op::cast) continue;
    if (op == Op::logical_not || op == Op::logical_and || op == Op::logical_or) continue;
    if (row.infer == infer::whole) continue;
    if (op == Op::sin || op == Op::cos || op == Op::tan) continue;  // f32 range reduction at 1e30 is not asked for
    SCOPED_TRACE(row.name);
    Graph g;
    Builder b(g);
    std::vector<Value> in;
    for (int i = 0; i < 2; ++i) in.push_back(b.one(Op::input, LeafAttrs{"x", {DType::f32, {n}}}, {}));
    g.outputs = b.add(op, NoAttrs{}, std::vector<Value>(in.begin(), in.begin() + row.min_inputs));
    const Array expected = interpret(g, inputs)[0];
    const std::vector<double> e = expected.to_vector<double>();
    for (const std::string& backend : backends) {
      const std::vector<double> got = run_planned(backend, g, inputs)[0].to_vector<double>();
      for (size_t i = 0; i < e.size(); ++i) {
        const bool same = std::isnan(e[i])   ? std::isnan(got[i])
                          : std::isinf(e[i]) ? e[i] == got[i]
                                             : std::fabs(got[i] - e[i]) <= 1e-5 * std::fabs(e[i]) + 1e-30;
        EXPECT_TRUE(same) << backend << " at (" << left[i] << ", " << right[i] << "): " << got[i] << ", expected "
                          << e[i];
      }
    }
  }
}

inline void maxima_prefer_the_first_nan(const std::vector<std::string>& backends) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = Array::of<float>({1, nan, 7, nan, 2, 2, 9, 9, -1, -1, -3, -3}, {3, 4});
  Graph g;
  Builder b(g);
  const Value v = b.one(Op::input, LeafAttrs{"x", {DType::f32, {3, 4}}}, {});
  for (Op op : {Op::argmax, Op::argmin}) g.outputs.push_back(b.one(op, AxisAttrs{1}, {v}));
  for (Op op : {Op::reduce_max, Op::reduce_min}) g.outputs.push_back(b.one(op, AxesAttrs{{1}}, {v}));
  for (bool descending : {false, true}) g.outputs.push_back(b.one(Op::argsort, SortAttrs{1, descending}, {v}));
  for (const std::string& backend : backends) {
    const std::vector<Array> out = run_planned(backend, g, {x});
    EXPECT_EQ(out[0].to_vector<int>(), (std::vector<int>{1, 2, 0})) << backend;
    EXPECT_EQ(out[1].to_vector<int>(), (std::vector<int>{1, 0, 2})) << backend;
    EXPECT_TRUE(std::isnan(out[2].to_vector<float>()[0])) << backend;
    EXPECT_TRUE(std::isnan(out[3].to_vector<float>()[0])) << backend;
    EXPECT_EQ(out[4].to_vector<int>(), (std::vector<int>{0, 2, 1, 3, 0, 1, 2, 3, 2, 3, 0, 1})) << backend;
    EXPECT_EQ(out[5].to_vector<int>(), (std::vector<int>{1, 3, 2, 0, 2, 3, 0, 1, 0, 1, 2, 3})) << backend;
  }
}

inline void integers_wrap_and_divide_toward_zero(const std::vector<std::string>& backends) {
  Graph g;
  Builder b(g);
  const Type t{DType::i32, {4}};
  const Value x = b.one(Op::input, LeafAttrs{"x", t}, {}), y = b.one(Op::input, LeafAttrs{"y", t}, {});
  for (Op op : {Op::div, Op::fmod, Op::mul}) g.outputs.push_back(b.binary(op, x, y));
  const std::vector<Array> in = {Array::of<int>({7, -7, 7, 65536}, {4}), Array::of<int>({2, 2, -2, 65536}, {4})};
  for (const std::string& backend : backends) {
    const std::vector<Array> out = run_planned(backend, g, in);
    EXPECT_EQ(out[0].to_vector<int>(), (std::vector<int>{3, -3, -3, 1})) << backend;
    EXPECT_EQ(out[1].to_vector<int>(), (std::vector<int>{1, -1, 1, 0})) << backend;
    EXPECT_EQ(out[2].to_vector<int>(), (std::vector<int>{14, -14, -14, 0})) << backend;
  }
}

}  // namespace freight::test
