// The norm of gradients whose squares f32 may not hold: a gradient of 1e30 has a norm, and its square is infinite.
#pragma once
#include <vector>

#include "freight/trace/tensor.h"

namespace freight::optim {

// The gradients are multiplied by `down` before they are squared, and `up` is its inverse. Both are powers of two, so
// that neither rounds, and 1 for gradients of ordinary size.
struct ScaledNorm {
  Tensor norm;  // of the gradients times `down`, f32[]
  Tensor down, up;
};
ScaledNorm scaled_norm(const std::vector<Tensor>& gradients);

}  // namespace freight::optim
