// See gpu_backend.h.
#include "freight/backend/gpu/gpu_backend.h"

#include <algorithm>
#include <optional>

#include "freight/backend/gpu/lower.h"
#include "freight/base/device_memory.h"
#include "freight/base/strings.h"

namespace freight::gpu {

namespace {

constexpr double kLongRun = 5e-4;               // seconds
constexpr const char* kRevision = "kernels 2";  // raise it when the generated kernels change in speed

}  // namespace

std::unique_ptr<Kernel> GpuBackend::fastest(const std::string& step, const StepSpec& spec,
                                            std::vector<std::unique_ptr<Kernel>> kernels) {
  static Choices choices("gpu-choices.txt", kLongRun);
  const auto device = memory();
  size_t scratch = 0;
  for (const auto& k : kernels) scratch = std::max(scratch, k->scratch_bytes());
  std::optional<ZeroOperands> zeros;  // not needed for what is remembered
  std::vector<Choices::Candidate> candidates;
  for (const auto& k : kernels) {
    candidates.push_back({k->name(), [&] {
                            if (!zeros) zeros.emplace(spec, scratch, device);
                            return [&](int times) {
                              for (int i = 0; i < times; ++i) k->run(zeros->addresses());
                              device->wait();
                            };
                          }});
  }
  return std::move(kernels[choices.fastest(cat(step, ", ", kRevision), candidates, spec.rule)]);
}

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
  } else if (node.op == Op::pad || node.op == Op::concat || has_attention(graph, node)) {
    plan.in = given;
  }
  return plan;
}

bool GpuBackend::in_place(const Graph& graph, const Node& node, int input, int output) const {
  return graph.type(node.in(input)) == graph.type(node.out(output)) && region_in_place(graph, node, input);
}

}  // namespace freight::gpu
