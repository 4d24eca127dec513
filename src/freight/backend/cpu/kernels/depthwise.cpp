// See depthwise.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/depthwise.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/functions-inl.h"

#include <algorithm>
#include <type_traits>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/bf16/convert.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/depthwise.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

#ifndef FREIGHT_DEPTHWISE_TYPES
#define FREIGHT_DEPTHWISE_TYPES
namespace freight::cpu {

constexpr int64_t kChannels = 96;  // of a block at most; few stretches of memory at a time are read fastest
constexpr int64_t kUnit = 16;      // channels of a block: a multiple of every vector

// A task: a block of channels of some images. `sums` gets its part (vector, tap, lane) of the gradient.
template <class T>
struct DepthwiseTask {
  const T *x, *dy;  // of the first image and channel
  int64_t images, channels;
  float *memory, *sums;
};
struct DepthwiseTable {
  int64_t lanes;  // of a vector
  void (*in_f32)(const ConvProblem& p, const DepthwiseTask<float>& task);
  void (*in_bf16)(const ConvProblem& p, const DepthwiseTask<Bf16>& task);
};
// Pixels of a row of x with its margins.
inline int64_t padded_width(const ConvProblem& p) { return std::max(p.pad_w + p.w, (p.ow - 1) * p.stride_w + p.kw); }
// Floats that a task needs for a channel beside its result: rows of x, a row of dy, sums of an image.
inline int64_t memory_floats(const ConvProblem& p) { return p.kh * padded_width(p) + p.ow + p.kh * p.kw; }

}  // namespace freight::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

HWY_INLINE V load(const float* from) { return hn::LoadU(D(), from); }
HWY_INLINE V load(const Bf16* from) { return from_bf16(hn::LoadU(D16(), from)); }

// `pixels` pixels of `channels` channels, C apart, as (vector, pixel, lane); vectors lie `next` apart.
template <class T>
void copy_row(const T* from, int64_t c, int64_t pixels, int64_t channels, float* to, int64_t next) {
  const int64_t whole = channels / kLanes, rest = channels % kLanes;
  for (int64_t i = 0; i < pixels; ++i, from += c, to += kLanes) {
    for (int64_t v = 0; v < whole; ++v) hn::Store(load(from + v * kLanes), D(), to + v * next);
    if (rest == 0) continue;
    T some[kLanes] = {};
    std::copy_n(from + whole * kLanes, rest, some);
    hn::Store(load(some), D(), to + whole * next);
  }
}

// Adds the products of a row of dy with R rows of x, `row` apart, to the sums of R x K taps.
template <int K, int R>
HWY_INLINE void add_taps(const float* x, int64_t row, int64_t step, const float* dy, int64_t pixels, float* sums) {
  const D d;
  V sum[R][K];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) sum[r][k] = hn::Load(d, sums + (r * K + k) * kLanes);
  }
  for (int64_t i = 0; i < pixels; ++i, x += step, dy += kLanes) {
    const V g = hn::Load(d, dy);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) sum[r][k] = hn::MulAdd(hn::Load(d, x + r * row + k * kLanes), g, sum[r][k]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) hn::Store(sum[r][k], d, sums + (r * K + k) * kLanes);
  }
}

// Rows of taps whose sums the registers hold.
constexpr int kSums = HWY_TARGET == HWY_AVX3 ? 15 : 10;

template <int K, class T>
void add_images(const ConvProblem& p, const DepthwiseTask<T>& t) {
  constexpr int kRows = kSums / K;
  const int64_t vectors = ceil_div(t.channels, kLanes), width = padded_width(p), taps = p.kh * K;
  // Rows of x lie as (vector, row, pixel, lane), row i of the image in place i % kh. As many rows above the image as
  // below it are skipped.
  const int64_t row = width * kLanes, plane = p.kh * row;
  float *const rows = t.memory, *const dy_row = rows + vectors * plane, *const sums = dy_row + vectors * p.ow * kLanes;
  std::fill_n(rows, vectors * plane, 0.0f);
  std::fill_n(t.sums, vectors * taps * kLanes, 0.0f);
  for (int64_t n = 0; n < t.images; ++n) {
    const T *const x = t.x + n * p.h * p.w * p.c, *const dy = t.dy + n * p.oh * p.ow * p.c;
    std::fill_n(sums, vectors * taps * kLanes, 0.0f);
    int64_t copied = 0;  // rows of the image
    for (int64_t y = 0; y < p.oh; ++y) {
      const int64_t top = y * p.stride_h - p.pad_h, first = std::max<int64_t>(top, 0), last = std::min(top + p.kh, p.h);
      if (first >= last) continue;
      for (copied = std::max(copied, first); copied < last; ++copied) {
        copy_row(x + copied * p.w * p.c, p.c, p.w, t.channels, rows + copied % p.kh * row + p.pad_w * kLanes, plane);
      }
      copy_row(dy + y * p.ow * p.c, p.c, p.ow, t.channels, dy_row, p.ow * kLanes);
      for (int64_t v = 0; v < vectors; ++v) {
        const float *const from = rows + v * plane, *const g = dy_row + v * p.ow * kLanes;
        float* const to = sums + v * taps * kLanes;
        const int64_t step = p.stride_w * kLanes;
        for (int64_t i = first; i < last;) {
          const int64_t place = i % p.kh;  // rows up to the last place lie one behind the other
          const float* const at = from + place * row;
          float* const s = to + (i - top) * K * kLanes;
          const int64_t together = std::min({last - i, p.kh - place, int64_t{kRows}});
          if (kRows >= 3 && together == 3) {
            add_taps<K, std::min(kRows, 3)>(at, row, step, g, p.ow, s);
          } else if (kRows >= 2 && together == 2) {
            add_taps<K, std::min(kRows, 2)>(at, row, step, g, p.ow, s);
          } else {
            add_taps<K, 1>(at, row, step, g, p.ow, s);
          }
          i += std::min<int64_t>(together, 3);
        }
      }
    }
    for (int64_t i = 0; i < vectors * taps * kLanes; i += kLanes)
      hn::Store(hn::Add(hn::Load(D(), t.sums + i), hn::Load(D(), sums + i)), D(), t.sums + i);
  }
}

template <class T>
void run_task(const ConvProblem& p, const DepthwiseTask<T>& t) {
  return p.kw == 5 ? add_images<5>(p, t) : add_images<7>(p, t);
}

DepthwiseTable make_depthwise_table() { return {kLanes, run_task<float>, run_task<Bf16>}; }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {

FREIGHT_SIMD_TABLE(DepthwiseTable, depthwise_table, make_depthwise_table)

namespace {
constexpr int64_t kTasks = 64;         // at least, if there are so many images
constexpr int64_t kLongestRow = 1024;  // pixels
}  // namespace

bool depthwise_fits(const ConvProblem& p) {
  return (p.kw == 5 || p.kw == 7) && p.kh <= 7 && padded_width(p) <= kLongestRow;
}

template <class T>
DepthwiseGradWeight<T>::DepthwiseGradWeight(const ConvProblem& problem) : p_(problem), table_(depthwise_table()) {
  block_ = round_up(ceil_div(p_.c, ceil_div(p_.c, kChannels)), kUnit);
  blocks_ = ceil_div(p_.c, block_);
  slices_ = std::clamp<int64_t>(ceil_div(kTasks, blocks_), 1, p_.n);
  scratch_bytes_ = static_cast<size_t>(slices_ * blocks_ * block_ * p_.kh * p_.kw) * sizeof(float);
  thread_bytes_ = static_cast<size_t>(block_ * memory_floats(p_)) * sizeof(float);
  reserve_thread_scratch(thread_bytes_);
}

template <class T>
void DepthwiseGradWeight<T>::run(const T* x, const T* dy, T* dw, void* scratch) const {
  const int64_t lanes = table_.lanes, taps = p_.kh * p_.kw;
  auto* const sums = static_cast<float*>(scratch);
  parallel_for(slices_ * blocks_, [&](int64_t i) {
    const int64_t slice = i / blocks_, first = i % blocks_ * block_;
    const int64_t begin = slice * p_.n / slices_, end = (slice + 1) * p_.n / slices_;
    const DepthwiseTask<T> task{.x = x + begin * p_.h * p_.w * p_.c + first,
                                .dy = dy + begin * p_.oh * p_.ow * p_.c + first,
                                .images = end - begin,
                                .channels = std::min(block_, p_.c - first),
                                .memory = static_cast<float*>(thread_scratch(thread_bytes_)),
                                .sums = sums + i * block_ * taps};
    if constexpr (std::is_same_v<T, float>) {
      table_.in_f32(p_, task);
    } else {
      table_.in_bf16(p_, task);
    }
  });
  parallel_for(blocks_, [&](int64_t block) {
    const auto to_bf16 = bf16_conversion().store;
    for (int64_t i = 0; i < std::min(block_, p_.c - block * block_); ++i) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        const float* const part = sums + block * block_ * taps + (i / lanes * taps + tap) * lanes + i % lanes;
        float sum = *part;
        for (int64_t s = 1; s < slices_; ++s) sum += part[s * blocks_ * block_ * taps];
        T& to = dw[(block * block_ + i) * taps + tap];
        if constexpr (std::is_same_v<T, float>) {
          to = sum;
        } else {
          to_bf16(&to, &sum, nullptr, nullptr, 1);
        }
      }
    }
  });
}

template class DepthwiseGradWeight<float>;
template class DepthwiseGradWeight<Bf16>;

}  // namespace freight::cpu
#endif
