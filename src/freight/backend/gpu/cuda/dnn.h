// Convolutions and attention by cuDNN 9, through its C interface of descriptors (`cudnnBackend...`), found at run time
// like the driver; where it is missing, the generated kernels do all the work. Images lie channels last, filters too.
// Which engine computes a convolution is asked of the library when a plan is made, for a device at hand or one that is
// described.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/cuda/memory.h"
#include "freight/backend/gpu/launch.h"
#include "freight/base/library.h"

namespace freight::cuda {

// The library as found. Loads it, but opens no device.
const Library& find_dnn();

// y = conv(x, w), or one of its gradients, in two spatial axes (a single one becomes the second).
struct Convolution {
  enum class Way { forward, input_gradient, weight_gradient };
  Way way = Way::forward;
  DType dtype = DType::f32;
  bool tf32 = false;                              // f32 may be rounded to it
  std::array<int64_t, 4> x = {}, w = {}, y = {};  // (N, C, H, W), (O, C/G, kernel), (N, O, ...)
  std::array<int64_t, 2> stride = {1, 1}, pad_low = {}, pad_high = {}, dilation = {1, 1};
  bool bias = false, relu = false;  // forward: y = relu(conv + bias)
  bool moments = false;             // forward: and the sums and sums of squares of y's channels, in f32
  bool normed = false;              // forward or gradient of w: of relu(x scale + shift), per channel
  int64_t alignment = 16;           // of the tensors' addresses, in bytes
};
std::string to_string(const Convolution& c);
// The convolution of a node without its epilogue, with what its pattern (ir/fused_pattern.h) adds; nothing where cuDNN
// has none for the type or an extent is 0.
std::optional<Convolution> convolution(const freight::Graph& graph, const Node& node, bool tf32);

// True where cuDNN may take an attention or its gradient, once it is in 16 bits: no lengths, no mask, no cotangent of
// lse, heads of 8, 16 ... 128 numbers. And a step of one, in 16 bits: these lie side by side, all else at multiples of
// 16 bytes.
bool takes_attention(const freight::Graph& graph, const Node& node);
bool takes_attention(const StepSpec& spec);

// A descriptor of the library, destroyed with its owner.
class DnnDescriptor;

// One way in which the library computes something.
struct DnnPlan {
  int64_t engine = 0;
  size_t workspace = 0;
  std::shared_ptr<DnnDescriptor> descriptor;
};

// Plans for one device.
class DnnPlanner {
 public:
  // For the device of a handle, or for one that its properties describe as JSON (cuDNN's own form). Throws
  // Error(device) where the library refuses them.
  explicit DnnPlanner(void* handle);
  explicit DnnPlanner(const std::string& properties);
  // The library's best guess comes first. Only those that give the same bits in every run, round nothing that is not to
  // be rounded, compile nothing at run time and need at most `most_workspace` bytes.
  std::vector<DnnPlan> plans(const Convolution& c, size_t most_workspace, size_t most_plans) const;
  // The same for attention, whose engines do compile at run time: for that a device must be there.
  enum class Stage { precompiled, chosen, compiled };
  std::vector<DnnPlan> plans(const StepSpec& attention, size_t most_workspace, size_t most_plans,
                             Stage stage = Stage::compiled) const;

 private:
  using Operations = std::function<std::vector<std::shared_ptr<DnnDescriptor>>()>;
  // `unwanted`: further numerical notes that an engine must not have.
  std::vector<DnnPlan> plans(const Operations& operations, const std::vector<int>& unwanted, size_t most_workspace,
                             size_t most_plans, Stage stage) const;
  std::shared_ptr<DnnDescriptor> device_;
};

class Dnn;

// LSTM and GRU layers, and whether the library, if it is there, computes one, or its gradient, once it is in `dtype`.
inline bool is_layer(const Node& node) { return std::holds_alternative<RecurrentLayerAttrs>(node.attrs); }
bool takes_layer(const Dnn* dnn, const freight::Graph& graph, const Node& node, DType dtype);
// The layouts of such a layer or its gradient: `plain` ones, but for the cells and gates, in whose place the library
// keeps what it likes.
LayoutPlan layer_layouts(const Dnn& dnn, const freight::Graph& graph, const Node& node, LayoutPlan plain,
                         const std::vector<Layout>& given);
// `generate` makes the kernel that packs weights and turns sequences round.
using Generate = std::function<std::unique_ptr<Kernel>(gpu::Lowered)>;
std::unique_ptr<Kernel> layer_kernel(std::shared_ptr<Dnn> dnn, const StepSpec& spec, const Generate& generate);

// The library on one device.
class Dnn : public std::enable_shared_from_this<Dnn> {
 public:
  // Null where it cannot be used: `why` says.
  static std::shared_ptr<Dnn> open(std::shared_ptr<Memory> memory, std::string& why);
  ~Dnn();

  // Tells whether it computes this node's convolution, its epilogue perhaps left out, but all of its pattern. The
  // answer is remembered until forget(), which the backend calls when a plan is finished.
  bool takes(const freight::Graph& graph, const Node& node);
  void forget() { taken_.clear(), attentions_.clear(); }
  // Returns kernels for attention, or for a convolution, whole with its epilogue and pattern or alone. `before` runs
  // first and writes what is read in place of x to the start of the scratch memory; `rest` runs last. The library's
  // best guess comes first; none where it has none. Equal steps of attention share what was compiled, until forget().
  enum class Fusion { whole, alone };
  std::vector<std::unique_ptr<Kernel>> kernels(const StepSpec& spec, Fusion part, const std::shared_ptr<Kernel>& rest,
                                               const std::shared_ptr<Kernel>& before = nullptr);

  void* handle() const { return handle_; }
  Memory& memory() const { return *memory_; }
  // A choice between them depends on this.
  static std::string signature(const StepSpec& spec);

 private:
  explicit Dnn(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  std::shared_ptr<Memory> memory_;
  void* handle_ = nullptr;
  std::unique_ptr<DnnPlanner> planner_;
  std::map<std::string, bool> taken_;                       // by the text of a convolution
  std::map<std::string, std::vector<DnnPlan>> attentions_;  // by signature
};

}  // namespace freight::cuda
