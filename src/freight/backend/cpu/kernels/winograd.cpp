// See winograd.h. Letters: C, O channels of x and y; a tile gives 4x4 results from a patch of PxP pixels; element e is
// one of the E = PP of a transformed patch. V (E, tiles, C), U (E, C, O) in panels, M (E, tiles, O).
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

constexpr int64_t kTile = 4;
constexpr int64_t kThreadBlock = 48;               // tiles that a thread takes through all stages
constexpr int64_t kLargeWeights = 12 << 20;        // bytes of U from which threads share its elements instead
constexpr int64_t kMostSums = 32, kLeastSums = 8;  // partial sums of the filter's gradient, which no thread count sets
constexpr int64_t kSumBytes = 10 << 20;            // for all of them
constexpr int64_t kGroupBytes = 24 << 20;          // of V and M that stay in the last cache
constexpr int64_t kDepth = 128;  // tiles per product of the filter's gradient: a panel in the first cache
constexpr int64_t kMostTaps = 25, kMostLanes = 16;
constexpr int64_t kSlice = 8;  // tiles per task of a transform

constexpr int64_t kLine = 16;  // floats of a cache line
int64_t round_up(int64_t n, int64_t multiple) { return ceil_div(n, multiple) * multiple; }
// An odd number of cache lines: dozens of writes at this distance fall on different sets.
int64_t odd_lines(int64_t floats) { return (ceil_div(floats, 16) | 1) * 16; }
const WinogradTable& table_of(int64_t taps) { return taps == 3 ? winograd_tables().three : winograd_tables().five; }
const WinogradTable& table_of(const ConvProblem& p) { return table_of(p.kh); }
int64_t elements_of(int64_t taps) { return (taps + kTile - 1) * (taps + kTile - 1); }
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
  const WinogradTable& table = table_of(p);
  table.input(patch(image, p.h, p.w, p.c, at.y - p.pad_h, at.x - p.pad_w, table.patch), p.c, out);
}

// About where the pixels of the tiles [first, last) lie, of images of `floats` each.
Ahead pixels_of(const float* images, int64_t floats, const ConvProblem& p, int64_t first, int64_t last) {
  const int64_t all = tile_count(p), total = p.n * floats, from = total / all * first / kLine * kLine;
  return {images + from, (total / all * (last - first)) / kLine};
}
// Part i of n.
Ahead part(const Ahead& a, int64_t i, int64_t n) {
  const int64_t from = a.lines * i / n;
  return {a.first + from * kLine, a.lines * (i + 1) / n - from};
}

template <class F>
void sliced(int64_t first, int64_t last, F f) {
  parallel_for(ceil_div(last - first, kSlice), [&](int64_t i) {
    const int64_t from = first + i * kSlice;
    f(from, std::min(last, from + kSlice));
  });
}

}  // namespace

int64_t filter_floats(int64_t c, int64_t o, int64_t taps) { return elements_of(taps) * odd_lines(panel_floats(c, o)); }

namespace {
// Taps `tap` apart, the filters of neighbouring results `lane`, of neighbouring channels `channel`.
void transform(const float* w, float* u, int64_t o, int64_t c, int64_t taps, ptrdiff_t tap, ptrdiff_t lane,
               ptrdiff_t channel) {
  const int64_t width = 2 * gemm_table().lanes, element = odd_lines(panel_floats(c, o)), all = taps * taps;
  const int64_t lanes = winograd_tables().lanes;
  parallel_for(o / lanes, [&](int64_t i) {
    const int64_t first = i * lanes;
    float* panel = u + first / width * width * c + first % width;
    float side_by_side[kMostTaps * kMostLanes];
    for (int64_t k = 0; k < c; ++k) {
      const float* from = w + first * lane + k * channel;
      if (tap == 1 || tap == -1) {
        gemm_table().pack(side_by_side, 0, tap < 0 ? from - (all - 1) : from, 1, lane, all, lanes,
                          static_cast<int>(lanes));
      } else {
        for (int64_t t = 0; t < all; ++t) {
          for (int64_t l = 0; l < lanes; ++l) side_by_side[t * lanes + l] = from[t * tap + l * lane];
        }
      }
      table_of(taps).filter(side_by_side + (tap == -1 ? (all - 1) * lanes : 0), tap == -1 ? -lanes : lanes,
                            panel + k * width, element);
    }
  });
}
}  // namespace

void transform_filters(const float* w, float* u, int64_t o, int64_t c, int64_t taps, const int64_t* strides) {
  transform(w, u, o, c, taps, strides[3], strides[0], strides[1]);
}

bool winograd_fits(const ConvProblem& p) {
  const int64_t lanes = winograd_tables().lanes;
  return (p.kh == 3 || p.kh == 5) && p.kw == p.kh && p.stride_h == 1 && p.stride_w == 1 && p.pad_h < p.kh &&
         p.pad_w < p.kw && p.c % lanes == 0 && p.o % lanes == 0 && lanes == gemm_table().lanes;
}

Winograd::Winograd(const ConvProblem& problem, Weights weights, bool stream)
    : p_(problem), weights_(weights), elements_(elements_of(problem.kh)), stream_(stream) {
  width_ = 2 * gemm_table().lanes;
  u_ = odd_lines(panel_floats(p_.c, p_.o));
  v_row_ = p_.c % 256 == 0 ? p_.c + 16 : p_.c;
  const int64_t tiles = tile_count(p_), weight_bytes = elements_ * u_ * 4;
  large_ = weight_bytes > kLargeWeights || tiles < 2 * kThreadBlock;
  const int64_t most = large_ ? std::max(kThreadBlock, kGroupBytes / (elements_ * (p_.c + p_.o) * 4)) : kThreadBlock;
  block_ = ceil_div(tiles, large_ ? ceil_div(tiles, most) : round_up(ceil_div(tiles, most), thread_count()));
  v_ = odd_lines(block_ * v_row_);
  m_ = odd_lines(block_ * p_.o);
  const size_t block_bytes = static_cast<size_t>(elements_ * (v_ + m_)) * 4;
  scratch_bytes_ =
      (weights_ == Weights::transformed ? 0 : static_cast<size_t>(weight_bytes)) + (large_ ? block_bytes : 0);
  thread_bytes_ = large_ ? 0 : block_bytes;
  if (thread_bytes_ > 0) reserve_thread_scratch(thread_bytes_);
}

void Winograd::inputs(const float* x, int64_t first, int64_t last, float* v) const {
  for (int64_t tile = first; tile < last; ++tile, v += v_row_) input_patch(p_, x, tile, {v, v_, 0, p_.c});
}

void Winograd::products(const float* v, const float* u, float* m, int64_t count, int64_t e, const Ahead& ahead) const {
  multiply_panels({.a = v + e * v_,
                   .a_row = v_row_,
                   .a_step = 1,
                   .panels = u + e * u_,
                   .c = m + e * m_,
                   .c_row = p_.o,
                   .m = count,
                   .n = p_.o,
                   .k = p_.c,
                   .accumulate = false,
                   .ahead = ahead.first,
                   .ahead_lines = ahead.lines});
}

void Winograd::outputs(const float* m, int64_t first, int64_t last, const float* bias, const float* residual,
                       float* y) const {
  for (int64_t tile = first; tile < last; ++tile, m += p_.o) {
    const Place at = place(p_, tile);
    const int64_t offset = ((at.image * p_.oh + at.y) * p_.ow + at.x) * p_.o;
    table_of(p_).output(m, m_, p_.o, {bias, residual ? residual + offset : nullptr, p_.relu, stream_}, y + offset,
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
    const int64_t taps = p_.kh, all = taps * taps;
    transform(w + (stored ? 0 : all - 1), v, p_.o, p_.c, taps, stored ? 1 : -1, stored ? p_.c * all : all,
              stored ? all : p_.o * all);
    u = v;
    v += elements_ * u_;
  }
  if (!large_) {
    parallel_for(ceil_div(tiles, block_), [&](int64_t i) {
      const int64_t first = i * block_, last = std::min(tiles, first + block_);
      auto* block = static_cast<float*>(thread_scratch(thread_bytes_));
      float* m = block + elements_ * v_;
      inputs(x, first, last, block);
      const Ahead next = pixels_of(x, p_.h * p_.w * p_.c, p_, last, std::min(tiles, last + block_));
      for (int64_t e = 0; e < elements_; ++e) products(block, u, m, last - first, e, part(next, e, elements_));
      outputs(m, first, last, bias, residual, y);
    });
    return;
  }
  float* m = v + elements_ * v_;
  for (int64_t start = 0; start < tiles; start += block_) {
    const int64_t end = std::min(tiles, start + block_);
    sliced(start, end, [&](int64_t first, int64_t last) { inputs(x, first, last, v + (first - start) * v_row_); });
    const Ahead next = pixels_of(x, p_.h * p_.w * p_.c, p_, end, std::min(tiles, end + block_));
    parallel_for(elements_, [&](int64_t e) { products(v, u, m, end - start, e, part(next, e, elements_)); });
    sliced(start, end,
           [&](int64_t first, int64_t last) { outputs(m + (first - start) * p_.o, first, last, bias, residual, y); });
  }
}

// Few channels: each task sums over tiles of its own, in blocks that stay in its thread's cache. Many: the sums are too
// large for a copy per task, so the threads share the elements of one block after the other.
WinogradGradWeight::WinogradGradWeight(const ConvProblem& problem) : p_(problem), elements_(elements_of(problem.kh)) {
  width_ = 2 * gemm_table().lanes;
  v_row_ = p_.c % 256 == 0 ? p_.c + 16 : p_.c;
  const int64_t tiles = tile_count(p_), padded = ceil_div(p_.o, width_) * width_;
  u_ = odd_lines(p_.c * p_.o);
  const int64_t sum_bytes = elements_ * u_ * 4, sums = std::min(kMostSums, kSumBytes / sum_bytes) / 4 * 4;
  const bool apart = sums >= kLeastSums;
  const int64_t most = apart ? kThreadBlock : kDepth;
  block_ = ceil_div(tiles, apart ? round_up(ceil_div(tiles, most), 4) : ceil_div(tiles, most));
  sums_ = apart ? std::min(sums, ceil_div(tiles, block_)) : 1;
  v_ = odd_lines(block_ * v_row_);
  z_ = odd_lines(block_ * padded);
  const auto block_bytes = static_cast<size_t>(elements_ * (v_ + z_)) * 4;
  thread_bytes_ = apart ? block_bytes : 0;
  scratch_bytes_ = static_cast<size_t>(sums_ * sum_bytes) + (apart ? 0 : block_bytes);
  if (apart) reserve_thread_scratch(block_bytes);
}

// v (E, tiles, C) and z (E, panels, tiles, width) of the tiles [first, last) of a block that starts at `start` and
// has `count`.
void WinogradGradWeight::transforms(const float* x, const float* dy, int64_t first, int64_t last, int64_t start,
                                    int64_t count, float* v, float* z) const {
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t row = tile - start;
    input_patch(p_, x, tile, {v + row * v_row_, v_, 0, p_.c});
    const Place at = place(p_, tile);
    const float* image = dy + at.image * p_.oh * p_.ow * p_.o;
    table_of(p_).gradient(patch(image, p_.oh, p_.ow, p_.o, at.y, at.x, kTile), p_.o,
                          {z + row * width_, z_, count * width_, width_});
  }
}

void WinogradGradWeight::products(const float* v, const float* z, float* du, int64_t count, int64_t e, bool accumulate,
                                  const Ahead& ahead) const {
  multiply_panels({.a = v + e * v_,
                   .a_row = 1,
                   .a_step = v_row_,
                   .panels = z + e * z_,
                   .c = du + e * u_,
                   .c_row = p_.o,
                   .m = p_.c,
                   .n = p_.o,
                   .k = count,
                   .accumulate = accumulate,
                   .ahead = ahead.first,
                   .ahead_lines = ahead.lines});
}

// What the transforms of the block from tile `first` on read: half of it x, half dy.
Ahead WinogradGradWeight::next(const float* x, const float* dy, int64_t first, int64_t e) const {
  const int64_t last = std::min(tile_count(p_), first + block_), half = elements_ / 2;
  return e < half ? part(pixels_of(x, p_.h * p_.w * p_.c, p_, first, last), e, half)
                  : part(pixels_of(dy, p_.oh * p_.ow * p_.o, p_, first, last), e - half, elements_ - half);
}

void WinogradGradWeight::run(const float* x, const float* dy, float* dw, void* scratch) const {
  const int64_t tiles = tile_count(p_), blocks = ceil_div(tiles, block_);
  auto* du = static_cast<float*>(scratch);  // (sums, E, C, O)
  if (thread_bytes_ > 0) {
    parallel_for(sums_, [&](int64_t i) {
      auto* v = static_cast<float*>(thread_scratch(thread_bytes_));
      float *z = v + elements_ * v_, *sum = du + i * elements_ * u_;
      const int64_t first_block = blocks * i / sums_;
      for (int64_t block = first_block; block < blocks * (i + 1) / sums_; ++block) {
        const int64_t start = block * block_, end = std::min(tiles, start + block_);
        transforms(x, dy, start, end, start, end - start, v, z);
        for (int64_t e = 0; e < elements_; ++e)
          products(v, z, sum, end - start, e, block > first_block, next(x, dy, end, e));
      }
    });
    parallel_for(elements_, [&](int64_t e) {
      float* total = du + e * u_;
      for (int64_t i = 1; i < sums_; ++i) {
        const float* part = du + (i * elements_ + e) * u_;
        for (int64_t j = 0; j < p_.c * p_.o; ++j) total[j] += part[j];
      }
    });
  } else {
    float *v = du + elements_ * u_, *z = v + elements_ * v_;
    for (int64_t start = 0; start < tiles; start += block_) {
      const int64_t end = std::min(tiles, start + block_);
      sliced(start, end,
             [&](int64_t first, int64_t last) { transforms(x, dy, first, last, start, end - start, v, z); });
      parallel_for(elements_,
                   [&](int64_t e) { products(v, z, du, end - start, e, start > 0, next(x, dy, end, e)); });
    }
  }
  const int64_t lanes = winograd_tables().lanes, taps = p_.kh * p_.kw;
  parallel_for(p_.o / lanes, [&](int64_t i) {
    const int64_t o = i * lanes;
    for (int64_t c = 0; c < p_.c; ++c) {
      table_of(p_).filter_gradient(du + c * p_.o + o, u_, dw + (o * p_.c + c) * taps, p_.c * taps);
    }
  });
}

}  // namespace freight::cpu
