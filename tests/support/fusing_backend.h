// A backend for tests of passes and plans: it computes with the reference kernels, but fuses regions and epilogues,
// aliases views, overwrites dying operands wherever types agree and wants channels-last activations, as a fast backend
// does.
#pragma once
#include <memory>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/fused_patterns.h"

namespace freight::test {

class FusingBackend : public Backend {
 public:
  std::string name() const override { return "fusing"; }
  std::string description() const override { return "reference kernels behind all optimisations"; }
  bool has_kernel(const Graph& graph, const Node& node) const override {
    return backend("ref").has_kernel(graph, node);
  }
  bool fuses() const override { return true; }
  bool has_epilogue(const Graph&, const Node&, const Epilogue&) const override { return true; }
  Graph fuse_patterns(const Graph& graph) const override {
    return gpu::fuse_patterns(graph, [](const Node&) { return true; });
  }
  bool aliases_views() const override { return true; }
  LayoutPlan layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given) const override {
    LayoutPlan plan = Backend::layouts(graph, node, given);
    const OpKind kind = info(node.op).kind;
    const auto want = [&](Layout& layout, Value v) {
      const Shape& shape = graph.type(v).shape;
      if (shape.rank() >= 3) layout = Layout::channels_last(shape);
    };
    const bool weight_out = node.op == Op::conv_grad_weight;
    if (kind == OpKind::convolve || kind == OpKind::pool) {
      for (size_t i = 0; i < plan.in.size(); ++i) {
        const bool weight = kind == OpKind::convolve && !weight_out && i == 1;
        if (!weight) want(plan.in[i], node.inputs[i]);
      }
      for (size_t i = 0; i < plan.out.size(); ++i) {
        if (!weight_out) want(plan.out[i], node.outputs[i]);
      }
    }
    return plan;
  }
  // The reference kernels read all operands before they write.
  bool in_place(const Graph& graph, const Node& node, int input, int output) const override {
    return graph.type(node.in(input)) == graph.type(node.out(output));
  }
  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override { return backend("ref").prepare(spec); }
};

// The name of the one FusingBackend of this program.
inline const char* fusing_backend() {
  static const bool registered = [] {
    register_backend(std::make_unique<FusingBackend>());
    return true;
  }();
  return registered ? "fusing" : "";
}

}  // namespace freight::test
