// Convolutions with stride 1 by Winograd's F(4x4, 3x3), 36 matrix products over tiles of 4x4 results with a quarter
// of the multiplications, and F(4x4, 5x5), 64 products with 4/25 of them. Activations channels-last, weights as stored
// (O, C, 3, 3) or (O, C, 5, 5). Errors are about ten times those of the direct sum (1e-6 of the largest value).
// T: float, or the bits of bf16: products are in f32, and errors those of rounding the result.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "freight/backend/cpu/kernels/conv.h"
#include "freight/backend/cpu/kernels/winograd_tile.h"

namespace freight::cpu {

// 3x3 or 5x5, stride 1, padding less than the filter, channels that fill vectors.
bool winograd_fits(const ConvProblem& p);

// Where the tiles of 4x4 results lie: images stand in rows and columns, and where that takes fewer of them, tiles cross
// from one into the next, with as many zeros between as the filter reaches out: 13x13 pixels need 49 tiles for four
// images instead of 64. NaN, infinities and rounding errors of large numbers then reach the next image: `apart` keeps
// them from each other.
enum class WinogradImages : uint8_t { joined, apart };
class WinogradGrid {
 public:
  WinogradGrid(const ConvProblem& p, int64_t side, WinogradImages images);
  int64_t tiles() const { return static_cast<int64_t>(in_.down.size() * in_.across.size()); }
  WinogradPatch in(int64_t tile) const { return patch(in_, tile); }  // `side` pixels from the padding before it on
  WinogradPatch out(int64_t tile) const { return patch(out_, tile); }

 private:
  struct Axis {
    int64_t count, period, tiles;  // images, pixels from one to the next
    bool joined;
  };
  // Pixels [first, last) of a square, along an axis, exist in an image, whose pixel 0 of it would be at `at`.
  struct AxisSpan {
    int64_t at, first, last;
    uint64_t bits;  // of their places in the square
  };
  struct AxisSpans {
    AxisSpan of[2];
    int count = 0;
  };
  struct Squares {
    int64_t strides[2], side;  // of rows and columns
    uint32_t columns;
    std::vector<AxisSpans> down, across;
  };
  static Axis axis(int64_t in, int64_t out, int64_t taps, int64_t pad, int64_t count, WinogradImages images);
  static std::vector<AxisSpans> parts(const Axis& axis, int64_t image, int64_t pixels, int64_t pixel, int64_t pad,
                                      int64_t side, int64_t step);
  static WinogradPatch patch(const Squares& squares, int64_t tile);
  Squares in_, out_;
};

template <class T>
class Winograd {
 public:
  // y = conv(x, w) of the problem; or, with `transposed`, dx from dy: the problem then has dy as x and dx as y (its
  // padding the filter's width less 1 and that of the convolution), and w is the convolution's.
  // `transformed`: w is what transform_filters left, for images of floats alone.
  enum class Weights : uint8_t { stored, transposed, transformed };
  // `stream`: results pass the caches by.
  Winograd(const ConvProblem& problem, Weights weights, WinogradImages images, bool stream);
  // bias (o) and residual (like y) may be null.
  void run(const T* x, const T* w, const T* bias, const T* residual, T* y, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void inputs(const T* x, int64_t first, int64_t last, float* v) const;
  void products(const float* v, const float* u, float* m, int64_t first, int64_t last, int64_t e, const T* x) const;
  void outputs(const float* m, int64_t first, int64_t last, const T* bias, const T* residual, T* y) const;

  ConvProblem p_;
  Weights weights_;
  WinogradGrid grid_;
  int64_t elements_;
  bool stream_, large_ = false;
  int64_t block_ = 0;                          // tiles at a time
  int64_t v_row_ = 0, v_ = 0, m_ = 0, u_ = 0;  // strides: a tile of v; elements of v (tiles, C), m (tiles, O) and u
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

// w (O, C, taps, taps) as U: for Weights::transformed. Strides: of taps, results and channels; that of taps may go
// back.
void transform_filters(const float* w, float* u, int64_t o, int64_t c, int64_t taps, ptrdiff_t tap, ptrdiff_t lane,
                       ptrdiff_t channel);
int64_t filter_floats(int64_t c, int64_t o, int64_t taps);

// dw of the convolution from x and dy. Sums run over tiles in one order whatever the number of threads.
template <class T>
class WinogradGradWeight {
 public:
  explicit WinogradGradWeight(const ConvProblem& problem);
  void run(const T* x, const T* dy, T* dw, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void transforms(const T* x, const T* dy, int64_t first, int64_t last, float* v, float* z) const;
  void products(const float* v, const float* z, float* du, int64_t first, int64_t last, int64_t e, bool accumulate,
                const T* x, const T* dy) const;

  ConvProblem p_;
  WinogradGrid grid_;
  int64_t elements_;
  int64_t width_ = 0, block_ = 0, sums_ = 1;   // columns of a panel; tiles of a block; partial sums
  int64_t v_row_ = 0, v_ = 0, z_ = 0, u_ = 0;  // strides: a tile of v; elements of v (tiles, C), z (panels) and du
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

}  // namespace freight::cpu
