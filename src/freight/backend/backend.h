// A device driver must provide this: how it wants tensors laid out, which composites and fusions it has kernels for,
// and a prepared kernel per plan step. Backends see ir and plans, never Tensors. Registered by name in registry.cpp.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/ir/graph.h"

namespace freight {

class ChoiceRule;
class DeviceMemory;

// A library's own format, of weights or of what it keeps for a gradient; `descriptor` has its meaning for one backend.
// Equal descriptors are equal formats.
struct BlockedLayout {
  std::string name;  // for listings: "Acdb16a"
  size_t bytes = 0;
  std::vector<uint8_t> descriptor;
};

// How a value lies in memory: strides in elements (0 = broadcast), or a blocked format.
struct Layout {
  Strides strides;
  std::shared_ptr<const BlockedLayout> blocked;

  static Layout row_major(const Shape& shape) { return {contiguous_strides(shape), nullptr}; }
  static Layout channels_last(const Shape& shape) { return {channels_last_strides(shape), nullptr}; }
  bool operator==(const Layout& other) const;
};
// True when the two layouts address the same memory for all elements of `shape` (strides of extents of 1 do not count).
bool same_layout(const Shape& shape, const Layout& a, const Layout& b);
// Bytes from the first to the last element, inclusive: the buffer that a dense value needs.
size_t layout_bytes(const Type& type, const Layout& layout);
// Every element of the buffer is used exactly once.
bool is_dense(const Shape& shape, const Layout& layout);
// The axes from slowest to fastest by stride. Those of extent 1 have no place of their own: the first axis comes first,
// others before the axis that follows them in the shape.
std::vector<int> memory_order(const Shape& shape, const Strides& strides);
std::string to_string(const Layout& layout);

// One operand of a step: a typed tensor with its layout. The address is bound later, once.
struct Operand {
  Type type;
  Layout layout;
  int64_t offset = 0;  // elements from the beginning of its buffer
};

// The axes before the last two as one: elements from one matrix to the next, 0 where there is but one; false where no
// single stride walks them.
bool batch_stride(const Operand& operand, int64_t& stride);

struct StepSpec {
  const Graph* graph = nullptr;  // the planned graph; valid during prepare only
  const Node* node = nullptr;
  std::vector<Operand> in, out;
  bool deterministic = false;   // no choice by measurement
  bool stream_outputs = false;  // the outputs are larger than what the caches keep: non-temporal stores pay
  bool tf32 = false;            // products of f32 may round their operands to TF32
  bool round_each = false;      // RunOptions
  // The rule by which kernels are chosen; null: unknown ones are measured (choices.h). Valid during prepare only.
  ChoiceRule* rule = nullptr;
};

// A prepared step. run() gets the addresses in the order inputs, outputs, scratch; it allocates nothing.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(void* const* operands) = 0;
  // For profiles: which implementation was chosen, "dnnl:jit:avx2", "tile", "gemm".
  virtual std::string name() const = 0;
  // Scratch memory in bytes that the plan must provide during the step, aligned as all buffers are.
  virtual size_t scratch_bytes() const { return 0; }
  // False where run() waits for the device or computes on the host: runs of a plan with such a step are not recorded.
  virtual bool records() const { return true; }
};

// The layouts a backend wants for one node. Where an input's wish differs from what it has, the layout pass puts a
// visible copy (reorder) step in between.
struct LayoutPlan {
  std::vector<Layout> in, out;
};

// Which inputs of a node never change: a copy of them into a packed layout is made once, so that a layout may be chosen
// by measuring, unless `deterministic`, the step alone.
struct FrozenInputs {
  std::vector<bool> inputs;
  bool deterministic = false;
  ChoiceRule* rule = nullptr;  // StepSpec
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // One line for `freight devices`: model, cores, instruction sets.
  virtual std::string description() const = 0;
  // Why contractions in `dtype` gain nothing on this device, "the processor has ..."; empty where they do. Default: it
  // has kernels for no 16-bit type.
  virtual std::string why_unsupported(DType dtype) const;
  // True where products of f32 are faster in TF32 (8 bits of exponent, 10 of mantissa, sums in f32).
  virtual bool has_tf32() const { return false; }
  // Says whether a node of a `low_if_supported` op (ir/op.h), in f32 so far, should have its operands and results in
  // `dtype`.
  virtual bool narrows(const Graph&, const Node&, DType) const { return false; }
  // True of a product or convolution in f32 so far that is faster so than in `dtype`, with the casts that it then
  // takes.
  virtual bool keeps_f32(const Graph&, const Node&, DType) const { return false; }
  // True of a composite that has a kernel of its own; otherwise its decomposition runs.
  virtual bool has_kernel(const Graph& graph, const Node& node) const = 0;
  // True where the fuse pass may form regions and epilogues for this backend.
  virtual bool fuses() const { return false; }
  // True where `epilogue` can ride on this contraction or convolution. It is asked with one part more each time (bias,
  // residual, relu, minimum or silu), until it is refused.
  virtual bool has_epilogue(const Graph&, const Node&, const Epilogue&) const { return false; }
  // The graph behind the fuse pass with the patterns that are one step here alone (ir/fused_pattern.h) made fused
  // nodes; nodes that nobody reads may be left over.
  virtual Graph fuse_patterns(const Graph& graph) const { return graph; }
  // True where what it says of such a node to the passes (has_kernel, narrows, keeps_f32, has_epilogue, layouts)
  // depends on more of its extents than which are equal, which are 0 or 1, and their order: then each shape goes
  // through the passes.
  virtual bool decides_by_extents(const Node&) const { return true; }
  // True where views (reshape, transpose, broadcast, slice) alias their input instead of being executed.
  virtual bool aliases_views() const { return false; }
  // Given the layouts the inputs have, those this node wants and makes. Default: row-major everywhere.
  virtual LayoutPlan layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given) const;
  // The same in a plan of frozen states. Default: layouts().
  virtual LayoutPlan layouts_of_frozen(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                                       const FrozenInputs&) const {
    return layouts(graph, node, given);
  }
  // True where result `output` may overwrite input `input` when their layouts are equal.
  virtual bool in_place(const Graph& graph, const Node& node, int input, int output) const;
  // Makes the kernel of one step; may measure candidates unless spec.deterministic. Never returns null:
  // throws Error(device) naming the op where it cannot.
  virtual std::unique_ptr<Kernel> prepare(const StepSpec& spec) = 0;
  // After the last prepare() of a plan: compiles together what its kernels need. Throws Error(device).
  virtual void finish_plan() {}
  // Bytes of scratch memory that each thread keeps for the kernels that were prepared so far.
  virtual size_t thread_bytes() const { return 0; }
  // Bytes of the largest cache between kernels and memory, for whose sake a batch is computed in parts; 0: never.
  virtual size_t cache_bytes() const { return 0; }
  // Offsets of buffers in the arena are multiples of so many bytes.
  virtual size_t alignment() const { return 64; }
  // Where operands and scratch of this backend's kernels lie; null: in host memory. With a device, run() of a kernel
  // only enqueues.
  virtual std::shared_ptr<DeviceMemory> memory() { return nullptr; }
};

// The backend by name ("cpu", "ref", "null", "opencl:0"); throws Error(device) that lists those there are.
Backend& backend(const std::string& name);
// Those that need no device to be looked for.
std::vector<std::string> backend_names();
// Throws Error(device) for what is no backend's name, whether its device is there or not.
void need_backend_name(const std::string& name);
// Adds a backend under its own name: for plug-ins. Throws Error(device) where the name is taken.
void register_backend(std::unique_ptr<Backend> added);

}  // namespace freight
