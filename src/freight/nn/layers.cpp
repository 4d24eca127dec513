// See layers.h.
#include "freight/nn/layers.h"

#include "freight/base/error.h"
#include "freight/ops/index.h"
#include "freight/ops/linalg.h"
#include "freight/ops/random.h"
#include "freight/ops/shape.h"

namespace freight::nn {

namespace {
void need_positive(const char* op, const char* what, int64_t v) {
  if (v < 1) fail(ErrorKind::usage, op, what, " must be positive: got ", v);
}
std::string to_string(BiasInit init) { return init == BiasInit::zero ? "zero" : "standard"; }
}  // namespace

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options) : options_(options) {
  need_positive("Linear", "in", in);
  need_positive("Linear", "out", out);
  const bool normal = options.init == WeightInit::normal;
  weight = parameter("weight", {out, in},
                     normal ? init::normal(0, options.deviation) : weight_init(options.init, {out, in}));
  if (options.bias) bias = parameter("bias", {out}, bias_init(options.bias_init, {out, in}));
}
Tensor Linear::forward(const Tensor& x) { return bias.defined() ? linear(x, weight, bias) : linear(x, weight); }
Config Linear::config() const {
  return Config{"Linear"}
      .integer("in", weight.shape()[1])
      .integer("out", weight.shape()[0])
      .flag("bias", options_.bias, true)
      .text("init", to_string(options_.init), "standard")
      .text("bias_init", to_string(options_.bias_init), "standard")
      .number("deviation", options_.deviation, 0.01);
}

ConvLayer::ConvLayer(const char* type, int spatial, int64_t in, int64_t out, const Extents& kernel,
                     const ConvLayerOptions& o)
    : type_(type), in_(in), out_(out), kernel_(kernel), options_(o) {
  need_positive(type, "in", in);
  need_positive(type, "out", out);
  need_positive(type, "groups", o.groups);
  if (in % o.groups != 0 || out % o.groups != 0) {
    fail(ErrorKind::usage, type, "groups must divide both channel counts: got ", in, " in, ", out, " out, ", o.groups,
         " groups");
  }
  Shape shape{out, in / o.groups};
  for (int64_t k : kernel.expand(spatial, type, "kernel")) {
    need_positive(type, "kernel", k);
    shape.push_back(k);
  }
  need_fit(shape);
  weight = parameter("weight", shape, weight_init(o.init, shape));
  weight.set_trainable(!whitens());
  if (o.bias) bias = parameter("bias", {out}, bias_init(o.bias_init, shape));
}
void ConvLayer::need_fit(const Shape& shape) const {
  const bool by_channel = whitens() || options_.init == WeightInit::dirac;
  if (by_channel && options_.groups != 1) {
    fail(ErrorKind::usage, type_, "init ", to_string(options_.init), " needs one group: got ", options_.groups);
  }
  if (!whitens()) return;
  const int64_t numbers = shape.numel() / shape[0];  // of a window
  if (out_ % 2 != 0 || out_ > 2 * numbers) {
    fail(ErrorKind::usage, type_,
         "init whiten makes pairs of a filter and its negative, one for each number of a window",
         " at most: got out = ", out_, ", need an even number up to ", 2 * numbers);
  }
  for (int64_t d : options_.dilation.values) {
    if (d != 1) fail(ErrorKind::usage, type_, "init whiten takes windows without gaps: got dilation ", d, ", need 1");
  }
}
Config ConvLayer::config() const {
  return Config{type_}
      .integer("in", in_)
      .integer("out", out_)
      .extents("kernel", kernel_)
      .extents("stride", options_.stride, 1)
      .extents("padding", options_.padding, 0)
      .extents("dilation", options_.dilation, 1)
      .integer("groups", options_.groups, 1)
      .flag("bias", options_.bias, true)
      .text("init", to_string(options_.init), "standard")
      .text("bias_init", to_string(options_.bias_init), "standard");
}
Tensor Conv1d::forward(const Tensor& x) {
  return bias.defined() ? conv1d(x, weight, bias, options()) : conv1d(x, weight, options());
}
Tensor Conv2d::forward(const Tensor& x) {
  return bias.defined() ? conv2d(x, weight, bias, options()) : conv2d(x, weight, options());
}

Config PoolLayer::config() const {
  return Config{type_}
      .extents("kernel", options_.kernel)
      .extents("stride", options_.stride == options_.kernel ? Extents(0) : options_.stride, 0)
      .extents("padding", options_.padding, 0)
      .flag("ceil_mode", options_.ceil_mode, false)
      .flag("count_include_pad", options_.count_include_pad, true);
}
Tensor MaxPool2d::forward(const Tensor& x) { return max_pool2d(x, options_); }
Tensor AvgPool2d::forward(const Tensor& x) { return avg_pool2d(x, options_); }
Tensor AdaptiveAvgPool2d::forward(const Tensor& x) { return adaptive_avg_pool2d(x, output_); }
Config AdaptiveAvgPool2d::config() const { return Config{"AdaptiveAvgPool2d"}.extents("output", output_); }

Embedding::Embedding(int64_t rows, int64_t width, const EmbeddingOptions& options) : options_(options) {
  need_positive("Embedding", "rows", rows);
  need_positive("Embedding", "width", width);
  weight = parameter("weight", {rows, width},
                     init::embedding(options.init, {rows, width}, options.padding_idx, options.deviation));
  if (options.padding_idx >= rows) {
    fail(ErrorKind::usage, "Embedding", "padding_idx ", options.padding_idx, " is not a row: need below ", rows);
  }
}
Tensor Embedding::forward(const Tensor& x) {
  if (options_.padding_idx >= 0) announce_tokens(x, options_.padding_idx);
  return embedding(x, weight, options_.padding_idx);
}
Config Embedding::config() const {
  return Config{"Embedding"}
      .integer("rows", weight.shape()[0])
      .integer("width", weight.shape()[1])
      .integer("padding_idx", options_.padding_idx, -1)
      .text("init", to_string(options_.init), "standard")
      .number("deviation", options_.deviation, 1);
}

Tensor Flatten::forward(const Tensor& x) { return flatten(x, start_, end_); }
Config Flatten::config() const { return Config{"Flatten"}.integer("start", start_, 1).integer("end", end_, -1); }

Dropout::Dropout(double p) : p_(p) {
  if (!(p >= 0 && p < 1)) fail(ErrorKind::usage, "Dropout", "probability out of range: got ", p, ", need 0 <= p < 1");
}
Tensor Dropout::forward(const Tensor& x) { return training() ? dropout(x, p_) : x; }
Config Dropout::config() const { return Config{"Dropout"}.number("p", p_, 0.5); }

}  // namespace freight::nn
