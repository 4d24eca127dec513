// LSTM and GRU layers by cuDNN's own functions for them. See dnn.h. Letters as in the op table: N samples, T steps,
// D inputs, H hidden numbers, G gates.
#include "freight/backend/gpu/cuda/dnn_descriptor.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/base/error.h"
#include "freight/base/log.h"

namespace freight::cuda {

namespace {

using namespace cudnn;
using gpu::aligned;

// A layer's operands are x, the weights and perhaps counts; in a gradient its results follow, y, cells and gates, then
// dy.
size_t weights_of(const RecurrentLayerAttrs& a) { return 4u + a.steps.gru; }
size_t inputs_of(const RecurrentLayerAttrs& a) { return weights_of(a) + a.steps.lengths; }
enum LayerResult : size_t { kResultY, kResultCells, kResultGates, kResultCount };  // dy stands behind them
size_t input_of_gradient(const RecurrentLayerAttrs& a, size_t result) { return inputs_of(a) + result; }
Value kept(const Node& gradient) {
  return gradient.inputs[input_of_gradient(attrs<RecurrentLayerAttrs>(gradient), kResultCells)];
}
int64_t gradients_of(const freight::Graph& graph, const Node& layer) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& n) { return n.op == Op::recurrent_layer_grad && kept(n) == layer.out(1); });
}

// In place of the gates the library keeps bytes of its own for the gradient, which it calls its reserve; the cells, the
// smaller of the two results, are left empty. Only the library can read these: to the plan they have no elements.
Layout reserve_format(size_t bytes) {
  const std::string name = cat("cudnn:reserve:", bytes);
  return {{}, std::make_shared<BlockedLayout>(BlockedLayout{name, bytes, {name.begin(), name.end()}})};
}

enum class LayerUse { training, inference };

// The library is told this of a layer x (N, T, D), weight (G H, H), and answers the rest.
struct Layer {
  Layer(const Dnn& dnn, const RecurrentLayerAttrs& a, DType dtype, const Shape& of_x, const Shape& weight, bool tf32,
        LayerUse use) {
    const auto entered = dnn.memory().enter();
    const int type = data_type(dtype), math = dtype != DType::f32 ? kTensorMath : tf32 ? kAnyMath : kFmaMath;
    const auto n = static_cast<int>(of_x[0]), t = static_cast<int>(of_x[1]), d = static_cast<int>(of_x[2]),
               h = static_cast<int>(weight[1]), gates = static_cast<int>(weight[0]) / h;
    const int cell = a.steps.gru ? kGru : kLstm;
    check_dnn(f.SetRNNDescriptor_v8(rnn.get(), kStandard, cell, kTwoBiases, kOneWay, kMultiplies, type, kF32, math, d,
                                    h, h, 1, nullptr, kUnpacked),
              "a recurrent layer");
    const std::vector<int> lengths(static_cast<size_t>(n), t);
    for (const auto& [data, width] : {std::pair(x, d), std::pair(y, h)}) {
      check_dnn(f.SetRNNDataDescriptor(data.get(), type, kBatchFirst, t, n, width, lengths.data(), nullptr),
                "sequences");
    }
    const int extents[] = {1, n, h}, strides[] = {n * h, h, 1};
    check_dnn(f.SetTensorNdDescriptor(state.get(), type, 3, extents, strides), "a state");
    check_dnn(f.GetRNNWeightSpaceSize(dnn.handle(), rnn.get(), &weights), "the weights' size");
    check_dnn(f.GetRNNTempSpaceSizes(dnn.handle(), rnn.get(), use == LayerUse::training ? kTraining : kInference,
                                     x.get(), &workspace, &reserve),
              "a layer's memory");
    reserve = aligned(reserve);
    const Handle of_matrix = made(f.CreateTensorDescriptor, f.DestroyTensorDescriptor),
                 of_bias = made(f.CreateTensorDescriptor, f.DestroyTensorDescriptor);
    for (int id = 0; id < 2 * gates; ++id) {
      char* const base = reinterpret_cast<char*>(uintptr_t{1} << 40);  // that nobody reads
      void *matrix = base, *bias = base;
      check_dnn(f.GetRNNWeightParams(dnn.handle(), rnn.get(), 0, weights, base, id, of_matrix.get(), &matrix,
                                     of_bias.get(), &bias),
                "a gate's weights");
      const auto offset = [&](void* p) { return static_cast<size_t>(static_cast<char*>(p) - base); };
      places[id < gates ? 1 : 3].push_back(offset(matrix));
      if (id < gates) places[2].push_back(offset(bias));
      if (id == 2 * gates - 1) places[4].push_back(offset(bias));  // what a GRU adds inside
    }
  }

  const DnnFunctions& f = dnn_functions();
  Handle rnn = made(f.CreateRNNDescriptor, f.DestroyRNNDescriptor),
         x = made(f.CreateRNNDataDescriptor, f.DestroyRNNDataDescriptor),
         y = made(f.CreateRNNDataDescriptor, f.DestroyRNNDataDescriptor),
         state = made(f.CreateTensorDescriptor, f.DestroyTensorDescriptor);
  size_t weights = 0, workspace = 0, reserve = 0;  // bytes
  std::array<std::vector<size_t>, 5> places;       // in the library's weights, by input of the op and gate
};

// Elements from so many bytes behind the beginning of one of the step's operands on.
struct OperandSlice {
  size_t operand = 0, offset = 0;
  DType type = DType::u8;
};

// The library's view of a sequence. It knows no samples of different lengths but by a list on the host, which a
// recorded step could not change, and no sequence that begins with the last step: so it computes all steps of all
// samples from the first on, and what a sample has behind its last token counts for nothing. `reversed`: a sample's
// tokens from the last one on, then zeros; `held`: what the last token has is repeated behind it; `gathered`: the
// gradient of that, all behind the last token added to it.
enum class Way { same, reversed, held, gathered };

class LayerKernel final : public Kernel {
 public:
  LayerKernel(std::shared_ptr<Dnn> dnn, const StepSpec& spec, const Generate& generate)
      : dnn_(std::move(dnn)),
        attrs_(attrs<RecurrentLayerAttrs>(*spec.node)),
        gradient_(spec.node->op == Op::recurrent_layer_grad),
        type_(spec.in[0].type.dtype),
        scratch_(spec.in.size() + spec.out.size()),
        reserve_{gradient_ ? input_of_gradient(attrs_, kResultGates) : spec.in.size() + kResultGates},
        layer_(*dnn_, attrs_, type_, spec.in[0].type.shape, spec.in[3].type.shape, spec.tf32,
               keeps(spec) ? LayerUse::training : LayerUse::inference) {
    const size_t y = input_of_gradient(attrs_, kResultY), dy = input_of_gradient(attrs_, kResultCount),
                 out = spec.in.size();
    gpu::Lowered before, after;
    w_ = take(layer_.weights, type_);
    if (gradient_) dw_ = take(layer_.weights, type_);
    zeroed_ = bytes_;
    work_ = take(layer_.workspace);
    const auto operand = [&](size_t i) {
      return OperandSlice{i, 0, (i < out ? spec.in[i] : spec.out[i - out]).type.dtype};
    };
    for (size_t i = 1; i < weights_of(attrs_); ++i) {
      add_gates(before, spec.in[i].type.shape, operand(i), w_, layer_.places[i], false);
      if (gradient_) add_gates(after, spec.in[i].type.shape, operand(out + i), dw_, layer_.places[i], true);
    }
    const auto& [gru, reverse, lengths] = attrs_.steps;
    const Way way = reverse ? Way::reversed : Way::same;
    const bool own = reverse || lengths;  // the library's y is another one, and kept
    const OperandSlice own_y{reserve_.operand, layer_.reserve, type_};
    x_ = stage(before, spec.in[0], operand(0), way, false);
    if (gradient_) {
      y_ = own ? own_y : stage(before, spec.in[y], operand(y), Way::same, false);
      dy_ = stage(before, spec.in[dy], operand(dy), lengths && !reverse ? Way::gathered : way, false);
      dx_ = stage(after, spec.out[0], operand(out), way, true);
    } else {
      const OperandSlice inner = own && keeps(spec) ? own_y : OperandSlice{};
      y_ = stage(after, spec.out[0], operand(out), lengths && !reverse ? Way::held : way, true, inner);
    }
    before_ = generate(std::move(before));
    after_ = generate(std::move(after));
  }

  void run(void* const* operands) override {
    const auto entered = dnn_->memory().enter();
    const auto at = [&](OperandSlice p) -> void* { return static_cast<char*>(operands[p.operand]) + p.offset; };
    const Driver& driver = dnn_->memory().driver();
    // The library adds to gradients, and reads two biases where the op has one.
    check(driver, driver.fill(reinterpret_cast<Address>(at(w_)), 0, zeroed_, dnn_->memory().stream()), "fill");
    before_->run(operands);
    const auto& [f, rnn, x, y, h, weights, workspace, reserve, places] = layer_;
    void *const handle = dnn_->handle(), *const work = at(work_), *const bytes = reserve > 0 ? at(reserve_) : nullptr;
    const int mode = reserve > 0 ? kTraining : kInference;
    int status = 0;
    if (gradient_) {
      status = f.RNNBackwardData_v8(handle, rnn.get(), nullptr, y.get(), at(y_), at(dy_), x.get(), at(dx_), h.get(),
                                    nullptr, nullptr, nullptr, h.get(), nullptr, nullptr, nullptr, weights, at(w_),
                                    workspace, work, reserve, bytes);
      check_dnn(status, "the gradient of a recurrent layer");
      status = f.RNNBackwardWeights_v8(handle, rnn.get(), kAddGradients, nullptr, x.get(), at(x_), h.get(), nullptr,
                                       y.get(), at(y_), weights, at(dw_), workspace, work, reserve, bytes);
    } else {
      status = f.RNNForward(handle, rnn.get(), mode, nullptr, x.get(), at(x_), y.get(), at(y_), h.get(), nullptr,
                            nullptr, h.get(), nullptr, nullptr, weights, at(w_), workspace, work, reserve, bytes);
    }
    check_dnn(status, "a recurrent layer");
    after_->run(operands);
  }
  std::string name() const override { return attrs_.steps.gru ? "cuda:cudnn:gru" : "cuda:cudnn:lstm"; }
  size_t scratch_bytes() const override { return bytes_; }

 private:
  bool keeps(const StepSpec& spec) const {
    const Operand& o = gradient_ ? spec.in[reserve_.operand] : spec.out[kResultGates];
    return o.layout.blocked->bytes > 0;
  }
  OperandSlice take(size_t bytes, DType type = DType::u8) {
    const OperandSlice place{scratch_, bytes_, type};
    bytes_ += aligned(bytes);
    return place;
  }
  // A parameter to the library's weights, or its gradient from them; gates that lie behind each other there go
  // together.
  void add_gates(gpu::Lowered& to, const Shape& shape, OperandSlice outer, OperandSlice inner,
                 const std::vector<size_t>& places, bool result) {
    const size_t gates = places.size(), first = inner.offset, each = static_cast<size_t>(shape.numel()) / gates;
    for (size_t k = 0, end = 0; k < gates; k = end) {
      for (end = k + 1; end < gates && places[end] == places[end - 1] + each * size_of(type_);) ++end;
      outer.offset = k * each * size_of(outer.type);
      inner.offset = first + places[k];
      add_copy(to, {1, 1, static_cast<int64_t>((end - k) * each)}, result ? inner : outer, result ? outer : inner);
    }
  }
  // Where the library finds or leaves a sequence (N, T, W) of the step: there, unless it is another one or vectors
  // cannot begin there; else in `inner`, or if that is none in scratch memory.
  OperandSlice stage(gpu::Lowered& to, const Operand& o, OperandSlice outer, Way way, bool result,
                     OperandSlice inner = {}) {
    if (way == Way::same && gpu::alignment_of(o) >= kLeastAlignment) return outer;
    if (inner.operand == 0) inner = take(o.type.bytes(), type_);
    add_copy(to, o.type.shape, result ? inner : outer, result ? outer : inner, way);
    return inner;
  }
  void add_copy(gpu::Lowered& to, const Shape& shape, OperandSlice from, OperandSlice into, Way way = Way::same) {
    gpu::KernelText text;
    const auto elements = [&](const OperandSlice& p, bool written) {
      return text.operand(static_cast<int>(p.operand), p.type, written, p.offset);
    };
    const gpu::Elements src = elements(from, false), dst = elements(into, true);
    text.begin_elements(shape.numel());
    text.line(text.split("e", shape[2], "row", "c"));
    text.line(text.split("row", shape[1], "s", "t"));
    const std::string steps = text.number(shape[1]), width = text.number(shape[2]);
    const auto load = [&](const char* t) { return src.load(cat("e + ((", t, ") - t) * ", width)); };
    std::string last = cat(steps, " - 1");
    if (attrs_.steps.lengths && way != Way::same) {
      const gpu::Elements counts = text.operand(static_cast<int>(weights_of(attrs_)), DType::i32, false);
      last = cat("(", counts.load("s"), " < ", steps, " ? ", counts.load("s"), " : ", steps, ") - 1");
    }
    text.line("float v = 0;");
    text.line("const idx_t last = ", last, ";");
    if (way == Way::reversed) text.line("if (t <= last) v = ", load("last - t"), ";");
    if (way == Way::held) text.line("if (last >= 0) v = ", load("t < last ? t : last"), ";");
    if (way == Way::same || way == Way::gathered) text.line("if (t <= last) v = ", load("t"), ";");
    if (way == Way::gathered) {
      text.line("for (idx_t k = t + 1; t == last && k < ", steps, "; ++k) v += ", load("k"), ";");
    }
    text.line(dst.store("e", "v"));
    to.launches.push_back(text.finish_elements("turn", shape.numel()));
  }

  std::shared_ptr<Dnn> dnn_;
  RecurrentLayerAttrs attrs_;
  bool gradient_;
  DType type_;
  size_t scratch_;  // its place among the operands
  OperandSlice reserve_;
  Layer layer_;
  size_t bytes_ = 0, zeroed_ = 0;  // of scratch memory
  OperandSlice w_, dw_, work_, x_, y_, dy_, dx_;
  std::unique_ptr<Kernel> before_, after_;
};

}  // namespace

bool takes_layer(const Dnn* dnn, const freight::Graph& graph, const Node& node, DType dtype) {
  const auto& a = attrs<RecurrentLayerAttrs>(node);
  const Type &x = graph.type(node.in(0)), &w = graph.type(node.in(3));
  const int64_t most = std::max(x.numel(), x.shape[0] * x.shape[1] * w.shape[0]);
  if (!dnn || x.dtype == DType::f64 || x.numel() == 0 || most > INT32_MAX) return false;
  const Node& layer = node.op == Op::recurrent_layer_grad ? graph.def(kept(node)) : node;
  if (layer.op != Op::recurrent_layer) return false;
  const int64_t gradients = gradients_of(graph, layer);
  const ByValue<int> uses = graph.use_counts();
  if (gradients > 1 || uses[layer.out(1)] != gradients || uses[layer.out(2)] != gradients) return false;
  try {
    Layer(*dnn, a, dtype, x.shape, w.shape, false, LayerUse::training);
  } catch (const Error& e) {
    logging::debug(cat("cuda: ", e.what()));
    return false;
  }
  return true;
}

LayoutPlan layer_layouts(const Dnn& dnn, const freight::Graph& graph, const Node& node, LayoutPlan plain,
                         const std::vector<Layout>& given) {
  const auto& a = attrs<RecurrentLayerAttrs>(node);
  if (node.op == Op::recurrent_layer_grad) {
    for (const size_t result : {kResultCells, kResultGates}) {
      const size_t at = input_of_gradient(a, result);
      plain.in[at] = given[at];
    }
    return plain;
  }
  size_t bytes = 0;  // without a gradient nothing is kept
  if (graph.use_counts()[node.outputs[kResultGates]] > 0) {
    const Type &x = graph.type(node.in(0)), &w = graph.type(node.in(3));
    for (const bool tf32 : {false, true}) {
      bytes = std::max(bytes, Layer(dnn, a, x.dtype, x.shape, w.shape, tf32, LayerUse::training).reserve);
    }
    const size_t own_y = a.steps.reverse || a.steps.lengths ? graph.type(node.outputs[kResultY]).bytes() : 0;
    bytes = std::max(bytes, size_t{1}) + own_y;
  }
  plain.out[kResultCells] = reserve_format(0);
  plain.out[kResultGates] = reserve_format(bytes);
  return plain;
}

std::unique_ptr<Kernel> layer_kernel(std::shared_ptr<Dnn> dnn, const StepSpec& spec, const Generate& generate) {
  return std::make_unique<LayerKernel>(std::move(dnn), spec, generate);
}

}  // namespace freight::cuda
