// All GPU drivers answer these alike: one way of lowering, the same layouts, fusions and reuse of memory.
#pragma once
#include "freight/backend/choices.h"

namespace freight::gpu {

constexpr uint32_t kAlignment = 256;  // of buffers, in bytes
constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The bytes that the address of an operand's first element is a multiple of: at most those of all buffers.
uint32_t alignment_of(const Operand& operand);

class GpuBackend : public Backend {
 public:
  bool has_kernel(const Graph&, const Node& node) const override;
  bool fuses() const override { return true; }
  bool has_epilogue(const Graph&, const Node&, const Epilogue& e) const override { return !e.bounded() && !e.silu; }
  bool aliases_views() const override { return true; }
  // Libraries and vector loads of all drivers ask for it.
  size_t alignment() const override { return kAlignment; }
  LayoutPlan layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given) const override;
  bool in_place(const Graph& graph, const Node& node, int input, int output) const override;

 protected:
  // The one that is fastest on zeros. They compute the same. `step` names it, with device and libraries.
  std::unique_ptr<Kernel> fastest(const std::string& step, const StepSpec& spec,
                                  std::vector<std::unique_ptr<Kernel>> kernels);
};

}  // namespace freight::gpu
