// Front ends of convolution and pooling. See conv.h.
#include "freight/ops/conv.h"

#include <algorithm>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"

namespace freight {

Shape Extents::expand(int rank, const char* op, const char* what) const {
  if (uniform) return Shape::filled(rank, values[0]);
  if (values.rank() != rank) {
    ops::fail_here(op, what, " needs one number, or one per spatial axis: expected ", rank, " entries, got ", values);
  }
  return values;
}

namespace {

// Kernels, oneDNN's above all, reckon places along an axis in 32 bits, with strides, dilation and padding multiplied
// in.
constexpr int64_t kLongestAxis = int64_t{1} << 26;    // of an input, its padding included, and of a window
constexpr int64_t kLargestStride = int64_t{1} << 24;  // and dilation
constexpr int64_t kLargestPadding = 8192;             // oneDNN writes code for each place of it: seconds for more

void need_at_most(const char* op, const char* what, const Shape& got, int64_t most) {
  for (const int64_t v : got) {
    if (v > most) ops::fail_here(op, what, " is too large: expected at most ", most, ", got ", got);
  }
}

// The window's extents (kernel, dilation) against the input's spatial ones.
template <class Attrs>
void need_small(const char* op, const Tensor& x, const Shape& kernel, const Shape& dilation, const Attrs& a) {
  need_at_most(op, "stride", a.stride, kLargestStride);
  need_at_most(op, "dilation", dilation, kLargestStride);
  need_at_most(op, "padding", a.pad_low, kLargestPadding);
  need_at_most(op, "kernel", kernel, kLongestAxis);
  const auto negative = [](const Shape& s) { return std::any_of(s.begin(), s.end(), [](int64_t v) { return v < 0; }); };
  if (negative(dilation) || negative(a.pad_low)) return;  // refused where the op's rule looks at them
  for (int i = 0; i < std::min({kernel.rank(), dilation.rank(), a.pad_low.rank()}) && i + 2 < x.rank(); ++i) {
    const int64_t padded = x.dim(2 + i) + a.pad_low[i] + a.pad_high[i], window = dilation[i] * (kernel[i] - 1) + 1;
    if (padded <= kLongestAxis && window <= kLongestAxis) continue;
    ops::fail_here(op, "axis ", 2 + i, " is too long: expected at most ", kLongestAxis, " (input ", x.type(), "), got ",
                   padded, " with padding, and a window of ", window);
  }
}

void need_rank(const Tensor& x, int spatial, const char* op) {
  if (x.rank() == spatial + 2) return;
  ops::fail_here(op, "input must be ", spatial == 1 ? "(N, C, L) or (C, L)" : "(N, C, H, W) or (C, H, W)", ": got ",
                 x.type());
}

// body(x) of x (N, C, ...); one sample without a batch axis, (C, ...), is a batch of one, and its result has none.
template <class F>
Tensor batched(const In& x, int spatial, const char* op, const F& body) {
  const auto [frame, in] = ops::enter(x, op);
  return in.rank() == spatial + 1 ? squeeze(body(unsqueeze(in, 0)), 0) : body(in);
}

template <class Options>  // ConvOptions, or ConvTransposeOptions
ConvAttrs conv_attrs(const char* op, int spatial, const Options& o) {
  ConvAttrs a;
  a.pad_low = a.pad_high = o.padding.expand(spatial, op, "padding");
  a.stride = o.stride.expand(spatial, op, "stride");
  a.dilation = o.dilation.expand(spatial, op, "dilation");
  a.groups = o.groups;
  return a;
}

Shape spatial_extents(const Tensor& weight) {
  Shape s;
  for (int i = 2; i < weight.rank(); ++i) s.push_back(weight.dim(i));
  return s;
}

// `bias` is null where there is none.
Tensor conv(const char* op, int spatial, const In& x, const In& w, const In* bias, const ConvOptions& o) {
  return batched(x, spatial, op, [&](const Tensor& in) {
    const Tensor weight = ops::get(w, op);
    need_rank(in, spatial, op);
    const ConvAttrs a = conv_attrs(op, spatial, o);
    need_small(op, in, spatial_extents(weight), a.dilation, a);
    const Tensor y = ops::one(Op::conv, a, {in, weight});
    return bias ? ops::named(op, [&] { return y + ops::per_channel(ops::get(*bias, op), y, op); }) : y;
  });
}

// How far the last window that begins inside of the padded image reaches beyond it (PyTorch's ceil_mode).
int64_t overhang(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t padded = size + 2 * padding;
  if (padded < kernel && padded + stride - 1 < kernel) return 0;  // no window: the op says that the kernel does not fit
  int64_t count = (padded - kernel + stride - 1) / stride + 1;
  if ((count - 1) * stride >= size + padding) --count;
  return std::max<int64_t>(0, (count - 1) * stride + kernel - padded);
}

PoolAttrs pool_attrs(const char* op, int spatial, const Tensor& x, const PoolOptions& o) {
  need_rank(x, spatial, op);
  PoolAttrs a;
  a.kernel = o.kernel.expand(spatial, op, "kernel");
  a.stride = o.stride == Extents(0) ? a.kernel : o.stride.expand(spatial, op, "stride");
  a.pad_low = o.padding.expand(spatial, op, "padding");
  a.count_include_pad = o.count_include_pad;
  a.pad_high = a.pad_low;
  const Shape dilation = o.dilation.expand(spatial, op, "dilation");
  need_small(op, x, a.kernel, dilation, a);
  if (dilation != Shape::filled(spatial, 1)) a.dilation = dilation;
  for (int i = 0; i < spatial; ++i) {
    if (a.kernel[i] < 1 || a.stride[i] < 1)
      ops::fail_here(op, "kernel and stride must be positive: got kernel ", a.kernel, ", stride ", a.stride);
    // A larger one would make windows of nothing but padding, which have neither maximum nor average.
    if (a.pad_low[i] < 0 || 2 * a.pad_low[i] > a.kernel[i])
      ops::fail_here(op, "padding must be from 0 to half of the kernel: got padding ", a.pad_low, ", kernel ",
                     a.kernel);
  }
  return a;
}

Shape overhangs(const PoolAttrs& a, const Shape& x, bool ceil_mode) {
  Shape over = Shape::filled(a.kernel.rank(), 0);
  for (int i = 0; ceil_mode && i < over.rank(); ++i)
    over[i] = overhang(x[2 + i], a.dilation.empty() ? a.kernel[i] : (a.kernel[i] - 1) * a.dilation[i] + 1, a.stride[i],
                       a.pad_low[i]);
  return over;
}

Pooled max_pool(const char* user_name, int spatial, const In& x, const PoolOptions& o) {
  const auto [frame, in] = ops::enter(x, user_name);
  if (in.rank() == spatial + 1) {
    const Pooled y = max_pool(user_name, spatial, unsqueeze(in, 0), o);
    return {squeeze(y.values, 0), squeeze(y.indices, 0)};
  }
  PoolAttrs a = pool_attrs(user_name, spatial, in, o);
  const Shape over = overhangs(a, in.shape(), o.ceil_mode);
  for (int i = 0; i < spatial; ++i) a.pad_high[i] += over[i];
  const std::vector<Tensor> y = trace::add(Op::max_pool, a, {in});
  return {y[0], y[1]};
}

// Padding counts in the divisor of an average, if asked for; the overhang never does. Where both meet, the padding
// becomes part of the image, and the average is that of the elements inside.
Tensor avg_pool(const char* user_name, int spatial, const Tensor& in, const PoolOptions& o) {
  PoolAttrs a = pool_attrs(user_name, spatial, in, o);
  if (is_integer(in.dtype())) {
    // Rounded toward zero, as in PyTorch. In f64 sums up to 2^50 are exact; a quotient that is closer to a whole number
    // than the next fraction with the divisor is that number.
    const auto divisor = static_cast<double>(o.divisor != 0 ? std::abs(o.divisor) : a.kernel.numel());
    const Tensor mean = avg_pool(user_name, spatial, cast(in, DType::f64), o), near = round(mean);
    return cast(where(abs(mean - near) < 0.5 / divisor, near, trunc(mean)), in.dtype());
  }
  const Shape over = overhangs(a, in.shape(), o.ceil_mode), none = Shape::filled(spatial, 0);
  if (o.divisor != 0) {  // means over whole windows are sums by another number
    a.count_include_pad = true;
    for (int i = 0; i < spatial; ++i) a.pad_high[i] += over[i];
    return ops::in_wide(in, [&](const Tensor& w) {
      return ops::one(Op::avg_pool, a, {w}) * (static_cast<double>(a.kernel.numel()) / static_cast<double>(o.divisor));
    });
  }
  if (over == none) return ops::one(Op::avg_pool, a, {in});
  Tensor image = in;
  if (a.count_include_pad && a.pad_low != none) {
    Shape low{0, 0}, high{0, 0};
    for (int i = 0; i < spatial; ++i) {
      low.push_back(a.pad_low[i]);
      high.push_back(a.pad_high[i]);
    }
    image = ops::one(Op::pad, PadAttrs{low, high, Shape::filled(spatial + 2, 0), 0}, {in});
    a.pad_low = a.pad_high = none;
  }
  a.count_include_pad = false;
  for (int i = 0; i < spatial; ++i) a.pad_high[i] += over[i];
  return ops::one(Op::avg_pool, a, {image});
}

}  // namespace

Tensor conv1d(const In& x, const In& w, const ConvOptions& o) { return conv("conv1d", 1, x, w, nullptr, o); }
Tensor conv2d(const In& x, const In& w, const ConvOptions& o) { return conv("conv2d", 2, x, w, nullptr, o); }
Tensor conv1d(const In& x, const In& w, const In& bias, const ConvOptions& o) {
  return conv("conv1d", 1, x, w, &bias, o);
}
Tensor conv2d(const In& x, const In& w, const In& bias, const ConvOptions& o) {
  return conv("conv2d", 2, x, w, &bias, o);
}

namespace {

// in (N, C, H, W), w (C, K / groups, kh, kw)
Tensor conv_transpose(const char* op, const Tensor& in, const In& w, const ConvTransposeOptions& o) {
  const Tensor weight = ops::get(w, op);
  need_rank(in, 2, op);
  if (weight.rank() != 4 || weight.dim(0) != in.dim(1))
    ops::fail_here(op, "channels do not fit: input ", in.type(), " axis 1 = ", in.dim(1), ", weight ", weight.type());
  const Shape extra = o.output_padding.expand(2, op, "output_padding");
  ConvAttrs a = conv_attrs(op, 2, o);
  need_small(op, in, spatial_extents(weight), a.dilation, a);
  need_at_most(op, "output_padding", extra, kLargestStride);
  if (o.groups < 1 || o.groups > std::max<int64_t>(weight.dim(0), 1))
    ops::fail_here(op, "groups must be from 1 to the channels of the input: got ", o.groups, " for ", in.type());
  for (int i = 0; i < 2; ++i) {
    if (a.stride[i] >= 1 && a.dilation[i] >= 1 && a.pad_low[i] >= 0 && extra[i] >= 0) continue;
    ops::fail_here(op, "stride and dilation must be positive, padding and output_padding not negative: got stride ",
                   a.stride, ", dilation ", a.dilation, ", padding ", a.pad_low, ", output_padding ", extra);
  }
  a.shape = {in.dim(0), weight.dim(1) * o.groups};
  Shape zeros = Shape::filled(4, 0);  // behind the result: what no weight reaches
  for (int i = 0; i < 2; ++i) {
    // A whole stride of additional rows would be more outputs of the convolution: its padding is smaller there.
    const int64_t more = extra[i] < a.stride[i] ? 0 : extra[i], less = std::min(more, a.pad_low[i]);
    a.pad_high[i] -= less;
    zeros[2 + i] = more - less;
    a.shape.push_back((in.dim(2 + i) - 1) * a.stride[i] - 2 * a.pad_low[i] + a.dilation[i] * (weight.dim(2 + i) - 1) +
                      extra[i] - zeros[2 + i] + 1);
  }
  need_at_most(op, "the result", {a.shape[2], a.shape[3]}, kLongestAxis);
  if (a.shape[2] < 0 || a.shape[3] < 0)
    ops::fail_here(op, "padding removes more than the whole axis: got padding ", a.pad_low, " for input ", in.type(),
                   " and weight ", weight.type(), ", which leaves ", a.shape, "; expected less padding");
  const Tensor y = ops::one(Op::conv_grad_input, a, {in, weight});
  return zeros == Shape::filled(4, 0) ? y : pad(y, Shape::filled(4, 0), zeros);
}

}  // namespace

Tensor conv_transpose2d(const In& x, const In& w, const ConvTransposeOptions& o) {
  constexpr const char* kOp = "conv_transpose2d";
  return batched(x, 2, kOp, [&](const Tensor& in) { return conv_transpose(kOp, in, w, o); });
}

Tensor max_pool1d(const In& x, const PoolOptions& o) { return max_pool("max_pool1d", 1, x, o).values; }
Tensor max_pool2d(const In& x, const PoolOptions& o) { return max_pool("max_pool2d", 2, x, o).values; }
Pooled max_pool1d_with_indices(const In& x, const PoolOptions& o) {
  return max_pool("max_pool1d_with_indices", 1, x, o);
}
Pooled max_pool2d_with_indices(const In& x, const PoolOptions& o) {
  return max_pool("max_pool2d_with_indices", 2, x, o);
}
Tensor avg_pool1d(const In& x, const PoolOptions& o) {
  return batched(x, 1, "avg_pool1d", [&](const Tensor& in) { return avg_pool("avg_pool1d", 1, in, o); });
}
Tensor avg_pool2d(const In& x, const PoolOptions& o) {
  return batched(x, 2, "avg_pool2d", [&](const Tensor& in) { return avg_pool("avg_pool2d", 2, in, o); });
}

Tensor adaptive_avg_pool2d(const In& x, const Extents& output) {
  constexpr const char* kOp = "adaptive_avg_pool2d";
  return batched(x, 2, kOp, [&](const Tensor& in) {
    need_rank(in, 2, kOp);
    ops::need_floating(in, kOp);
    const Shape cells = output.expand(2, kOp, "output");
    if (cells == Shape{1, 1}) return mean(in, {2, 3}, Keep::yes);
    return ops::one(Op::adaptive_avg_pool, AdaptivePoolAttrs{cells}, {in});
  });
}

}  // namespace freight
