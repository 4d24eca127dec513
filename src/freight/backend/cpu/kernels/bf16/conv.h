// Gradients of convolutions in bf16 on the blocks of blocks.h. That of a weight is a product over all pixels of the
// result, dw (O, taps C) = dy' (O, pixels) by what each pixel saw of x (pixels, taps C): nothing of the size of taps x
// pixels is stored, columns are packed from x for some pixels at a time. What oneDNN does as well is left to it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/bf16/gemm.h"
#include "freight/backend/cpu/kernels/conv.h"

namespace freight::cpu {

class Bf16GradWeight {
 public:
  // False where a row of the result is so long that a stretch of pixels would leave the caches, and for pictures whose
  // numbers 32 bits might not count.
  static bool fits(const ConvProblem& p) { return p.ow <= 1024 && p.h * p.w * p.c < (1 << 27); }
  // One group, no dilation; any strides and padding.
  explicit Bf16GradWeight(const ConvProblem& problem);
  // x (N, H, W, C), dy (N, OH, OW, O) channels-last -> dw (O, C, KH, KW) row-major.
  void run(const Bf16* x, const Bf16* dy, Bf16* dw, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  // 16 columns at most: of x's numbers from `at` behind a pixel's first on.
  struct Half {
    int32_t at = 0, lines = 0;
  };
  // Pixels that are worked on together: rows of an image, or whole images.
  struct Stretch {
    int64_t image, row, images, rows;
  };
  // A part of the columns, all of them in groups of stretches: panels of columns, and stretches.
  struct Task {
    int64_t panel0, panel1, stretch0, stretch1;
  };
  bool packed_before() const { return groups_ == 0; }
  int64_t stretches() const;
  Stretch stretch(int64_t i) const;
  void pad(const Bf16* x, const Stretch& s, Bf16* padded) const;
  void pack_rows(const Bf16* dy, const Stretch& s, Bf16* rows) const;
  void multiply(const Bf16* x, const Bf16* dy, const Task& task, float* sums) const;
  void finish(const float* sums, int64_t panel0, int64_t panel1, Bf16* dw) const;

  ConvProblem p_;
  bool padded_ = false;
  int64_t height_ = 0, width_ = 0;  // of x with its margins
  int64_t images_ = 1, rows_ = 1;   // of a stretch
  int64_t stretch_height_ = 0;      // rows of x that a stretch sees
  int64_t row_panels_ = 0, panels_ = 0, pieces_ = 0;
  std::vector<int32_t> pixel_at_;   // of a stretch's pixels: where in x each begins
  std::vector<Half> halves_;        // two for each panel of columns
  std::vector<int32_t> weight_at_;  // of each column: where in a row of dw; -1: none
  // Few sums: groups of stretches leave sums of their own, which are added in order, and what a stretch needs is packed
  // by its group. Many: parts of the columns, which share what was packed before.
  int64_t groups_ = 0, panel_block_ = 1;    // groups_ 0: parts of the columns
  int64_t stretch_x_ = 0, stretch_dy_ = 0;  // numbers of a stretch with its margins, packed
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

// The input gradient of a 1x1 convolution with steps and without margins: dy by the weight, pixel by pixel, spread over
// a dx that is zero elsewhere.
class Bf16SpreadProduct {
 public:
  explicit Bf16SpreadProduct(const ConvProblem& problem);
  // dy (N, OH, OW, O), w (O, C) -> dx (N, H, W, C), channels-last.
  void run(const Bf16* dy, const Bf16* w, Bf16* dx, void* scratch) const;
  size_t scratch_bytes() const { return static_cast<size_t>(p_.n * p_.oh * p_.ow * p_.c) * sizeof(Bf16); }

 private:
  ConvProblem p_;
  Bf16Gemm product_;
};

}  // namespace freight::cpu
