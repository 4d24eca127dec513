// See dnn.h. Types and numbers are those of cudnn_graph.h of cuDNN 9; https://docs.nvidia.com/deeplearning/cudnn says
// what they mean. Everything is a descriptor: set its attributes, finalize it, put it into another.
#include "freight/backend/gpu/cuda/dnn.h"

#include <dlfcn.h>

#include <algorithm>

#include "freight/backend/gpu/cuda/library.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/base/error.h"
#include "freight/base/log.h"

namespace freight::cuda {

namespace {

// cudnnBackendDescriptorType_t
constexpr int kPointwise = 0, kConvolution = 1, kEngine = 2, kEngineConfig = 3, kHeuristic = 4, kPlan = 5,
              kForward = 10, kWeightGradient = 11, kInputGradient = 12, kPointwiseOperation = 13, kGraph = 15,
              kVariantPack = 16, kTensor = 17, kDevice = 38;
// cudnnBackendAttributeType_t
constexpr int kHandleType = 0, kDataType = 1, kBoolean = 2, kInt64 = 3, kFloat = 4, kPointer = 6, kConvolutionMode = 7,
              kHeuristicMode = 8, kNumericalNote = 11, kPointwiseMode = 14, kDescriptor = 15, kBehaviorNote = 19,
              kChar = 24;
// cudnnBackendAttributeName_t
constexpr int kPointwiseModeOf = 0, kPointwisePrecision = 1, kConvPrecision = 100, kConvMode = 101,
              kConvDilations = 102, kConvStrides = 103, kConvPadHigh = 104, kConvPadLow = 105, kConvAxes = 106,
              kHeuristicModeOf = 200, kHeuristicGraph = 201, kHeuristicResults = 202, kHeuristicDevice = 204,
              kConfigEngine = 300, kPlanConfig = 401, kPlanWorkspace = 402, kPlanDevice = 407,
              kOperationPointwise = 750, kOperationX = 751, kOperationB = 752, kOperationY = 753,
              kGraphOperations = 801, kTensorAlignment = 900, kTensorType = 901, kTensorExtents = 902,
              kTensorStrides = 903, kTensorId = 906, kTensorVirtual = 907, kPackIds = 1000, kPackPointers = 1001,
              kPackWorkspace = 1003, kEngineIndex = 1301, kEngineNumerics = 1303, kEngineBehavior = 1305,
              kDeviceHandle = 2701, kDeviceJson = 2702;
// Of a convolution's operation: alpha, beta, descriptor and three tensors follow each other.
constexpr int kForwardFirst = 700, kInputGradientFirst = 706, kWeightGradientFirst = 712;
constexpr int kF32 = 0, kF16 = 2, kBF16 = 9;                 // cudnnDataType_t
constexpr int kCrossCorrelation = 1, kAdd = 0, kRelu = 100;  // modes
constexpr int kBestFirst = 3, kFallback = 2;                 // cudnnBackendHeurMode_t
constexpr int kTensorCore = 0, kRoundsOperands = 1, kRoundsSums = 2,
              kBitsVary = 4;  // cudnnBackendNumericalNote_t
constexpr int kCompiles = 0;  // cudnnBackendBehaviorNote_t
constexpr int64_t kX = 1, kW = 2, kY = 3, kBias = 4,
                  kFirstVirtual = 10;  // tensors' names
constexpr size_t kMostWorkspace = size_t{256} << 20, kMostPlans = 8;
constexpr int64_t kMostConfigs = 64;

// Symbol behind "cudnn", parameters; a status is an int, 0 is success.
#define FREIGHT_CUDNN_FUNCTIONS(F)                                        \
  F(Create, void**)                                                       \
  F(Destroy, void*)                                                       \
  F(SetStream, void*, Stream)                                             \
  F(BackendCreateDescriptor, int, void**)                                 \
  F(BackendDestroyDescriptor, void*)                                      \
  F(BackendFinalize, void*)                                               \
  F(BackendSetAttribute, void*, int, int, int64_t, const void*)           \
  F(BackendGetAttribute, const void*, int, int, int64_t, int64_t*, void*) \
  F(BackendExecute, void*, void*, void*)

struct Functions {
#define FREIGHT_CUDNN_POINTER(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  FREIGHT_CUDNN_FUNCTIONS(FREIGHT_CUDNN_POINTER)
#undef FREIGHT_CUDNN_POINTER
  size_t (*GetVersion)() = nullptr;
  const char* (*GetErrorString)(int) = nullptr;
};

struct Loaded {
  Functions functions;
  DnnLibrary library;
};

const Loaded& load() {
  static const Loaded kLoaded = [] {
    Loaded l;
    const Library found = find_library({"libcudnn.so.9"}, LibraryKind::toolkit);
    l.library.path = found.path;
    if (!found.handle) {
      l.library.why = cat(found.why,
                          "; install cuDNN 9 or the Python package "
                          "nvidia-cudnn-cu13, or name the folder in "
                          "FREIGHT_CUDA_LIBS");
      return l;
    }
    const auto get = [&](auto& pointer, const char* symbol) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(dlsym(found.handle, symbol));
      if (!pointer && l.library.why.empty()) l.library.why = cat(found.path, " has no ", symbol, ": it is not cuDNN 9");
    };
#define FREIGHT_CUDNN_LOAD(name, ...) get(l.functions.name, "cudnn" #name);
    FREIGHT_CUDNN_FUNCTIONS(FREIGHT_CUDNN_LOAD)
#undef FREIGHT_CUDNN_LOAD
    get(l.functions.GetVersion, "cudnnGetVersion");
    get(l.functions.GetErrorString, "cudnnGetErrorString");
    if (l.library.why.empty()) l.library.version = l.functions.GetVersion();
    return l;
  }();
  return kLoaded;
}

const Functions& functions() { return load().functions; }

void check(int status, const char* what) {
  if (status == 0) return;
  fail(ErrorKind::device, "cuDNN", what, ": ", functions().GetErrorString(status), " (", status, ")");
}

int data_type(DType dtype) { return dtype == DType::bf16 ? kBF16 : dtype == DType::f16 ? kF16 : kF32; }

}  // namespace

// Keeps what was put into it.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(int type) { check(functions().BackendCreateDescriptor(type, &p_), "a descriptor"); }
  ~DnnDescriptor() { functions().BackendDestroyDescriptor(p_); }
  DnnDescriptor(const DnnDescriptor&) = delete;
  DnnDescriptor& operator=(const DnnDescriptor&) = delete;

  template <class T>
  void set(int name, int type, const T* values, size_t count) {
    check(functions().BackendSetAttribute(p_, name, type, static_cast<int64_t>(count), values), "an attribute");
  }
  template <class T>
  void set(int name, int type, const T& value) {
    set(name, type, &value, 1);
  }
  void set(int name, const std::vector<std::shared_ptr<DnnDescriptor>>& parts) {
    std::vector<void*> all;
    for (const auto& part : parts) all.push_back(part->p_);
    set(name, kDescriptor, all.data(), all.size());
    parts_.insert(parts_.end(), parts.begin(), parts.end());
  }
  // Which it refers to by way of what the library put into it.
  void keep(std::shared_ptr<DnnDescriptor> part) { parts_.push_back(std::move(part)); }
  // The library's status: what it does not support is one, too.
  int finalize() { return functions().BackendFinalize(p_); }
  template <class T>
  std::vector<T> get(int name, int type, size_t most) const {
    std::vector<T> all(most);
    int64_t count = 0;
    check(functions().BackendGetAttribute(p_, name, type, static_cast<int64_t>(most), &count, all.data()),
          "an attribute");
    all.resize(std::min(most, static_cast<size_t>(count)));
    return all;
  }
  void* pointer() const { return p_; }

 private:
  void* p_ = nullptr;
  std::vector<std::shared_ptr<DnnDescriptor>> parts_;
};

namespace {

using Descriptor = std::shared_ptr<DnnDescriptor>;
Descriptor descriptor(int type) { return std::make_shared<DnnDescriptor>(type); }
Descriptor finalized(Descriptor d, const char* what) {
  check(d->finalize(), what);
  return d;
}

// The second axis lies innermost.
Descriptor tensor(const Convolution& of, int64_t id, const std::array<int64_t, 4>& extents, int type) {
  const auto& [n, c, h, w] = extents;
  const int64_t strides[] = {c * h * w, 1, c * w, c};
  Descriptor d = descriptor(kTensor);
  d->set(kTensorType, kDataType, type);
  d->set(kTensorExtents, kInt64, extents.data(), 4);
  d->set(kTensorStrides, kInt64, strides, 4);
  d->set(kTensorId, kInt64, id);
  d->set(kTensorAlignment, kInt64, of.alignment);
  if (id >= kFirstVirtual) d->set(kTensorVirtual, kBoolean, true);
  return finalized(d, "a tensor");
}

Descriptor geometry(const Convolution& c) {
  Descriptor d = descriptor(kConvolution);
  d->set(kConvPrecision, kDataType, kF32);
  d->set(kConvMode, kConvolutionMode, kCrossCorrelation);
  d->set(kConvAxes, kInt64, int64_t{2});
  d->set(kConvDilations, kInt64, c.dilation.data(), 2);
  d->set(kConvStrides, kInt64, c.stride.data(), 2);
  d->set(kConvPadLow, kInt64, c.pad_low.data(), 2);
  d->set(kConvPadHigh, kInt64, c.pad_high.data(), 2);
  return finalized(d, "a convolution");
}

Descriptor pointwise(int mode, const Descriptor& x, const Descriptor& b, const Descriptor& y) {
  Descriptor kind = descriptor(kPointwise), d = descriptor(kPointwiseOperation);
  kind->set(kPointwiseModeOf, kPointwiseMode, mode);
  kind->set(kPointwisePrecision, kDataType, kF32);
  d->set(kOperationPointwise, {finalized(kind, "an epilogue")});
  d->set(kOperationX, {x});
  if (b) d->set(kOperationB, {b});
  d->set(kOperationY, {y});
  return finalized(d, "an epilogue");
}

Descriptor graph_of(const Convolution& c) {
  const bool forward = c.way == Convolution::Way::forward, weight = c.way == Convolution::Way::weight_gradient;
  const int type = data_type(c.dtype), first = forward  ? kForwardFirst
                                               : weight ? kWeightGradientFirst
                                                        : kInputGradientFirst;
  int64_t next = kFirstVirtual;
  const Descriptor x = tensor(c, kX, c.x, type), w = tensor(c, kW, c.w, type), y = tensor(c, kY, c.y, type);
  const Descriptor plain = c.bias || c.relu ? tensor(c, next++, c.y, kF32) : y;
  Descriptor d = descriptor(forward ? kForward : weight ? kWeightGradient : kInputGradient);
  d->set(first, kFloat, 1.0f);
  d->set(first + 1, kFloat, 0.0f);
  d->set(first + 2, {geometry(c)});
  d->set(first + 3, {w});
  d->set(first + 4, {x});
  d->set(first + 5, {plain});
  std::vector<Descriptor> operations = {finalized(d, "a convolution")};
  Descriptor last = plain;
  if (c.bias) {
    const Descriptor to = c.relu ? tensor(c, next++, c.y, kF32) : y;
    operations.push_back(pointwise(kAdd, last, tensor(c, kBias, {1, c.y[1], 1, 1}, type), to));
    last = to;
  }
  if (c.relu) operations.push_back(pointwise(kRelu, last, nullptr, y));
  Descriptor graph = descriptor(kGraph);
  graph->set(kGraphOperations, operations);
  return graph;
}

// What the engine of a configuration says of itself decides.
bool wanted(const Convolution& c, const DnnDescriptor& engine) {
  const std::vector<int> numerics = engine.get<int>(kEngineNumerics, kNumericalNote, 16),
                         behavior = engine.get<int>(kEngineBehavior, kBehaviorNote, 16);
  const auto has = [](const std::vector<int>& notes, int note) {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  };
  if (c.dtype == DType::f32 && !c.tf32 && has(numerics, kTensorCore)) return false;
  return !has(numerics, kRoundsOperands) && !has(numerics, kRoundsSums) && !has(numerics, kBitsVary) &&
         !has(behavior, kCompiles);
}

}  // namespace

DnnLibrary find_dnn() { return load().library; }

std::string to_string(const Convolution& c) {
  static constexpr const char* kWays[] = {"conv", "conv_grad_input", "conv_grad_weight"};
  const auto list = [](const auto& numbers) {
    std::string s;
    for (const int64_t n : numbers) s += cat(s.empty() ? "" : "x", n);
    return s;
  };
  return cat(kWays[static_cast<int>(c.way)], " ", c.dtype, c.tf32 ? " tf32" : "", c.bias ? " bias" : "",
             c.relu ? " relu" : "", " x ", list(c.x), " w ", list(c.w), " y ", list(c.y), " stride ", list(c.stride),
             " pad ", list(c.pad_low), " ", list(c.pad_high), " dilation ", list(c.dilation));
}

std::optional<Convolution> convolution(const freight::Graph& graph, const Node& node, bool tf32) {
  using Way = Convolution::Way;
  if (node.op != Op::conv && node.op != Op::conv_grad_input && node.op != Op::conv_grad_weight) return std::nullopt;
  const auto& a = attrs<ConvAttrs>(node);
  const Type &first = graph.type(node.in(0)), &second = graph.type(node.in(1)), &out = graph.type(node.out());
  if (first.dtype == DType::f64 || first.shape.numel() == 0 || second.shape.numel() == 0 || out.shape.numel() == 0)
    return std::nullopt;
  Convolution c;
  c.dtype = first.dtype;
  c.tf32 = tf32 && c.dtype == DType::f32;
  c.way = node.op == Op::conv              ? Way::forward
          : node.op == Op::conv_grad_input ? Way::input_gradient
                                           : Way::weight_gradient;
  const auto four = [](const Shape& s) {
    return s.rank() == 3 ? std::array<int64_t, 4>{s[0], s[1], 1, s[2]} : std::array<int64_t, 4>{s[0], s[1], s[2], s[3]};
  };
  const auto two = [](const Shape& s, int64_t missing) {
    return s.rank() == 1 ? std::array<int64_t, 2>{missing, s[0]} : std::array<int64_t, 2>{s[0], s[1]};
  };
  c.x = four(c.way == Way::input_gradient ? out.shape : first.shape);
  c.w = four(c.way == Way::weight_gradient ? out.shape : second.shape);
  c.y = four(c.way == Way::forward ? out.shape : c.way == Way::input_gradient ? first.shape : second.shape);
  c.stride = two(a.stride, 1);
  c.pad_low = two(a.pad_low, 0);
  c.pad_high = two(a.pad_high, 0);
  c.dilation = two(a.dilation, 1);
  return c;
}

DnnPlanner::DnnPlanner(void* handle) : device_(descriptor(kDevice)) {
  device_->set(kDeviceHandle, kHandleType, handle);
  finalized(device_, "the device's properties");
}

DnnPlanner::DnnPlanner(const std::string& properties) : device_(descriptor(kDevice)) {
  device_->set(kDeviceJson, kChar, properties.c_str(), properties.size());
  finalized(device_, "the device's properties");
}

std::vector<DnnPlan> DnnPlanner::plans(const Convolution& c, size_t most_workspace, size_t most_plans) const {
  std::vector<DnnPlan> all;
  Descriptor graph;
  try {
    graph = finalized(graph_of(c), "a graph");
  } catch (const Error& e) {  // what it does not take as a description it does not compute
    log::debug(cat("cuda: ", to_string(c), ": ", e.what()));
    return all;
  }
  for (const int mode : {kBestFirst, kFallback}) {
    const Descriptor heuristic = descriptor(kHeuristic);
    heuristic->set(kHeuristicGraph, {graph});
    heuristic->set(kHeuristicModeOf, kHeuristicMode, mode);
    heuristic->set(kHeuristicDevice, {device_});
    if (heuristic->finalize() != 0) continue;
    // The library fills descriptors that the caller made.
    std::vector<Descriptor> configs;
    std::vector<void*> pointers;
    for (int64_t i = 0; i < kMostConfigs; ++i) {
      configs.push_back(descriptor(kEngineConfig));
      pointers.push_back(configs.back()->pointer());
    }
    int64_t count = 0;
    if (functions().BackendGetAttribute(heuristic->pointer(), kHeuristicResults, kDescriptor, kMostConfigs, &count,
                                        pointers.data()) != 0)
      continue;
    for (size_t i = 0; i < static_cast<size_t>(std::min(count, kMostConfigs)) && all.size() < most_plans; ++i) {
      const Descriptor engine = descriptor(kEngine);
      void* into = engine->pointer();
      int64_t one = 0;
      check(functions().BackendGetAttribute(configs[i]->pointer(), kConfigEngine, kDescriptor, 1, &one, &into),
            "an engine");
      if (!wanted(c, *engine)) continue;
      DnnPlan plan{.engine = engine->get<int64_t>(kEngineIndex, kInt64, 1).at(0), .descriptor = descriptor(kPlan)};
      plan.descriptor->keep(graph);
      plan.descriptor->set(kPlanConfig, {configs[i]});
      plan.descriptor->set(kPlanDevice, {device_});
      if (plan.descriptor->finalize() != 0) continue;
      plan.workspace = static_cast<size_t>(plan.descriptor->get<int64_t>(kPlanWorkspace, kInt64, 1).at(0));
      if (plan.workspace <= most_workspace) all.push_back(std::move(plan));
    }
    if (!all.empty()) break;
  }
  return all;
}

namespace {

class DnnKernel final : public Kernel {
 public:
  // `operands`: which of the step's the tensors x, w, y and the bias, if any, are.
  DnnKernel(std::shared_ptr<Dnn> dnn, DnnPlan plan, size_t number, std::vector<size_t> operands, size_t scratch,
            std::shared_ptr<Kernel> rest)
      : dnn_(std::move(dnn)),
        plan_(std::move(plan)),
        name_(cat("cuda:cudnn:eng", plan_.engine, ".", number)),
        operands_(std::move(operands)),
        scratch_(scratch),
        rest_(std::move(rest)),
        pointers_(operands_.size() + 1) {}

  void run(void* const* operands) override {
    bool moved = !pack_;
    const auto point = [&](size_t i, void* to) {
      moved = moved || pointers_[i] != to;
      pointers_[i] = to;
    };
    for (size_t i = 0; i < operands_.size(); ++i) point(i, operands[operands_[i]]);
    point(operands_.size(), plan_.workspace > 0 ? operands[scratch_] : nullptr);
    if (moved) pack_ = pack();  // a pack is final: other addresses need another
    dnn_->run(plan_, *pack_);
    if (rest_) rest_->run(operands);
  }
  std::string name() const override { return name_; }
  size_t scratch_bytes() const override { return plan_.workspace; }

 private:
  Descriptor pack() const {
    static constexpr int64_t kIds[] = {kX, kW, kY, kBias};
    Descriptor d = descriptor(kVariantPack);
    d->set(kPackIds, kInt64, kIds, operands_.size());
    d->set(kPackPointers, kPointer, pointers_.data(), operands_.size());
    d->set(kPackWorkspace, kPointer, pointers_.back());
    return finalized(d, "a step's addresses");
  }

  std::shared_ptr<Dnn> dnn_;
  DnnPlan plan_;
  std::string name_;
  std::vector<size_t> operands_;
  size_t scratch_;                // its place among the operands
  std::shared_ptr<Kernel> rest_;  // needs no scratch
  Descriptor pack_;
  std::vector<void*> pointers_;  // in it, the workspace last
};

}  // namespace

std::shared_ptr<Dnn> Dnn::open(std::shared_ptr<Memory> memory, std::string& why) {
  why = load().library.why;
  if (!why.empty()) return nullptr;
  const auto entered = memory->enter();
  std::shared_ptr<Dnn> dnn(new Dnn(memory));
  int status = functions().Create(&dnn->handle_);
  if (status == 0) status = functions().SetStream(dnn->handle_, memory->stream());
  if (status != 0) {
    why = cat(load().library.path, " does not start: ", functions().GetErrorString(status), " (", status, ")");
    return nullptr;
  }
  try {
    dnn->planner_ = std::make_unique<DnnPlanner>(dnn->handle_);
  } catch (const Error& e) {
    why = cat(load().library.path, " does not describe the device, it may be too old: ", e.what());
    return nullptr;
  }
  return dnn;
}

Dnn::~Dnn() {
  if (!handle_) return;
  const auto entered = memory_->enter();
  planner_.reset();
  functions().Destroy(handle_);
}

bool Dnn::takes(const freight::Graph& graph, const Node& node) {
  const std::optional<Convolution> c = convolution(graph, node, false);
  if (!c) return false;
  const auto entered = memory_->enter();
  for (const auto& [known, answer] : taken_) {
    if (known == *c) return answer;
  }
  taken_.emplace_back(*c, !planner_->plans(*c, kMostWorkspace, 1).empty());
  return taken_.back().second;
}

std::vector<std::unique_ptr<Kernel>> Dnn::kernels(const StepSpec& spec, const std::shared_ptr<Kernel>& rest) {
  const Node& node = *spec.node;
  std::optional<Convolution> c = convolution(*spec.graph, node, spec.tf32);
  const Epilogue epilogue = node.op == Op::conv ? attrs<ConvAttrs>(node).epilogue : Epilogue{};
  if (!c || (epilogue.residual && !rest)) return {};
  if (!rest) {
    c->bias = epilogue.bias;
    c->relu = epilogue.relu;
  }
  for (const auto* list : {&spec.in, &spec.out}) {
    for (const Operand& o : *list) c->alignment = std::min<int64_t>(c->alignment, gpu::alignment_of(o));
  }
  const size_t out = spec.in.size();
  std::vector<size_t> operands = {0, 1, out};  // x, w, y
  if (c->way == Convolution::Way::input_gradient) operands = {out, 1, 0};
  if (c->way == Convolution::Way::weight_gradient) operands = {0, out, 1};
  if (c->bias) operands.push_back(2);
  const auto entered = memory_->enter();
  std::vector<std::unique_ptr<Kernel>> all;
  for (DnnPlan& p : planner_->plans(*c, kMostWorkspace, kMostPlans)) {
    all.push_back(std::make_unique<DnnKernel>(shared_from_this(), std::move(p), all.size(), operands, out + 1, rest));
  }
  return all;
}

std::string Dnn::signature(const StepSpec& spec) {
  const Epilogue e = spec.node->op == Op::conv ? attrs<ConvAttrs>(*spec.node).epilogue : Epilogue{};
  return cat(to_string(*convolution(*spec.graph, *spec.node, spec.tf32)), e.bias ? " bias" : "",
             e.residual ? " residual" : "", e.relu ? " relu" : "");
}

void Dnn::run(const DnnPlan& plan, const DnnDescriptor& pack) {
  const auto entered = memory_->enter();
  check(functions().BackendExecute(handle_, plan.descriptor->pointer(), pack.pointer()), "a convolution");
}

}  // namespace freight::cuda
