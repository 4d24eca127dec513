// See winograd.h. Letters: C, O channels of x and y; a tile gives 4x4 results from a patch of PxP pixels; element e is
// one of the E = PP of a transformed patch. V (E, tiles, C), U (E, C, O) in panels, M (E, tiles, O).
#include "freight/backend/cpu/kernels/winograd.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/bf16/convert.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kTile = 4;
constexpr int64_t kThreadBlock = 48;               // tiles that a thread takes through all stages
constexpr int64_t kLargeWeights = 12 << 20;        // bytes of U from which threads share its elements instead
constexpr int64_t kMostSums = 32, kLeastSums = 8;  // partial sums of the filter's gradient, which no thread count sets
constexpr int64_t kSumBytes = 10 << 20;            // for all of them
constexpr int64_t kGroupBytes = 24 << 20;          // of V and M that stay in the last cache
constexpr int64_t kTilesPerProduct = 128;  // tiles per product of the filter's gradient: a panel in the first cache
constexpr int64_t kMostTaps = 25, kMostLanes = 16;
// Vectors of so many lanes are cache lines: parts of one that pass the caches by, a pixel at a time, are slow.
constexpr int kLineLanes = 16;
constexpr int64_t kSlice = 8;  // tiles per task of a transform
// An odd number of cache lines: dozens of writes at this distance fall on different sets.
int64_t odd_lines(int64_t floats) { return (ceil_div(floats, 16) | 1) * 16; }
template <class T>
const WinogradTable<T>& table_of(int64_t taps) {
  const WinogradTables& all = winograd_tables();
  if constexpr (std::is_same_v<T, float>) return taps == 3 ? all.three : all.five;
  if constexpr (std::is_same_v<T, Bf16>) return taps == 3 ? all.three_bf16 : all.five_bf16;
}
int64_t elements_of(int64_t taps) { return (taps + kTile - 1) * (taps + kTile - 1); }

// Part i of n of what the tiles [first, last) of `tiles` read of images of so many numbers, about. It is asked for as
// floats, whatever it is.
template <class T>
Ahead<float> pixels_of(const T* images, int64_t numbers, int64_t tiles, int64_t first, int64_t last, int64_t i,
                       int64_t n) {
  constexpr int64_t kLine = Ahead<float>::kLine;
  const int64_t floats = numbers * static_cast<int64_t>(sizeof(T)) / 4;
  const int64_t begin = floats / tiles * first / kLine,
                lines = floats / tiles * (std::min(last, tiles) - first) / kLine;
  return {reinterpret_cast<const float*>(images) + (begin + lines * i / n) * kLine, 1,
          (lines * (i + 1) / n - lines * i / n) * kLine};
}

// Weights in f32, and the room for them in the scratch memory, in floats.
template <class T>
int64_t weight_floats(const ConvProblem& p) {
  return std::is_same_v<T, float> ? 0 : p.o * p.c * p.kh * p.kw;
}
template <class To, class From>
void convert(Bf16Conversion::Step step, To* to, const From* from, int64_t n) {
  constexpr int64_t kPerTask = 1 << 16;
  parallel_for(ceil_div(n, kPerTask), [&](int64_t i) {
    const int64_t at = i * kPerTask;
    step(to + at, from + at, nullptr, nullptr, static_cast<size_t>(std::min(kPerTask, n - at)));
  });
}
const float* widened(const float* w, float*, int64_t) { return w; }
const float* widened(const Bf16* w, float* to, int64_t n) {
  convert(bf16_conversion().load, to, w, n);
  return to;
}

template <class F>
void sliced(int64_t first, int64_t last, F f) {
  parallel_for(ceil_div(last - first, kSlice), [&](int64_t i) {
    const int64_t from = first + i * kSlice;
    f(from, std::min(last, from + kSlice));
  });
}

}  // namespace

WinogradGrid::Axis WinogradGrid::axis(int64_t in, int64_t out, int64_t taps, int64_t pad, int64_t count,
                                      WinogradImages images) {
  const int64_t behind = out + taps - 1 - in - pad, period = std::max(in + std::max(pad, behind), out);
  const Axis joined = {count, period, ceil_div(period * (count - 1) + out, kTile), true};
  const Axis cut = {count, round_up(out, kTile), ceil_div(out, kTile) * count, false};
  // A patch reaches into one more image at most.
  return images == WinogradImages::joined && joined.tiles < cut.tiles && period >= taps + kTile - 1 ? joined : cut;
}

// Images lie `image` floats apart, their pixels along the axis, so many, `pixel` floats, those of a square `step`
// places.
std::vector<WinogradGrid::AxisSpans> WinogradGrid::parts(const Axis& axis, int64_t image, int64_t pixels, int64_t pixel,
                                                         int64_t pad, int64_t side, int64_t step) {
  std::vector<AxisSpans> all(static_cast<size_t>(axis.tiles));
  for (int64_t tile = 0; tile < axis.tiles; ++tile) {
    AxisSpans& parts = all[static_cast<size_t>(tile)];
    const int64_t first = tile * kTile / axis.period;
    for (int64_t i = first; i < std::min(first + 1 + axis.joined, axis.count); ++i) {
      const int64_t from = tile * kTile - i * axis.period - pad;
      AxisSpan part = {i * image + from * pixel, std::max<int64_t>(-from, 0), std::min(pixels - from, side), 0};
      for (int64_t k = part.first; k < part.last; ++k) part.bits |= uint64_t{1} << (k * step);
      if (part.bits != 0) parts.of[parts.count++] = part;
    }
  }
  return all;
}

WinogradGrid::WinogradGrid(const ConvProblem& p, int64_t side, WinogradImages images) {
  Axis across = axis(p.w, p.ow, p.kw, p.pad_w, 1, images);
  for (const int64_t columns : {2, 4}) {
    const Axis wider = axis(p.w, p.ow, p.kw, p.pad_w, columns, images);
    if (p.n % columns == 0 && wider.tiles * across.count < across.tiles * columns) across = wider;
  }
  const Axis down = axis(p.h, p.oh, p.kh, p.pad_h, p.n / across.count, images);
  const auto squares = [&](int64_t h, int64_t w, int64_t c, int64_t pad_h, int64_t pad_w, int64_t pixels) {
    Squares s{{w * c, c}, pixels, static_cast<uint32_t>(across.tiles), {}, {}};
    s.down = parts(down, across.count * h * w * c, h, w * c, pad_h, pixels, pixels);
    s.across = parts(across, h * w * c, w, c, pad_w, pixels, 1);
    return s;
  };
  in_ = squares(p.h, p.w, p.c, p.pad_h, p.pad_w, side);
  out_ = squares(p.oh, p.ow, p.o, 0, 0, kTile);
}

WinogradPatch WinogradGrid::patch(const Squares& squares, int64_t tile) {
  const auto at = static_cast<uint32_t>(tile);
  const AxisSpans &down = squares.down[at / squares.columns], &across = squares.across[at % squares.columns];
  WinogradPatch p;
  p.row = squares.strides[0];
  p.col = squares.strides[1];
  p.pieces[0].first = 0;
  for (int i = 0; i < down.count; ++i) {
    for (int j = 0; j < across.count; ++j) {
      const AxisSpan &rows = down.of[i], &cols = across.of[j];
      p.pieces[p.count++] = {rows.at + cols.at, rows.first, rows.last, cols.first, cols.last};
      p.exists |= rows.bits * cols.bits;
    }
  }
  p.whole = p.count == 1 && p.exists == ~uint64_t{0} >> (64 - squares.side * squares.side);
  return p;
}

int64_t filter_floats(int64_t c, int64_t o, int64_t taps) { return elements_of(taps) * odd_lines(panel_size(c, o)); }

void transform_filters(const float* w, float* u, int64_t o, int64_t c, int64_t taps, ptrdiff_t tap, ptrdiff_t lane,
                       ptrdiff_t channel) {
  const int64_t width = 2 * gemm_table().lanes, element = odd_lines(panel_size(c, o)), all = taps * taps;
  const int64_t lanes = winograd_tables().lanes;
  parallel_for(o / lanes, [&](int64_t i) {
    const int64_t first = i * lanes;
    float* panel = u + first / width * width * c + first % width;
    float side_by_side[kMostTaps * kMostLanes];
    for (int64_t k = 0; k < c; ++k) {
      const float* from = w + first * lane + k * channel;
      // Taps that go backwards lie the other way round.
      gemm_table().pack(side_by_side, 0, tap < 0 ? from + tap * (all - 1) : from, std::abs(tap), lane, all, lanes,
                        static_cast<int>(lanes));
      table_of<float>(taps).filter(side_by_side + (tap < 0 ? (all - 1) * lanes : 0), tap < 0 ? -lanes : lanes,
                                   panel + k * width, element);
    }
  });
}

bool winograd_fits(const ConvProblem& p) {
  const int64_t lanes = winograd_tables().lanes;
  return (p.kh == 3 || p.kh == 5) && p.kw == p.kh && p.stride_h == 1 && p.stride_w == 1 && p.pad_h < p.kh &&
         p.pad_w < p.kw && p.c % lanes == 0 && p.o % lanes == 0 && lanes == gemm_table().lanes;
}

template <class T>
Winograd<T>::Winograd(const ConvProblem& problem, Weights weights, WinogradImages images, bool stream)
    : p_(problem),
      weights_(weights),
      grid_(problem, table_of<T>(problem.kh).patch, images),
      elements_(elements_of(problem.kh)),
      stream_(stream && kLineLanes == winograd_tables().lanes) {
  u_ = odd_lines(panel_size(p_.c, p_.o));
  v_row_ = p_.c % 256 == 0 ? p_.c + 16 : p_.c;
  const int64_t tiles = grid_.tiles(), weight_bytes = elements_ * u_ * 4;
  large_ = weight_bytes > kLargeWeights || tiles < 2 * kThreadBlock;
  const int64_t most = large_ ? std::max(kThreadBlock, kGroupBytes / (elements_ * (p_.c + p_.o) * 4)) : kThreadBlock;
  block_ = ceil_div(tiles, large_ ? ceil_div(tiles, most) : round_up(ceil_div(tiles, most), thread_count()));
  v_ = odd_lines(block_ * v_row_);
  m_ = odd_lines(block_ * p_.o);
  const size_t block_bytes = static_cast<size_t>(elements_ * (v_ + m_)) * 4;
  scratch_bytes_ =
      (weights_ == Weights::transformed ? 0 : static_cast<size_t>(weight_bytes + 4 * weight_floats<T>(p_))) +
      (large_ ? block_bytes : 0);
  thread_bytes_ = large_ ? 0 : block_bytes;
  if (thread_bytes_ > 0) reserve_thread_scratch(thread_bytes_);
}

template <class T>
void Winograd<T>::inputs(const T* x, int64_t first, int64_t last, float* v) const {
  const WinogradTable<T>& table = table_of<T>(p_.kh);
  for (int64_t tile = first; tile < last; ++tile, v += v_row_) table.input(x, grid_.in(tile), p_.c, {v, v_, 0, p_.c});
}

// Meanwhile the pixels of the next block are asked for.
template <class T>
void Winograd<T>::products(const float* v, const float* u, float* m, int64_t first, int64_t last, int64_t e,
                           const T* x) const {
  const Ahead<float> next = pixels_of(x, p_.n * p_.h * p_.w * p_.c, grid_.tiles(), last, last + block_, e, elements_);
  multiply_panels({v + e * v_, v_row_, 1, u + e * u_, m + e * m_, p_.o, last - first, p_.o, p_.c, false, 0, next});
}

template <class T>
void Winograd<T>::outputs(const float* m, int64_t first, int64_t last, const T* bias, const T* residual, T* y) const {
  for (int64_t tile = first; tile < last; ++tile, m += p_.o)
    table_of<T>(p_.kh).output(m, m_, p_.o, {bias, residual, p_.relu, stream_, p_.most}, y, grid_.out(tile));
}

template <class T>
void Winograd<T>::run(const T* x, const T* w, const T* bias, const T* residual, T* y, void* scratch) const {
  const int64_t tiles = grid_.tiles();
  auto* v = static_cast<float*>(scratch);
  const float* u = nullptr;
  if (weights_ == Weights::transformed) {
    if constexpr (std::is_same_v<T, float>) u = w;
  } else {
    const float* const filters = widened(w, v, weight_floats<T>(p_));
    v += weight_floats<T>(p_);
    // The transposed convolution turns the filter by half a turn.
    const bool stored = weights_ == Weights::stored;
    const int64_t taps = p_.kh, all = taps * taps;
    transform_filters(filters + (stored ? 0 : all - 1), v, p_.o, p_.c, taps, stored ? 1 : -1, stored ? p_.c * all : all,
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
      for (int64_t e = 0; e < elements_; ++e) products(block, u, m, first, last, e, x);
      outputs(m, first, last, bias, residual, y);
    });
    return;
  }
  float* m = v + elements_ * v_;
  for (int64_t start = 0; start < tiles; start += block_) {
    const int64_t end = std::min(tiles, start + block_);
    sliced(start, end, [&](int64_t first, int64_t last) { inputs(x, first, last, v + (first - start) * v_row_); });
    parallel_for(elements_, [&](int64_t e) { products(v, u, m, start, end, e, x); });
    sliced(start, end,
           [&](int64_t first, int64_t last) { outputs(m + (first - start) * p_.o, first, last, bias, residual, y); });
  }
}

// Few channels: each task sums over tiles of its own, in blocks that stay in its thread's cache. Many: the sums are too
// large for a copy per task, so the threads share the elements of one block after the other.
template <class T>
WinogradGradWeight<T>::WinogradGradWeight(const ConvProblem& problem)
    : p_(problem),
      grid_(problem, table_of<T>(problem.kh).patch, WinogradImages::joined),
      elements_(elements_of(problem.kh)) {
  width_ = 2 * gemm_table().lanes;
  v_row_ = p_.c % 256 == 0 ? p_.c + 16 : p_.c;
  const int64_t tiles = grid_.tiles(), padded = ceil_div(p_.o, width_) * width_;
  u_ = odd_lines(p_.c * p_.o);
  const int64_t sum_bytes = elements_ * u_ * 4, sums = std::min(kMostSums, kSumBytes / sum_bytes) / 4 * 4;
  const bool apart = sums >= kLeastSums;
  block_ = ceil_div(tiles, apart ? round_up(ceil_div(tiles, kThreadBlock), 4) : ceil_div(tiles, kTilesPerProduct));
  const int64_t blocks = ceil_div(tiles, block_);
  sums_ = apart ? std::min({sums, blocks, std::max(kLeastSums, blocks / 4)}) : 1;
  v_ = odd_lines(block_ * v_row_);
  z_ = odd_lines(block_ * padded);
  const auto block_bytes = static_cast<size_t>(elements_ * (v_ + z_)) * 4;
  thread_bytes_ = apart ? block_bytes : 0;
  scratch_bytes_ = static_cast<size_t>(sums_ * sum_bytes + 4 * weight_floats<T>(p_)) + (apart ? 0 : block_bytes);
  if (apart) reserve_thread_scratch(block_bytes);
}

// v (E, tiles, C) and z (E, panels, tiles, width) of the tiles [first, last) of a block.
template <class T>
void WinogradGradWeight<T>::transforms(const T* x, const T* dy, int64_t first, int64_t last, float* v, float* z) const {
  const int64_t start = first / block_ * block_, count = std::min(block_, grid_.tiles() - start);
  const WinogradTable<T>& table = table_of<T>(p_.kh);
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t row = tile - start;
    table.input(x, grid_.in(tile), p_.c, {v + row * v_row_, v_, 0, p_.c});
    table.gradient(dy, grid_.out(tile), p_.o, {z + row * width_, z_, count * width_, width_});
  }
}

// Meanwhile the pixels of the next block are asked for, those of x and of dy in turn.
template <class T>
void WinogradGradWeight<T>::products(const float* v, const float* z, float* du, int64_t first, int64_t last, int64_t e,
                                     bool accumulate, const T* x, const T* dy) const {
  const Ahead<float> next = pixels_of(e % 2 ? dy : x, p_.n * (e % 2 ? p_.oh * p_.ow * p_.o : p_.h * p_.w * p_.c),
                                      grid_.tiles(), last, last + block_, e / 2, elements_ / 2);
  multiply_panels(
      {v + e * v_, 1, v_row_, z + e * z_, du + e * u_, p_.o, p_.c, p_.o, last - first, accumulate, 0, next});
}

template <class T>
void WinogradGradWeight<T>::run(const T* x, const T* dy, T* dw, void* scratch) const {
  const int64_t tiles = grid_.tiles(), blocks = ceil_div(tiles, block_);
  const int64_t rounded = weight_floats<T>(p_);                                  // the gradient before it is rounded
  float *const sums = static_cast<float*>(scratch), *const du = sums + rounded;  // (sums, E, C, O)
  if (thread_bytes_ > 0) {
    parallel_for(sums_, [&](int64_t i) {
      auto* v = static_cast<float*>(thread_scratch(thread_bytes_));
      float *z = v + elements_ * v_, *sum = du + i * elements_ * u_;
      const int64_t first_block = blocks * i / sums_;
      for (int64_t block = first_block; block < blocks * (i + 1) / sums_; ++block) {
        const int64_t start = block * block_, end = std::min(tiles, start + block_);
        transforms(x, dy, start, end, v, z);
        for (int64_t e = 0; e < elements_; ++e) products(v, z, sum, start, end, e, block > first_block, x, dy);
      }
    });
    parallel_for(elements_, [&](int64_t e) {
      float* total = du + e * u_;
      for (int64_t i = 1; i < sums_; ++i) {
        for (int64_t j = 0; j < p_.c * p_.o; ++j) total[j] += total[i * elements_ * u_ + j];
      }
    });
  } else {
    float *v = du + elements_ * u_, *z = v + elements_ * v_;
    for (int64_t start = 0; start < tiles; start += block_) {
      const int64_t end = std::min(tiles, start + block_);
      sliced(start, end, [&](int64_t first, int64_t last) { transforms(x, dy, first, last, v, z); });
      parallel_for(elements_, [&](int64_t e) { products(v, z, du, start, end, e, start > 0, x, dy); });
    }
  }
  const int64_t lanes = winograd_tables().lanes, taps = p_.kh * p_.kw;
  float* exact = sums;
  if constexpr (std::is_same_v<T, float>) exact = dw;
  parallel_for(p_.o / lanes, [&](int64_t i) {
    const int64_t o = i * lanes;
    for (int64_t c = 0; c < p_.c; ++c)
      table_of<T>(p_.kh).filter_gradient(du + c * p_.o + o, u_, exact + (o * p_.c + c) * taps, p_.c * taps);
  });
  if constexpr (!std::is_same_v<T, float>) convert(bf16_conversion().store, dw, exact, rounded);
}

template class Winograd<float>;
template class Winograd<Bf16>;
template class WinogradGradWeight<float>;
template class WinogradGradWeight<Bf16>;

}  // namespace freight::cpu
