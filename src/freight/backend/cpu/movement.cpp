// Data movement: concat and pad, made of copies into parts of the result. A copy is a tile program of one load and one
// store.
#include <algorithm>
#include <cstring>

#include "freight/backend/cpu/kernels/tile.h"
#include "freight/backend/cpu/steps.h"
#include "freight/base/error.h"

namespace freight::cpu {

namespace {

// Copies `shape` elements from (operand src, strides) to (operand dst, strides), walking in the order of the result.
std::unique_ptr<TileKernel> copy_tiles(const Shape& shape, DType dtype, const Strides& from, const Strides& to,
                                       bool stream) {
  std::vector<int> order;
  for (int i = 0; i < shape.rank(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (shape[a] == 1 || shape[b] == 1) return false;
    return to[a] > to[b];
  });
  TileProgram p;
  Strides src, dst;
  for (int i : order) {
    p.space.push_back(shape[i]);
    src.push_back(from[i]);
    dst.push_back(to[i]);
  }
  const int value = p.input(0, dtype, src);
  p.stores.push_back({.value = value, .dtype = dtype, .operand = 1, .strides = dst, .stream = stream});
  return TileKernel::compile(p);
}

// One or more copies into one result, after an optional fill.
class CopyKernel : public Kernel {
 public:
  struct Part {
    std::unique_ptr<TileKernel> tiles;
    size_t input;
    size_t offset;  // bytes into the result
  };
  CopyKernel(std::vector<Part> parts, size_t inputs, std::string label)
      : parts_(std::move(parts)), inputs_(inputs), label_(std::move(label)) {
    for (const Part& p : parts_) scratch_ = std::max(scratch_, p.tiles->scratch_bytes());
  }
  void run(void* const* operands) override {
    if (fill_) fill_(*this, operands[inputs_]);
    for (const Part& p : parts_) {
      void* pair[] = {operands[p.input], static_cast<char*>(operands[inputs_]) + p.offset};
      p.tiles->run(pair, operands[inputs_ + 1]);
    }
  }
  std::string name() const override { return label_; }
  size_t scratch_bytes() const override { return scratch_; }
  void fill_first(const Type& type, double value) {
    elements_ = static_cast<size_t>(type.numel());
    value_ = value;
    dispatch(type.dtype, [&]<class T>(T) {
      fill_ = [](const CopyKernel& k, void* dst) {
        std::fill_n(static_cast<T*>(dst), k.elements_, element_cast<T>(k.value_));
      };
    });
  }

 private:
  std::vector<Part> parts_;
  size_t inputs_;
  std::string label_;
  size_t scratch_ = 0, elements_ = 0;
  double value_ = 0;
  void (*fill_)(const CopyKernel&, void*) = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> make_concat(const StepSpec& spec) {
  if (spec.node->op != Op::concat || spec.out[0].type.numel() == 0) return nullptr;
  const int axis = static_cast<int>(attrs<AxisAttrs>(*spec.node).axis);
  const Operand& out = spec.out[0];
  std::vector<CopyKernel::Part> parts;
  size_t at = 0;
  for (size_t i = 0; i < spec.in.size(); ++i) {
    const Operand& in = spec.in[i];
    if (in.type.numel() > 0) {
      parts.push_back({copy_tiles(in.type.shape, in.type.dtype, in.layout.strides, out.layout.strides, false), i, at});
    }
    at += static_cast<size_t>(in.type.shape[axis] * out.layout.strides[axis]) * size_of(in.type.dtype);
  }
  return std::make_unique<CopyKernel>(std::move(parts), spec.in.size(), "concat");
}

std::unique_ptr<Kernel> make_pad(const StepSpec& spec) {
  if (spec.node->op != Op::pad) return nullptr;
  const auto& a = attrs<PadAttrs>(*spec.node);
  const Operand &in = spec.in[0], &out = spec.out[0];
  Strides spread = out.layout.strides;
  int64_t offset = 0;
  for (int i = 0; i < spread.rank(); ++i) {
    offset += a.low[i] * spread[i];
    spread[i] *= a.interior[i] + 1;
  }
  std::vector<CopyKernel::Part> parts;
  if (in.type.numel() > 0) {
    parts.push_back({copy_tiles(in.type.shape, in.type.dtype, in.layout.strides, spread, false), 0,
                     static_cast<size_t>(offset) * size_of(in.type.dtype)});
  }
  auto kernel = std::make_unique<CopyKernel>(std::move(parts), 1, "pad");
  kernel->fill_first(out.type, a.value);
  return kernel;
}

}  // namespace freight::cpu
