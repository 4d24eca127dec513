// See image_layers.h.
#include "freight/nn/image_layers.h"

#include "freight/nn/init.h"
#include "freight/nn/layers_internal.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/neural.h"
#include "freight/ops/random.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

LayerNorm2d::LayerNorm2d(const Fields& fields) : fields_(checked<LayerNorm2d>(fields)) {
  weight = parameter("weight", {fields.channels}, init::ones());
  bias = parameter("bias", {fields.channels}, init::zeros());
}
Tensor LayerNorm2d::forward(const Tensor& x) {
  if (x.rank() != 4) trace::fail_here("LayerNorm2d", "expected (N, C, H, W), got ", x.type());
  return permute(layer_norm(permute(x, {0, 2, 3, 1}), weight, bias, fields_.eps), {0, 3, 1, 2});
}

LayerScale::LayerScale(const Fields& fields) : fields_(checked<LayerScale>(fields)) {
  factor = parameter("", fields.shape.values, init::constant(fields.value));
}
Tensor LayerScale::forward(const Tensor& x) { return x * factor; }

StochasticDepth::StochasticDepth(const Fields& fields) : fields_(checked<StochasticDepth>(fields)) {}
Tensor StochasticDepth::forward(const Tensor& x) {
  if (!training() || fields_.p == 0) return x;
  Shape per_sample = x.shape();
  for (int i = 1; i < per_sample.rank(); ++i) per_sample[i] = 1;
  return x * dropout(full(per_sample, 1.0, x.dtype()), fields_.p);
}

ClassToken::ClassToken(const Fields& fields) : fields_(checked<ClassToken>(fields)) {
  token = parameter("", {1, 1, fields.width}, init::zeros());
}
Tensor ClassToken::forward(const Tensor& x) {
  need_tokens("ClassToken", x, fields_.width);
  return concat({broadcast_to(token, {x.dim(0), 1, fields_.width}), x}, 1);
}

Select::Select(const Fields& fields) : fields_(checked<Select>(fields)) {}
Tensor Select::forward(const Tensor& x) { return select(x, fields_.axis, fields_.index); }

Permute::Permute(const Fields& fields) : fields_(checked<Permute>(fields)) {}
Tensor Permute::forward(const Tensor& x) { return permute(x, fields_.axes.values); }

LayerList image_layers() {
  return {
      declared(Layer<LayerNorm2d>("LayerNorm2d", "(N, C, H, W): the channels of each pixel to mean 0 and variance 1")
                   .size("channels", &LayerNorm2dFields::channels, 1, "channels of the input")
                   .field("eps", &LayerNorm2dFields::eps, "added to the variance", kNotNegative)),
      declared(Layer<LayerScale>("LayerScale", "x times a learned factor; Touvron et al. 2021")
                   .required("shape", &LayerScaleFields::shape, "sizes of the factor, which broadcasts to x")
                   .field("value", &LayerScaleFields::value, "initial value of the factor")
                   .weight([](const LayerScaleFields& f) { return volume(f.shape, 1); })),
      declared(
          Layer<StochasticDepth>("StochasticDepth",
                                 "in training, sets whole samples to 0 and scales the others up; Huang et al. 2016")
              .field("p", &StochasticDepthOptions::p, "probability of a 0", kProbability)),
      declared(Layer<ClassToken>("ClassToken", "puts a learned token before those of (N, T, C)")
                   .size("width", &ClassTokenFields::width, 2, "C")),
      declared(Layer<Select>("Select", "one index of an axis, which is removed: (N, T, C) to (N, C)")
                   .field("axis", &SelectOptions::axis, "negative values count from the end")
                   .field("index", &SelectOptions::index, "negative values count from the end")),
      declared(Layer<Permute>("Permute", "reorders the axes: axis i of the result is axis `axes[i]` of the input")
                   .required("axes", &PermuteFields::axes, "all axes in their new order", kNotNegative)),
  };
}

}  // namespace freight::nn
