// See norm.h.
#include "freight/nn/norm.h"

#include "freight/base/usage.h"
#include "freight/nn/init.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/neural.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/trace/batch_statistics.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

BatchNorm::BatchNorm(const Fields& fields) : fields_(fields) {
  const Shape shape{fields.channels};
  weight = parameter("weight", shape, init::constant(1));
  bias = parameter("bias", shape, init::constant(0));
  running_mean = buffer("running_mean", shape, 0);
  running_var = buffer("running_var", shape, 1);
}

BatchNorm1d::BatchNorm1d(const Fields& fields) : BatchNorm(checked<BatchNorm1d>(fields)) {}
BatchNorm2d::BatchNorm2d(const Fields& fields) : BatchNorm(checked<BatchNorm2d>(fields)) {}

// True where neither scale nor shift is trained (Variable::set_trainable). A trace that asks is valid while that holds.
bool BatchNorm::frozen() const {
  bool all = true;
  for (const Variable* v : {&weight, &bias}) {
    const auto& impl = v->impl();
    if (trace::compiling()) trace::Session()->depend_on(std::shared_ptr<const bool>(impl, &impl->frozen));
    all = all && impl->frozen;
  }
  return all;
}

Tensor BatchNorm::forward(const Tensor& x) {
  if (!training() || frozen()) return batch_norm_inference(x, weight, bias, running_mean, running_var, fields_.eps);
  if (trace::SharedStatistics::asked()) return over_all_parts(x);
  const BatchNormResult r = batch_norm(x, weight, bias, fields_.eps);
  const double n = static_cast<double>(x.numel()) / static_cast<double>(x.dim(1));  // numbers per channel
  const double m = fields_.momentum, unbiased = n > 1 ? n / (n - 1) : 1;
  running_mean.assign(running_mean * (1 - m) + r.mean * m);
  running_var.assign(running_var * (1 - m) + r.variance * (m * unbiased));
  return r.y;
}

// Each part of the batch brings its number of elements, their sum and that of their squares per channel, in f64: there
// a variance is as good as by the distances to a common mean. The part itself sums distances to the mean of its
// pictures' centers, as the op `moments` does. The gradients of the sums are sums over all parts again.
Tensor BatchNorm::over_all_parts(const Tensor& x) {
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
  const double m = fields_.momentum;
  const DType stored = running_mean.type().dtype;
  running_mean.assign(running_mean * (1 - m) + cast(average * m, stored));
  running_var.assign(running_var * (1 - m) + cast(variance * (n / maximum(n - 1, 1)) * m, stored));
  const Tensor factor = cast(weight, DType::f64) * rsqrt(variance + fields_.eps),
               term = cast(bias, DType::f64) - average * factor;
  const auto as_x = [&](const Tensor& t) { return reshape(cast(t, wide_x.type().dtype), origin.shape()); };
  return cast(wide_x * as_x(factor) + as_x(term), x.type().dtype);
}

LayerNorm::LayerNorm(const Fields& fields) : fields_(checked<LayerNorm>(fields)) {
  weight = parameter("weight", fields.shape.values, init::constant(1));
  bias = parameter("bias", fields.shape.values, init::constant(0));
}
Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, weight, bias, fields_.eps); }

GroupNorm::GroupNorm(const Fields& fields) : fields_(checked<GroupNorm>(fields)) {
  need_multiple("GroupNorm", "channels, by groups", fields.channels, fields.groups);
  weight = parameter("weight", {fields.channels}, init::constant(1));
  bias = parameter("bias", {fields.channels}, init::constant(0));
}
Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, fields_.groups, weight, bias, fields_.eps); }

namespace {

const char* const kEps = "added to the variance";

template <class Norm>
std::shared_ptr<const LayerType> batch_norm_layer(const char* name, const char* doc) {
  return declared(Layer<Norm>(name, doc)
                      .size("channels", &BatchNormFields::channels, 1, "channels of the input")
                      .field("eps", &BatchNormFields::eps, kEps, kNotNegative)
                      .field("momentum", &BatchNormFields::momentum, "weight of a batch in the running statistics",
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
                   .weight([](const LayerNormFields& f) {
                     double n = 1;
                     for (int64_t v : f.shape.values) n *= static_cast<double>(v);
                     return n;
                   })),
      declared(
          Layer<GroupNorm>("GroupNorm", "(N, C, ...): groups of channels to mean 0 and variance 1, sample by sample")
              .required("groups", &GroupNormFields::groups, "how many, a divisor of the channels")
              .size("channels", &GroupNormFields::channels, 1, "channels of the input")
              .field("eps", &GroupNormFields::eps, kEps, kNotNegative)),
  };
}

}  // namespace freight::nn
