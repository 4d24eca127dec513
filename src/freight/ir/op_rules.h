// Facts of single ops that passes and the tracer read from the op table, so that they name no op; the columns
// are explained in op.h.
#pragma once
#include <vector>

#include "freight/ir/builder.h"

namespace freight {

struct ScaleAndShift {
  Ex scale, shift;  // (C)
};

// True if a system's matrix is factorized anyway, as its gradient does: then it is solved by those factors.
bool has_factors(const Graph& graph, const Node& node);

namespace transposes {
bool matmul(Attrs& attrs, size_t operand);
bool solve_triangular(Attrs& attrs, size_t operand);
}  // namespace transposes

namespace per_channel {
ScaleAndShift batch_norm_inference(Builder& b, const Node& node, const std::vector<Value>& in);
}  // namespace per_channel

// The elements of `yes` where the condition (bool[]) holds, else those of `no`.
Value choose(Builder& b, Value condition, Value yes, Value no);

namespace only_if {
Value sgd_rows(Builder& b, Value update, Value condition);
}  // namespace only_if

}  // namespace freight
