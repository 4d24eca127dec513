// Runs a graph node by node on the reference backend, without passes and without a plan: the oracle for passes, plans
// and gradients. Composites run through their decomposition; nodes that no result depends on do not run.
#pragma once
#include <vector>

#include "freight/base/array.h"
#include "freight/ir/graph.h"

namespace freight {

// `inputs` in the order of graph.leaves(Op::input), `states` in that of graph.leaves(Op::state). Returns the outputs;
// afterwards each updated state is replaced by a new Array. Throws Error(usage) when the types do not fit.
std::vector<Array> interpret(const Graph& graph, const std::vector<Array>& inputs, std::vector<Array>& states);
std::vector<Array> interpret(const Graph& graph, const std::vector<Array>& inputs);

}  // namespace freight
