// f32 convolutions with stride 1 by Winograd's F(4x4, 3x3), 36 matrix products over tiles of 4x4 results with a quarter
// of the multiplications, and F(4x4, 5x5), 64 products with 4/25 of them. Activations channels-last, weights as stored
// (O, C, 3, 3) or (O, C, 5, 5). Errors are about ten times those of the direct sum (1e-6 of the largest value).
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/conv.h"

namespace freight::cpu {

// 3x3 or 5x5, stride 1, padding less than the filter, channels that fill vectors.
bool winograd_fits(const ConvProblem& p);

// Memory that is asked for while something else is multiplied.
struct Ahead {
  const float* first = nullptr;
  int64_t lines = 0;
};

class Winograd {
 public:
  // y = conv(x, w) of the problem; or, with `transposed`, dx from dy: the problem then has dy as x and dx as y (its
  // padding the filter's width less 1 and that of the convolution), and w is the convolution's.
  // `transformed`: w is what transform_filters left.
  enum class Weights : uint8_t { stored, transposed, transformed };
  // `stream`: results pass the caches by.
  Winograd(const ConvProblem& problem, Weights weights, bool stream);
  // bias (o) and residual (like y) may be null.
  void run(const float* x, const float* w, const float* bias, const float* residual, float* y, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void inputs(const float* x, int64_t first, int64_t last, float* v) const;
  void products(const float* v, const float* u, float* m, int64_t count, int64_t e, const Ahead& ahead = {}) const;
  void outputs(const float* m, int64_t first, int64_t last, const float* bias, const float* residual, float* y) const;

  ConvProblem p_;
  Weights weights_;
  int64_t elements_;
  bool stream_, large_ = false;
  int64_t width_ = 0, block_ = 0;              // columns of a panel; tiles at a time
  int64_t v_row_ = 0, v_ = 0, m_ = 0, u_ = 0;  // strides: a tile of v; elements of v (tiles, C), m (tiles, O) and u
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

// w (O, C, taps, taps), of any strides with rows of the filter `taps` taps apart, as U: for Weights::transformed.
void transform_filters(const float* w, float* u, int64_t o, int64_t c, int64_t taps, const int64_t* strides);
int64_t filter_floats(int64_t c, int64_t o, int64_t taps);

// dw of the convolution from x and dy. Sums run over tiles in one order whatever the number of threads.
class WinogradGradWeight {
 public:
  explicit WinogradGradWeight(const ConvProblem& problem);
  void run(const float* x, const float* dy, float* dw, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void transforms(const float* x, const float* dy, int64_t first, int64_t last, int64_t start, int64_t count, float* v,
                  float* z) const;
  void products(const float* v, const float* z, float* du, int64_t count, int64_t e, bool accumulate,
                const Ahead& ahead = {}) const;
  Ahead next(const float* x, const float* dy, int64_t first, int64_t e) const;

  ConvProblem p_;
  int64_t elements_;
  int64_t width_ = 0, block_ = 0, sums_ = 1;   // columns of a panel; tiles of a block; partial sums
  int64_t v_row_ = 0, v_ = 0, z_ = 0, u_ = 0;  // strides: a tile of v; elements of v (tiles, C), z (panels) and du
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

}  // namespace freight::cpu
