// Inside the CPU backend: one function per family of ops makes the prepared kernel of a plan step, or returns null
// where the family has no kernel for that case (the reference backend then runs it). cpu.cpp asks them in turn.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "freight/backend/backend.h"

namespace freight::cpu {

// Pointwise ops, reductions and fused regions, in the tile interpreter (lowering.cpp).
std::unique_ptr<Kernel> make_tile_step(const StepSpec& spec);

// matmul with transposes, batch axes, bias and relu (f32, bf16 by oneDNN).
std::unique_ptr<Kernel> make_matmul(const StepSpec& spec);
LayoutPlan matmul_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                          const FrozenInputs& frozen);

// conv, conv_grad_input, conv_grad_weight (f32, bf16), by oneDNN; activations channels-last, weights as the primitive
// wants them.
std::unique_ptr<Kernel> make_conv(const StepSpec& spec);
LayoutPlan conv_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                        const FrozenInputs& frozen);
// Whether the kernel of this convolution adds a residual.
bool conv_adds_residual(const Graph& graph, const Node& node);

// Frozen weights for kernels of our own: (N, K, 1...) or (K, N) as panels of columns N, (O, C, 3, 3) or (O, C, 5, 5) as
// Winograd's filters; and the copy into such a layout.
Layout panel_layout(const Shape& weight, int column_axis);
Layout winograd_layout(const Shape& weight);
bool is_own_packing(const Layout& layout);
std::unique_ptr<Kernel> make_packing(const StepSpec& spec);

// copy to and from packed weights; copy between plain layouts, concat and pad as strided copies.
std::unique_ptr<Kernel> make_reorder(const StepSpec& spec);
std::unique_ptr<Kernel> make_copy(const StepSpec& spec);
std::unique_ptr<Kernel> make_concat(const StepSpec& spec);
std::unique_ptr<Kernel> make_pad(const StepSpec& spec);

// Pooling of channels-last f32 and bf16 tensors; gather, scatter, argmax and argmin on row-major tensors.
std::unique_ptr<Kernel> make_pool(const StepSpec& spec);
std::unique_ptr<Kernel> make_index(const StepSpec& spec);

// attention and its gradient (f32, bf16), as whole kernels.
std::unique_ptr<Kernel> make_attention(const StepSpec& spec);
LayoutPlan attention_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given);

// The steps of LSTM and GRU layers and their gradient (f32, bf16).
std::unique_ptr<Kernel> make_recurrent(const StepSpec& spec);

// What CpuBackend answers to layouts (frozen: nothing) and layouts_of_frozen.
LayoutPlan cpu_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                       const FrozenInputs& frozen);
inline bool weight_frozen(const FrozenInputs& frozen) { return frozen.inputs.size() > 1 && frozen.inputs[1]; }

// A product or convolution of kernels/ as the kernel of a step. Operands: x, w, [bias], [residual], y; or dy, w, dx; or
// x, dy, dw. Numbers are f32, or the bits of bf16.
template <class Multiply, class T>
class OwnKernel final : public Kernel {
 public:
  OwnKernel(Multiply multiply, const char* name, const Epilogue& e)
      : multiply_(std::move(multiply)), name_(name), bias_(e.bias), residual_(e.residual) {}
  void run(void* const* o) override {
    int next = 2;
    const auto in = [&](int i) { return static_cast<const T*>(o[i]); };
    const T* bias = bias_ ? in(next++) : nullptr;
    const T* residual = residual_ ? in(next++) : nullptr;
    auto* y = static_cast<T*>(o[next]);
    if constexpr (requires { multiply_.run(bias, bias, y, o[0]); }) {
      multiply_.run(in(0), in(1), y, o[next + 1]);
    } else if constexpr (requires { multiply_.run(bias, bias, bias, y, o[0]); }) {
      multiply_.run(in(0), in(1), bias, y, o[next + 1]);
    } else if constexpr (requires { multiply_.run(bias, bias, y, bias, residual, o[0]); }) {
      multiply_.run(in(0), in(1), y, bias, residual, o[next + 1]);
    } else {
      multiply_.run(in(0), in(1), bias, residual, y, o[next + 1]);
    }
  }
  std::string name() const override { return name_; }
  size_t scratch_bytes() const override { return multiply_.scratch_bytes(); }

 private:
  Multiply multiply_;
  const char* name_;
  bool bias_, residual_;
};

}  // namespace freight::cpu
