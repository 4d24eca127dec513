// Data movement: copy, and concat and pad, made of copies into parts of the result.
#include <algorithm>
#include <functional>

#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/copy.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// One or more copies into one result, after an optional fill.
class CopyKernel : public Kernel {
 public:
  struct PlacedCopy {
    StridedCopy copy;
    size_t input;
    size_t offset;  // bytes into the result
  };
  CopyKernel(std::vector<PlacedCopy> parts, size_t inputs, std::string label)
      : parts_(std::move(parts)), inputs_(inputs), label_(std::move(label)) {
    for (const PlacedCopy& p : parts_) tasks_ = std::max(tasks_, p.copy.tasks());
  }
  void run(void* const* operands) override {
    if (fill_) fill_(operands[inputs_]);
    // Parts that meet in a line of memory are copied together.
    parallel_for(tasks_, [&](int64_t i) {
      for (const PlacedCopy& p : parts_)
        p.copy.run(operands[p.input], static_cast<char*>(operands[inputs_]) + p.offset, i, tasks_);
    });
  }
  std::string name() const override { return label_; }
  void fill_first(const Type& type, double value) {
    dispatch(type.dtype, [&]<class T>(T) {
      fill_ = [n = type.numel(), v = element_cast<T>(value)](void* dst) {
        constexpr int64_t kChunk = 65536;
        parallel_for((n + kChunk - 1) / kChunk, [&](int64_t i) {
          std::fill_n(static_cast<T*>(dst) + i * kChunk, std::min(kChunk, n - i * kChunk), v);
        });
      };
    });
  }

 private:
  std::vector<PlacedCopy> parts_;
  size_t inputs_;
  std::string label_;
  int64_t tasks_ = 1;
  std::function<void(void*)> fill_;
};

StridedCopy copying(const Operand& in, const Strides& to) {
  return {in.type.shape, size_of(in.type.dtype), in.layout.strides, to};
}

}  // namespace

std::unique_ptr<Kernel> make_copy(const StepSpec& spec) {
  if (spec.out[0].type.numel() == 0) return nullptr;
  std::vector<CopyKernel::PlacedCopy> parts{{copying(spec.in[0], spec.out[0].layout.strides), 0, 0}};
  return std::make_unique<CopyKernel>(std::move(parts), 1, "copy");
}

// Channels-last when the first operand is and could not be row-major as well: copies of elements read any strides.
// Steps of a sequence (N, 1, C) are both, and their concatenation must not lie across them.
LayoutPlan layouts_of_first(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                            const FrozenInputs&) {
  LayoutPlan plan;
  const Shape& first = graph.type(node.in(0)).shape;
  const bool channels_last = first.rank() >= 3 && same_layout(first, given[0], Layout::channels_last(first)) &&
                             !same_layout(first, given[0], Layout::row_major(first));
  const auto layout = [&](const Shape& s) { return channels_last ? Layout::channels_last(s) : Layout::row_major(s); };
  plan.in = given;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].blocked) plan.in[i] = layout(graph.type(node.inputs[i]).shape);
  }
  plan.out.push_back(layout(graph.type(node.out()).shape));
  return plan;
}

std::unique_ptr<Kernel> make_concat(const StepSpec& spec) {
  if (spec.out[0].type.numel() == 0) return nullptr;
  const int axis = static_cast<int>(attrs<AxisAttrs>(*spec.node).axis);
  const Operand& out = spec.out[0];
  std::vector<CopyKernel::PlacedCopy> parts;
  size_t at = 0;
  for (size_t i = 0; i < spec.in.size(); ++i) {
    const Operand& in = spec.in[i];
    if (in.type.numel() > 0) {
      parts.push_back({copying(in, out.layout.strides), i, at});
    }
    at += static_cast<size_t>(in.type.shape[axis] * out.layout.strides[axis]) * size_of(in.type.dtype);
  }
  return std::make_unique<CopyKernel>(std::move(parts), spec.in.size(), "concat");
}

std::unique_ptr<Kernel> make_pad(const StepSpec& spec) {
  const auto& a = attrs<PadAttrs>(*spec.node);
  const Operand &in = spec.in[0], &out = spec.out[0];
  Strides spread = out.layout.strides;
  int64_t offset = 0;
  for (int i = 0; i < spread.rank(); ++i) {
    offset += a.low[i] * spread[i];
    spread[i] *= a.interior[i] + 1;
  }
  std::vector<CopyKernel::PlacedCopy> parts;
  if (in.type.numel() > 0) {
    parts.push_back({copying(in, spread), 0, static_cast<size_t>(offset) * size_of(in.type.dtype)});
  }
  auto kernel = std::make_unique<CopyKernel>(std::move(parts), 1, "pad");
  kernel->fill_first(out.type, a.value);
  return kernel;
}

}  // namespace freight::cpu
