// See depthwise_conv.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/depthwise_conv.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// Per target, no include guards of their own are in the way.
#include "freight/backend/cpu/kernels/clip-inl.h"
#include "freight/backend/cpu/kernels/functions-inl.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/depthwise_conv.h"
#include "freight/base/threads.h"

#ifndef FREIGHT_DEPTHWISE_CONV_TYPES
#define FREIGHT_DEPTHWISE_CONV_TYPES
namespace freight::cpu {

constexpr int kBlockPixels =
    7;  // sides of 7, 14, 28, 56 and 112 are usual; their sums and a row of taps fit 16 registers

// Pixels of a row of y, in `channels` channels.
template <class T>
struct DepthwisePixels {
  const T* x;  // seen by the first tap, in the first row that lies inside the image; it may lie outside itself
  int64_t x_row, rows;
  int64_t rows_to_end, ring;  // behind so many rows the next one lies before them by so many numbers
  int64_t first, last;        // columns inside the image, of those that the pixels see
  const T* w;
  int64_t tap;  // from a tap to the next
  const T* bias;
  T* y;
  int64_t pixels, c, channels;
  bool relu, stream;
  float most;
};
template <class T>
using DepthwiseFn = void (*)(const DepthwisePixels<T>&);
// By (columns of the kernel - 3) / 2, stride - 1, and whether all columns that are seen lie inside the image.
struct DepthwiseConvTable {
  DepthwiseFn<float> f32[3][2][2];
  DepthwiseFn<Bf16> bf16[3][2][2];
};

}  // namespace freight::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace depthwise_conv {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

HWY_INLINE V load(const float* from) { return hn::LoadU(D(), from); }
HWY_INLINE V load(const Bf16* from) { return from_bf16(hn::LoadU(D16(), from)); }
HWY_INLINE void store(V v, float* to, bool stream) {
  if (stream) return hn::Stream(v, D(), to);
  hn::StoreU(v, D(), to);
}
HWY_INLINE void store(V v, Bf16* to, bool) { hn::StoreU(to_bf16(v), D16(), to); }

// kInside: all columns are. Elsewhere those outside are skipped: a product of 0 and infinity would be NaN.
template <class T, int K, int S, bool kInside>
void convolve(const DepthwisePixels<T>& p) {
  constexpr int kSeen = (kBlockPixels - 1) * S + K;
  const V zero = hn::Zero(D());
  for (int64_t c = 0; c < p.channels; c += kLanes) {
    c = std::min(c, p.channels - kLanes);  // some channels of the last vector twice, rather than a part of it
    const V start = p.bias ? load(p.bias + c) : zero;
    V sum[kBlockPixels];
#pragma GCC unroll 8
    for (int i = 0; i < kBlockPixels; ++i) sum[i] = start;
    const T *x = p.x + c, *w = p.w + c;
    for (int64_t row = 0; row < p.rows; w += K * p.tap) {
      V tap[K];
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) tap[k] = load(w + k * p.tap);
#pragma GCC unroll 32
      for (int i = 0; i < kSeen; ++i) {
        if (!kInside && (i < p.first || i >= p.last)) continue;
        const V v = load(x + i * p.c);
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k) {
          if (i < k || (i - k) % S != 0 || (i - k) / S >= kBlockPixels) continue;
          sum[(i - k) / S] = hn::MulAdd(v, tap[k], sum[(i - k) / S]);
        }
      }
      x += ++row == p.rows_to_end ? p.x_row - p.ring : p.x_row;
    }
    if (p.relu) {
#pragma GCC unroll 8
      for (int i = 0; i < kBlockPixels; ++i) sum[i] = at_least(zero, sum[i]);
    }
    if (p.most < std::numeric_limits<float>::infinity()) {
      const V most = hn::Set(D(), p.most);
#pragma GCC unroll 8
      for (int i = 0; i < kBlockPixels; ++i) sum[i] = at_most(most, sum[i]);
    }
    T* const y = p.y + c;
#pragma GCC unroll 8
    for (int i = 0; i < kBlockPixels; ++i) {
      if (i < p.pixels) store(sum[i], y + i * p.c, p.stream);
    }
  }
}

template <class T, int K, int S>
void fill(DepthwiseFn<T> (&to)[2]) {
  to[0] = convolve<T, K, S, false>;
  // In bf16 the conversions cost more than the branches that the other one saves.
  if constexpr (std::is_same_v<T, float>) {
    to[1] = convolve<T, K, S, true>;
  } else {
    to[1] = to[0];
  }
}
template <class T>
void fill_all(DepthwiseFn<T> (&to)[3][2][2]) {
  if constexpr (std::is_same_v<T, float>) {
    fill<T, 3, 1>(to[0][0]);
    fill<T, 3, 2>(to[0][1]);
  }
  fill<T, 5, 1>(to[1][0]);
  fill<T, 5, 2>(to[1][1]);
  fill<T, 7, 1>(to[2][0]);
}

}  // namespace depthwise_conv

DepthwiseConvTable make_depthwise_conv_table() {
  DepthwiseConvTable table{};
  depthwise_conv::fill_all(table.f32);
  depthwise_conv::fill_all(table.bf16);
  return table;
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {

FREIGHT_SIMD_TABLE(DepthwiseConvTable, depthwise_conv_table, make_depthwise_conv_table)

namespace {
constexpr int64_t kWidestVector = 16;      // floats
constexpr int64_t kBlockBytes = 64 << 10;  // of what a block of pixels sees, in f32: the first cache holds it
constexpr int64_t kLeastTasks = 16;
}  // namespace

bool depthwise_conv_fits(const ConvProblem& p) {
  const bool kernel = p.kw == 3 || p.kw == 5 || (p.kw == 7 && p.stride_w == 1);
  return kernel && p.stride_w <= 2 && p.c >= kWidestVector;
}

template <class T>
DepthwiseConv<T>::DepthwiseConv(const ConvProblem& problem, Filter filter, bool stream)
    : p_(problem), filter_(filter), table_(depthwise_conv_table()) {
  // By whole lines: parts of one that pass the caches by are slow.
  stream_ = stream && simd_target() == 0 && p_.c % kWidestVector == 0 && std::is_same_v<T, float>;
  const int64_t vectors = ceil_div(p_.c, kWidestVector);
  const int64_t seen = p_.kh * ((kBlockPixels - 1) * p_.stride_w + p_.kw) * static_cast<int64_t>(sizeof(float));
  block_ = ceil_div(vectors, ceil_div(p_.c * seen, kBlockBytes)) * kWidestVector;
  blocks_ = ceil_div(p_.c, block_);
  slices_ = std::clamp<int64_t>(ceil_div(kLeastTasks, p_.n * blocks_), 1, p_.oh);
}

template <class T>
void DepthwiseConv<T>::run(const T* x, const T* w, const T* bias, T* y, void*) const {
  const bool stream = stream_ && reinterpret_cast<uintptr_t>(y) % 64 == 0;
  parallel_for(p_.n * slices_ * blocks_, [&](int64_t task) {
    const int64_t block = task % blocks_, slice = task / blocks_ % slices_, n = task / blocks_ / slices_;
    const int64_t from = slice * p_.oh / slices_, to = (slice + 1) * p_.oh / slices_;
    // The last block overlaps the one before it where fewer channels than a vector would be left.
    const int64_t end = std::min((block + 1) * block_, p_.c), first = std::min(block * block_, end - kWidestVector);
    rows({.x = x + n * p_.h * p_.w * p_.c,
          .ring = p_.h,
          .w = w,
          .bias = bias,
          .y = y + (n * p_.oh + from) * p_.ow * p_.c,
          .from = from,
          .to = to,
          .stream = stream},
         first, end);
    if (stream) hwy::FlushStream();
  });
}

template <class T>
void DepthwiseConv<T>::all_rows(const DepthwiseRows<T>& r, int64_t first, int64_t end) const {
  for (int64_t at = first; at < end; at += block_) {
    const int64_t last = std::min(at + block_, end);
    rows(r, std::min(at, last - kWidestVector), last);
  }
}

template <class T>
void DepthwiseConv<T>::rows(const DepthwiseRows<T>& r, int64_t first, int64_t end) const {
  const auto& kernels = [&]() -> const auto& {
    if constexpr (std::is_same_v<T, float>)
      return table_.f32;
    else
      return table_.bf16;
  }
  ();
  const auto& convolve = kernels[(p_.kw - 3) / 2][p_.stride_w - 1];
  const int64_t seen = (kBlockPixels - 1) * p_.stride_w + p_.kw, x_row = p_.w * p_.c;
  const int64_t tap = filter_ == Filter::stored ? p_.c : -p_.c;
  const T* const taps = filter_ == Filter::stored ? r.w : r.w + (p_.kh * p_.kw - 1) * p_.c;
  DepthwisePixels<T> p{};
  p.x_row = x_row;
  p.ring = r.ring * x_row;
  p.tap = tap;
  p.c = p_.c;
  p.channels = end - first;
  p.relu = p_.relu;
  p.most = p_.most;
  p.stream = r.stream;
  p.bias = r.bias ? r.bias + first : nullptr;
  for (int64_t oy = r.from; oy < r.to; ++oy) {
    const int64_t top = oy * p_.stride_h - p_.pad_h, above = std::clamp<int64_t>(-top, 0, p_.kh);
    const int64_t row = (top + above) % r.ring;
    p.rows = std::max<int64_t>(std::min(p_.kh, p_.h - top) - above, 0);
    p.rows_to_end = r.ring - row;
    p.w = taps + above * p_.kw * tap + first;
    for (int64_t ox = 0; ox < p_.ow; ox += kBlockPixels) {
      const int64_t left = ox * p_.stride_w - p_.pad_w;
      p.x = r.x + (row * p_.w + left) * p_.c + first;
      p.first = std::max<int64_t>(-left, 0);
      p.last = std::min(seen, p_.w - left);
      p.pixels = std::min<int64_t>(kBlockPixels, p_.ow - ox);
      p.y = r.y + ((oy - r.from) * p_.ow + ox) * p_.c + first;
      convolve[p.first == 0 && p.last == seen ? 1 : 0](p);
    }
  }
}

template class DepthwiseConv<float>;
template class DepthwiseConv<Bf16>;

}  // namespace freight::cpu
#endif
