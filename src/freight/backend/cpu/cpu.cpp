// The CPU backend's face: which layouts each op wants and which family of kernels prepares it. What no family takes
// (f64 contractions, rare cases) runs on the reference backend's loops, so nothing is "not implemented".
#include "freight/backend/cpu/cpu.h"

#include "freight/backend/cpu/dnnl_support.h"
#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/steps.h"
#include "freight/backend/ref/ref.h"
#include "freight/base/cpu_info.h"
#include "freight/base/env.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight {

namespace cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend() : ref_(make_ref_backend()) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override { return cat(cpu_info().model, ", ", thread_count(), " threads"); }
  std::string lacks(DType dtype) const override {
    if (dtype != DType::bf16) return Backend::lacks(dtype);
    if (dnnl_has_bf16_instructions()) return {};
    if (env::get("FREIGHT_BF16") == "1" && dnnl_multiplies(dtype)) return {};
    return "the processor has neither avx512_bf16 nor AMX";
  }
  bool has_kernel(const Graph& graph, const Node& node) const override {
    const bool sequence = node.op == Op::attention || node.op == Op::attention_grad || node.op == Op::recurrent ||
                          node.op == Op::recurrent_grad;
    const DType dtype = graph.type(node.out()).dtype;
    for (Value v : node.outputs) {
      if (graph.type(v).numel() == 0) return false;
    }
    if (sequence && dtype == DType::bf16) return bf16_table();
    return dtype == DType::f32 && (sequence || node.op == Op::sgd_rows);
  }
  bool narrows(const Graph&, const Node&, DType dtype) const override { return dtype == DType::bf16 && bf16_table(); }
  bool fuses() const override { return true; }
  bool aliases_views() const override { return true; }
  bool has_epilogue(const Graph& graph, const Node& node, const Epilogue& epilogue) const override {
    return dnnl_multiplies(graph.type(node.out()).dtype) &&
           (!epilogue.residual || (node.op == Op::conv && conv_adds_residual(graph, node)));
  }
  LayoutPlan layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given) const override {
    return cpu_layouts(graph, node, given, {});
  }
  LayoutPlan layouts_of_frozen(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                               const FrozenInputs& frozen) const override {
    return cpu_layouts(graph, node, given, frozen);
  }

  // Pointwise results of a region without reductions that are read inside: one program, or the pointwise one runs last.
  bool in_place(const Graph& graph, const Node& node, int input, int output) const override {
    if (!(graph.type(node.in(input)) == graph.type(node.out(output)))) return false;
    if (node.op == Op::recurrent) return input == 0 && output == 2;       // x and the gates
    if (node.op == Op::recurrent_grad) return input == 3 && output == 0;  // the gates and dx
    if (node.op != Op::fused) return is_pointwise(node.op) || (node.op == Op::sgd_rows && input == 0);
    const Graph& body = *attrs<FusedAttrs>(node).body;
    for (const Node& n : body.nodes) {
      for (Value v : n.inputs) {
        if (is_reduce(body.def(v).op)) return false;
      }
    }
    return !is_reduce(body.def(body.outputs[static_cast<size_t>(output)]).op);
  }

  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    for (const auto make : {make_packing, make_reorder, make_copy, make_tile_step, make_matmul, make_conv, make_pool,
                            make_index, make_concat, make_pad, make_attention, make_recurrent}) {
      if (auto kernel = make(spec)) return kernel;
    }
    return ref_->prepare(spec);
  }

 private:
  std::unique_ptr<Backend> ref_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<cpu::CpuBackend>(); }

}  // namespace freight
