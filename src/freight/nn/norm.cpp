// See norm.h.
#include "freight/nn/norm.h"

#include "freight/base/error.h"
#include "freight/nn/init.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/neural.h"

namespace freight::nn {

BatchNorm::BatchNorm(const char* type, int64_t channels, const BatchNormOptions& options)
    : type_(type), options_(options) {
  if (channels < 1) fail(ErrorKind::usage, type, "channels must be positive: got ", channels);
  weight = parameter("weight", {channels}, init::constant(1));
  bias = parameter("bias", {channels}, init::constant(0));
  running_mean = buffer("running_mean", {channels}, 0);
  running_var = buffer("running_var", {channels}, 1);
}

Tensor BatchNorm::forward(const Tensor& x) {
  if (!training()) return batch_norm_inference(x, weight, bias, running_mean, running_var, options_.eps);
  const BatchNormResult r = batch_norm(x, weight, bias, options_.eps);
  const double n = static_cast<double>(x.numel()) / static_cast<double>(x.dim(1));  // numbers per channel
  const double m = options_.momentum, unbiased = n > 1 ? n / (n - 1) : 1;
  running_mean.assign(running_mean * (1 - m) + r.mean * m);
  running_var.assign(running_var * (1 - m) + r.variance * (m * unbiased));
  return r.y;
}

Config BatchNorm::config() const {
  return Config{type_}
      .integer("channels", weight.shape()[0])
      .number("eps", options_.eps, 1e-5)
      .number("momentum", options_.momentum, 0.1);
}

LayerNorm::LayerNorm(const Extents& shape, const NormOptions& options) : shape_(shape), options_(options) {
  weight = parameter("weight", shape.values, init::constant(1));
  bias = parameter("bias", shape.values, init::constant(0));
}
Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, weight, bias, options_.eps); }
Config LayerNorm::config() const {
  return Config{"LayerNorm"}.extents("shape", shape_).number("eps", options_.eps, 1e-5);
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, const NormOptions& options)
    : groups_(groups), options_(options) {
  if (groups < 1 || channels < 1 || channels % groups != 0) {
    fail(ErrorKind::usage, "GroupNorm", channels, " channels do not divide into ", groups, " groups");
  }
  weight = parameter("weight", {channels}, init::constant(1));
  bias = parameter("bias", {channels}, init::constant(0));
}
Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, groups_, weight, bias, options_.eps); }
Config GroupNorm::config() const {
  return Config{"GroupNorm"}
      .integer("groups", groups_)
      .integer("channels", weight.shape()[0])
      .number("eps", options_.eps, 1e-5);
}

}  // namespace freight::nn
