// The gradient of a convolution's weight as a graph of one node; the comparison of a graph with the reference.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "freight/ir/builder.h"
#include "tests/support/arrays.h"
#include "tests/support/run.h"

namespace freight::test {

// `a` lacks the shape of the weight, which is `w`.
inline Graph grad_weight_graph(DType dtype, const Shape& x, const Shape& w, const Shape& y, ConvAttrs a) {
  Graph g;
  Builder b(g);
  a.shape = w;
  const auto in = [&](const Shape& s) { return b.one(Op::input, LeafAttrs{"x", {dtype, s}}, {}); };
  const Value first = in(x), second = in(y);
  g.outputs = {b.one(Op::conv_grad_weight, a, {first, second})};
  return g;
}

inline std::vector<Array> normal_inputs(const Graph& g) {
  std::vector<Array> in;
  for (const Value v : g.leaves(Op::input)) in.push_back(random_array({g.type(v), Fill::normal}, 5 + in.size()));
  return in;
}

inline void expect_graph_as_reference(const Graph& g, DType dtype) {
  const std::vector<Array> in = normal_inputs(g);
  EXPECT_TRUE(close(run_planned("cpu", g, in)[0], run_planned("ref", g, in)[0], dtype == DType::bf16 ? 1e-2 : 1e-4));
}

}  // namespace freight::test
