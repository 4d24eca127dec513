// From a step of a plan to launches of generated kernels: one function per family of ops. Every primitive op of the
// table has a lowering, but for eigenvalues and singular values. Letters: N batch, C channels, O output channels, G
// groups, H W image, M N K of a matmul.
#pragma once
#include "freight/backend/backend.h"
#include "freight/backend/gpu/launch.h"

namespace freight::gpu {

// Any step; asks the families below. Throws Error(device) for an op that none takes.
Lowered lower(const StepSpec& spec);
// The refusal of an op that has no lowering.
[[noreturn]] void no_kernel(Op op);

// Pointwise ops, reductions, copies between layouts and fused regions.
Lowered lower_region(const StepSpec& spec);
// True if a fused region may write a result over an operand of equal type: one kernel, whose work-items read of it no
// more than the element that they write.
bool region_in_place(const Graph& graph, const Node& node, int input);

// matmul with any strides; conv and its gradients as implicit matmuls.
Lowered lower_matmul(const StepSpec& spec);
// The same, the product subtracted from the third operand, which may lie where the result does.
Lowered lower_subtracted_matmul(const StepSpec& spec);
// Lowers what the epilogue of a matmul (or the rest of its pattern, pattern_kernels.h), or of a convolution that is
// channels last, adds to its dense result, for drivers whose library computes without one; no launch where it has none.
Lowered lower_epilogue(const StepSpec& spec);
Lowered lower_conv(const StepSpec& spec);
Lowered lower_pool(const StepSpec& spec);
// gather, scatter, argmax, argmin and max_pool_grad.
Lowered lower_index(const StepSpec& spec);
Lowered lower_pad(const StepSpec& spec);
Lowered lower_concat(const StepSpec& spec);

// lu_factor, cholesky, qr and solve_triangular; which of linear algebra's ops these are. Matrices of up to
// `local_bytes` are factorized in local memory, and whether those of a step are (linalg_kernels.h says what devices
// have).
Lowered lower_factorization(const StepSpec& spec, int64_t local_bytes);
bool factorizes_in_local_memory(const StepSpec& spec, int64_t local_bytes);
bool has_factorization(Op op);

// Attention and its gradient as kernels of their own, which never hold the matrix of all weights; where there are such
// for a node, whose rows must fit a work-item.
Lowered lower_attention(const StepSpec& spec);
bool has_attention(const Graph& graph, const Node& node);

}  // namespace freight::gpu
