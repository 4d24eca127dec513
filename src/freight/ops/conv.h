// Convolution and pooling. N batch, C channels, L or H W spatial; kernels (out, in / groups, k...) as in PyTorch.
// Convolution here is cross-correlation. Errors: Error(usage) naming input, weight and the channels or extents at
// fault. One sample may lack its batch axis, (C, L) or (C, H, W); its result then lacks it, too.
#pragma once
#include "freight/ops/options.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// Settings of a convolution.
struct ConvOptions {
  Extents stride = 1;    // steps of the window
  Extents padding = 0;   // zeros on either side
  Extents dilation = 1;  // distance of the window's elements
  int64_t groups = 1;    // channels are joined within groups only
};
// x (N, C, L), w (K, C / groups, k), bias (K) -> (N, K, L'), L' = (L + 2 padding - dilation (k-1) - 1) / stride + 1.
Tensor conv1d(const In& x, const In& w, const ConvOptions& options = {});
Tensor conv1d(const In& x, const In& w, const In& bias, const ConvOptions& options = {});
// x (N, C, H, W), w (K, C / groups, kh, kw), bias (K) -> (N, K, H', W').
Tensor conv2d(const In& x, const In& w, const ConvOptions& options = {});
Tensor conv2d(const In& x, const In& w, const In& bias, const ConvOptions& options = {});

// Settings of conv_transpose2d: those of the convolution whose gradient it is.
struct ConvTransposeOptions {
  Extents stride = 1;          // steps of the window
  Extents padding = 0;         // zeros on either side
  Extents output_padding = 0;  // rows that the convolution would not reach
  Extents dilation = 1;        // distance of the window's elements
  int64_t groups = 1;          // channels are joined within groups only
};
// The gradient of conv2d with respect to its input, as a function: x (N, C, H, W), w (C, K / groups, kh, kw)
// -> (N, K, (H-1) stride - 2 padding + dilation (kh-1) + output_padding + 1, ...).
Tensor conv_transpose2d(const In& x, const In& w, const ConvTransposeOptions& options = {});

// Settings of a pool.
struct PoolOptions {
  Extents kernel = 2;      // extents of the window
  Extents stride = 0;      // 0: the kernel
  Extents padding = 0;     // at most half of the kernel
  bool ceil_mode = false;  // also windows that begin inside the image and reach beyond the padding
  // Average: divide by the elements of the window inside the padded image, or inside the image alone. What reaches
  // beyond the padding (ceil_mode) never counts.
  bool count_include_pad = true;
  Extents dilation = 1;  // from one element of a window to the next; of maxima alone
  int64_t divisor = 0;   // of averages: divides the sum of each window; 0: as count_include_pad says
};
// Largest elements of windows, (N, C, L) -> (N, C, L').
Tensor max_pool1d(const In& x, const PoolOptions& options = {});
// The same over (N, C, H, W).
Tensor max_pool2d(const In& x, const PoolOptions& options = {});
// Maxima, and where they lie.
struct Pooled {
  Tensor values;   // the largest elements
  Tensor indices;  // i32: the place of each in its image, row by row
};
// max_pool1d with the places, (N, C, L) -> (N, C, L').
Pooled max_pool1d_with_indices(const In& x, const PoolOptions& options = {});
Pooled max_pool2d_with_indices(const In& x, const PoolOptions& options = {});  // the same over (N, C, H, W)
// Means of windows, (N, C, L) -> (N, C, L').
Tensor avg_pool1d(const In& x, const PoolOptions& options = {});
// Means of windows, (N, C, H, W) -> (N, C, H', W').
Tensor avg_pool2d(const In& x, const PoolOptions& options = {});
// (N, C, H, W) -> (N, C, *output): window i covers [floor(i H / H'), ceil((i+1) H / H')). Output 1 is the mean.
Tensor adaptive_avg_pool2d(const In& x, const Extents& output = 1);

}  // namespace freight
