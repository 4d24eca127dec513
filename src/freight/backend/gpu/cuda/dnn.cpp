// See dnn.h. https://docs.nvidia.com/deeplearning/cudnn says what is meant.
#include "freight/backend/gpu/cuda/dnn.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "freight/backend/gpu/cuda/dnn_descriptor.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/ir/fused_pattern.h"

namespace freight::cuda {

namespace {

using namespace cudnn;
constexpr int64_t kX = 1, kW = 2, kY = 3;  // tensors' names; those of channels follow
constexpr size_t kMostWorkspace = size_t{256} << 20, kMostPlans = 8;
constexpr size_t kMostForAttention = size_t{512} << 20, kMostCompiled = 2;  // the same for attention
constexpr int64_t kMostConfigs = 64;

using Loaded = freight::Loaded<DnnFunctions>;

const Loaded& load() {
  static const Loaded kLoaded = [] {
    Loaded l;
    l.library = load_library({"libcudnn.so.9"}, "cuDNN 9 or the Python package nvidia-cudnn-cu13", "cudnn",
                             {FREIGHT_CUDNN_FUNCTIONS(FREIGHT_SYMBOL)}, &l.functions, "not cuDNN 9");
    if (l.library.why.empty()) l.library.version = l.functions.GetVersion();
    return l;
  }();
  return kLoaded;
}

}  // namespace

const DnnFunctions& dnn_functions() { return load().functions; }

void check_dnn(int status, const char* what) {
  if (status == 0) return;
  fail(ErrorKind::device, "cuDNN", what, ": ", dnn_functions().GetErrorString(status), " (", status, ")");
}

Descriptor descriptor(int type, std::initializer_list<DnnAttribute> attributes,
                      std::initializer_list<std::pair<int, Descriptor>> parts) {
  Descriptor d = descriptor(type);
  for (const DnnAttribute& a : attributes) d->set(a);
  for (const auto& [name, part] : parts) {
    if (part) d->set(name, {part});
  }
  check_dnn(d->finalize(), cat("a descriptor of type ", type).c_str());
  return d;
}

Descriptor tensor(int64_t id, const Four& extents, const Four& strides, int type, int64_t alignment) {
  const bool inside = id >= kFirstVirtual, number = id >= kScale && !inside;
  return descriptor(kTensor, {{kTensorType, kDataType, &type},
                              {kTensorExtents, kInt64, extents.data(), 4},
                              {kTensorStrides, kInt64, strides.data(), 4},
                              {kTensorId, kInt64, &id},
                              {kTensorAlignment, kInt64, &alignment},
                              {kTensorVirtual, kBoolean, &inside},
                              {kTensorByValue, kBoolean, &number}});
}

Descriptor pointwise(int mode, const Descriptor& x, const Descriptor& b, const Descriptor& y, const Descriptor& t,
                     int64_t axis) {
  const Descriptor kind = descriptor(kPointwise, {{kPointwiseModeOf, kPointwiseMode, &mode},
                                                  {kPointwisePrecision, kDataType, mode == kNotLess ? &kBool : &kF32},
                                                  // Otherwise the library's ReLU may make 0 of NaN.
                                                  {kPointwiseNan, kNanMode, &kKeepsNan, mode == kRelu ? 1u : 0u},
                                                  {kPointwiseAxis, kInt64, &axis, mode == kIndex ? 1u : 0u}});
  return descriptor(
      kPointwiseOperation, {},
      {{kOperationPointwise, kind}, {kOperationX, x}, {kOperationB, b}, {kOperationT, t}, {kOperationY, y}});
}

int data_type(DType dtype) { return dtype == DType::bf16 ? kBF16 : dtype == DType::f16 ? kF16 : kF32; }

namespace {

// The second axis lies innermost.
Descriptor tensor(const Convolution& of, int64_t id, const Four& extents, int type) {
  const auto& [n, c, h, w] = extents;
  return cuda::tensor(id, extents, {c * h * w, 1, c * w, c}, type, of.alignment);
}

std::vector<Descriptor> operations_of(const Convolution& c) {
  static constexpr std::array kOperations = {kForward, kInputGradient, kWeightGradient},
                              kFirsts = {kForwardFirst, kInputGradientFirst, kWeightGradientFirst};
  const auto way = static_cast<size_t>(c.way);
  const int type = data_type(c.dtype), first = kFirsts[way];
  constexpr int64_t kAxes = 2;
  constexpr float kAlpha = 1, kBeta = 0;
  int64_t next = kFirstVirtual, named = kY;
  const auto of_channels = [&](int64_t n, int of) { return tensor(c, ++named, {1, n, 1, 1}, of); };
  const Descriptor x = tensor(c, kX, c.x, type), w = tensor(c, kW, c.w, type), y = tensor(c, kY, c.y, type);
  const Descriptor plain = c.bias || c.relu ? tensor(c, next++, c.y, kF32) : y;
  const Descriptor geometry = descriptor(kConvolution, {{kConvPrecision, kDataType, &kF32},
                                                        {kConvMode, kConvolutionMode, &kCrossCorrelation},
                                                        {kConvAxes, kInt64, &kAxes},
                                                        {kConvDilations, kInt64, c.dilation.data(), 2},
                                                        {kConvStrides, kInt64, c.stride.data(), 2},
                                                        {kConvPadLow, kInt64, c.pad_low.data(), 2},
                                                        {kConvPadHigh, kInt64, c.pad_high.data(), 2}});
  std::vector<Descriptor> operations;
  Descriptor read = x;
  if (c.normed) {
    const Descriptor scaled = tensor(c, next++, c.x, kF32), shifted = tensor(c, next++, c.x, kF32);
    read = tensor(c, next++, c.x, kF32);
    operations = {pointwise(kMul, x, of_channels(c.x[1], type), scaled),
                  pointwise(kAdd, scaled, of_channels(c.x[1], type), shifted),
                  pointwise(kRelu, shifted, nullptr, read)};
  }
  operations.push_back(descriptor(kOperations[way], {{first, kFloat, &kAlpha}, {first + 1, kFloat, &kBeta}},
                                  {{first + 2, geometry}, {first + 3, w}, {first + 4, read}, {first + 5, plain}}));
  Descriptor last = plain;
  if (c.bias) {
    const Descriptor to = c.relu ? tensor(c, next++, c.y, kF32) : y;
    operations.push_back(pointwise(kAdd, last, of_channels(c.y[1], type), to));
    last = to;
  }
  if (c.relu) operations.push_back(pointwise(kRelu, last, nullptr, y));
  if (c.moments) {
    const Descriptor sums = of_channels(c.y[1], kF32);
    operations.push_back(descriptor(
        kStatistics, {{kStatisticsModeOf, kStatisticsMode, &kSumsAndSquares}, {kStatisticsPrecision, kDataType, &kF32}},
        {{kStatisticsX, y}, {kStatisticsSums, sums}, {kStatisticsSquares, of_channels(c.y[1], kF32)}}));
  }
  return operations;
}

bool says(const DnnDescriptor& engine, int notes, int type, const std::vector<int>& any) {
  const std::vector<int> all = engine.get(notes, type, std::vector<int>(16));
  return std::find_first_of(all.begin(), all.end(), any.begin(), any.end()) != all.end();
}

}  // namespace

const Library& find_dnn() { return load().library; }

std::string to_string(const Convolution& c) {
  static constexpr const char* kWays[] = {"conv", "conv_grad_input", "conv_grad_weight"};
  const auto list = [](const auto& numbers) {
    std::string s;
    for (const int64_t n : numbers) s += cat(s.empty() ? "" : "x", n);
    return s;
  };
  return cat(kWays[static_cast<int>(c.way)], " ", c.dtype, c.tf32 ? " tf32" : "", c.bias ? " bias" : "",
             c.relu ? " relu" : "", c.moments ? " moments" : "", c.normed ? " normed" : "", " x ", list(c.x), " w ",
             list(c.w), " y ", list(c.y), " stride ", list(c.stride), " pad ", list(c.pad_low), " ", list(c.pad_high),
             " dilation ", list(c.dilation));
}

namespace {

std::optional<Convolution::Way> way_of(Op op) {
  switch (op) {
    case Op::conv: return Convolution::Way::forward;
    case Op::conv_grad_input: return Convolution::Way::input_gradient;
    case Op::conv_grad_weight: return Convolution::Way::weight_gradient;
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<Convolution> convolution(const freight::Graph& graph, const Node& node, bool tf32) {
  using Way = Convolution::Way;
  if (const Node* product = product_in(node)) {
    std::optional<Convolution> c = convolution(*attrs<FusedAttrs>(node).body, *product, tf32);
    if (!c) return std::nullopt;  // a matmul, too
    const FusedPattern& pattern = pattern_of(node);
    c->moments = pattern.mean.has_value();
    c->normed = pattern.scale.has_value();
    return c;
  }
  const std::optional<Way> way = way_of(node.op);
  if (!way) return std::nullopt;
  const auto& a = attrs<ConvAttrs>(node);
  const Type &first = graph.type(node.in(0)), &second = graph.type(node.in(1)), &out = graph.type(node.out());
  if (first.dtype == DType::f64 || first.shape.numel() == 0 || second.shape.numel() == 0 || out.shape.numel() == 0)
    return std::nullopt;
  Convolution c;
  c.dtype = first.dtype;
  c.tf32 = tf32 && c.dtype == DType::f32;
  c.way = *way;
  const auto four = [](const Shape& s) { return Four{s[0], s[1], gpu::two_axes(s, 2, 1)[0], s.back()}; };
  c.x = four(c.way == Way::input_gradient ? out.shape : first.shape);
  c.w = four(c.way == Way::weight_gradient ? out.shape : second.shape);
  c.y = four(c.way == Way::forward ? out.shape : c.way == Way::input_gradient ? first.shape : second.shape);
  c.stride = gpu::two_axes(a.stride, 0, 1);
  c.pad_low = gpu::two_axes(a.pad_low, 0, 0);
  c.pad_high = gpu::two_axes(a.pad_high, 0, 0);
  c.dilation = gpu::two_axes(a.dilation, 0, 1);
  return c;
}

DnnPlanner::DnnPlanner(void* handle) : device_(descriptor(kDevice, {{kDeviceHandle, kHandleType, &handle}})) {}
DnnPlanner::DnnPlanner(const std::string& properties)
    : device_(descriptor(kDevice, {{kDeviceJson, kChar, properties.c_str(), properties.size()}})) {}

std::vector<DnnPlan> DnnPlanner::plans(const Convolution& c, size_t most_workspace, size_t most_plans) const {
  std::vector<int> unwanted;
  if (c.dtype == DType::f32 && !c.tf32) unwanted = {kTensorCore};
  return plans([&] { return operations_of(c); }, unwanted, most_workspace, most_plans, Stage::precompiled);
}

std::vector<DnnPlan> DnnPlanner::plans(const StepSpec& attention, size_t most_workspace, size_t most_plans,
                                       Stage stage) const {
  return plans([&] { return operations_of(attention); }, {}, most_workspace, most_plans, stage);
}

std::vector<DnnPlan> DnnPlanner::plans(const Operations& operations, const std::vector<int>& unwanted,
                                       size_t most_workspace, size_t most_plans, Stage stage) const {
  std::vector<DnnPlan> all;
  const Descriptor graph = descriptor(kGraph);
  try {
    graph->set(kGraphOperations, operations());
    check_dnn(graph->finalize(), "a graph");
  } catch (const Error& e) {  // what it does not take as a description it does not compute
    logging::debug(cat("cuda: ", e.what()));
    return all;
  }
  for (const int mode : {kBestFirst, kFallback}) {
    const Descriptor heuristic = descriptor(kHeuristic);
    heuristic->set(kHeuristicGraph, {graph});
    heuristic->set({kHeuristicModeOf, kHeuristicMode, &mode});
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
    if (dnn_functions().BackendGetAttribute(heuristic->pointer(), kHeuristicResults, kDescriptor, kMostConfigs, &count,
                                            pointers.data()) != 0)
      continue;
    for (size_t i = 0; i < static_cast<size_t>(std::min(count, kMostConfigs)) && all.size() < most_plans; ++i) {
      const Descriptor engine = descriptor(kEngine);
      configs[i]->get<void*>(kConfigEngine, kDescriptor, {engine->pointer()});
      // The notes that a configuration's engine has on itself decide.
      if (says(*engine, kEngineNumerics, kNumericalNote, {kRoundsOperands, kRoundsSums, kBitsVary}) ||
          says(*engine, kEngineNumerics, kNumericalNote, unwanted) ||
          (stage == Stage::precompiled && says(*engine, kEngineBehavior, kBehaviorNote, {kCompiles})))
        continue;
      DnnPlan plan{.engine = engine->get<int64_t>(kEngineIndex, kInt64, {0}).at(0), .descriptor = configs[i]};
      plan.workspace = static_cast<size_t>(configs[i]->get<int64_t>(kConfigWorkspace, kInt64, {0}).at(0));
      if (plan.workspace > most_workspace) continue;
      if (stage != Stage::chosen) {
        plan.descriptor = descriptor(kPlan);
        plan.descriptor->keep(graph);
        plan.descriptor->set(kPlanConfig, {configs[i]});
        plan.descriptor->set(kPlanDevice, {device_});
        if (plan.descriptor->finalize() != 0) continue;
        plan.workspace = static_cast<size_t>(plan.descriptor->get<int64_t>(kPlanWorkspace, kInt64, {0}).at(0));
      }
      if (plan.workspace <= most_workspace) all.push_back(std::move(plan));
    }
    if (!all.empty()) break;
  }
  return all;
}

namespace {

// A call of the library is given this of a step, with the generated kernels around it.
struct DnnCall {
  size_t scratch;                                  // its place among the operands
  std::shared_ptr<Kernel> rest, before;            // what `before` makes lies in scratch memory before the workspace
  std::vector<size_t> operands;                    // which of the step's the tensors named 1, 2 ... are
  std::vector<std::pair<int64_t, float>> numbers;  // on the host, by name
};

class DnnKernel final : public Kernel {
 public:
  DnnKernel(std::shared_ptr<Dnn> dnn, DnnPlan plan, std::string name, const DnnCall& call)
      : dnn_(std::move(dnn)),
        plan_(std::move(plan)),
        name_(std::move(name)),
        call_(call),
        made_(call.before ? gpu::aligned(call.before->scratch_bytes()) : 0),
        pointers_(call.operands.size() + 1) {}

  void run(void* const* operands) override {
    bool moved = !pack_;
    const auto point = [&](size_t i, void* to) {
      moved = moved || pointers_[i] != to;
      pointers_[i] = to;
    };
    for (size_t i = 0; i < call_.operands.size(); ++i) point(i, operands[call_.operands[i]]);
    point(call_.operands.size(), plan_.workspace > 0 ? static_cast<char*>(operands[call_.scratch]) + made_ : nullptr);
    if (call_.before) call_.before->run(operands);
    if (moved) pack_ = pack();  // a pack is final: other addresses need another
    const auto entered = dnn_->memory().enter();
    check_dnn(dnn_functions().BackendExecute(dnn_->handle(), plan_.descriptor->pointer(), pack_->pointer()), "a step");
    if (call_.rest) call_.rest->run(operands);
  }
  std::string name() const override { return name_; }
  size_t scratch_bytes() const override {
    return std::max(made_ + plan_.workspace, call_.rest ? call_.rest->scratch_bytes() : 0);
  }

 private:
  Descriptor pack() {
    std::vector<void*> all(pointers_.begin(), pointers_.end() - 1);
    std::vector<int64_t> ids(all.size());
    std::iota(ids.begin(), ids.end(), int64_t{1});
    for (auto& [id, value] : call_.numbers) {
      ids.push_back(id);
      all.push_back(&value);
    }
    return descriptor(kVariantPack, {{kPackIds, kInt64, ids.data(), ids.size()},
                                     {kPackPointers, kPointer, all.data(), all.size()},
                                     {kPackWorkspace, kPointer, &pointers_.back()}});
  }

  std::shared_ptr<Dnn> dnn_;
  DnnPlan plan_;
  std::string name_;
  DnnCall call_;
  size_t made_;  // bytes of what is before the workspace
  Descriptor pack_;
  std::vector<void*> pointers_;  // in it, the workspace last
};

}  // namespace

std::shared_ptr<Dnn> Dnn::open(std::shared_ptr<Memory> memory, std::string& why) {
  why = load().library.why;
  if (!why.empty()) return nullptr;
  const auto entered = memory->enter();
  std::shared_ptr<Dnn> dnn(new Dnn(memory));
  int status = dnn_functions().Create(&dnn->handle_);
  if (status == 0) status = dnn_functions().SetStream(dnn->handle_, memory->stream());
  if (status != 0) {
    why = cat(load().library.path, " does not start: ", dnn_functions().GetErrorString(status), " (", status, ")");
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
  if (!handle_ || leaving()) return;
  const auto entered = memory_->enter();
  planner_.reset();
  dnn_functions().Destroy(handle_);
}

bool Dnn::takes(const freight::Graph& graph, const Node& node) {
  const std::optional<Convolution> c = convolution(graph, node, false);
  if (!c) return false;
  const auto entered = memory_->enter();
  const auto [known, is_new] = taken_.try_emplace(to_string(*c));
  if (is_new) known->second = !planner_->plans(*c, kMostWorkspace, 1).empty();
  return known->second;
}

std::vector<std::unique_ptr<Kernel>> Dnn::kernels(const StepSpec& spec, Fusion part,
                                                  const std::shared_ptr<Kernel>& rest,
                                                  const std::shared_ptr<Kernel>& before) {
  const Node& node = *spec.node;
  const size_t out = spec.in.size(), scratch = out + spec.out.size();
  const auto entered = memory_->enter();
  std::vector<DnnPlan> plans;
  DnnCall call{scratch, rest, before, {}, {}};
  std::string beside;
  if (takes_attention(spec)) {
    const auto& a = attrs<AttentionAttrs>(node);
    call.operands.resize(scratch);
    std::iota(call.operands.begin(), call.operands.end(), size_t{0});
    call.numbers = {{kScale, static_cast<float>(a.scale)}};
    if (a.causal) call.numbers.emplace_back(kHidden, -std::numeric_limits<float>::infinity());
    if (node.op == Op::attention_grad) call.numbers.emplace_back(kOne, 1.0f);
    const auto [known, is_new] = attentions_.try_emplace(signature(spec));
    if (is_new) known->second = planner_->plans(spec, kMostForAttention, kMostCompiled);
    plans = known->second;
  } else if (std::optional<Convolution> c = convolution(*spec.graph, node, spec.tf32)) {
    const Epilogue epilogue = node.op == Op::conv ? attrs<ConvAttrs>(node).epilogue : Epilogue{};
    if (epilogue.residual && part == Fusion::whole) return {};
    c->bias = epilogue.bias;
    c->relu = epilogue.relu;
    if (part == Fusion::alone) c->bias = c->relu = c->moments = c->normed = false;
    for (const auto* list : {&spec.in, &spec.out}) {
      for (const Operand& o : *list) c->alignment = std::min<int64_t>(c->alignment, gpu::alignment_of(o));
    }
    call.operands = {0, 1, out};  // x, w, y
    if (c->way == Convolution::Way::input_gradient) call.operands = {out, 1, 0};
    if (c->way == Convolution::Way::weight_gradient) call.operands = {0, out, 1};
    if (before) call.operands[0] = scratch;
    if (c->bias) call.operands.push_back(2);
    const FusedPattern& pattern = pattern_of(node);
    const auto add_operands = [&](size_t first, std::optional<int> a, std::optional<int> b) {
      for (const int at : {a.value(), b.value()}) call.operands.push_back(first + static_cast<size_t>(at));
    };
    if (c->normed) add_operands(0, pattern.scale, pattern.shift);
    if (c->moments) add_operands(out, pattern.mean, pattern.variance);
    beside = cat(c->normed ? "normed:" : "", c->moments ? "moments:" : "");
    plans = planner_->plans(*c, kMostWorkspace, kMostPlans);
  }
  std::vector<std::unique_ptr<Kernel>> all;
  for (const DnnPlan& p : plans) {
    const std::string name = cat("cuda:cudnn:", beside, "eng", p.engine, ".", all.size());
    all.push_back(std::make_unique<DnnKernel>(shared_from_this(), p, name, call));
  }
  return all;
}

std::string Dnn::signature(const StepSpec& spec) {
  if (takes_attention(*spec.graph, *spec.node)) {
    const auto& a = attrs<AttentionAttrs>(*spec.node);
    return cat(freight::signature(spec), a.causal ? " causal " : " ", a.scale);
  }
  const Epilogue e = spec.node->op == Op::conv ? attrs<ConvAttrs>(*spec.node).epilogue : Epilogue{};
  return cat(to_string(*convolution(*spec.graph, *spec.node, spec.tf32)), e.bias ? " bias" : "",
             e.residual ? " residual" : "", e.relu ? " relu" : "");
}

}  // namespace freight::cuda
