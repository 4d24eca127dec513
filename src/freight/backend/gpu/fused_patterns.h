// Finds the fused patterns with a matmul or convolution (ir/fused_pattern.h) in a graph, for drivers whose library has
// steps for them (Backend::fuse_patterns). How such a step is computed stands in pattern_kernels.h.
#pragma once
#include <functional>
#include <optional>

#include "freight/ir/fused_pattern.h"

namespace freight::gpu {

// Tells whether the backend has a step for a fused node that is in no graph yet.
using TakesPattern = std::function<bool(const Node& fused)>;
// Returns the graph with fused nodes wherever a pattern is found that `takes` allows. Nodes that nobody reads any more
// may be left over.
Graph fuse_patterns(const Graph& graph, const TakesPattern& takes);
// Returns the node conv_moments that a node `moments` and the convolution it reads become, with operands and results of
// this graph; nothing where `moments` reads anything but the result of a plain convolution in 16 bits. Wider results
// are refused: lower_moments() takes the moments about zero, which is exact enough for numbers rounded to 16 bits
// alone.
std::optional<Node> conv_with_moments(const Graph& graph, const Node& moments);

}  // namespace freight::gpu
