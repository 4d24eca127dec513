// The gradient of a convolution's weight whose taps see pixels apart from each other. Where it steps over the image as
// well, oneDNN unfolds whole images, or has plain loops for them. Here the pixels that the taps see are copied beside
// each other, block by block, and dw is the sum of the products of dy with such blocks, in f32. A channel by itself
// (depthwise) needs no copies. Activations are channels-last, the weight is as stored.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/gemm.h"

namespace freight::cpu {

struct TapsProblem {
  // One spatial axis; those that a convolution lacks stay as they are, in front of its own.
  struct Axis {
    int64_t x = 1, y = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;  // padding before
  };
  int64_t n = 0, c = 0, o = 0, groups = 1;  // x (N, C, spatial), y (N, O, spatial), w (O, C / groups, kernel)
  std::array<Axis, 3> axes;
};

template <class T>  // float, or Bf16
class TapsGradWeight {
 public:
  explicit TapsGradWeight(const TapsProblem& problem);
  // x (N, spatial, C), dy (N, spatial, O) -> dw (O, C / groups, kernel).
  void run(const T* x, const T* dy, T* dw, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  struct Memory;
  const Gemm<float>& product_of(int64_t pixels) const { return products_[static_cast<size_t>(pixels - least_)]; }
  template <class F>
  void for_taps(const T* x, int64_t first, int64_t last, F f) const;
  void copy_pixels(const T* x, int64_t first, int64_t last, float* to) const;
  void add_channels(const T* x, const T* dy, int64_t first, int64_t last, float* sums) const;
  void add_block(const T* x, const T* dy, int64_t block, const Memory& memory) const;
  void finish(const float* sums, T* dw) const;

  TapsProblem p_;
  bool depthwise_ = false;
  int64_t taps_ = 1, pixels_ = 1;  // pixels: of y, of all images
  int64_t width_ = 0;              // numbers that are copied for a pixel: (groups, taps, C / groups)
  int64_t sums_ = 0;               // numbers of the result
  // The pixels are cut into slices with sums of their own, which are added in order, and those into blocks. Where the
  // sums are too many for that there is one slice, whose products are shared among the threads.
  int64_t slices_ = 1, blocks_ = 1;    // blocks: of all slices
  int64_t least_ = 0, most_ = 0;       // pixels of a block
  std::vector<Gemm<float>> products_;  // of blocks of the least pixels, and of one more
  size_t product_bytes_ = 0, slice_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace freight::cpu
