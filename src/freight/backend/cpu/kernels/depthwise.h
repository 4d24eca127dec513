// The gradient of a depthwise convolution's weight, a channel by itself: activations channels-last, the weight as
// stored (C, 1, KH, KW), no dilation. The rows of x that the taps of an output row see are copied in f32 between
// margins of zeros, some channels at a time, so that the sums of several taps stay in registers along the row.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/conv.h"

namespace freight::cpu {

struct DepthwiseTable;

// True for kernels of 5 and 7 columns on rows that a cache holds.
bool depthwise_fits(const ConvProblem& problem);

template <class T>  // float, or Bf16
class DepthwiseGradWeight {
 public:
  explicit DepthwiseGradWeight(const ConvProblem& problem);
  // x (N, H, W, C), dy (N, OH, OW, C) -> dw (C, KH, KW).
  void run(const T* x, const T* dy, T* dw, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  ConvProblem p_;
  const DepthwiseTable& table_;
  // Images are cut into slices with sums of their own, which are added in order; tasks are blocks of channels of
  // slices.
  int64_t block_ = 0, blocks_ = 1, slices_ = 1;  // block: channels
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

}  // namespace freight::cpu
