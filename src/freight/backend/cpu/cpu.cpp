// The CPU backend's face: what planning asks of a node is answered by the row of its family of kernels (families.h).
// All that no family takes (f64 convolutions, rare cases) runs on the reference backend's loops, so nothing is "not
// implemented".
#include "freight/backend/cpu/cpu.h"
#include "freight/backend/cpu/kernels/scratch.h"

#include <algorithm>
#include <iterator>

#include "freight/backend/cpu/dnnl_support.h"
#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/ref/ref.h"
#include "freight/base/cpu_info.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight {

namespace cpu {
namespace {

// The first row that takes the node; null where none does.
const KernelFamily* family_of(const Graph& graph, const Node& node) {
  const auto row = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                [&](const KernelFamily& f) { return f.takes_node(graph, node); });
  return row == std::end(kFamilies) ? nullptr : row;
}

// Reports an error of oneDNN as an error of the op, with the types that were requested.
template <class F>
auto asking_dnnl(const Graph& graph, const Node& node, const F& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    std::string types;
    for (const Type& t : input_types(graph, node)) types += cat(types.empty() ? "" : ", ", t);
    types += " ->";
    for (const Type& t : output_types(graph, node)) types += cat(" ", t);
    const ErrorKind kind = e.status == dnnl_out_of_memory ? ErrorKind::capacity : ErrorKind::device;
    throw Error(kind, freight::name(node.op), cat("oneDNN refuses ", types, ": ", e.what()), node.location());
  }
}

class CpuBackend final : public Backend {
 public:
  CpuBackend() : ref_(make_ref_backend()) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override { return cat(cpu_info().model, ", ", thread_count(), " threads"); }
  std::string why_unsupported(DType dtype) const override {
    if (dtype != DType::bf16) return Backend::why_unsupported(dtype);
    if (dnnl_has_bf16_instructions()) return {};
    if (env::get("FREIGHT_BF16") == "1" && dnnl_multiplies(dtype)) return {};
    return "the CPU has neither avx512_bf16 nor AMX";
  }
  size_t cache_bytes() const override {
    static const auto bytes = static_cast<size_t>(cpu_info().l3_bytes);
    return bytes;
  }
  bool has_kernel(const Graph& graph, const Node& node) const override { return family_of(graph, node) != nullptr; }
  bool narrows(const Graph&, const Node&, DType dtype) const override { return dtype == DType::bf16 && bf16_table(); }
  bool keeps_f32(const Graph& graph, const Node& node, DType dtype) const override {
    if (node.op == Op::matmul) return matmul_keeps_f32(graph, node, dtype);
    return info(node.op).kind == OpKind::convolve && conv_keeps_f32(graph, node, dtype);
  }
  bool fuses() const override { return true; }
  bool decides_by_extents(const Node& node) const override { return info(node.op).depends_on_shape; }
  bool aliases_views() const override { return true; }
  bool has_epilogue(const Graph& graph, const Node& node, const Epilogue& epilogue) const override {
    const KernelFamily* f = family_of(graph, node);
    return f && f->epilogue && f->epilogue(graph, node, epilogue);
  }
  Graph fuse_patterns(const Graph& graph) const override { return fuse_conv_chains(graph); }
  LayoutPlan layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given) const override {
    return layouts_of_frozen(graph, node, given, {});
  }
  LayoutPlan layouts_of_frozen(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                               const FrozenInputs& frozen) const override {
    const KernelFamily* f = family_of(graph, node);
    if (!f || !f->layouts) return Backend::layouts(graph, node, given);
    return asking_dnnl(graph, node, [&] { return f->layouts(graph, node, given, frozen); });
  }
  bool in_place(const Graph& graph, const Node& node, int input, int output) const override {
    if (!(graph.type(node.in(input)) == graph.type(node.out(output)))) return false;
    const KernelFamily* f = family_of(graph, node);
    return f && f->in_place && f->in_place(graph, node, input, output);
  }

  size_t thread_bytes() const override { return reserved_thread_scratch(); }
  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    for (const KernelFamily& f : kFamilies) {
      if (!f.takes_node(*spec.graph, *spec.node)) continue;
      if (auto kernel = asking_dnnl(*spec.graph, *spec.node, [&] { return f.make(spec); })) return kernel;
    }
    return ref_->prepare(spec);
  }

 private:
  std::unique_ptr<Backend> ref_;
};

}  // namespace

bool takes_sequence(const Graph& graph, const Node& node) {
  const DType dtype = graph.type(node.out()).dtype;
  if (dtype != DType::f32 && !(dtype == DType::bf16 && bf16_table())) return false;
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](Value v) { return graph.type(v).numel() > 0; });
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<cpu::CpuBackend>(); }

}  // namespace freight
