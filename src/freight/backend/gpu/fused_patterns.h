// Finds the fused patterns with a matmul or convolution (ir/fused_pattern.h) in a graph, for drivers whose library has
// steps for them (Backend::fuse_patterns). How such a step is computed stands in pattern_kernels.h.
#pragma once
#include <functional>
#include <optional>

#include "freight/ir/fused_pattern.h"

namespace freight::gpu {

// Whether the backend has a step for a fused node that is in no graph yet.
using TakesPattern = std::function<bool(const Node& fused)>;
// The graph with such nodes where `takes` allows. What only the nodes needed that they replace may be left over.
Graph fuse_patterns(const Graph& graph, const TakesPattern& takes);
// What a node `moments` and the convolution whose 16-bit result it reads become: a node conv_moments with operands and
// results of this graph; nothing where `moments` reads another value.
std::optional<Node> conv_with_moments(const Graph& graph, const Node& moments);

}  // namespace freight::gpu
