// A depthwise convolution, a channel by itself, with bias, relu and a bound, and the gradient of its image where its
// stride is 1: a convolution by the turned filter. Activations are channels-last, the weight lies as (KH, KW, C); no
// dilation. The gradient of the weight is in depthwise.h.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/conv.h"

namespace freight::cpu {

struct DepthwiseConvTable;

// True for kernels of 3 (f32 alone), 5 and 7 columns, strides of 1 or (but for 7) 2 columns, and at least a vector of
// channels.
bool depthwise_conv_fits(const ConvProblem& problem);

enum class Filter : uint8_t { stored, turned };

// Rows [from, to) of the results for one image.
template <class T>
struct DepthwiseRows {
  const T* x = nullptr;
  int64_t ring = 0;  // row i of the image lies where row i % ring of x does
  const T *w = nullptr, *bias = nullptr;
  T* y = nullptr;  // of row `from`
  int64_t from = 0, to = 0;
  bool stream = false;
};

template <class T>  // float, or Bf16
class DepthwiseConv {
 public:
  DepthwiseConv(const ConvProblem& problem, Filter filter, bool stream);
  // x (N, H, W, C), w (KH, KW, C) -> y (N, OH, OW, C); bias (C) may be null.
  void run(const T* x, const T* w, const T* bias, T* y, void* scratch) const;
  size_t scratch_bytes() const { return 0; }
  // On the calling thread, in channels [first, end), at least 16, a block of which the first-level cache holds.
  void rows(const DepthwiseRows<T>& r, int64_t first, int64_t end) const;
  // The rows in all channels from `first` to `end`.
  void all_rows(const DepthwiseRows<T>& r, int64_t first, int64_t end) const;

 private:
  ConvProblem p_;
  Filter filter_;
  bool stream_;  // results are larger than the caches: they pass them by
  const DepthwiseConvTable& table_;
  int64_t block_ = 0, blocks_ = 1, slices_ = 1;  // a task: a block of channels of a slice of an image's rows
};

}  // namespace freight::cpu
