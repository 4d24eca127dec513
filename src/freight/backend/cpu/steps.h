// Inside the CPU backend: one function per family of ops makes the prepared kernel of a plan step, or returns null
// where the family has no kernel for that case (the reference backend then runs it). cpu.cpp asks them in turn.
#pragma once
#include <memory>
#include <vector>

#include "freight/backend/backend.h"

namespace freight::cpu {

// Pointwise ops, reductions and fused regions, in the tile interpreter (lowering.cpp).
std::unique_ptr<Kernel> make_tile_step(const StepSpec& spec);

// A single op as the body of a region, so that it is lowered like one.
std::shared_ptr<const Graph> body_of(const StepSpec& spec);

// matmul with transposes, batch axes, bias and relu (f32, bf16 by oneDNN).
std::unique_ptr<Kernel> make_matmul(const StepSpec& spec);
LayoutPlan matmul_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given);

// conv, conv_grad_input, conv_grad_weight (f32, bf16), by oneDNN; activations channels-last, weights as the primitive
// wants them.
std::unique_ptr<Kernel> make_conv(const StepSpec& spec);
LayoutPlan conv_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given);

// copy to and from packed weights (between plain layouts it is a tile program); concat and pad as strided copies.
std::unique_ptr<Kernel> make_reorder(const StepSpec& spec);
std::unique_ptr<Kernel> make_concat(const StepSpec& spec);
std::unique_ptr<Kernel> make_pad(const StepSpec& spec);

// Pooling of channels-last f32 and bf16 tensors; gather, scatter, argmax and argmin on row-major tensors.
std::unique_ptr<Kernel> make_pool(const StepSpec& spec);
std::unique_ptr<Kernel> make_index(const StepSpec& spec);

// attention and its gradient (f32), as whole kernels.
std::unique_ptr<Kernel> make_attention(const StepSpec& spec);
LayoutPlan attention_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given);

// What CpuBackend::layouts answers.
LayoutPlan cpu_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given);

}  // namespace freight::cpu
