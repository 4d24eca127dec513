// A 1x1 convolution, a depthwise one that reads its result, and a 1x1 one that reads the result of that: the inverted
// residual block of MobileNetV2 (Sandler et al. 2018). The first or the last may be missing. An image goes through all
// of them some rows at a time, so that what lies between, many times as large as the image and the result, stays in the
// second-level cache. Before the last one there may be a squeeze-excitation (Hu et al. 2018), for which the whole
// result of the depthwise one is kept. In f32; activations are channels-last.
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
  // Of squeeze-excitation: what the sums over the pixels are multiplied by, into these channels, and back from these;
  // the sigmoid of that multiplies the channels that the last product reads.
  float mean = 0;
  ChainProduct squeeze;
};

// Weights of products lie in panels (pack_columns), that of the depthwise convolution as (KH, KW, C). Biases may be
// null, and so may be the residual, which is added to the last product.
struct ConvChainOperands {
  const float* x = nullptr;
  const float *expand = nullptr, *expand_bias = nullptr;
  const float *depthwise = nullptr, *depthwise_bias = nullptr;
  const float *squeeze = nullptr, *squeeze_bias = nullptr;
  const float *excite = nullptr, *excite_bias = nullptr;
  const float *project = nullptr, *project_bias = nullptr;
  const float* residual = nullptr;
  float* y = nullptr;
};

class ConvChain {
 public:
  explicit ConvChain(const ConvChainProblem& problem);
  void run(const ConvChainOperands& operands, void* scratch) const;
  size_t scratch_bytes() const;

 private:
  // Memory between the convolutions for one image.
  struct Between {
    float* expanded;  // the ring, or the whole image
    float* rows;      // results of the depthwise convolution: those at hand, or with squeeze-excitation all
    float* sums;      // with squeeze-excitation: those of each row
  };
  void slice(const ConvChainOperands& o, int64_t image, int64_t from, int64_t to, const Between& b) const;
  void channels(const ConvChainOperands& o, int64_t image, int64_t first, int64_t end, const Between& b) const;
  void shared(const ConvChainOperands& o, int64_t image, const Between& b) const;
  void finish_rows(const DepthwiseRows<float>& rows, int64_t first, int64_t end, float* sums) const;
  const float* gate(const ConvChainOperands& o, float* sums) const;
  void expand(const ConvChainOperands& o, int64_t pixel, int64_t pixels, int64_t first, int64_t end, float* to) const;
  void project(const ConvChainOperands& o, float* from, int64_t pixel, int64_t pixels, const float* gate) const;
  bool gated() const { return p_.squeeze.channels > 0; }
  Between between(float* memory) const { return {memory, memory + ring_floats_, memory + ring_floats_ + row_floats_}; }

  ConvChainProblem p_;
  DepthwiseConv<float> depthwise_;
  int64_t slices_ = 1;                                         // of an image's rows
  int64_t rows_ = 1;                                           // results of the depthwise convolution at a time
  int64_t ring_ = 0;                                           // rows of the expanded image that are kept
  bool by_channels_ = false;                                   // the threads share an image's channels, not its rows
  bool shares_image_ = false;                                  // the threads work on one image at a time
  int64_t bias_floats_ = 0;                                    // biases filled up to whole panels
  int64_t ring_floats_ = 0, row_floats_ = 0, sum_floats_ = 0;  // of Between
  size_t thread_bytes_ = 0;
};

}  // namespace freight::cpu
