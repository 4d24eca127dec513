// See layers.h.
#include "freight/nn/layers.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/nn/layers_internal.h"
#include "freight/ops/index.h"
#include "freight/ops/linalg.h"
#include "freight/ops/random.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

Linear::Linear(const Fields& fields) : fields_(checked<Linear>(fields)) {
  const Shape shape{fields.out, fields.in};
  weight = parameter("weight", shape, weight_init(fields.init, shape, fields.deviation));
  if (fields.bias) bias = parameter("bias", {fields.out}, bias_init(fields.bias_init, shape));
}
Tensor Linear::forward(const Tensor& x) { return bias.defined() ? linear(x, weight, bias) : linear(x, weight); }

ConvLayer::ConvLayer(const char* type, int spatial, const Fields& f) : type_(type), spatial_(spatial), fields_(f) {
  for (const int64_t channels : {f.in, f.out})
    need_multiple(type, "channels in and out, by groups", channels, f.groups);
  Shape shape{f.out, f.in / f.groups};
  for (int64_t k : f.kernel.expand(spatial, type, "kernel")) shape.push_back(k);
  need_fit(shape);
  const bool same = f.padding == Extents(kSamePadding);
  for (const int64_t v : f.padding.values) {
    if (v < 0 && !same) fail(ErrorKind::usage, type, "padding must not be negative: got ", f.padding.values);
  }
  for (const int64_t v : f.stride.values) {
    if (same && v != 1) fail(ErrorKind::usage, type, "padding that keeps the sizes needs stride 1, got ", v);
  }
  weight = parameter("weight", shape, weight_init(f.init, shape, f.deviation));
  weight.set_trainable(!whitens());
  if (f.bias) bias = parameter("bias", {f.out}, bias_init(f.bias_init, shape));
}
void ConvLayer::need_fit(const Shape& shape) const {
  const bool by_channel = whitens() || fields_.init == WeightInit::dirac;
  if (by_channel && fields_.groups != 1) {
    fail(ErrorKind::usage, type_, "init ", to_string(fields_.init), " needs one group: got ", fields_.groups);
  }
  if (!whitens()) return;
  const int64_t numbers = shape.numel() / shape[0];  // of a window
  if (fields_.out % 2 != 0 || fields_.out > 2 * numbers) {
    fail(ErrorKind::usage, type_,
         "init whiten makes pairs of a filter and its negative, one for each number of a window",
         " at most: expected an even number up to ", 2 * numbers, ", got out = ", fields_.out);
  }
  for (int64_t d : fields_.dilation.values) {
    if (d != 1) fail(ErrorKind::usage, type_, "init whiten requires dilation 1, got ", d);
  }
}
Conv1d::Conv1d(const Fields& fields) : ConvLayer("Conv1d", 1, checked<Conv1d>(fields)) {}
Conv2d::Conv2d(const Fields& fields) : ConvLayer("Conv2d", 2, checked<Conv2d>(fields)) {}

namespace {

// x padded along one axis with its own elements, `low` before and `high` after.
Tensor bordered(const char* type, const Tensor& x, int axis, int64_t low, int64_t high, PaddingMode mode) {
  const int64_t n = x.dim(axis), wider = std::max(low, high);
  if (wider == 0) return x;
  const int64_t most = mode == PaddingMode::reflect ? n - 1 : n;
  if (mode == PaddingMode::replicate ? n == 0 : wider > most) {
    trace::fail_here(type, "padding of this mode takes at most ", most, " elements of axis ", axis, ", got ", wider,
                     " for ", x.type());
  }
  const auto before = [&] {
    if (mode == PaddingMode::reflect) return flip(narrow(x, axis, 1, low), axis);
    return mode == PaddingMode::circular ? narrow(x, axis, n - low, low) : repeat(narrow(x, axis, 0, 1), {low}, axis);
  };
  const auto after = [&] {
    if (mode == PaddingMode::reflect) return flip(narrow(x, axis, n - 1 - high, high), axis);
    return mode == PaddingMode::circular ? narrow(x, axis, 0, high) : repeat(narrow(x, axis, n - 1, 1), {high}, axis);
  };
  std::vector<Tensor> parts;
  if (low > 0) parts.push_back(before());
  parts.push_back(x);
  if (high > 0) parts.push_back(after());
  return concat(parts, axis);
}

}  // namespace

ConvLayer::Padded ConvLayer::padded(const Tensor& x) const {
  const Fields& f = fields_;
  ConvOptions options{f.stride, f.padding, f.dilation, f.groups};
  Shape low, high;
  if (f.padding == Extents(kSamePadding)) {
    const Shape kernel = f.kernel.expand(spatial_, type_, "kernel"),
                dilation = f.dilation.expand(spatial_, type_, "dilation");
    for (int i = 0; i < spatial_; ++i) {
      const int64_t total = dilation[i] * (kernel[i] - 1);
      low.push_back(total / 2);
      high.push_back(total - total / 2);
    }
  } else {
    low = high = f.padding.expand(spatial_, type_, "padding");
  }
  options.padding = Extents(low);
  // A wrong rank is refused by the function, in its words; a sample may lack its batch axis.
  const int first = x.rank() - spatial_;
  if (first < 1 || first > 2 || (f.padding_mode == PaddingMode::zeros && low == high)) return {x, options};
  options.padding = 0;
  if (f.padding_mode == PaddingMode::zeros) {
    Shape before = Shape::filled(first, 0), after = before;
    for (int i = 0; i < spatial_; ++i) {
      before.push_back(low[i]);
      after.push_back(high[i]);
    }
    return {pad(x, before, after), options};
  }
  Tensor y = x;
  for (int i = 0; i < spatial_; ++i) y = bordered(type_, y, first + i, low[i], high[i], f.padding_mode);
  return {y, options};
}
Tensor Conv1d::forward(const Tensor& x) {
  const Padded p = padded(x);
  return bias.defined() ? conv1d(p.x, weight, bias, p.options) : conv1d(p.x, weight, p.options);
}
Tensor Conv2d::forward(const Tensor& x) {
  const Padded p = padded(x);
  return bias.defined() ? conv2d(p.x, weight, bias, p.options) : conv2d(p.x, weight, p.options);
}

PoolLayer::PoolLayer(const Fields& fields) : fields_(fields) {
  if (fields.stride == fields.kernel) fields_.stride = Fields{}.stride;
}
MaxPool2d::MaxPool2d(const Fields& fields) : PoolLayer(checked<MaxPool2d>(fields)) {}
AvgPool2d::AvgPool2d(const Fields& fields) : PoolLayer(checked<AvgPool2d>(fields)) {}
MaxPool1d::MaxPool1d(const Fields& fields) : PoolLayer(checked<MaxPool1d>(fields)) {}
AvgPool1d::AvgPool1d(const Fields& fields) : PoolLayer(checked<AvgPool1d>(fields)) {}
AdaptiveAvgPool2d::AdaptiveAvgPool2d(const Fields& fields) : fields_(checked<AdaptiveAvgPool2d>(fields)) {}
Tensor MaxPool1d::forward(const Tensor& x) { return max_pool1d(x, fields()); }
Tensor AvgPool1d::forward(const Tensor& x) { return avg_pool1d(x, fields()); }
Tensor MaxPool2d::forward(const Tensor& x) { return max_pool2d(x, fields()); }
Tensor AvgPool2d::forward(const Tensor& x) { return avg_pool2d(x, fields()); }
std::vector<Tensor> MaxPool1d::forward_all(const std::vector<Tensor>& inputs) {
  if (!fields().return_indices || inputs.size() != 1) return Module::forward_all(inputs);
  const Pooled y = max_pool1d_with_indices(inputs[0], fields());
  return {y.values, y.indices};
}
std::vector<Tensor> MaxPool2d::forward_all(const std::vector<Tensor>& inputs) {
  if (!fields().return_indices || inputs.size() != 1) return Module::forward_all(inputs);
  const Pooled y = max_pool2d_with_indices(inputs[0], fields());
  return {y.values, y.indices};
}
Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
  return adaptive_avg_pool2d(x, Extents(adaptive_extents(fields_, x, 2, "AdaptiveAvgPool2d")));
}

Shape adaptive_extents(const AdaptivePoolFields& fields, const Tensor& x, int spatial, const char* layer) {
  Shape output = fields.output.expand(spatial, layer, "output");
  for (int i = 0; i < spatial && spatial <= x.rank(); ++i) {
    if (output[i] == 0) output[i] = x.dim(i - spatial);
  }
  return output;
}

Embedding::Embedding(const Fields& fields) : fields_(checked<Embedding>(fields)) {
  const Shape shape{fields.rows, fields.width};
  weight = parameter("weight", shape, init::embedding(fields.init, shape, fields.padding_idx, fields.deviation));
  need_below("Embedding", "padding_idx", static_cast<double>(fields.padding_idx), -kNoLimit,
             static_cast<double>(fields.rows));
}
Tensor Embedding::forward(const Tensor& x) {
  if (fields_.padding_idx >= 0) announce_tokens(x, fields_.padding_idx);
  EmbeddingRowOptions options{.padding_idx = fields_.padding_idx, .scale_grad_by_freq = fields_.scale_grad_by_freq};
  if (fields_.max_norm != kAnyNorm) options.max_norm = fields_.max_norm;
  options.norm_type = fields_.norm_type;
  return embedding(x, weight, options);
}

Flatten::Flatten(const Fields& fields) : fields_(checked<Flatten>(fields)) {}
Tensor Flatten::forward(const Tensor& x) { return flatten(x, fields_.start, fields_.end); }

Dropout::Dropout(const Fields& fields) : fields_(checked<Dropout>(fields)) {}
Tensor Dropout::forward(const Tensor& x) { return training() ? dropout(x, fields_.p) : x; }

namespace {

const char* const kWeightInit = "initial values of the weight, see below";
const char* const kDeviation = "standard deviation of `init` normal and uniform";

template <class Conv>
std::shared_ptr<const LayerType> conv_layer(const char* name, const char* doc, double (*weight)(const ConvFields&)) {
  return declared(
      Layer<Conv>(name, doc)
          .size("in", &ConvFields::in, 1, "channels of the input")
          .required("out", &ConvFields::out, "channels of the result")
          .required("kernel", &ConvFields::kernel, "sizes of the window")
          .field("stride", &ConvFields::stride, "steps of the window", kPositive)
          .field("padding", &ConvFields::padding, "elements around the input; -1: as many as keep its sizes",
                 {.least = kSamePadding})
          .field("dilation", &ConvFields::dilation, "distance of the window's elements", kPositive)
          .field("groups", &ConvFields::groups, "number of channel groups", kPositive)
          .field("bias", &ConvFields::bias, "adds one number per channel")
          .choice("init", &ConvFields::init, weight_init_names(), kWeightInit)
          .choice("bias_init", &ConvFields::bias_init, bias_init_names(), "initial values of the bias")
          .field("deviation", &ConvFields::deviation, kDeviation, kNotNegative)
          .choice("padding_mode", &ConvFields::padding_mode, {"zeros", "reflect", "replicate", "circular"},
                  "the elements around the input: zeros, or its own mirrored, at its border, at its other end")
          .weight(weight));
}

template <class Pool>
std::shared_ptr<const LayerType> pool_layer(const char* name, const char* doc) {
  Layer<Pool> layer(name, doc);
  layer.required("kernel", &PoolOptions::kernel, "sizes of the window")
      .field("stride", &PoolOptions::stride, "steps of the window; 0: the kernel", kNotNegative)
      .field("padding", &PoolOptions::padding, "around the input", kNotNegative)
      .field("ceil_mode", &PoolOptions::ceil_mode, "also windows that start inside the input and extend beyond it")
      .field("count_include_pad", &PoolOptions::count_include_pad, "averages count the padding");
  if constexpr (std::is_same_v<Pool, MaxPool1d> || std::is_same_v<Pool, MaxPool2d>)
    layer.field("dilation", &PoolOptions::dilation, "from one element of a window to the next", kPositive)
        .field("return_indices", &PoolFields::return_indices,
               "a second result: the indices of the maxima within each image");
  if constexpr (std::is_same_v<Pool, AvgPool1d> || std::is_same_v<Pool, AvgPool2d>)
    layer.field("divisor", &PoolOptions::divisor, "divides the sum of each window; 0: the number of its elements",
                kNotNegative);
  return declared(layer);
}

template <int kSpatial>
double conv_weight(const ConvFields& f) {
  return static_cast<double>(f.in) * static_cast<double>(f.out) * volume(f.kernel, kSpatial);
}

}  // namespace

LayerList basic_layers() {
  return {
      declared(
          Layer<Linear>("Linear", "(..., in) to (..., out): x weight^T + bias")
              .size("in", &LinearFields::in, -1, "numbers per row of the input")
              .required("out", &LinearFields::out, "numbers per row of the result")
              .field("bias", &LinearFields::bias, "adds one number per column")
              .choice("init", &LinearFields::init, weight_init_names(), kWeightInit)
              .choice("bias_init", &LinearFields::bias_init, bias_init_names(), "initial values of the bias")
              .field("deviation", &LinearFields::deviation, kDeviation, kNotNegative)
              .weight([](const LinearFields& f) { return static_cast<double>(f.in) * static_cast<double>(f.out); })),
      conv_layer<Conv1d>("Conv1d", "(N, in, L) to (N, out, L')", conv_weight<1>),
      conv_layer<Conv2d>("Conv2d", "(N, in, H, W) to (N, out, H', W')", conv_weight<2>),
      pool_layer<MaxPool1d>("MaxPool1d", "the largest number of each window of (N, C, L)"),
      pool_layer<AvgPool1d>("AvgPool1d", "the mean of each window of (N, C, L)"),
      pool_layer<MaxPool2d>("MaxPool2d", "the largest number of each window of (N, C, H, W)"),
      pool_layer<AvgPool2d>("AvgPool2d", "the mean of each window of (N, C, H, W)"),
      declared(Layer<AdaptiveAvgPool2d>("AdaptiveAvgPool2d",
                                        "(N, C, H, W) to (N, C, output): averages over windows that cover all")
                   .required("output", &AdaptivePoolFields::output, "sizes of the result; 0: that of the input",
                             kNotNegative)),
      declared(Layer<Dropout>("Dropout", "in training, sets numbers to 0 and scales the others up")
                   .field("p", &DropoutOptions::p, "probability of a 0", {.least = 0, .most = 1})),
      declared(Layer<Flatten>("Flatten", "joins axes: (N, C, H, W) to (N, C*H*W)")
                   .field("start", &FlattenOptions::start, "first axis")
                   .field("end", &FlattenOptions::end, "last axis; -1: the last of all")),
      declared(
          Layer<Embedding>("Embedding", "tokens (...) to their rows of the weight, (..., width)")
              .required("rows", &EmbeddingFields::rows, "vocabulary size")
              .required("width", &EmbeddingFields::width, "numbers per token")
              .field("padding_idx", &EmbeddingFields::padding_idx, "the token that is padding; -1: none", {.least = -1})
              .choice("init", &EmbeddingFields::init, weight_init_names(), "`standard`: normal; others see below")
              .field("deviation", &EmbeddingFields::deviation, "of `init` standard", kNotNegative)
              .field("scale_grad_by_freq", &EmbeddingFields::scale_grad_by_freq,
                     "divides the gradient of a token by how often a call has it")
              .field("max_norm", &EmbeddingFields::max_norm,
                     "longer rows are scaled down to it where they are read; -1: none are", {.least = kAnyNorm})
              .field("norm_type", &EmbeddingFields::norm_type, "the order of the norms of rows")
              .weight(
                  [](const EmbeddingFields& f) { return static_cast<double>(f.rows) * static_cast<double>(f.width); })),
  };
}

}  // namespace freight::nn
