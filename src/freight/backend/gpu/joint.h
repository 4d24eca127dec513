// A product and what is done beside it in one step: a fused node whose body begins with the matmul or convolution
// (join.cpp), whose result lies where the step's first one does. A matmul's operands are A, B and, where the result is
// masked, y; a convolution's, or those of a gradient of a filter, are its own and, where it reads normalised channels
// of the first one, their scale and shift; its other results are the moments of its channels.
#pragma once
#include <functional>
#include <optional>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/launch.h"
#include "freight/ir/builder.h"

namespace freight::gpu {

// Whether a fused node, which is in no graph yet, is one step.
using TakesJoint = std::function<bool(const Node& joint)>;
// The graph with products and what is beside them made fused nodes that begin with the product, where `takes` allows.
// What only the parts needed may be left over.
Graph join(const Graph& graph, const TakesJoint& takes);
// relu(x scale + shift) per channel, computed in f32, in x's type.
Value normed_channels(Builder& b, Value x, Value scale, Value shift);
// What a node `moments` and the convolution whose 16-bit result it reads become, with their operands and results in
// this graph; nothing where it reads another value.
std::optional<Node> joint_with_moments(const Graph& graph, const Node& moments);

// Of a matmul.
struct Joint {
  StepSpec product;     // the matmul alone; its operands follow each other as in a step of its own
  bool masked = false;  // the result is 0 where y is not above 0
  bool sums = false;    // the second result are sums over rows: of the masked result, or
  int summed = -1;      // of this operand of the matmul
};

// What a fused node's step consists of; it must begin with a matmul.
Joint joint(const StepSpec& spec);
// Generated kernels for all of it, and for what is to be done when the product is there.
Lowered lower_joint(const StepSpec& spec);
Lowered lower_rest_of_joint(const StepSpec& spec);
// The moments of a convolution's channels, of its result or of sums and sums of squares, which lie in their place.
enum class MomentsOf { result, sums };
Lowered lower_moments(const StepSpec& spec, MomentsOf what);
// The normalised channels that it reads, in the step's scratch memory.
Lowered lower_normed(const StepSpec& spec);
// A bit per element of `y`, an operand of the step that is a matrix: whether it is above 0. A row is `row_bytes` long;
// the bits of a byte begin with the lowest. They go to the beginning of the step's scratch memory.
Lowered lower_signs(const StepSpec& spec, int y, int64_t row_bytes);

}  // namespace freight::gpu
