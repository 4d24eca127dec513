// See conv_taps.h.
#include "freight/backend/cpu/kernels/conv_taps.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "freight/backend/cpu/kernels/bf16/convert.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kBlockNumbers = 1 << 17;              // copied at once, of a slice: half of a usual second cache
constexpr int64_t kSharedNumbers = 1 << 21;             // the same of all threads together
constexpr int64_t kLeastBlock = 64, kMostBlock = 1024;  // pixels
// Slices have so many pixels, and their sums are no more than the operands; fewer than kFewSlices are not worth it.
constexpr int64_t kSlicePixels = 512, kMostSlicesOfTaps = 32, kFewSlices = 8;

float as_f32(float x) { return x; }
float as_f32(Bf16 x) { return std::bit_cast<float>(uint32_t{x} << 16); }

template <class T>
void to_f32(float* to, const T* from, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  } else {
    bf16_conversion().load(to, from, nullptr, nullptr, static_cast<size_t>(n));
  }
}

// Copies `count` times n numbers; both sides have steps of their own. Few numbers are copied without a call.
template <class T>
void copy_apart(float* to, int64_t to_step, const T* from, int64_t from_step, int64_t count, int64_t n) {
  const auto few = [&]<int N>(std::integral_constant<int, N>) {
    for (int64_t i = 0; i < count; ++i, to += to_step, from += from_step) {
      for (int k = 0; k < N; ++k) to[k] = as_f32(from[k]);
    }
  };
  switch (n) {
    case 1: return few(std::integral_constant<int, 1>{});
    case 2: return few(std::integral_constant<int, 2>{});
    case 3: return few(std::integral_constant<int, 3>{});
    case 4: return few(std::integral_constant<int, 4>{});
    default: break;
  }
  for (int64_t i = 0; i < count; ++i, to += to_step, from += from_step) to_f32(to, from, n);
}

// The pixels of a stretch that see one of x through a tap; the first sees `x`.
template <class T>
struct Seen {
  int64_t first = 0, count = 0;
  const T* x = nullptr;
};

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

// The parts of a slice's memory.
template <class T>
struct TapsGradWeight<T>::Memory {
  float *sums, *copy, *dy;
  void* product;
};

template <class T>
TapsGradWeight<T>::TapsGradWeight(const TapsProblem& problem) : p_(problem) {
  int64_t image = p_.c;
  pixels_ = p_.n;
  for (const TapsProblem::Axis& a : p_.axes) {
    taps_ *= a.kernel;
    pixels_ *= a.y;
    image *= a.x;
  }
  depthwise_ = p_.c == p_.groups && p_.o == p_.groups;
  width_ = taps_ * p_.c;
  sums_ = p_.o * taps_ * (p_.c / p_.groups);
  const int64_t room = (p_.n * image + pixels_ * p_.o) / sums_;
  const int64_t most = std::min({pixels_ / kSlicePixels, room, kMostSlicesOfTaps});
  slices_ = most < kFewSlices ? 1 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
  const int64_t numbers = slices_ == 1 ? kSharedNumbers : kBlockNumbers;
  const int64_t block = std::clamp(numbers / width_, kLeastBlock, kMostBlock);
  blocks_ = slices_ * std::max<int64_t>(1, ceil_div(pixels_ / slices_, block));
  least_ = pixels_ / blocks_;
  most_ = ceil_div(pixels_, blocks_);
  const std::optional<ThreadLimit> alone = slices_ > 1 ? std::optional<ThreadLimit>(std::in_place, 1) : std::nullopt;
  const int64_t of_group = taps_ * (p_.c / p_.groups), outputs = p_.o / p_.groups;
  for (int64_t k = least_; k <= most_ && !depthwise_; ++k) {
    products_.emplace_back(GemmProblem{.m = outputs,
                                       .n = of_group,
                                       .k = k,
                                       .batch = p_.groups,
                                       .a_row = 1,
                                       .a_col = p_.o,
                                       .b_row = width_,
                                       .c_row = of_group,
                                       .a_batch = outputs,
                                       .b_batch = of_group,
                                       .c_batch = outputs * of_group,
                                       .accumulate = true});
    product_bytes_ = std::max(product_bytes_, aligned(products_.back().scratch_bytes()));
  }
  const auto floats = [](int64_t n) { return aligned(static_cast<size_t>(n) * sizeof(float)); };
  slice_bytes_ =
      floats(sums_) + floats(most_ * width_) + floats(std::is_same_v<T, float> ? 0 : most_ * p_.o) + product_bytes_;
  scratch_bytes_ = static_cast<size_t>(slices_) * slice_bytes_;
}

// Calls f(tap, pixel, pixels, seen) for each tap and each stretch of one row of y among [first, last): so many pixels
// from `pixel` on, and those of them that see one of x.
template <class T>
template <class F>
void TapsGradWeight<T>::for_taps(const T* x, int64_t first, int64_t last, F f) const {
  const auto& [a, b, c] = p_.axes;
  for (int64_t pixel = first, run = 0; pixel < last; pixel += run) {
    const int64_t k = pixel % c.y, j = pixel / c.y % b.y, i = pixel / (c.y * b.y) % a.y, n = pixel / (c.y * b.y * a.y);
    run = std::min(last - pixel, c.y - k);
    int64_t tap = 0;
    for (int64_t u = 0; u < a.kernel; ++u) {
      const int64_t at_a = i * a.stride - a.pad + u * a.dilation;
      for (int64_t v = 0; v < b.kernel; ++v) {
        const int64_t at_b = j * b.stride - b.pad + v * b.dilation;
        const bool inside = at_a >= 0 && at_a < a.x && at_b >= 0 && at_b < b.x;
        for (int64_t w = 0; w < c.kernel; ++w, ++tap) {
          const int64_t at_c = k * c.stride - c.pad + w * c.dilation;
          const int64_t begin = std::min(at_c >= 0 ? 0 : ceil_div(-at_c, c.stride), run);
          const int64_t end = at_c < c.x ? std::min(ceil_div(c.x - at_c, c.stride), run) : 0;
          Seen<T> seen{.first = begin, .count = inside ? std::max<int64_t>(end - begin, 0) : 0};
          if (seen.count > 0) seen.x = x + (((n * a.x + at_a) * b.x + at_b) * c.x + at_c + begin * c.stride) * p_.c;
          f(tap, pixel, run, seen);
        }
      }
    }
  }
}

template <class T>
void TapsGradWeight<T>::copy_pixels(const T* x, int64_t first, int64_t last, float* to) const {
  const int64_t of_group = p_.c / p_.groups, step = p_.axes.back().stride * p_.c;
  for_taps(x, first, last, [&](int64_t tap, int64_t pixel, int64_t pixels, const Seen<T>& seen) {
    for (int64_t g = 0; g < p_.groups; ++g) {
      float* const dst = to + (pixel - first) * width_ + (g * taps_ + tap) * of_group;
      const auto clear = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) std::fill_n(dst + i * width_, of_group, 0.0f);
      };
      clear(0, seen.count > 0 ? seen.first : pixels);
      if (seen.count == 0) continue;
      copy_apart(dst + seen.first * width_, width_, seen.x + g * of_group, step, seen.count, of_group);
      clear(seen.first + seen.count, pixels);
    }
  });
}

// Depthwise: sums (taps, C).
template <class T>
void TapsGradWeight<T>::add_channels(const T* x, const T* dy, int64_t first, int64_t last, float* sums) const {
  const int64_t step = p_.axes.back().stride * p_.c;
  for_taps(x, first, last, [&](int64_t tap, int64_t pixel, int64_t, const Seen<T>& seen) {
    float* const sum = sums + tap * p_.c;
    for (int64_t i = 0; i < seen.count; ++i) {
      const T* const from = seen.x + i * step;
      const T* const d = dy + (pixel + seen.first + i) * p_.c;
#pragma omp simd
      for (int64_t c = 0; c < p_.c; ++c) sum[c] += as_f32(from[c]) * as_f32(d[c]);
    }
  });
}

template <class T>
void TapsGradWeight<T>::add_block(const T* x, const T* dy, int64_t block, const Memory& memory) const {
  constexpr int64_t kChunk = 16;  // pixels
  const int64_t first = block * pixels_ / blocks_, last = (block + 1) * pixels_ / blocks_, pixels = last - first;
  if (depthwise_) return add_channels(x, dy, first, last, memory.sums);
  const float* rows = nullptr;
  if constexpr (std::is_same_v<T, float>) rows = dy + first * p_.o;
  parallel_for(ceil_div(pixels, kChunk), slices_ == 1, [&](int64_t chunk) {
    const int64_t begin = chunk * kChunk, end = std::min(pixels, begin + kChunk);
    copy_pixels(x, first + begin, first + end, memory.copy + begin * width_);
    if constexpr (!std::is_same_v<T, float>)
      to_f32(memory.dy + begin * p_.o, dy + (first + begin) * p_.o, (end - begin) * p_.o);
  });
  if (!rows) rows = memory.dy;
  product_of(pixels).run(rows, memory.copy, memory.sums, nullptr, nullptr, memory.product);
}

// Adds up the slices' sums, (O, taps, C / groups) each, or (taps, O) of channels by themselves, as (O, C / groups,
// taps).
template <class T>
void TapsGradWeight<T>::finish(const float* sums, T* dw) const {
  const int64_t of_group = p_.c / p_.groups, line = taps_ * of_group;
  const auto next = static_cast<ptrdiff_t>(slice_bytes_ / sizeof(float));
  [[maybe_unused]] const auto to_bf16 = bf16_conversion().store;
  parallel_for(p_.o, sums_ > 16384, [&](int64_t o) {
    for (int64_t c = 0; c < of_group; ++c) {
      for (int64_t tap = 0; tap < taps_; ++tap) {
        const float* const first = sums + (depthwise_ ? tap * p_.o + o : o * line + tap * of_group + c);
        float sum = *first;
        for (int64_t s = 1; s < slices_; ++s) sum += first[s * next];
        T& to = dw[o * line + c * taps_ + tap];
        if constexpr (std::is_same_v<T, float>) {
          to = sum;
        } else {
          to_bf16(&to, &sum, nullptr, nullptr, 1);
        }
      }
    }
  });
}

template <class T>
void TapsGradWeight<T>::run(const T* x, const T* dy, T* dw, void* scratch) const {
  const auto floats = [](int64_t n) { return aligned(static_cast<size_t>(n) * sizeof(float)); };
  const auto memory_of = [&](int64_t slice) {
    char* at = static_cast<char*>(scratch) + static_cast<size_t>(slice) * slice_bytes_;
    const auto take = [&](size_t bytes) { return reinterpret_cast<float*>(std::exchange(at, at + bytes)); };
    float *const sums = take(floats(sums_)), *const copy = take(floats(most_ * width_));
    float* const dy_as_f32 = take(std::is_same_v<T, float> ? 0 : floats(most_ * p_.o));
    return Memory{sums, copy, dy_as_f32, at};
  };
  const int64_t each = blocks_ / slices_;
  parallel_for(slices_, slices_ > 1, [&](int64_t slice) {
    const std::optional<ThreadLimit> alone = slices_ > 1 ? std::optional<ThreadLimit>(std::in_place, 1) : std::nullopt;
    const Memory memory = memory_of(slice);
    std::fill_n(memory.sums, sums_, 0.0f);
    for (int64_t block = slice * each; block < (slice + 1) * each; ++block) add_block(x, dy, block, memory);
  });
  finish(static_cast<const float*>(scratch), dw);
}

template class TapsGradWeight<float>;
template class TapsGradWeight<Bf16>;

}  // namespace freight::cpu
