// Front ends of convolution and pooling. See conv.h.
#include "freight/ops/conv.h"

#include <algorithm>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/reduce.h"

namespace freight {

Shape Extents::expand(int rank, const char* op, const char* what) const {
  if (uniform) return Shape::filled(rank, values[0]);
  if (values.rank() != rank) {
    ops::fail_here(op, what, " needs one number, or one per spatial axis: got ", values, ", need ", rank, " entries");
  }
  return values;
}

namespace {

void need_rank(const Tensor& x, int spatial, const char* op) {
  if (x.rank() == spatial + 2) return;
  ops::fail_here(op, "input must be ", spatial == 1 ? "(N, C, L)" : "(N, C, H, W)", ": got ", x.type());
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

Tensor conv(const char* op, int spatial, const In& x, const In& w, const ConvOptions& o) {
  const auto [frame, in] = ops::enter(x, op);
  const Tensor weight = ops::get(w, op);
  need_rank(in, spatial, op);
  return ops::one(Op::conv, conv_attrs(op, spatial, o), {in, weight});
}

Tensor with_bias(const Tensor& y, const In& bias, const char* op) {
  return y + ops::per_channel(ops::get(bias, op), y, op);
}

// Zero padding behind the image so that the last window that begins inside is counted (PyTorch's ceil_mode).
int64_t ceil_padding(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  int64_t count = (size + 2 * padding - kernel + stride - 1) / stride + 1;
  if ((count - 1) * stride >= size + padding) --count;
  return std::max(padding, (count - 1) * stride + kernel - size - padding);
}

PoolAttrs pool_attrs(const char* op, int spatial, const Tensor& x, const PoolOptions& o) {
  need_rank(x, spatial, op);
  PoolAttrs a;
  a.kernel = o.kernel.expand(spatial, op, "kernel");
  a.stride = o.stride == Extents(0) ? a.kernel : o.stride.expand(spatial, op, "stride");
  a.pad_low = a.pad_high = o.padding.expand(spatial, op, "padding");
  a.count_include_pad = o.count_include_pad;
  for (int i = 0; o.ceil_mode && i < spatial; ++i) {
    if (a.stride[i] < 1) ops::fail_here(op, "stride must be positive: got ", a.stride);
    a.pad_high[i] = ceil_padding(x.shape()[2 + i], a.kernel[i], a.stride[i], a.pad_low[i]);
  }
  return a;
}

Tensor pool(Op op, const char* user_name, int spatial, const In& x, const PoolOptions& o) {
  const auto [frame, in] = ops::enter(x, user_name);
  return trace::add(op, pool_attrs(user_name, spatial, in, o), {in})[0];
}

}  // namespace

Tensor conv1d(const In& x, const In& w, const ConvOptions& o) { return conv("conv1d", 1, x, w, o); }
Tensor conv2d(const In& x, const In& w, const ConvOptions& o) { return conv("conv2d", 2, x, w, o); }
Tensor conv1d(const In& x, const In& w, const In& bias, const ConvOptions& o) {
  const Frame frame(x.where);
  return with_bias(conv("conv1d", 1, x, w, o), bias, "conv1d");
}
Tensor conv2d(const In& x, const In& w, const In& bias, const ConvOptions& o) {
  const Frame frame(x.where);
  return with_bias(conv("conv2d", 2, x, w, o), bias, "conv2d");
}

Tensor conv_transpose2d(const In& x, const In& w, const ConvTransposeOptions& o) {
  constexpr const char* kOp = "conv_transpose2d";
  const Frame frame(x.where);
  const Tensor in = ops::get(x, kOp), weight = ops::get(w, kOp);  // (N, C, H, W), (C, K / groups, kh, kw)
  need_rank(in, 2, kOp);
  if (weight.rank() != 4 || weight.dim(0) != in.dim(1)) {
    ops::fail_here(kOp, "channels do not fit: input ", in.type(), " axis 1 = ", in.dim(1), ", weight ", weight.type());
  }
  const Shape extra = o.output_padding.expand(2, kOp, "output_padding");
  ConvAttrs a = conv_attrs(kOp, 2, o);
  a.shape = {in.dim(0), weight.dim(1) * o.groups};
  for (int i = 0; i < 2; ++i) {
    a.shape.push_back((in.dim(2 + i) - 1) * a.stride[i] - 2 * a.pad_low[i] + a.dilation[i] * (weight.dim(2 + i) - 1) +
                      extra[i] + 1);
  }
  return ops::one(Op::conv_grad_input, a, {in, weight});
}

Tensor max_pool1d(const In& x, const PoolOptions& o) { return pool(Op::max_pool, "max_pool1d", 1, x, o); }
Tensor max_pool2d(const In& x, const PoolOptions& o) { return pool(Op::max_pool, "max_pool2d", 2, x, o); }
Tensor avg_pool1d(const In& x, const PoolOptions& o) { return pool(Op::avg_pool, "avg_pool1d", 1, x, o); }
Tensor avg_pool2d(const In& x, const PoolOptions& o) { return pool(Op::avg_pool, "avg_pool2d", 2, x, o); }

Tensor adaptive_avg_pool2d(const In& x, const Extents& output) {
  constexpr const char* kOp = "adaptive_avg_pool2d";
  const auto [frame, in] = ops::enter(x, kOp);
  need_rank(in, 2, kOp);
  const Shape cells = output.expand(2, kOp, "output");
  if (cells == Shape{1, 1}) return mean(in, {2, 3}, Keep::yes);
  return ops::one(Op::adaptive_avg_pool, AdaptivePoolAttrs{cells}, {in});
}

}  // namespace freight
