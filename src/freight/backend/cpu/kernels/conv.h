// Direct f32 convolutions for few channels on the register tile of gemm_tile.h: activations channels-last, weights as
// stored (O, C, KH, KW). One group, no dilation. A window row is a contiguous stretch of the image, so nothing is
// unfolded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

namespace freight::cpu {

struct ConvProblem {
  int64_t n = 0, c = 0, h = 0, w = 0;  // x (N, C, H, W)
  int64_t o = 0, oh = 0, ow = 0;       // y (N, O, OH, OW)
  int64_t kh = 0, kw = 0;
  int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;  // padding before; what follows behind comes from the sizes
  bool relu = false;
  float most = std::numeric_limits<float>::infinity();  // larger results become it; for f32 alone
};

class ConvForward {
 public:
  explicit ConvForward(const ConvProblem& problem);
  // bias (o) may be null.
  void run(const float* x, const float* w, const float* bias, float* y, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void rows(const float* x, const float* packed, const float* bias, float* y, int64_t image, int64_t first,
            int64_t last) const;
  ConvProblem p_;
  int width_ = 0;  // columns per panel
  int64_t panels_ = 0, padded_w_ = 0, task_rows_ = 1, tasks_per_image_ = 1;
  bool copies_ = false;  // the image is copied with its padding
  bool plane_ = false;   // by the tile of plane_tile.h
  int64_t copy_floats_ = 0;
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

// dw from x and dy. Groups of images leave partial sums that are added in order.
class ConvGradWeight {
 public:
  explicit ConvGradWeight(const ConvProblem& problem);
  void run(const float* x, const float* dy, float* dw, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void group(const float* x, const float* dy, float* partial, int64_t first, int64_t last) const;
  ConvProblem p_;
  int lanes_ = 0;
  int64_t vectors_per_row_ = 0, line_ = 0;  // vectors per window row; floats of one output channel in a partial result
  int64_t padded_w_ = 0, padded_h_ = 0, groups_ = 1;
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

}  // namespace freight::cpu
