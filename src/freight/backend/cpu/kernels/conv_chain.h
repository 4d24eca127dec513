// A 1x1 convolution, a depthwise one that reads its result, and a 1x1 one that reads the result of that: the inverted
// residual block of MobileNetV2 (Sandler et al. 2018). The first or the last may be missing. An image goes through all
// of them some rows at a time, so that what lies between, many times as large as the image and the result, stays in the
// second-level cache. In f32; activations are channels-last.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

#include "freight/backend/cpu/kernels/depthwise_conv.h"

namespace freight::cpu {

// A 1x1 convolution of the chain; without channels there is none.
struct ChainProduct {
  int64_t channels = 0;  // of the image that the first one reads, of the result of the last one
  bool relu = false;
  float most = std::numeric_limits<float>::infinity();
  bool silu = false;  // behind all else
};

struct ConvChainProblem {
  ChainProduct expand;
  ConvProblem depthwise;  // depthwise_conv_fits
  ChainProduct project;
  bool depthwise_silu = false;
};

// Weights of products lie in panels (pack_columns), that of the depthwise convolution as (KH, KW, C). Biases may be
// null, and so may be the residual, which is added to the last product.
struct ConvChainOperands {
  const float* x = nullptr;
  const float *expand = nullptr, *expand_bias = nullptr;
  const float *depthwise = nullptr, *depthwise_bias = nullptr;
  const float *project = nullptr, *project_bias = nullptr;
  const float* residual = nullptr;
  float* y = nullptr;
};

class ConvChain {
 public:
  explicit ConvChain(const ConvChainProblem& problem);
  void run(const ConvChainOperands& operands, void* scratch) const;
  size_t scratch_bytes() const { return static_cast<size_t>(bias_floats_ + shared_floats_) * sizeof(float); }

 private:
  void slice(const ConvChainOperands& o, int64_t image, int64_t from, int64_t to) const;
  void by_channels(const ConvChainOperands& o, int64_t image, float* scratch) const;
  void expand(const ConvChainOperands& o, int64_t pixel, int64_t pixels, int64_t first, int64_t end, float* to) const;
  void project(const ConvChainOperands& o, const float* from, int64_t pixel, int64_t pixels) const;

  ConvChainProblem p_;
  DepthwiseConv<float> depthwise_;
  int64_t slices_ = 1;         // of an image's rows
  int64_t rows_ = 1;           // results of the depthwise convolution at a time
  int64_t ring_ = 0;           // rows of the expanded image that are kept
  int64_t shared_floats_ = 0;  // of all threads: an image expanded and its convolution, where they share the channels
  int64_t bias_floats_ = 0;    // biases filled up to whole panels
  int64_t ring_floats_ = 0;    // of a thread: the expanded rows, before the results of the depthwise convolution
  size_t thread_bytes_ = 0;
};

}  // namespace freight::cpu
