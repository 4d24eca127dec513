// Generated kernels for fused patterns with a matmul or convolution (ir/fused_pattern.h): whole steps, and what is done
// beside a product that a library computes. A product's result lies where the step's first one does.
#pragma once
#include "freight/backend/backend.h"
#include "freight/backend/gpu/launch.h"
#include "freight/ir/fused_pattern.h"

namespace freight::gpu {

// The step of a pattern's matmul alone; its operands follow each other as in a step of its own.
StepSpec matmul_alone(const StepSpec& spec);
// Generated kernels for a pattern's whole step; the product must be a matmul.
Lowered lower_pattern(const StepSpec& spec);
// Generated kernels for what is to be done behind a product that lies in the first result; none where that is nothing.
Lowered lower_rest_of_pattern(const StepSpec& spec);
// Makes mean and variance of a convolution's channels: of its result, or of the sums and sums of squares that the
// library has left where mean and variance belong.
enum class MomentsOf { result, sums };
Lowered lower_moments(const StepSpec& spec, MomentsOf what);
// Makes the normalized channels that a convolution or the gradient of a filter reads, in the step's scratch memory.
Lowered lower_norm(const StepSpec& spec);
// Makes a bit per element of the step's mask, which is a matrix: 1 where it is above 0. A row is `row_bytes` long; the
// bits of a byte begin with the lowest. They go to the beginning of the step's scratch memory.
Lowered lower_mask_bits(const StepSpec& spec, int64_t row_bytes);

}  // namespace freight::gpu
