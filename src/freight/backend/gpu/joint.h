// A matmul and what is done beside it in one step: a fused node whose body begins with the matmul (join.cpp).
// Its operands are A, B and, where the result is masked, y; the matmul's result lies where the step's first one does.
#pragma once
#include <functional>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/launch.h"

namespace freight::gpu {

// Whether a fused node with this body is one step.
using TakesJoint = std::function<bool(const Graph& body)>;
// The graph with matmuls and the regions beside them made fused nodes that begin with the matmul, where `takes` allows.
// What only the parts needed may be left over.
Graph join(const Graph& graph, const TakesJoint& takes);

struct Joint {
  StepSpec product;     // the matmul alone; its operands follow each other as in a step of its own
  bool masked = false;  // the result is 0 where y is not above 0
  bool sums = false;    // the second result are sums over rows: of the masked result, or
  int summed = -1;      // of this operand of the matmul
};

// What a fused node's step consists of; it must begin with a matmul.
Joint joint(const StepSpec& spec);
// Generated kernels for all of it, and for what is to be done when the matmul's result is there.
Lowered lower_joint(const StepSpec& spec);
Lowered lower_rest_of_joint(const StepSpec& spec);
// A bit per element of `y`, an operand of the step that is a matrix: whether it is above 0. A row is `row_bytes` long;
// the bits of a byte begin with the lowest. They go to the beginning of the step's scratch memory.
Lowered lower_signs(const StepSpec& spec, int y, int64_t row_bytes);

}  // namespace freight::gpu
