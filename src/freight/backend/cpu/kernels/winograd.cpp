// See winograd.h. Letters: C, O channels of x and y; a tile gives 4x4 results from a patch of 6x6 pixels; element e is
// one of the 36 of a transformed patch. V (36, tiles, C), U (36, C, O) in panels, M (36, tiles, O).
#include "freight/backend/cpu/kernels/winograd.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/gemm_tile.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/backend/cpu/kernels/winograd_tile.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kTile = 4, kPatch = 6, kElements = 36;
constexpr int64_t kThreadBlock = 48;               // tiles that a thread takes through all stages
constexpr int64_t kLargeWeights = 8 << 20;         // bytes of U from which threads share its elements instead
constexpr int64_t kMostSums = 32, kLeastSums = 8;  // partial sums of the filter's gradient, which no thread count sets
constexpr int64_t kSumBytes = 10 << 20;            // for all of them
constexpr int64_t kGroupBytes = 24 << 20;          // of V and M that stay in the last cache
constexpr int64_t kDepth = 128;  // tiles per product of the filter's gradient: a panel in the first cache
constexpr int64_t kSlice = 8;    // tiles per task of a transform

// An odd number of cache lines: 36 writes at this distance fall on different sets.
int64_t odd_lines(int64_t floats) { return (ceil_div(floats, 16) | 1) * 16; }
int64_t tile_count(const ConvProblem& p) { return p.n * ceil_div(p.oh, kTile) * ceil_div(p.ow, kTile); }

struct Place {
  int64_t image, y, x;  // of the tile's first result
};
Place place(const ConvProblem& p, int64_t tile) {
  const int64_t across = ceil_div(p.ow, kTile), down = ceil_div(p.oh, kTile);
  return {tile / (across * down), tile / across % down * kTile, tile % across * kTile};
}

// The `side` x `side` pixels from (y, x) of an image (H, W, C), which may lie partly outside.
WinogradPatch patch(const float* image, int64_t h, int64_t w, int64_t c, int64_t y, int64_t x, int64_t side) {
  const auto inside = [&](int64_t v) { return static_cast<int>(std::clamp<int64_t>(v, 0, side)); };
  return {image + (y * w + x) * c, w * c, c, inside(-y), inside(h - y), inside(-x), inside(w - x)};
}

void input_patch(const ConvProblem& p, const float* x, int64_t tile, const WinogradTable::Out& out) {
  const Place at = place(p, tile);
  const float* image = x + at.image * p.h * p.w * p.c;
  winograd_table().input(patch(image, p.h, p.w, p.c, at.y - p.pad_h, at.x - p.pad_w, kPatch), p.c, out);
}

template <class F>
void sliced(int64_t first, int64_t last, F f) {
  parallel_for(ceil_div(last - first, kSlice), [&](int64_t i) {
    const int64_t from = first + i * kSlice;
    f(from, std::min(last, from + kSlice));
  });
}

}  // namespace

int64_t filter_floats(int64_t c, int64_t o) { return kElements * odd_lines(panel_floats(c, o)); }

namespace {
// Taps `tap` apart, the filters of neighbouring results `lane`, of neighbouring channels `channel`.
void transform(const float* w, float* u, int64_t o, int64_t c, ptrdiff_t tap, ptrdiff_t lane, ptrdiff_t channel) {
  const WinogradTable& table = winograd_table();
  const int64_t width = 2 * gemm_table().lanes, element = odd_lines(panel_floats(c, o));
  parallel_for(o / table.lanes, [&](int64_t i) {
    const int64_t first = i * table.lanes;
    float* panel = u + first / width * width * c + first % width;
    for (int64_t k = 0; k < c; ++k) {
      table.filter(w + first * lane + k * channel, tap, lane, panel + k * width, element);
    }
  });
}
}  // namespace

void transform_filters(const float* w, float* u, int64_t o, int64_t c, const int64_t* strides) {
  transform(w, u, o, c, strides[3], strides[0], strides[1]);
}

bool winograd_fits(const ConvProblem& p) {
  const int64_t lanes = winograd_table().lanes;
  return p.kh == 3 && p.kw == 3 && p.stride_h == 1 && p.stride_w == 1 && p.pad_h <= 2 && p.pad_w <= 2 &&
         p.c % lanes == 0 && p.o % lanes == 0 && winograd_table().lanes == gemm_table().lanes;
}

Winograd::Winograd(const ConvProblem& problem, Weights weights) : p_(problem), weights_(weights) {
  width_ = 2 * gemm_table().lanes;
  u_ = odd_lines(panel_floats(p_.c, p_.o));
  v_row_ = p_.c % 256 == 0 ? p_.c + 16 : p_.c;
  const int64_t tiles = tile_count(p_), weight_bytes = kElements * u_ * 4;
  large_ = weight_bytes > kLargeWeights || tiles < 2 * kThreadBlock;
  const int64_t most = large_ ? std::max(kThreadBlock, kGroupBytes / (kElements * (p_.c + p_.o) * 4)) : kThreadBlock;
  block_ = ceil_div(tiles, ceil_div(tiles, most));
  v_ = odd_lines(block_ * v_row_);
  m_ = odd_lines(block_ * p_.o);
  const size_t block_bytes = static_cast<size_t>(kElements * (v_ + m_)) * 4;
  scratch_bytes_ =
      (weights_ == Weights::transformed ? 0 : static_cast<size_t>(weight_bytes)) + (large_ ? block_bytes : 0);
  thread_bytes_ = large_ ? 0 : block_bytes;
  if (thread_bytes_ > 0) reserve_thread_scratch(thread_bytes_);
}

void Winograd::inputs(const float* x, int64_t first, int64_t last, float* v) const {
  for (int64_t tile = first; tile < last; ++tile, v += v_row_) input_patch(p_, x, tile, {v, v_, 0, p_.c});
}

void Winograd::products(const float* v, const float* u, float* m, int64_t count, int64_t e) const {
  multiply_panels({.a = v + e * v_,
                   .a_row = v_row_,
                   .a_step = 1,
                   .panels = u + e * u_,
                   .c = m + e * m_,
                   .c_row = p_.o,
                   .m = count,
                   .n = p_.o,
                   .k = p_.c,
                   .accumulate = false});
}

void Winograd::outputs(const float* m, int64_t first, int64_t last, const float* bias, const float* residual,
                       float* y) const {
  for (int64_t tile = first; tile < last; ++tile, m += p_.o) {
    const Place at = place(p_, tile);
    const int64_t offset = ((at.image * p_.oh + at.y) * p_.ow + at.x) * p_.o;
    winograd_table().output(m, m_, p_.o, {bias, residual ? residual + offset : nullptr, p_.relu}, y + offset,
                            p_.ow * p_.o, p_.o, static_cast<int>(std::min(kTile, p_.oh - at.y)),
                            static_cast<int>(std::min(kTile, p_.ow - at.x)));
  }
}

void Winograd::run(const float* x, const float* w, const float* bias, const float* residual, float* y,
                   void* scratch) const {
  const int64_t tiles = tile_count(p_);
  const float* u = w;
  auto* v = static_cast<float*>(scratch);
  if (weights_ != Weights::transformed) {
    // The transposed convolution turns the filter by half a turn.
    const bool stored = weights_ == Weights::stored;
    transform(w + (stored ? 0 : 8), v, p_.o, p_.c, stored ? 1 : -1, stored ? p_.c * 9 : 9, stored ? 9 : p_.o * 9);
    u = v;
    v += kElements * u_;
  }
  if (!large_) {
    parallel_for(ceil_div(tiles, block_), [&](int64_t i) {
      const int64_t first = i * block_, last = std::min(tiles, first + block_);
      auto* block = static_cast<float*>(thread_scratch(thread_bytes_));
      float* m = block + kElements * v_;
      inputs(x, first, last, block);
      for (int64_t e = 0; e < kElements; ++e) products(block, u, m, last - first, e);
      outputs(m, first, last, bias, residual, y);
    });
    return;
  }
  float* m = v + kElements * v_;
  for (int64_t start = 0; start < tiles; start += block_) {
    const int64_t end = std::min(tiles, start + block_);
    sliced(start, end, [&](int64_t first, int64_t last) { inputs(x, first, last, v + (first - start) * v_row_); });
    parallel_for(kElements, [&](int64_t e) { products(v, u, m, end - start, e); });
    sliced(start, end,
           [&](int64_t first, int64_t last) { outputs(m + (first - start) * p_.o, first, last, bias, residual, y); });
  }
}

// Few channels: each task sums over tiles of its own, in blocks that stay in its thread's cache. Many: the sums are too
// large for a copy per task, so the threads share the elements of one block after the other.
WinogradGradWeight::WinogradGradWeight(const ConvProblem& problem) : p_(problem) {
  width_ = 2 * gemm_table().lanes;
  v_row_ = p_.c % 256 == 0 ? p_.c + 16 : p_.c;
  const int64_t tiles = tile_count(p_), padded = ceil_div(p_.o, width_) * width_;
  u_ = odd_lines(p_.c * p_.o);
  const int64_t sum_bytes = kElements * u_ * 4, sums = std::min(kMostSums, kSumBytes / sum_bytes);
  const bool apart = sums >= kLeastSums;
  const int64_t most = apart ? kThreadBlock : kDepth;
  block_ = ceil_div(tiles, ceil_div(tiles, most));
  sums_ = apart ? std::min(sums, ceil_div(tiles, block_)) : 1;
  v_ = odd_lines(block_ * v_row_);
  z_ = odd_lines(block_ * padded);
  const auto block_bytes = static_cast<size_t>(kElements * (v_ + z_)) * 4;
  thread_bytes_ = apart ? block_bytes : 0;
  scratch_bytes_ = static_cast<size_t>(sums_ * sum_bytes) + (apart ? 0 : block_bytes);
  if (apart) reserve_thread_scratch(block_bytes);
}

// v (36, tiles, C) and z (36, panels, tiles, width) of the tiles [first, last) of a block that starts at `start` and
// has `count`.
void WinogradGradWeight::transforms(const float* x, const float* dy, int64_t first, int64_t last, int64_t start,
                                    int64_t count, float* v, float* z) const {
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t row = tile - start;
    input_patch(p_, x, tile, {v + row * v_row_, v_, 0, p_.c});
    const Place at = place(p_, tile);
    const float* image = dy + at.image * p_.oh * p_.ow * p_.o;
    winograd_table().gradient(patch(image, p_.oh, p_.ow, p_.o, at.y, at.x, kTile), p_.o,
                              {z + row * width_, z_, count * width_, width_});
  }
}

void WinogradGradWeight::products(const float* v, const float* z, float* du, int64_t count, int64_t e,
                                  bool accumulate) const {
  multiply_panels({.a = v + e * v_,
                   .a_row = 1,
                   .a_step = v_row_,
                   .panels = z + e * z_,
                   .c = du + e * u_,
                   .c_row = p_.o,
                   .m = p_.c,
                   .n = p_.o,
                   .k = count,
                   .accumulate = accumulate});
}

void WinogradGradWeight::run(const float* x, const float* dy, float* dw, void* scratch) const {
  const WinogradTable& table = winograd_table();
  const int64_t tiles = tile_count(p_), blocks = ceil_div(tiles, block_);
  auto* du = static_cast<float*>(scratch);  // (sums, 36, C, O)
  if (thread_bytes_ > 0) {
    parallel_for(sums_, [&](int64_t i) {
      auto* v = static_cast<float*>(thread_scratch(thread_bytes_));
      float *z = v + kElements * v_, *sum = du + i * kElements * u_;
      const int64_t first_block = blocks * i / sums_;
      for (int64_t block = first_block; block < blocks * (i + 1) / sums_; ++block) {
        const int64_t start = block * block_, end = std::min(tiles, start + block_);
        transforms(x, dy, start, end, start, end - start, v, z);
        for (int64_t e = 0; e < kElements; ++e) products(v, z, sum, end - start, e, block > first_block);
      }
    });
    parallel_for(kElements, [&](int64_t e) {
      float* total = du + e * u_;
      for (int64_t i = 1; i < sums_; ++i) {
        const float* part = du + (i * kElements + e) * u_;
        for (int64_t j = 0; j < p_.c * p_.o; ++j) total[j] += part[j];
      }
    });
  } else {
    float *v = du + kElements * u_, *z = v + kElements * v_;
    for (int64_t start = 0; start < tiles; start += block_) {
      const int64_t end = std::min(tiles, start + block_);
      sliced(start, end,
             [&](int64_t first, int64_t last) { transforms(x, dy, first, last, start, end - start, v, z); });
      parallel_for(kElements, [&](int64_t e) { products(v, z, du, end - start, e, start > 0); });
    }
  }
  parallel_for(p_.o / table.lanes, [&](int64_t i) {
    const int64_t o = i * table.lanes;
    for (int64_t c = 0; c < p_.c; ++c) table.filter_gradient(du + c * p_.o + o, u_, dw + (o * p_.c + c) * 9, p_.c * 9);
  });
}

}  // namespace freight::cpu
