// See gpu_backend.h.
#include "freight/backend/gpu/gpu_backend.h"

#include "freight/backend/gpu/attention.h"
#include "freight/backend/gpu/lower.h"

namespace freight::gpu {

uint32_t alignment_of(const Operand& operand) {
  const auto bytes = static_cast<uint64_t>(operand.offset) * size_of(operand.type.dtype) | kAlignment;
  return static_cast<uint32_t>(bytes & (~bytes + 1));  // its lowest bit
}

bool GpuBackend::has_kernel(const Graph& graph, const Node& node) const {
  return info(node.op).kind != OpKind::composite || has_attention(graph, node);
}

// Matmuls, and the fused nodes that begin with one, read any strides; pads, concats and attention, too. The rest wants
// row-major operands.
LayoutPlan GpuBackend::layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given) const {
  LayoutPlan plan = Backend::layouts(graph, node, given);
  if (node.op == Op::matmul || node.op == Op::fused) {
    plan.in[0] = given[0];
    plan.in[1] = given[1];
  } else if (node.op == Op::pad || node.op == Op::concat || info(node.op).kind == OpKind::composite) {
    plan.in = given;
  }
  return plan;
}

bool GpuBackend::in_place(const Graph& graph, const Node& node, int input, int output) const {
  return graph.type(node.in(input)) == graph.type(node.out(output)) && region_in_place(graph, node);
}

}  // namespace freight::gpu
