// See spatial.h.
#include "freight/nn/spatial.h"

#include <algorithm>
#include <cmath>

#include "freight/base/usage.h"
#include "freight/nn/layers_internal.h"
#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

ConvTransposeLayer::ConvTransposeLayer(const char* type, int spatial, const Fields& f)
    : type_(type), spatial_(spatial), fields_(f) {
  for (const int64_t channels : {f.in, f.out})
    need_multiple(type, "channels in and out, by groups", channels, f.groups);
  Shape shape{f.in, f.out / f.groups};
  for (const int64_t k : f.kernel.expand(spatial, type, "kernel")) shape.push_back(k);
  weight = parameter("weight", shape, weight_init(WeightInit::standard, shape));
  if (f.bias) bias = parameter("bias", {f.out}, bias_init(BiasInit::standard, shape));
}
void ConvTransposeLayer::need_output_padding() const {
  const Shape extra = fields_.output_padding.expand(spatial_, type_, "output_padding"),
              stride = fields_.stride.expand(spatial_, type_, "stride"),
              dilation = fields_.dilation.expand(spatial_, type_, "dilation");
  for (int i = 0; i < spatial_; ++i) {
    if (extra[i] < std::max(stride[i], dilation[i])) continue;
    trace::fail_here(type_, "output_padding must be smaller than stride or dilation: got output_padding ", extra,
                     ", stride ", stride, ", dilation ", dilation);
  }
}
Tensor ConvTransposeLayer::with_bias(const Tensor& y) const {
  return bias.defined() ? y + ops::per_channel(bias.value(), y, type_) : y;
}
ConvTranspose1d::ConvTranspose1d(const Fields& fields)
    : ConvTransposeLayer("ConvTranspose1d", 1, checked<ConvTranspose1d>(fields)) {}
ConvTranspose2d::ConvTranspose2d(const Fields& fields)
    : ConvTransposeLayer("ConvTranspose2d", 2, checked<ConvTranspose2d>(fields)) {}
Tensor ConvTranspose1d::forward(const Tensor& x) {
  if (x.rank() == 2) return squeeze(forward(unsqueeze(x, 0)), 0);
  if (x.rank() != 3) trace::fail_here("ConvTranspose1d", "expected (N, C, L), got ", x.type());
  need_output_padding();
  const Fields& f = fields();
  const auto image = [](const Extents& e, int64_t other) { return Extents{other, e.values[0]}; };
  const Tensor y = conv_transpose2d(unsqueeze(x, 2), unsqueeze(weight, 2),
                                    {.stride = image(f.stride, 1),
                                     .padding = image(f.padding, 0),
                                     .output_padding = image(f.output_padding, 0),
                                     .dilation = image(f.dilation, 1),
                                     .groups = f.groups});
  return with_bias(squeeze(y, 2));
}
Tensor ConvTranspose2d::forward(const Tensor& x) {
  if (x.rank() == 3) return squeeze(forward(unsqueeze(x, 0)), 0);
  need_output_padding();
  const Fields& f = fields();
  return with_bias(conv_transpose2d(x, weight, {f.stride, f.padding, f.output_padding, f.dilation, f.groups}));
}

AdaptiveAvgPool1d::AdaptiveAvgPool1d(const Fields& fields) : fields_(checked<AdaptiveAvgPool1d>(fields)) {}
Tensor AdaptiveAvgPool1d::forward(const Tensor& x) {
  if (x.rank() == 2) return squeeze(forward(unsqueeze(x, 0)), 0);
  if (x.rank() != 3) trace::fail_here("AdaptiveAvgPool1d", "expected (N, C, L), got ", x.type());
  const int64_t output = adaptive_extents(fields_, x, 1, "AdaptiveAvgPool1d")[0];
  return squeeze(adaptive_avg_pool2d(unsqueeze(x, 2), {1, output}), 2);
}

namespace {

// Indices of rows as a constant of the graph.
Tensor row_numbers(const std::vector<int64_t>& rows) {
  const Shape count{static_cast<int64_t>(rows.size())};
  return trace::one(Op::constant, ConstantAttrs{{DType::i64, count}, 0, Array::of<int64_t>(rows, count)}, {});
}

// Maxima of one axis of (N, C, H, W). Windows of unequal lengths are gathered first, with their last element repeated:
// of equal elements the first is the maximum, so that repetitions get no gradient.
Tensor adaptive_maxima(const Tensor& x, int axis, int64_t cells) {
  const int64_t size = x.dim(axis);
  if (size == cells) return x;
  const auto begin = [&](int64_t i) { return i * size / cells; };
  const auto end = [&](int64_t i) { return ((i + 1) * size + cells - 1) / cells; };
  int64_t longest = 0;
  for (int64_t i = 0; i < cells; ++i) longest = std::max(longest, end(i) - begin(i));
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < cells; ++i) {
    for (int64_t k = 0; k < longest; ++k) rows.push_back(std::min(begin(i) + k, end(i) - 1));
  }
  const Tensor windows = size % cells == 0 ? x : gather(x, row_numbers(rows), axis);
  return max_pool2d(windows, {.kernel = axis == 2 ? Extents{longest, 1} : Extents{1, longest}});
}

void need_elements(const char* layer, const Tensor& x, int rank) {
  const bool fits = x.rank() == rank && x.dim(rank - 1) > 0 && x.dim(2) > 0;
  if (!fits)
    trace::fail_here(layer, "expected ",
                     rank == 3 ? "(N, C, L) with L of at least 1" : "(N, C, H, W) with H and W of at least 1", ", got ",
                     x.type());
}

}  // namespace

AdaptiveMaxPool1d::AdaptiveMaxPool1d(const Fields& fields) : fields_(checked<AdaptiveMaxPool1d>(fields)) {}
Tensor AdaptiveMaxPool1d::forward(const Tensor& x) {
  if (x.rank() == 2) return squeeze(forward(unsqueeze(x, 0)), 0);
  need_elements("AdaptiveMaxPool1d", x, 3);
  const int64_t output = adaptive_extents(fields_, x, 1, "AdaptiveMaxPool1d")[0];
  return squeeze(adaptive_maxima(unsqueeze(x, 2), 3, output), 2);
}
AdaptiveMaxPool2d::AdaptiveMaxPool2d(const Fields& fields) : fields_(checked<AdaptiveMaxPool2d>(fields)) {}
Tensor AdaptiveMaxPool2d::forward(const Tensor& x) {
  if (x.rank() == 3) return squeeze(forward(unsqueeze(x, 0)), 0);
  need_elements("AdaptiveMaxPool2d", x, 4);
  const Shape output = adaptive_extents(fields_, x, 2, "AdaptiveMaxPool2d");
  return adaptive_maxima(adaptive_maxima(x, 3, output[1]), 2, output[0]);
}

namespace {

// One of the elements along an axis whose weighted sum is the sample: per sample its row, and its weight.
struct Tap {
  std::vector<int64_t> rows;
  std::vector<float> weights;
};

// Keys 1975/1981: the weight at distance d of cubic convolution with a = -0.75.
float cubic_weight(float d) {
  constexpr float kA = -0.75F;
  d = std::fabs(d);
  if (d <= 1) return ((kA + 2) * d - (kA + 3)) * d * d + 1;
  return d < 2 ? ((d - 5) * d + 8) * d * kA - 4 * kA : 0;
}

// The taps of `count` samples of an axis of `size` elements; `scale` elements are from one sample to the next.
std::vector<Tap> taps_of(UpsampleMode mode, bool align_corners, float scale, int64_t size, int64_t count) {
  const int taps = mode == UpsampleMode::nearest ? 1 : mode == UpsampleMode::bicubic ? 4 : 2;
  std::vector<Tap> out(static_cast<size_t>(taps));
  for (int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<float>(i);
    float at = mode == UpsampleMode::nearest || align_corners ? place * scale : (place + 0.5F) * scale - 0.5F;
    if (taps == 2) at = std::max(at, 0.0F);
    const auto first = static_cast<int64_t>(std::floor(at));
    for (int k = 0; k < taps; ++k) {
      const int64_t row = first + k - (taps == 4 ? 1 : 0);
      const float distance = std::fabs(at - static_cast<float>(row));
      Tap& tap = out[static_cast<size_t>(k)];
      tap.rows.push_back(std::clamp<int64_t>(row, 0, size - 1));
      tap.weights.push_back(taps == 1 ? 1 : taps == 2 ? 1 - distance : cubic_weight(distance));
    }
  }
  return out;
}

Tensor sampled(const Tensor& x, int axis, const std::vector<Tap>& taps) {
  if (taps.size() == 1) return gather(x, row_numbers(taps[0].rows), axis);
  Tensor sum;
  for (const Tap& tap : taps) {
    Shape along = Shape::filled(x.rank(), 1);
    along[axis] = static_cast<int64_t>(tap.rows.size());
    const Tensor weights =
        trace::one(Op::constant, ConstantAttrs{{DType::f32, along}, 0, Array::of<float>(tap.weights, along)}, {});
    const Tensor part = gather(x, row_numbers(tap.rows), axis) * cast(weights, x.dtype());
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

int spatial_axes(UpsampleMode mode) {  // 0: any number
  return mode == UpsampleMode::nearest ? 0 : mode == UpsampleMode::linear ? 1 : 2;
}

}  // namespace

Upsample::Upsample(const Fields& fields) : fields_(checked<Upsample>(fields)) {}
Tensor Upsample::forward(const Tensor& x) {
  const bool by_factor = fields_.factor != 0;
  if ((fields_.size != Extents(0)) == by_factor) {
    trace::fail_here("Upsample", "expected either a size or a factor, got size ", fields_.size.values, " and factor ",
                     fields_.factor);
  }
  if (fields_.align_corners && fields_.mode == UpsampleMode::nearest) {
    trace::fail_here("Upsample", "align_corners needs a mode that interpolates, got nearest");
  }
  const int spatial = x.rank() - 2, needed = spatial_axes(fields_.mode);
  if (needed != 0 ? spatial != needed : spatial < 1) {
    trace::fail_here("Upsample", "expected ",
                     needed == 0   ? "(N, C, ...)"
                     : needed == 1 ? "(N, C, L)"
                                   : "(N, C, H, W)",
                     ", got ", x.type());
  }
  const Shape sizes = by_factor ? Shape() : fields_.size.expand(spatial, "Upsample", "size");
  Tensor y = cast(x, wide(x.dtype()));
  for (int i = 0; i < spatial; ++i) {
    const int64_t size = x.dim(2 + i);
    const int64_t count = by_factor ? static_cast<int64_t>(static_cast<double>(size) * fields_.factor) : sizes[i];
    if (size < 1 || count < 1) trace::fail_here("Upsample", "axis ", 2 + i, " would be empty: got ", x.type());
    float scale =
        by_factor ? static_cast<float>(1 / fields_.factor) : static_cast<float>(size) / static_cast<float>(count);
    if (fields_.align_corners) scale = count > 1 ? static_cast<float>(size - 1) / static_cast<float>(count - 1) : 0;
    if (size == count && scale == 1) continue;
    y = sampled(y, 2 + i, taps_of(fields_.mode, fields_.align_corners, scale, size, count));
  }
  return cast(y, x.dtype());
}

Unflatten::Unflatten(const Fields& fields) : fields_(checked<Unflatten>(fields)) {}
Tensor Unflatten::forward(const Tensor& x) {
  const int64_t axis = fields_.axis < 0 ? fields_.axis + x.rank() : fields_.axis;
  if (axis < 0 || axis >= x.rank()) {
    trace::fail_here("Unflatten", "axis out of range: got ", fields_.axis, " for ", x.type());
  }
  Shape known{x.dim(static_cast<int>(axis))}, shape;
  const Tensor parts = reshape(iota(known, 0), fields_.sizes.values);  // says what does not fit, and finds the -1
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) shape.push_back(x.dim(i));
    for (int k = 0; i == axis && k < parts.rank(); ++k) shape.push_back(parts.dim(k));
  }
  return reshape(x, shape);
}

namespace {

template <class Conv, int kSpatial>
std::shared_ptr<const LayerType> transposed_layer(const char* name, const char* doc) {
  using F = ConvTransposeFields;
  return declared(Layer<Conv>(name, doc)
                      .size("in", &F::in, 1, "channels of the input")
                      .required("out", &F::out, "channels of the result")
                      .required("kernel", &F::kernel, "sizes of the window")
                      .field("stride", &F::stride, "steps of the window", kPositive)
                      .field("padding", &F::padding, "what is cut off on either side", kNotNegative)
                      .field("output_padding", &F::output_padding, "what is added at the end", kNotNegative)
                      .field("groups", &F::groups, "number of channel groups", kPositive)
                      .field("bias", &F::bias, "adds one number per channel")
                      .field("dilation", &F::dilation, "distance of the window's elements", kPositive)
                      .weight([](const F& f) {
                        return static_cast<double>(f.in) * static_cast<double>(f.out) * volume(f.kernel, kSpatial);
                      }));
}

template <class Pool>
std::shared_ptr<const LayerType> adaptive_layer(const char* name, const char* doc) {
  return declared(Layer<Pool>(name, doc).required("output", &AdaptivePoolFields::output,
                                                  "sizes of the result; 0: that of the input", kNotNegative));
}

}  // namespace

LayerList spatial_layers() {
  return {
      transposed_layer<ConvTranspose1d, 1>("ConvTranspose1d", "(N, in, L) to (N, out, L'): the gradient of Conv1d"),
      transposed_layer<ConvTranspose2d, 2>("ConvTranspose2d",
                                           "(N, in, H, W) to (N, out, H', W'): the gradient of Conv2d"),
      adaptive_layer<AdaptiveAvgPool1d>("AdaptiveAvgPool1d",
                                        "(N, C, L) to (N, C, output): averages over windows that cover all"),
      adaptive_layer<AdaptiveMaxPool1d>("AdaptiveMaxPool1d",
                                        "(N, C, L) to (N, C, output): maxima of windows that cover all"),
      adaptive_layer<AdaptiveMaxPool2d>("AdaptiveMaxPool2d",
                                        "(N, C, H, W) to (N, C, output): maxima of windows that cover all"),
      declared(Layer<Upsample>("Upsample", "samples the spatial axes of (N, C, ...) on another grid")
                   .field("size", &UpsampleOptions::size, "of the spatial axes; 0: by the factor", kNotNegative)
                   .field("factor", &UpsampleOptions::factor, "of the spatial sizes; 0: by the size", kNotNegative)
                   .choice("mode", &UpsampleOptions::mode, {"nearest", "linear", "bilinear", "bicubic"},
                           "which elements a sample is made of")
                   .field("align_corners", &UpsampleOptions::align_corners,
                          "the corners of both grids coincide; not with nearest")),
      declared(Layer<Unflatten>("Unflatten", "divides one axis into several: (N, C*H*W) to (N, C, H, W)")
                   .required("axis", &UnflattenFields::axis, "negative values count from the end", kAny)
                   .required("sizes", &UnflattenFields::sizes, "of the new axes; one may be -1", {.least = -1})),
  };
}

}  // namespace freight::nn
