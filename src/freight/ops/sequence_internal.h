// The functions of sequence.h and the layers that use their ops share this.
#pragma once
#include "freight/trace/tensor.h"

namespace freight::ops {

// Lengths in i32 for the ops of sequences; those of wider types, which may not fit, become numbers from 0 to `most`.
// `op` names who refuses other types.
Tensor counts_within(const Tensor& lengths, int64_t most, const char* op);

}  // namespace freight::ops
