// Several families of kernels (families.h lists them) share this: formats of frozen weights, and a product or
// convolution of kernels/ as the kernel of a step.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "freight/backend/backend.h"

namespace freight::cpu {

// Frozen weights for kernels of our own: (N, K, 1...) or (K, N), in f32 or bf16, as panels of columns N, (O, C, 3, 3)
// or (O, C, 5, 5) in f32 as Winograd's filters.
Layout panel_layout(const Type& weight, int column_axis);
Layout winograd_layout(const Shape& weight);
bool is_own_packing(const Layout& layout);
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
