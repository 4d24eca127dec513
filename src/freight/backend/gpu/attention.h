// Attention and its gradient as kernels of their own, which never hold the matrix of all weights.
#pragma once
#include "freight/backend/backend.h"
#include "freight/backend/gpu/launch.h"

namespace freight::gpu {

// Whether there are kernels for this node: an attention, or the gradient of one, whose rows fit a work-item.
bool has_attention(const Graph& graph, const Node& node);
Lowered lower_attention(const StepSpec& spec);

}  // namespace freight::gpu
