// Convolutions: 3x3 and 5x5 ones by Winograd's method, 1x1 ones as matrix products, few channels by direct kernels, the
// rest by oneDNN. Activations are channels-last; weights lie as stored, or for oneDNN in the format that its primitive
// asks for (a visible reorder).
#include <algorithm>
#include <bit>
#include <mutex>

#include "freight/backend/cpu/conv_rows.h"
#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/bf16/conv.h"
#include "freight/backend/cpu/kernels/bf16/gemm.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/conv.h"
#include "freight/backend/cpu/kernels/conv_taps.h"
#include "freight/backend/cpu/kernels/depthwise.h"
#include "freight/backend/cpu/kernels/depthwise_conv.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/gemm_tile.h"
#include "freight/backend/cpu/kernels/pixels.h"
#include "freight/backend/cpu/kernels/plane_tile.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/backend/cpu/kernels/winograd.h"
#include "freight/backend/cpu/steps.h"
#include "freight/backend/cpu/tune.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// As the kernels see the gradient of x: a convolution of dy that gives dx.
ConvProblem transposed_problem(const ConvOp& p) {
  ConvProblem t = plain_problem(p);
  std::swap(t.c, t.o);
  std::swap(t.h, t.oh);
  std::swap(t.w, t.ow);
  t.pad_h = t.kh - 1 - t.pad_h;
  t.pad_w = t.kw - 1 - t.pad_w;
  return t;
}

// From one channel into few the pixels fill the vectors: two cores of a Xeon with AVX-512, 1->6 5x5 b64, ms: 0.29 :
// 0.75 of oneDNN. The direct kernels of kernels/conv.h win on AVX2 where oneDNN 2.6 leaves vectors empty or reads x
// with a stride; measured GFLOP/s on one Zen 3 core, own against oneDNN: forward 6->16 5x5 85 : 61; weight gradient
// 1->6 5x5 53 : 23, 16->16 3x3 @32 73 : 44, 32->32 @16 58 : 38. Elsewhere (3 channels, stride 2, 64 channels, AVX-512)
// oneDNN is as fast.
bool runs_direct(const ConvOp& p) {
  const int64_t c = p.x.shape[1], o = p.y.shape[1];
  if (p.a.stride != Shape::filled(p.a.stride.rank(), 1)) return false;
  const bool plane = c == 1 && o <= PlaneTable::kMaxOutputs;
  if (p.op == Op::conv && plane) return true;
  if (gemm_table().lanes != 8) return false;
  if (plane && p.w.shape.back() >= 5) return p.op == Op::conv_grad_weight;
  if (p.op == Op::conv) return c >= 4 && c < 16 && o % 16 == 0;
  return p.op == Op::conv_grad_weight && c >= 16 && c <= 32;
}

// Measured on two cores against oneDNN's direct convolutions, ms. 3x3, a Xeon with AVX-512: 64 channels @56 b16 7.9
// : 13.3 forward, 7.9 : 19.7 input gradient; 512 @28 b8 61 : 124 and 61 : 116. A Zen 4: 16 channels @32 b128 1.9
// : 2.8, 2.0 : 2.8 and 1.5 : 2.7, with AVX2 alone 2.5 : 4.1 and 2.4 : 3.0; 5x5 2.2 : 3.8; 64 channels 5x5 b64 17.6 :
// 56, 17.8 : 58 and 21.8 : 63.
bool runs_winograd(const ConvOp& p) {
  const ConvProblem c = p.op == Op::conv_grad_input ? transposed_problem(p) : plain_problem(p);
  return std::min(c.c, c.o) >= 16 && c.pad_h >= 0 && c.pad_w >= 0 && winograd_fits(c);
}

// Tiles of 4 x 4 that it takes to pay for the transformed weights, four times as large as the stored ones; resnet18 on
// two cores of a Zen 4 with and without, ms: batch 1 (4 tiles in the last layers) 119 : 57, 2 (8) 135 : 103, 4 (16)
// 188 : 175. Frozen weights are transformed once.
constexpr int64_t kTiles = 24, kTilesFrozen = 16;
// The same for bf16, whose direct form has twice the rate of f32: from so many channels on.
constexpr int64_t kTilesBf16 = 256, kChannelsBf16 = 64;
int64_t winograd_tiles(const ConvProblem& c) { return c.n * ceil_div(c.oh, 4) * ceil_div(c.ow, 4); }

// Without AMX, products of bf16 reach twice the rate of those of f32, of which Winograd's method saves three of four
// for 3x3 and 21 of 25 for 5x5. Two busy cores of a Zen 4, ms, direct in bf16 : Winograd's in f32 on bf16 images. 5x5,
// 64 channels into 192 @27 b32: 46 : 22 forward, 44 : 25 input gradient, 55 : 44 weight gradient; 3x3, 64 into 192 @56
// b16: 32 : 25, 35 : 23, 39 : 27; 144 into 288 @14: 8.4 : 8.0, 6.8 : 5.2, 9.7 : 5.1; but 16 @32 b128: 1.4 : 2.1, 1.5
// : 2.1, 1.9 : 1.8, and 192 into 384 @7 b16: 2.0 : 4.4, 2.3 : 4.4, 3.6 : 2.9.
bool bf16_by_winograd(const ConvOp& p, const ConvProblem& c) {
  if (splits_f32() || !runs_winograd(p)) return false;
  if (p.op == Op::conv_grad_weight || c.kh == 5) return true;
  return std::min(c.c, c.o) >= kChannelsBf16 && winograd_tiles(c) >= kTilesBf16;
}

// A 1x1 convolution without margins is a product of the pixels that it sees, without steps all, by channels.
bool is_product(const ConvProblem& c) {
  return c.kh == 1 && c.kw == 1 && c.pad_h == 0 && c.pad_w == 0 && (c.oh - 1) * c.stride_h < c.h &&
         (c.ow - 1) * c.stride_w < c.w;
}
bool sees_all_pixels(const ConvProblem& c) { return c.stride_h == 1 && c.stride_w == 1 && c.oh == c.h && c.ow == c.w; }
bool runs_as_product(const ConvProblem& c) { return is_product(c) && sees_all_pixels(c) && std::min(c.c, c.o) >= 16; }

// Gradients of weights that oneDNN 2.6 computes wrongly, with other bits in each run. It gathers the pixels that a 1x1
// convolution with steps sees, and writes whole vectors, also behind the last channels: over the end of its memory, or
// that of a thread. In bf16 it reads what it has not written where taps are apart and the channels of a group do not
// fill vectors, and for groups with steps whose result has one column.
bool wrong_in_dnnl(const ConvOp& p) {
  if (p.op != Op::conv_grad_weight) return false;
  const bool steps = p.a.stride != Shape::filled(p.a.stride.rank(), 1), fills = p.w.shape[1] % 16 == 0;
  if (p.a.groups == 1 && p.w.numel() == p.w.shape[0] * p.w.shape[1] && steps && !fills) return true;
  return p.x.dtype == DType::bf16 && ((p.dilated() && !fills) || (p.a.groups > 1 && steps && p.y.shape.back() == 1));
}

// sequences: the gradient of a bf16 weight as products of sequences of pixels; where the weights are few it wins on AMX
// also of 1x1 convolutions, since pixels are cut. On two cores of a Zen 4, ms: 64 -> 256 @56 b16 6.6, as a product 5.6,
// 128 -> 512 @28 5.1 : 4.6. spread: the input gradient of a bf16 1x1 convolution with steps.
constexpr int64_t kFewWeights = 65536;
// taps: the gradient of a weight whose taps are apart. depthwise: a weight with a filter for each channel.
enum class Way : uint8_t { dnnl, direct, winograd, product, sequences, spread, taps, depthwise };
constexpr const char* kWays[] = {"dnnl", "direct", "winograd", "gemm", "sequences", "spread", "taps", "depthwise"};

// The gradient of a weight with dilation where oneDNN has no kernel of its own for it: with AVX-512 that is where there
// are steps as well. It then unfolds the image, or, where that is too large, walks plain loops.
bool runs_by_taps(const ConvOp& p) {
  const bool makes_weight = p.op == Op::conv_grad_weight && p.x.shape.rank() > 3;
  if (!makes_weight || !p.dilated() || (p.x.dtype != DType::f32 && p.x.dtype != DType::bf16)) return false;
  try {
    const auto pd = p.backward<dnnl::convolution_backward_weights>(dnnl_any(grouped(p.w, p.a.groups)));
    const std::string_view name = pd.impl_info_str();
    return name.find("gemm") != std::string_view::npos || name.find("ref") != std::string_view::npos;
  } catch (const dnnl::error&) {  // it has none at all
    return true;
  }
}

// The gradient of the weight: oneDNN 2.6 has a kernel of its own for 3x3 alone, as fast as ours. For larger filters its
// general one takes ten times as long as the forward pass: the 7x7 ones of convnext_tiny b4, one thread of a Zen 4,
// 152 ms, ours 16.
bool runs_depthwise(const ConvOp& p) {
  if (p.a.groups == 1 || p.a.groups != p.y.shape[1] || p.w.shape[1] != 1 || p.dilated() || p.x.shape.rank() > 4)
    return false;
  if (p.x.dtype != DType::f32 && p.x.dtype != DType::bf16) return false;
  const ConvProblem c = plain_problem(p);
  if (p.op == Op::conv_grad_weight) return depthwise_fits(c);
  if (p.x.dtype == DType::bf16 && c.kw < 5) return false;
  if (p.op == Op::conv) return depthwise_conv_fits(c);
  return c.stride_h == 1 && c.stride_w == 1 && depthwise_conv_fits(transposed_problem(p));
}

// Where the choice is by rule. One thread of a Zen 4 in b1 and b16, oneDNN's time by ours: 5x5 and 7x7 1.1 to 1.9, 3x3
// 0.7 to 1.4; with AVX2 alone 5x5 and 7x7 0.9 to 1.4, 3x3 0.7 to 1.0.
bool usually_depthwise(const ConvOp& p) {
  return runs_depthwise(p) && (p.op == Op::conv_grad_weight || p.w.shape.back() >= 5);
}

TapsProblem taps_problem(const ConvOp& p) {
  TapsProblem t{.n = p.x.shape[0], .c = p.x.shape[1], .o = p.y.shape[1], .groups = p.a.groups, .axes = {}};
  const int spatial = p.x.shape.rank() - 2;
  for (int i = 0; i < spatial; ++i) {
    t.axes[t.axes.size() - static_cast<size_t>(spatial - i)] = {.x = p.x.shape[2 + i],
                                                                .y = p.y.shape[2 + i],
                                                                .kernel = p.w.shape[2 + i],
                                                                .stride = p.a.stride[i],
                                                                .dilation = p.a.dilation[i],
                                                                .pad = p.a.pad_low[i]};
  }
  return t;
}

// With Winograd's method from so many `tiles` on.
Way usual_way_of(const ConvOp& p, int64_t tiles) {
  if (usually_depthwise(p)) return Way::depthwise;
  if (runs_by_taps(p)) return Way::taps;
  if (p.a.groups > 1 || p.dilated() || p.x.shape.rank() > 4) return Way::dnnl;
  const ConvProblem c = plain_problem(p);
  if (p.x.dtype == DType::bf16 && bf16_table()) {
    const bool makes_weight = p.op == Op::conv_grad_weight;
    if (bf16_by_winograd(p, c) && winograd_tiles(c) >= tiles) return Way::winograd;
    const bool few = makes_weight && splits_f32() && c.c * c.o <= kFewWeights;
    if (runs_as_product(c) && !few) return Way::product;
    // Never oneDNN 2.6: its kernel with bf16 instructions can be wrong if images have a multiple of 30 pixels.
    if (p.op == Op::conv_grad_input && is_product(c)) return sees_all_pixels(c) ? Way::product : Way::spread;
    return makes_weight && Bf16GradWeight::fits(c) ? Way::sequences : Way::dnnl;
  }
  if (p.x.dtype != DType::f32) return Way::dnnl;
  if (runs_direct(p)) return Way::direct;
  // With AVX2 oneDNN's kernels are as fast, but that of the weight's gradient: ResNet-50 b16 on two cores of a Zen 4,
  // 140 GFLOP/s of 200.
  const int lanes = gemm_table().lanes;
  if (runs_as_product(c) && (lanes == 16 || (lanes == 8 && p.op == Op::conv_grad_weight))) return Way::product;
  return runs_winograd(p) && winograd_tiles(c) >= tiles ? Way::winograd : Way::dnnl;
}
Way way_of(const ConvOp& p, int64_t tiles) {
  const Way way = usual_way_of(p, tiles);
  return way == Way::dnnl && wrong_in_dnnl(p) ? Way::taps : way;
}
// A pass behind oneDNN's convolution adds the residual: of whole images, since a pass over pieces has no operand of its
// own, and of f32. It pays where few tiles make Winograd's method slow.
bool adds_residual_by_pass(const ConvOp& p) { return p.x.dtype == DType::f32 && !cuts_rows(p); }

// Where nothing is measured, residuals are added by our own kernels.
Way way_of(const ConvOp& p) { return way_of(p, p.a.epilogue.residual ? 0 : kTiles); }

// The way with a frozen weight where nothing is measured. oneDNN's products on packed weights take 0.7 to 0.9 of the
// time of ours (1x1 convolutions of resnet50, one core of a Xeon with AVX-512).
Way frozen_way_of(const ConvOp& p) {
  if (p.a.epilogue.residual) return way_of(p);
  const Way way = way_of(p, kTilesFrozen);
  return way == Way::product ? Way::dnnl : way;
}

// True where the packings can be made from a weight that lies so.
bool packable(const ConvOp& p, const Layout& weight) {
  const int r = p.w.shape.rank();
  return is_dense(p.w.shape, weight) &&
         (way_of(p, 0) != Way::winograd || weight.strides[2] == p.w.shape[3] * weight.strides[3]) && r >= 3;
}

// Pixels (N H W, C) by the weights (O, C), or the gradient of either; see runs_as_product.
template <class Multiply, class T>
class Product {
 public:
  Product(const ConvOp& p, bool packed, bool stream)
      : gemm_(problem(p, packed, stream)), makes_weight_(p.op == Op::conv_grad_weight) {}
  void run(const T* x, const T* w, T* y, const T* bias, const T* residual, void* scratch) const {
    if (makes_weight_) std::swap(x, w);
    gemm_.run(x, w, y, bias, residual, scratch);
  }
  size_t scratch_bytes() const { return gemm_.scratch_bytes(); }

 private:
  static GemmProblem problem(const ConvOp& p, bool packed, bool stream) {
    const ConvProblem c = plain_problem(p);
    const int64_t pixels = c.n * c.h * c.w;
    GemmProblem g{.m = pixels, .n = c.c, .k = c.o, .a_row = c.o, .b_row = c.c, .c_row = c.c};
    if (p.op == Op::conv) g = {.m = pixels, .n = c.o, .k = c.c, .a_row = c.c, .b_row = 1, .b_col = c.c, .c_row = c.o};
    if (p.op == Op::conv_grad_weight)
      g = {.m = c.o, .n = c.c, .k = pixels, .a_row = 1, .a_col = c.o, .b_row = c.c, .c_row = c.c};
    g.relu = c.relu;
    g.most = c.most;
    g.stream = stream;
    g.packed = packed;
    return g;
  }

  Multiply gemm_;
  bool makes_weight_;
};

ConvOp problem(const Graph& g, const Node& n) { return {n, g.type(n.in(0)), g.type(n.in(1)), g.type(n.out())}; }

std::unique_ptr<Kernel> dnnl_grad_weight(const ConvOp& p, const dnnl::memory::desc& w) {
  const auto pd = p.backward<dnnl::convolution_backward_weights>(w);
  return dnnl_step<dnnl::convolution_backward_weights>(
      pd, {{DNNL_ARG_SRC, pd.src_desc(), 0}, {DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), 1}, {DNNL_ARG_DIFF_WEIGHTS, w, 2}},
      3);
}

// The gradient of an f32 weight by slices of the batch, each by oneDNN on one thread, added in order. oneDNN's own
// parallel form cuts its sums by the number of threads, so that bits depend on it, and its threads meet at a barrier
// where they never sleep: beside another program each meeting took a time slice (8 ms for a step of 1.7).
class SlicedGradWeight final : public Kernel {
 public:
  struct Sizes {
    int64_t samples = 0, x_sample = 0, y_sample = 0;  // of the batch, and bytes of one sample
    size_t weight = 0;                                // bytes
  };
  SlicedGradWeight(const Sizes& sizes, std::vector<std::unique_ptr<Kernel>> parts)
      : sizes_(sizes), parts_(std::move(parts)) {
    size_t most = 0;
    for (const auto& part : parts_) most = std::max(most, part->scratch_bytes());
    reserve_thread_scratch(most);
  }
  std::string name() const override { return parts_[0]->name() + " in slices"; }
  size_t scratch_bytes() const override { return sizes_.weight * (parts_.size() - 1); }

  void run(void* const* operands) override {
    char *const x = static_cast<char*>(operands[0]), *const y = static_cast<char*>(operands[1]),
                *const more = static_cast<char*>(operands[3]);
    const auto sum_of = [&](int64_t i) {
      return i == 0 ? operands[2] : more + sizes_.weight * static_cast<size_t>(i - 1);
    };
    const auto slices = static_cast<int64_t>(parts_.size());
    parallel_for(slices, [&](int64_t i) {
      const ThreadLimit alone(1);
      Kernel& part = *parts_[static_cast<size_t>(i)];
      const int64_t first = i * sizes_.samples / slices;
      void* const bound[] = {x + first * sizes_.x_sample, y + first * sizes_.y_sample, sum_of(i),
                             thread_scratch(part.scratch_bytes())};
      part.run(bound);
    });
    constexpr int64_t kChunk = 16384;
    const auto n = static_cast<int64_t>(sizes_.weight / sizeof(float));
    parallel_for(ceil_div(n, kChunk), n > kChunk, [&](int64_t chunk) {
      const int64_t last = std::min(n, (chunk + 1) * kChunk);
      float* const sum = static_cast<float*>(operands[2]);
      for (size_t k = 1; k < parts_.size(); ++k) {
        const float* const part = static_cast<const float*>(sum_of(static_cast<int64_t>(k)));
        for (int64_t i = chunk * kChunk; i < last; ++i) sum[i] += part[i];
      }
    });
  }

 private:
  Sizes sizes_;
  std::vector<std::unique_ptr<Kernel>> parts_;
};

// How many slices: so much work and so many pixels in each that starting it and adding its part cost little, and parts
// no larger than the operands. A power of two, which most numbers of threads share evenly.
constexpr double kFlopsPerSlice = 1e6;
constexpr int64_t kPixelsPerSlice = 512, kMostSlices = 64, kLeastPartBytes = 1 << 20;
int64_t slices_of(const ConvOp& p) {
  const auto bytes = [](const Type& t) { return t.numel() * static_cast<int64_t>(size_of(t.dtype)); };
  const int64_t samples = p.x.shape[0], pixels = p.y.numel() / p.y.shape[1];
  const int64_t room = (bytes(p.x) + bytes(p.y) + kLeastPartBytes) / bytes(p.w);
  const double flops = 2.0 * static_cast<double>(p.w.numel()) * static_cast<double>(pixels);
  const int64_t worth = std::min(pixels / kPixelsPerSlice, static_cast<int64_t>(flops / kFlopsPerSlice));
  const int64_t most = std::max<int64_t>(1, std::min({samples, kMostSlices, worth, room}));
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
}

// Nothing where the batch is too small to be cut.
std::unique_ptr<Kernel> sliced_grad_weight(const ConvOp& p, const Layout& layout) {
  const int64_t slices = slices_of(p), samples = p.x.shape[0];
  if (p.w.dtype != DType::f32 || slices == 1) return nullptr;
  const ThreadLimit alone(1);
  const dnnl::memory::desc w = p.weight_desc(layout);
  std::vector<std::unique_ptr<Kernel>> parts;
  for (int64_t i = 0; i < slices; ++i) {
    ConvOp part = p;
    part.x.shape[0] = part.y.shape[0] = (i + 1) * samples / slices - i * samples / slices;
    parts.push_back(dnnl_grad_weight(part, w));
  }
  const auto sample = [&](const Type& t) { return t.numel() / samples * static_cast<int64_t>(size_of(t.dtype)); };
  return std::make_unique<SlicedGradWeight>(SlicedGradWeight::Sizes{samples, sample(p.x), sample(p.y), w.get_size()},
                                            std::move(parts));
}

std::unique_ptr<Kernel> by_dnnl(const StepSpec& spec, const ConvOp& p) {
  if (p.op == Op::conv_grad_weight) {
    const ThreadLimit threads(spec.deterministic ? 1 : thread_count());
    return dnnl_grad_weight(p, p.weight_desc(spec.out[0].layout));
  }
  const auto w = p.weight_desc(spec.in[1].layout);
  if (p.op == Op::conv_grad_input) {
    const auto pd = p.backward<dnnl::convolution_backward_data>(w);
    return dnnl_step<dnnl::convolution_backward_data>(pd,
                                                      {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), 0},
                                                       {DNNL_ARG_WEIGHTS, w, 1},
                                                       {DNNL_ARG_DIFF_SRC, pd.diff_src_desc(), 2}},
                                                      3);
  }
  FREIGHT_CHECK(!p.a.epilogue.residual || adds_residual_by_pass(p), "residual epilogue");
  const auto pd = p.forward(w, p.a.epilogue.bias, dnnl_attributes());
  std::vector<DnnlKernel::Argument> arguments{{DNNL_ARG_SRC, pd.src_desc(), 0}, {DNNL_ARG_WEIGHTS, w, 1}};
  if (p.a.epilogue.bias) arguments.push_back({DNNL_ARG_BIAS, pd.bias_desc(), 2});
  arguments.push_back({DNNL_ARG_DST, pd.dst_desc(), spec.in.size()});
  return dnnl_step<dnnl::convolution_forward>(pd, arguments, spec.in.size() + 1, p.a.epilogue, spec.out[0].type.dtype);
}

// A convolution and silu of its result, the last operand but scratch.
class SiluKernel final : public Kernel {
 public:
  SiluKernel(std::unique_ptr<Kernel> conv, size_t result, int64_t numbers)
      : conv_(std::move(conv)), result_(result), numbers_(numbers) {}
  void run(void* const* operands) override {
    conv_->run(operands);
    auto* const v = static_cast<float*>(operands[result_]);
    constexpr int64_t kChunk = 16384;
    parallel_for(ceil_div(numbers_, kChunk),
                 [&](int64_t i) { silu_in_place(v + i * kChunk, std::min(kChunk, numbers_ - i * kChunk)); });
  }
  std::string name() const override { return conv_->name(); }
  size_t scratch_bytes() const override { return conv_->scratch_bytes(); }

 private:
  std::unique_ptr<Kernel> conv_;
  size_t result_;
  int64_t numbers_;
};

// True where samples meet in the gradient of a filter. A forward pass planned without one keeps its samples apart.
bool learns_filters(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& n) { return n.op == Op::conv_grad_weight; });
}

std::unique_ptr<Kernel> make_way(const StepSpec& spec, const ConvOp& p, Way way) {
  if (p.a.epilogue.silu) {
    ConvOp alone = p;
    alone.a.epilogue.silu = false;
    return std::make_unique<SiluKernel>(make_way(spec, alone, way), spec.in.size(), p.y.numel());
  }
  const Node& n = *spec.node;
  const Epilogue epilogue = n.op == Op::conv ? p.a.epilogue : Epilogue{};
  const bool packed = is_own_packing(spec.in[1].layout);
  const ConvProblem c = plain_problem(p);
  const auto own = [&]<class T = float>(auto conv, T = {}) {
    return std::make_unique<OwnKernel<decltype(conv), T>>(std::move(conv), kWays[static_cast<int>(way)], epilogue);
  };
  if (way == Way::direct && n.op == Op::conv) return own(ConvForward(c));
  if (way == Way::direct) return own(ConvGradWeight(c));
  if (way == Way::sequences) return own(Bf16GradWeight(c), Bf16{});
  if (way == Way::spread) return own(Bf16SpreadProduct(c), Bf16{});
  if (way == Way::product && p.x.dtype == DType::bf16)
    return own(Product<Bf16Gemm, Bf16>(p, packed, spec.stream_outputs), Bf16{});
  if (way == Way::product) {
    std::vector<Candidate> candidates{
        {"gemm", [&] { return own(Product<Gemm<float>, float>(p, packed, spec.stream_outputs)); }}};
    if (!packed && splits_f32()) {  // few channels leave tiles empty
      const auto place = std::min(c.c, c.o) > 64 ? candidates.begin() : candidates.end();
      candidates.insert(place, {"split", [&] {
                                  Product<SplitGemm, float> product(p, packed, spec.stream_outputs);
                                  return std::make_unique<OwnKernel<decltype(product), float>>(product, "split",
                                                                                               epilogue);
                                }});
    }
    return choose(spec, candidates);
  }
  if (way == Way::winograd || way == Way::taps || way == Way::depthwise) {
    const auto of = [&]<class T>(T) -> std::unique_ptr<Kernel> {
      using Weights = typename Winograd<T>::Weights;
      if (way == Way::taps) return own(TapsGradWeight<T>(taps_problem(p)), T{});
      if (way == Way::depthwise && n.op == Op::conv_grad_weight) return own(DepthwiseGradWeight<T>(c), T{});
      if (way == Way::depthwise && n.op == Op::conv_grad_input)
        return own(DepthwiseConv<T>(transposed_problem(p), Filter::turned, spec.stream_outputs), T{});
      if (way == Way::depthwise) return own(DepthwiseConv<T>(c, Filter::stored, spec.stream_outputs), T{});
      if (n.op == Op::conv_grad_weight) return own(WinogradGradWeight<T>(c), T{});
      const WinogradImages images = learns_filters(*spec.graph) ? WinogradImages::joined : WinogradImages::apart;
      if (n.op == Op::conv_grad_input)
        return own(Winograd<T>(transposed_problem(p), Weights::transposed, images, spec.stream_outputs), T{});
      return own(Winograd<T>(c, packed ? Weights::transformed : Weights::stored, images, spec.stream_outputs), T{});
    };
    return p.x.dtype == DType::bf16 ? of(Bf16{}) : of(float{});
  }
  if (cuts_rows(p)) {
    const Layout& w = n.op == Op::conv_grad_weight ? spec.out[0].layout : spec.in[1].layout;
    return make_conv_rows(p, spec.in.size() + 1, p.weight_desc(w).get_size(),
                          [&](const ConvOp& piece) { return by_dnnl(spec, piece); });
  }
  if (n.op == Op::conv_grad_weight) {
    if (auto sliced = sliced_grad_weight(p, spec.out[0].layout)) return sliced;
  }
  return by_dnnl(spec, p);
}

// The weight format that oneDNN would like best. It makes a primitive to tell, which takes longer than the rest of a
// step's plan, and the layout pass asks twice, for layers of which many are equal: answers are kept.
dnnl::memory::desc wanted_by_dnnl(const ConvOp& p) {
  struct Answer {
    ConvOp asked;
    int threads;
    dnnl::memory::desc wanted;
  };
  constexpr size_t kMost = 1024;
  static std::mutex mutex;
  static std::vector<Answer> answers;
  const auto equals = [&](const Answer& a) {
    return a.asked.op == p.op && a.asked.x == p.x && a.asked.w == p.w && a.asked.y == p.y &&
           a.asked.a.fields() == p.a.fields() && a.threads == thread_count();
  };
  const std::lock_guard lock(mutex);
  const auto known = std::find_if(answers.begin(), answers.end(), equals);
  if (known != answers.end()) return known->wanted;
  if (answers.size() == kMost) answers.clear();
  return answers.emplace_back(Answer{p, thread_count(), p.wanted()}).wanted;
}

LayoutPlan layouts_for(const Graph& graph, const Node& node, const ConvOp& p, Way way, bool frozen) {
  Layout weight = Layout::row_major(p.w.shape);
  if (frozen && way == Way::product) {
    weight = panel_layout(p.w, 0);
  } else if (frozen && way == Way::winograd) {
    weight = winograd_layout(p.w.shape);
  } else if (way == Way::depthwise && p.op != Op::conv_grad_weight) {
    weight = taps_first(p.w.shape);
  } else if (way == Way::dnnl) {
    const dnnl::memory::desc wanted = wanted_by_dnnl(cuts_rows(p) ? usual_piece(p) : p);
    const Type g = grouped(p.w, p.a.groups);
    // Plain but permuted weights count as packed: the graph sees the ungrouped shape.
    if (!(wanted == dnnl_desc(g, Layout::row_major(g.shape)))) {
      const Layout asked = layout_of(g, wanted);
      weight = asked.blocked ? asked : layout_of(Type{g.dtype, {}}, wanted);
    }
  }
  const auto channels_last = [&](Value v) { return Layout::channels_last(graph.type(v).shape); };
  LayoutPlan plan;
  const bool makes_weight = node.op == Op::conv_grad_weight;
  plan.in = {channels_last(node.in(0)), makes_weight ? channels_last(node.in(1)) : weight};
  plan.out = {makes_weight ? weight : channels_last(node.out())};
  for (size_t i = 2; i < node.inputs.size(); ++i) {
    plan.in.push_back(graph.type(node.inputs[i]).shape.rank() == 1 ? Layout::row_major(graph.type(node.inputs[i]).shape)
                                                                   : channels_last(node.inputs[i]));
  }
  return plan;
}

// With a frozen weight its format costs nothing: of a product, Winograd's method, the depthwise kernel and oneDNN the
// fastest is taken.
LayoutPlan fastest_layouts(const Graph& graph, const Node& node, const ConvOp& p, const FrozenInputs& frozen) {
  std::vector<Way> ways{frozen_way_of(p)};
  if (!frozen.deterministic && ways[0] != Way::direct) {
    for (const Way way : {way_of(p, kTilesFrozen), Way::dnnl}) {
      const bool takes = way != Way::dnnl || !p.a.epilogue.residual || adds_residual_by_pass(p);
      if (way != ways[0] && takes) ways.push_back(way);
    }
    if (runs_depthwise(p) && ways[0] != Way::depthwise) ways.push_back(Way::depthwise);
  }
  std::vector<LayoutPlan> plans;
  std::vector<StepSpec> specs;
  std::vector<Candidate> candidates;
  for (const Way way : ways) {
    plans.push_back(layouts_for(graph, node, p, way, true));
    StepSpec spec{.graph = &graph, .node = &node, .in = {}, .out = {}, .deterministic = frozen.deterministic};
    spec.rule = frozen.rule;
    for (size_t i = 0; i < node.inputs.size(); ++i) spec.in.push_back({graph.type(node.inputs[i]), plans.back().in[i]});
    spec.out.push_back({graph.type(node.out()), plans.back().out[0]});
    specs.push_back(spec);
    candidates.push_back({kWays[static_cast<int>(way)], [spec, &p, way] { return make_way(spec, p, way); }});
  }
  const ConvProblem c = plain_problem(p);
  const std::string step =
      cat("frozen conv ", p.x, p.w, p.y, " stride ", c.stride_h, c.stride_w, " pad ", c.pad_h, c.pad_w, " groups ",
          p.a.groups, " dilation ", p.a.dilation, p.a.epilogue.residual ? " residual" : "");
  return plans[fastest(step, candidates, specs, 1)];
}

// The descriptor of a plain weight in any dense strides, with the group as an axis of its own where the packed one has
// it.
dnnl::memory::desc plain_desc(const Operand& o, const dnnl::memory::desc& packed) {
  const Type type{o.type.dtype, Shape(packed.dims())};
  Layout layout = o.layout;
  if (type.shape.rank() > o.type.shape.rank()) layout.strides.insert(0, layout.strides[0] * type.shape[1]);
  return dnnl_desc(type, layout);
}

}  // namespace

ConvProblem plain_problem(const ConvOp& p) {
  ConvProblem d;
  const int first = p.x.shape.rank() - 3;  // one spatial axis becomes the second
  const auto spatial = [&](const Shape& s, int axis) { return first + axis < 1 ? 1 : s[first + axis + 1]; };
  const auto setting = [&](const Shape& s, int axis, int64_t none) {
    return first + axis < 1 ? none : s[first + axis - 1];
  };
  d.n = p.x.shape[0];
  d.c = p.x.shape[1];
  d.o = p.y.shape[1];
  d.h = spatial(p.x.shape, 0);
  d.w = spatial(p.x.shape, 1);
  d.oh = spatial(p.y.shape, 0);
  d.ow = spatial(p.y.shape, 1);
  d.kh = spatial(p.w.shape, 0);
  d.kw = spatial(p.w.shape, 1);
  d.stride_h = setting(p.a.stride, 0, 1);
  d.stride_w = setting(p.a.stride, 1, 1);
  d.pad_h = setting(p.a.pad_low, 0, 0);
  d.pad_w = setting(p.a.pad_low, 1, 0);
  d.relu = p.a.epilogue.relu;
  d.most = static_cast<float>(p.a.epilogue.most);
  return d;
}

Layout taps_first(const Shape& weight) {
  Layout layout = Layout::row_major(weight);
  for (int i = 2; i < weight.rank(); ++i) layout.strides[i] *= weight[0];
  layout.strides[0] = layout.strides[1] = 1;
  return layout;
}

bool takes_conv(const Graph& graph, const Node& node) {
  return dnnl_multiplies(graph.type(node.out()).dtype) && !problem(graph, node).empty();
}

bool conv_epilogue(const Graph& graph, const Node& node, const Epilogue& epilogue) {
  const bool clips = epilogue.relu && epilogue.most > 0;  // all that activate() knows of bf16
  if (epilogue.bounded() && !clips && graph.type(node.out()).dtype != DType::f32) return false;
  if (epilogue.silu && !joins_conv_chains(graph, node)) return false;
  if (!epilogue.residual) return true;
  const Way way = way_of(problem(graph, node), 0);
  return way == Way::product || way == Way::winograd;
}

// From one channel into few, pairs of bf16 and oneDNN's vectors are mostly empty. lenet b64 on two cores of a Zen 4,
// ms, bf16 : f32: 1 -> 6 5x5 0.37 : 0.15, the gradient of its weight 0.51 : 0.19. More gain: 1 -> 64 7x7 @128 b16 15.6
// : 24.8, gradient 27 : 29; 3 -> 64 7x7 @224 b16 11.6 : 18.1, gradient 17.3 : 23.8, and 1.5 for the image's cast.
bool conv_keeps_f32(const Graph& graph, const Node& node, DType dtype) {
  const ConvOp p = problem(graph, node);
  return dtype == DType::bf16 && bf16_table() && !splits_f32() && p.x.shape[1] == 1 &&
         p.y.shape[1] <= PlaneTable::kMaxOutputs;
}

LayoutPlan conv_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                        const FrozenInputs& frozen) {
  const ConvOp p = problem(graph, node);
  const bool packs = node.op == Op::conv && weight_frozen(frozen) && packable(p, given[1]);
  if (packs && p.x.dtype == DType::f32) return fastest_layouts(graph, node, p, frozen);
  // In bf16 there is one way, and Winograd's filters, which are f32, would be many times as large.
  const Way way = way_of(p);
  return layouts_for(graph, node, p, way, packs && way == Way::product);
}

std::unique_ptr<Kernel> make_conv(const StepSpec& spec) {
  const Node& n = *spec.node;
  const ConvOp p(n, spec.in[0].type, spec.in[1].type, spec.out[0].type);
  // The choice of the layout pass for a frozen weight shows in the weight's format.
  const Layout& w = spec.in[1].layout;
  Way way = is_own_packing(w) ? way_of(p, 0) : way_of(p);
  if (n.op == Op::conv && w.blocked && !is_own_packing(w)) way = Way::dnnl;
  if (n.op == Op::conv && runs_depthwise(p))
    way = same_layout(p.w.shape, w, taps_first(p.w.shape)) ? Way::depthwise : Way::dnnl;
  return make_way(spec, p, way);
}

// Between a dense plain weight and a packed one.
std::unique_ptr<Kernel> make_reorder(const StepSpec& spec) {
  if (!spec.in[0].layout.blocked && !spec.out[0].layout.blocked) return nullptr;
  const bool packs = static_cast<bool>(spec.out[0].layout.blocked);
  FREIGHT_CHECK(!(spec.in[0].layout.blocked && packs), "reorder between packed layouts");
  const Operand& plain = packs ? spec.in[0] : spec.out[0];
  const dnnl::memory::desc packed = dnnl_desc(plain.type, packs ? spec.out[0].layout : spec.in[0].layout);
  const dnnl::memory::desc unpacked = plain_desc(plain, packed);
  const auto &from = packs ? unpacked : packed, &to = packs ? packed : unpacked;
  const dnnl::reorder::primitive_desc pd(dnnl_engine(), from, dnnl_engine(), to, dnnl_attributes());
  return std::make_unique<DnnlKernel>(dnnl::reorder(pd), pd.scratchpad_desc(), "dnnl:reorder",
                                      std::vector<DnnlKernel::Argument>{{DNNL_ARG_FROM, from, 0}, {DNNL_ARG_TO, to, 1}},
                                      2);
}

}  // namespace freight::cpu
