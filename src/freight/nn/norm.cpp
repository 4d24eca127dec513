// See norm.h.
#include "freight/nn/norm.h"

#include "freight/base/usage.h"
#include "freight/nn/init.h"
#include "freight/nn/layers_internal.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/neural.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/trace/batch_statistics.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

namespace {

// The parameter, or the number that it begins with where the layer has none.
Tensor or_all(const Variable& v, const Shape& shape, double number, const Tensor& x) {
  return v.defined() ? v.value() : full(shape, number, wide(x.dtype()));
}

}  // namespace

BatchNorm::BatchNorm(const Fields& fields) : fields_(fields) {
  const Shape shape{fields.channels};
  if (fields.affine) weight = parameter("weight", shape, init::constant(1));
  if (fields.affine && fields.bias) bias = parameter("bias", shape, init::constant(0));
  if (!fields.running) return;
  running_mean = buffer("running_mean", shape, 0);
  running_var = buffer("running_var", shape, 1);
  if (fields.momentum == kMeanOfBatches) num_batches_tracked = buffer("num_batches_tracked", {}, 0);
}

namespace {

template <class Norm>
const BatchNormFields& checked_norm(const char* type, const BatchNormFields& fields) {
  if (fields.momentum < 0 && fields.momentum != kMeanOfBatches) {
    fail(ErrorKind::usage, type, "momentum is out of range: expected 0 to 1, or -1 for the mean of all batches, got ",
         fields.momentum);
  }
  return checked<Norm>(fields);
}

}  // namespace

BatchNorm1d::BatchNorm1d(const Fields& fields) : BatchNorm(checked_norm<BatchNorm1d>("BatchNorm1d", fields)) {}
BatchNorm2d::BatchNorm2d(const Fields& fields) : BatchNorm(checked_norm<BatchNorm2d>("BatchNorm2d", fields)) {}

// True where neither scale nor shift is trained (Variable::set_trainable). A trace that asks is valid while that holds.
bool BatchNorm::frozen() const {
  if (!fields_.affine) return false;
  bool all = true;
  for (const Variable* v : {&weight, &bias}) {
    if (!v->defined()) continue;
    const auto& impl = v->impl();
    if (trace::compiling()) trace::Session()->depend_on(std::shared_ptr<const bool>(impl, &impl->frozen));
    all = all && impl->frozen;
  }
  return all;
}

// Calls update(share, rest) where there are running statistics: the weights in them of this batch, in the type of its
// statistics, and of those before it; numbers, or tensors.
template <class F>
void BatchNorm::count_batch(DType statistics, const F& update) {
  if (!fields_.running) return;
  if (fields_.momentum != kMeanOfBatches) return update(fields_.momentum, 1 - fields_.momentum);
  const Tensor count = num_batches_tracked + 1;
  num_batches_tracked.assign(count);
  update(cast(1 / count, statistics), 1 - 1 / count);
}

Tensor BatchNorm::forward(const Tensor& x) {
  const Shape shape{fields_.channels};
  const Tensor shift = or_all(bias, shape, 0, x), scale = or_all(weight, shape, 1, x);
  // A batch without samples has no statistics, and leaves the running ones as they are.
  const bool by_running = fields_.running && (!training() || frozen());
  if (by_running || x.numel() == 0)
    return batch_norm_inference(x, scale, shift, or_all(running_mean, shape, 0, x), or_all(running_var, shape, 1, x),
                                fields_.eps);
  if (trace::SharedStatistics::asked()) return over_all_parts(x, scale, shift);
  const BatchNormResult r = batch_norm(x, scale, shift, fields_.eps);
  const double n = static_cast<double>(x.numel()) / static_cast<double>(x.dim(1));  // numbers per channel
  const auto update = [&](const auto& unbiased) {
    count_batch(r.mean.dtype(), [&](const auto& share, const auto& rest) {
      running_mean.assign(running_mean * rest + r.mean * share);
      running_var.assign(running_var * rest + r.variance * (share * unbiased));
    });
  };
  if (trace::AnyBatch::asked()) {
    const auto samples = static_cast<double>(x.dim(0));
    const Tensor count = sum(full({x.dim(0)}, 1, r.mean.dtype())) * (n / samples);
    update(count / maximum(count - 1, 1));
  } else {
    update(n > 1 ? n / (n - 1) : 1.0);
  }
  return r.y;
}

// Each part of the batch contributes its number of elements and, per channel, their sum and sum of squares in f64,
// which is precise enough to compute the variance from. Within a part, sums are taken relative to the mean of its
// images' centers, as the op `moments` does. The gradients of these sums are summed over all parts again.
Tensor BatchNorm::over_all_parts(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  const int64_t channels = x.dim(1);
  const auto count = static_cast<double>(x.numel()) / static_cast<double>(channels);
  const Tensor wide_x = cast(x, wide(x.type().dtype));
  std::vector<int64_t> axes;
  Tensor centers = wide_x;
  for (int64_t i = 0; i < x.type().shape.rank(); ++i) {
    if (i == 1) continue;
    axes.push_back(i);
    if (i > 1) centers = narrow(centers, i, x.dim(i) / 2, 1);
  }
  const Tensor origin = stop_gradient(mean(centers, 0, Keep::yes));  // (1, C, 1, ...)
  const Tensor distance = wide_x - origin;
  const auto per_channel = [&](const Tensor& t) { return cast(reshape(t, {channels}), DType::f64); };
  const Tensor o = per_channel(origin), d = per_channel(sum(distance, Axes(axes), Keep::yes)),
               d2 = per_channel(sum(square(distance), Axes(axes), Keep::yes));
  const Tensor own = concat({d + o * count, d2 + o * d * 2 + square(o) * count, full({1}, count, DType::f64)}, 0);
  const Tensor all = trace::one(Op::all_reduce, PieceAttrs{}, {own});  // (2 C + 1)
  const Tensor n = narrow(all, 0, 2 * channels, 1), average = narrow(all, 0, 0, channels) / n,
               variance = relu(narrow(all, 0, channels, channels) / n - square(average));
  count_batch(DType::f64, [&](const auto& share, const auto& rest) {
    const DType stored = running_mean.type().dtype;
    running_mean.assign(running_mean * rest + cast(average * share, stored));
    running_var.assign(running_var * rest + cast(variance * (n / maximum(n - 1, 1)) * share, stored));
  });
  const Tensor factor = cast(scale, DType::f64) * rsqrt(variance + fields_.eps),
               term = cast(shift, DType::f64) - average * factor;
  const auto as_x = [&](const Tensor& t) { return reshape(cast(t, wide_x.type().dtype), origin.shape()); };
  return cast(wide_x * as_x(factor) + as_x(term), x.type().dtype);
}

LayerNorm::LayerNorm(const Fields& fields) : fields_(checked<LayerNorm>(fields)) {
  if (fields.affine) weight = parameter("weight", fields.shape.values, init::constant(1));
  if (fields.affine && fields.bias) bias = parameter("bias", fields.shape.values, init::constant(0));
}
Tensor LayerNorm::forward(const Tensor& x) {
  const Shape& shape = fields_.shape.values;
  return layer_norm(x, or_all(weight, shape, 1, x), or_all(bias, shape, 0, x), fields_.eps);
}

GroupNorm::GroupNorm(const Fields& fields) : fields_(checked<GroupNorm>(fields)) {
  need_multiple("GroupNorm", "channels, by groups", fields.channels, fields.groups);
  if (fields.affine) weight = parameter("weight", {fields.channels}, init::constant(1));
  if (fields.affine && fields.bias) bias = parameter("bias", {fields.channels}, init::constant(0));
}
Tensor GroupNorm::forward(const Tensor& x) {
  const Shape shape{fields_.channels};
  return group_norm(x, fields_.groups, or_all(weight, shape, 1, x), or_all(bias, shape, 0, x), fields_.eps);
}

InstanceNorm::InstanceNorm(const Fields& fields) : fields_(fields) {
  const Shape shape{fields.channels};
  if (fields.affine) weight = parameter("weight", shape, init::constant(1));
  if (fields.affine && fields.bias) bias = parameter("bias", shape, init::constant(0));
  if (!fields.running) return;
  running_mean = buffer("running_mean", shape, 0);
  running_var = buffer("running_var", shape, 1);
}
Tensor InstanceNorm::normalized(const Tensor& x) const {
  const Shape shape{fields_.channels};
  const Tensor scale = or_all(weight, shape, 1, x), shift = or_all(bias, shape, 0, x);
  if (fields_.running && !training())
    return batch_norm_inference(x, scale, shift, running_mean, running_var, fields_.eps);
  const Tensor y = group_norm(x, fields_.channels, scale, shift, fields_.eps);
  if (!fields_.running || x.numel() == 0) return y;
  const int64_t n = x.numel() / (x.dim(0) * x.dim(1));  // numbers of a channel of a sample
  const Tensor channels = cast(reshape(x, {x.dim(0), x.dim(1), n}), wide(x.dtype()));
  const auto follow = [&](const Variable& running, const Tensor& of_samples) {  // (N, C)
    running.assign(running * (1 - fields_.momentum) +
                   cast(mean(of_samples, 0), running.type().dtype) * fields_.momentum);
  };
  follow(running_mean, mean(channels, 2));
  follow(running_var, var(channels, 2, {.correction = n > 1 ? 1.0 : 0.0}));
  return y;
}
InstanceNorm1d::InstanceNorm1d(const Fields& fields) : InstanceNorm(checked<InstanceNorm1d>(fields)) {}
InstanceNorm2d::InstanceNorm2d(const Fields& fields) : InstanceNorm(checked<InstanceNorm2d>(fields)) {}
Tensor InstanceNorm1d::forward(const Tensor& x) {
  if (x.rank() == 2) return squeeze(forward(unsqueeze(x, 0)), 0);
  if (x.rank() != 3) trace::fail_here("InstanceNorm1d", "expected (N, C, L), got ", x.type());
  return normalized(x);
}
Tensor InstanceNorm2d::forward(const Tensor& x) {
  if (x.rank() == 3) return squeeze(forward(unsqueeze(x, 0)), 0);
  if (x.rank() != 4) trace::fail_here("InstanceNorm2d", "expected (N, C, H, W), got ", x.type());
  return normalized(x);
}

RMSNorm::RMSNorm(const Fields& fields) : fields_(checked<RMSNorm>(fields)) {
  if (fields.affine) weight = parameter("weight", fields.shape.values, init::constant(1));
}
Tensor RMSNorm::forward(const Tensor& x) {
  const Shape& shape = fields_.shape.values;
  const int outer = x.rank() - shape.rank();
  std::vector<int64_t> axes;
  bool fits = outer >= 0;
  for (int i = 0; fits && i < shape.rank(); ++i) {
    fits = x.dim(outer + i) == shape[i];
    axes.push_back(outer + i);
  }
  if (!fits) trace::fail_here("RMSNorm", "expected the last sizes ", shape, ", got ", x.type());
  const Tensor w = cast(x, wide(x.dtype()));
  const Tensor y = w * rsqrt(mean(square(w), Axes(axes), Keep::yes) + fields_.eps);
  return cast(weight.defined() ? y * cast(weight, w.dtype()) : y, x.dtype());
}

namespace {

const char* const kEps = "added to the variance";
const char* const kMaybeBias = "with weight, and bias";
const char* const kBias = "false: with weight alone";

template <class Norm>
std::shared_ptr<const LayerType> batch_norm_layer(const char* name, const char* doc) {
  return declared(Layer<Norm>(name, doc)
                      .size("channels", &BatchNormFields::channels, 1, "channels of the input")
                      .field("eps", &BatchNormFields::eps, kEps, kNotNegative)
                      .field("momentum", &BatchNormFields::momentum,
                             "weight of a batch in the running statistics; -1: they are the mean of all batches",
                             {.least = kMeanOfBatches, .most = 1})
                      .field("affine", &BatchNormFields::affine, kMaybeBias)
                      .field("bias", &BatchNormFields::bias, kBias)
                      .field("running", &BatchNormFields::running,
                             "false: no running statistics, evaluation normalizes by its own batch"));
}

template <class Norm>
std::shared_ptr<const LayerType> instance_norm_layer(const char* name, const char* doc) {
  return declared(Layer<Norm>(name, doc)
                      .size("channels", &InstanceNormFields::channels, 1, "channels of the input")
                      .field("eps", &InstanceNormFields::eps, kEps, kNotNegative)
                      .field("affine", &InstanceNormFields::affine, kMaybeBias)
                      .field("bias", &InstanceNormFields::bias, kBias)
                      .field("running", &InstanceNormFields::running, "with running statistics, which evaluation uses")
                      .field("momentum", &InstanceNormFields::momentum, "weight of a batch in the running statistics",
                             {.least = 0, .most = 1}));
}

}  // namespace

LayerList norm_layers() {
  return {
      batch_norm_layer<BatchNorm1d>("BatchNorm1d",
                                    "(N, C) or (N, C, L): each channel to mean 0 and variance 1 over the batch"),
      batch_norm_layer<BatchNorm2d>("BatchNorm2d",
                                    "(N, C, H, W): each channel to mean 0 and variance 1 over the batch"),
      declared(Layer<LayerNorm>("LayerNorm", "the last axes to mean 0 and variance 1, sample by sample")
                   .size("shape", &LayerNormFields::shape, -1, "sizes of those axes")
                   .field("eps", &LayerNormFields::eps, kEps, kNotNegative)
                   .field("affine", &LayerNormFields::affine, kMaybeBias)
                   .field("bias", &LayerNormFields::bias, kBias)
                   .weight([](const LayerNormFields& f) { return volume(f.shape, 1); })),
      declared(
          Layer<GroupNorm>("GroupNorm", "(N, C, ...): groups of channels to mean 0 and variance 1, sample by sample")
              .required("groups", &GroupNormFields::groups, "how many, a divisor of the channels")
              .size("channels", &GroupNormFields::channels, 1, "channels of the input")
              .field("eps", &GroupNormFields::eps, kEps, kNotNegative)
              .field("affine", &GroupNormFields::affine, kMaybeBias)
              .field("bias", &GroupNormFields::bias, kBias)),
      instance_norm_layer<InstanceNorm1d>("InstanceNorm1d",
                                          "(N, C, L): each channel of each sample to mean 0 and variance 1"),
      instance_norm_layer<InstanceNorm2d>("InstanceNorm2d",
                                          "(N, C, H, W): each channel of each sample to mean 0 and variance 1"),
      declared(Layer<RMSNorm>("RMSNorm", "x over the root of the mean square of the last axes")
                   .size("shape", &RMSNormFields::shape, -1, "sizes of those axes")
                   .field("eps", &RMSNormFields::eps, "added to the mean square", kNotNegative)
                   .field("affine", &RMSNormFields::affine, "with weight")
                   .weight([](const RMSNormFields& f) { return volume(f.shape, 1); })),
  };
}

}  // namespace freight::nn
