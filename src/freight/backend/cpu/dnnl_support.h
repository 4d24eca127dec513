// oneDNN behind the CPU backend's kernels: engine, memory descriptors of our layouts, and a step that executes a
// primitive. Included by .cpp files of this folder only.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <dnnl.hpp>

#include "freight/backend/backend.h"

namespace freight::cpu {

const dnnl::engine& dnnl_engine();
dnnl::stream& dnnl_stream();

dnnl::memory::data_type dnnl_type(DType dtype);
// True where oneDNN multiplies in `dtype` here: f32, and from AVX-512 on bf16; and where by instructions made for it.
bool dnnl_multiplies(DType dtype);
bool dnnl_has_bf16_instructions();
// The descriptor of a tensor in `layout`. Strides of extents of 1 are made canonical: oneDNN compares them.
dnnl::memory::desc dnnl_desc(const Type& type, const Layout& layout);
dnnl::memory::desc dnnl_any(const Type& type);
// A layout for what a primitive asked for: plain strides where the descriptor has them, else a blocked layout.
Layout layout_of(const Type& type, const dnnl::memory::desc& desc);

// Executes one primitive. `arguments` pairs DNNL_ARG_* with the number of the step's operand; the scratchpad is the
// operand behind the last.
class DnnlKernel : public Kernel {
 public:
  struct Argument {
    int id;
    dnnl::memory::desc desc;
    size_t operand;
  };
  DnnlKernel(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, std::string label,
             const std::vector<Argument>& arguments, size_t operands);
  void run(void* const* operands) override;
  std::string name() const override { return label_; }
  size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  dnnl::primitive primitive_;
  std::string label_;
  size_t scratch_bytes_;
  std::vector<dnnl::memory> memories_;
  std::vector<size_t> operands_;
  std::vector<void*> bound_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// A user-mode scratchpad, so that scratch memory lies in the plan's arena.
dnnl::primitive_attr dnnl_attributes();
// "dnnl:jit:avx2"
std::string dnnl_label(const dnnl::primitive_desc_base& desc);
// Adds the residual (unless it is null), relu and minimum to `bytes` of f32, to those of bf16 relu and then perhaps a
// minimum with a number above 0, in place, in parallel. oneDNN's own relu behind a product turns NaN into 0, and its
// sum takes longer than this pass.
void activate(DType dtype, const Epilogue& epilogue, void* values, const void* residual, size_t bytes);
// A primitive, and what an epilogue does to its result, the last operand. A residual is the operand before it, of f32.
class DnnlActivationKernel final : public DnnlKernel {
 public:
  DnnlActivationKernel(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, std::string label,
                       const std::vector<Argument>& arguments, size_t operands, const Epilogue& epilogue, DType dtype)
      : DnnlKernel(primitive, scratchpad, std::move(label), arguments, operands),
        epilogue_(epilogue),
        dtype_(dtype),
        result_(operands - 1),
        bytes_(arguments.back().desc.get_size()) {}
  void run(void* const* operands) override {
    DnnlKernel::run(operands);
    activate(dtype_, epilogue_, operands[result_], epilogue_.residual ? operands[result_ - 1] : nullptr, bytes_);
  }

 private:
  Epilogue epilogue_;
  DType dtype_;
  size_t result_, bytes_;
};
// The step that executes the primitive of a descriptor on `operands` tensors.
template <class Primitive, class Descriptor>
std::unique_ptr<Kernel> dnnl_step(const Descriptor& pd, const std::vector<DnnlKernel::Argument>& arguments,
                                  size_t operands) {
  return std::make_unique<DnnlKernel>(Primitive(pd), pd.scratchpad_desc(), dnnl_label(pd), arguments, operands);
}
// The same with what an epilogue does behind its bias.
template <class Primitive, class Descriptor>
std::unique_ptr<Kernel> dnnl_step(const Descriptor& pd, const std::vector<DnnlKernel::Argument>& arguments,
                                  size_t operands, const Epilogue& epilogue, DType dtype) {
  if (!epilogue.relu && !epilogue.bounded() && !epilogue.residual) return dnnl_step<Primitive>(pd, arguments, operands);
  return std::make_unique<DnnlActivationKernel>(Primitive(pd), pd.scratchpad_desc(), dnnl_label(pd), arguments,
                                                operands, epilogue, dtype);
}

}  // namespace freight::cpu
