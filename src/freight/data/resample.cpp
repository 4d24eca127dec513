// See resample.h. Separable; C is the number of channels. Where the image shrinks, the source rows of each
// destination row are weighted and added, then the columns, in f32, rounded once at the end. Where it grows, each
// source row becomes as wide as the destination once, in planes, and the destination rows are mixtures of two of those,
// in 16 bits.
#include "freight/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::data {

namespace {
#if defined(__x86_64__)
bool has_avx2() {
  static const bool kHas = __builtin_cpu_supports("avx2") != 0;
  return kHas;
}

// A batch of images is larger than the caches, and a store into them would first read what it overwrites.
__attribute__((target("avx2"))) void scale_past_caches(const uint8_t* src, float* dst, int64_t n, float scale,
                                                       float bias) {
  constexpr int64_t kLanes = 8;
  const auto one = [&](int64_t i) { dst[i] = static_cast<float>(src[i]) * scale + bias; };
  int64_t i = 0;
  for (; i < n && reinterpret_cast<uintptr_t>(dst + i) % (kLanes * sizeof(float)) != 0; ++i) one(i);
  const __m256 factor = _mm256_set1_ps(scale), offset = _mm256_set1_ps(bias);
  for (; i + kLanes <= n; i += kLanes) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + i));
    const __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    _mm256_stream_ps(dst + i, _mm256_add_ps(_mm256_mul_ps(value, factor), offset));
  }
  for (; i < n; ++i) one(i);
}
#endif

void scale_row(const uint8_t* src, float* dst, int64_t n, float scale, float bias) {
#if defined(__x86_64__)
  if (has_avx2()) return scale_past_caches(src, dst, n, scale, bias);
#endif
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<float>(src[i]) * scale + bias;
}
}  // namespace

// Takes rows as they are made: `begin` says where the bytes of one go, `end` that they are there.
struct RowSink {
  const PlaneTarget& to;
  int64_t plane, columns;
  int64_t repeat;  // of one channel that becomes several
  uint8_t* row;    // (columns)
  uint8_t* begin(int64_t c, int64_t y) const { return to.values ? row : to.bytes + c * plane + y * columns; }
  void end(int64_t c, int64_t y) const {
    if (!to.values) return;
    for (int64_t k = c; k < c + repeat; ++k) {
      scale_row(row, to.values + k * plane + y * columns, columns, to.scale[k], to.bias[k]);
    }
  }
};

namespace {
// One pixel with its channels side by side; GCC's and Clang's vector type, four lanes on every CPU.
using Lanes = float __attribute__((vector_size(16)));

size_t at(int64_t i) { return static_cast<size_t>(i); }

// FREIGHT_INLINE functions become part of `rows_of`, which is compiled twice: for any CPU, and with AVX2 where that is
// known. Both do the same operations in the same order (no fused multiply-add), hence give the same bits.
#define FREIGHT_INLINE inline __attribute__((always_inline))

// Blocks of a constant length, which the compiler turns into vector code.
constexpr int64_t kPixelBlock = 32;

// dst = w * src.
FREIGHT_INLINE void weigh(const uint8_t* __restrict__ src, float* __restrict__ dst, int64_t n, float w) {
  int64_t i = 0;
  for (; i + kPixelBlock <= n; i += kPixelBlock) {
    for (int64_t k = 0; k < kPixelBlock; ++k) dst[i + k] = w * static_cast<float>(src[i + k]);
  }
  for (; i < n; ++i) dst[i] = w * static_cast<float>(src[i]);
}
// dst = w * src + v * more: two rows at once, the usual case.
FREIGHT_INLINE void weigh_two(const uint8_t* __restrict__ src, const uint8_t* __restrict__ more,
                              float* __restrict__ dst, int64_t n, float w, float v) {
  int64_t i = 0;
  for (; i + kPixelBlock <= n; i += kPixelBlock) {
    for (int64_t k = 0; k < kPixelBlock; ++k) {
      dst[i + k] = w * static_cast<float>(src[i + k]) + v * static_cast<float>(more[i + k]);
    }
  }
  for (; i < n; ++i) dst[i] = w * static_cast<float>(src[i]) + v * static_cast<float>(more[i]);
}
// The same with a third row: what an image has that shrinks by less than a half.
FREIGHT_INLINE void weigh_three(const uint8_t* __restrict__ src, const uint8_t* __restrict__ more,
                                const uint8_t* __restrict__ most, float* __restrict__ dst, int64_t n, float w, float v,
                                float u) {
  int64_t i = 0;
  for (; i + kPixelBlock <= n; i += kPixelBlock) {
    for (int64_t k = 0; k < kPixelBlock; ++k) {
      dst[i + k] = w * static_cast<float>(src[i + k]) + v * static_cast<float>(more[i + k]) +
                   u * static_cast<float>(most[i + k]);
    }
  }
  for (; i < n; ++i) {
    dst[i] = w * static_cast<float>(src[i]) + v * static_cast<float>(more[i]) + u * static_cast<float>(most[i]);
  }
}
// dst += w * src.
FREIGHT_INLINE void add_weighed(const uint8_t* __restrict__ src, float* __restrict__ dst, int64_t n, float w) {
  int64_t i = 0;
  for (; i + kPixelBlock <= n; i += kPixelBlock) {
    for (int64_t k = 0; k < kPixelBlock; ++k) dst[i + k] += w * static_cast<float>(src[i + k]);
  }
  for (; i < n; ++i) dst[i] += w * static_cast<float>(src[i]);
}
// The sums are mixtures of values 0..255, up to rounding: adding 1/2 and cutting off stays in range.
FREIGHT_INLINE void round_row(const float* __restrict__ src, uint8_t* __restrict__ dst, int64_t n) {
  int64_t i = 0;
  for (; i + kPixelBlock <= n; i += kPixelBlock) {
    for (int64_t k = 0; k < kPixelBlock; ++k)
      dst[i + k] = static_cast<uint8_t>(static_cast<int32_t>(src[i + k] + 0.5f));
  }
  for (; i < n; ++i) dst[i] = static_cast<uint8_t>(static_cast<int32_t>(src[i] + 0.5f));
}

FREIGHT_INLINE Lanes load(const float* p) {
  Lanes v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
FREIGHT_INLINE void store(float* p, Lanes v) { std::memcpy(p, &v, sizeof v); }

// The weighted sum of one pixel's sources; the fourth lane is a next pixel's red, carried along.
template <int kWidth>
FREIGHT_INLINE Lanes pixel(const float* line, int64_t first, const float* w, int64_t width) {
  const float* p = line + first * 3;
  Lanes sum = w[0] * load(p);
  const int64_t n = kWidth > 0 ? kWidth : width;
  for (int64_t k = 1; k < n; ++k) sum += w[k] * load(p + 3 * k);
  return sum;
}

// Columns of one row: line (source columns, 3) to planar (3, columns), in f32. kWidth 0: any width.
template <int kWidth>
FREIGHT_INLINE void narrow(const float* line, const int64_t* first, const float* weights, int64_t width,
                           int64_t columns, float* planar) {
  float* red = planar;
  float* green = red + columns;
  float* blue = green + columns;
  int64_t x = 0;
  for (; x + 4 <= columns; x += 4) {
    const auto one = [&](int64_t k) __attribute__((always_inline)) {
      return pixel<kWidth>(line, first[x + k], weights + (x + k) * width, width);
    };
    const Lanes a = one(0), b = one(1), c = one(2), d = one(3);
    const Lanes ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const Lanes ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(red + x, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store(green + x, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    store(blue + x, __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5));
  }
  for (; x < columns; ++x) {
    const Lanes v = pixel<kWidth>(line, first[x], weights + x * width, width);
    red[x] = v[0];
    green[x] = v[1];
    blue[x] = v[2];
  }
}

// One image: see Resampler::run. `first` of the columns counts from the line's begin.
struct Job {
  const uint8_t* src;  // the first column that counts, of row 0
  int64_t src_stride, used, channels, rows, columns;
  const int64_t *down_first, *across_first;
  const float *down, *across;
  int64_t down_width, across_width;
  float *line, *planar;
  const RowSink& sink;
};

FREIGHT_INLINE void make_rows(const Job& j) {
  const int64_t n = j.used * j.channels;
  for (int64_t y = 0; y < j.rows; ++y) {
    const float* w = j.down + y * j.down_width;
    const uint8_t* from = j.src + j.down_first[y] * j.src_stride;
    int64_t k = 1;
    if (j.down_width > 2 && w[1] != 0 && w[2] != 0) {
      weigh_three(from, from + j.src_stride, from + 2 * j.src_stride, j.line, n, w[0], w[1], w[2]);
      k = 3;
    } else if (j.down_width > 1 && w[1] != 0) {
      weigh_two(from, from + j.src_stride, j.line, n, w[0], w[1]);
      k = 2;
    } else {
      weigh(from, j.line, n, w[0]);
    }
    for (; k < j.down_width; ++k) {
      if (w[k] != 0) add_weighed(from + k * j.src_stride, j.line, n, w[k]);  // 0: none, or beyond the last row
    }
    if (j.channels == 3) {
      if (j.across_width == 2) {
        narrow<2>(j.line, j.across_first, j.across, 2, j.columns, j.planar);
      } else if (j.across_width == 3) {
        narrow<3>(j.line, j.across_first, j.across, 3, j.columns, j.planar);
      } else if (j.across_width == 4) {
        narrow<4>(j.line, j.across_first, j.across, 4, j.columns, j.planar);
      } else {
        narrow<0>(j.line, j.across_first, j.across, j.across_width, j.columns, j.planar);
      }
    } else {
      for (int64_t x = 0; x < j.columns; ++x) {
        const float* p = j.line + j.across_first[x];
        const float* v = j.across + x * j.across_width;
        float sum = v[0] * p[0];
        for (int64_t i = 1; i < j.across_width; ++i) sum += v[i] * p[i];
        j.planar[x] = sum;
      }
    }
    for (int64_t c = 0; c < j.channels; ++c) {
      round_row(j.planar + c * j.columns, j.sink.begin(c, y), j.columns);
      j.sink.end(c, y);
    }
  }
}

void rows_of(const Job& j) { make_rows(j); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) void rows_of_avx2(const Job& j) { make_rows(j); }
#endif

// Enlarging. Values are 16 bits with 7 of fraction, weights have 15; a mixture of p and q rounds by half of 1/128.
// Eight destination columns, a group, take their sources from nine neighbors.
constexpr int64_t kGroup = 8, kRowPadding = 16;

struct Enlarging {
  const uint8_t* src;  // the first column that counts, of the first row that does
  int64_t src_stride, used, channels, rows, columns;
  const int64_t* down_first;  // (rows): the upper source row; the lower one is next to it where it counts
  const float* down;          // (rows, 2)
  const int32_t* base;        // (groups): its first source column
  const uint8_t* places;      // (columns, padded; 2): {128, column - base}: what a byte shuffle makes value * 256 of
  const int16_t* share;       // (columns, padded): weight of the source to the right
  int64_t source_rows;        // from down_first[0] on
  uint8_t* planes;            // (source rows, C, plane_stride), apart from the portable code
  int16_t* wide;              // (2, C, wide_stride): source rows y at y % 2
  int64_t plane_stride, wide_stride;
  const RowSink& sink;
};

// It does what pmulhrsw does: p + (q - p) * w, rounded.
int16_t mixed(int p, int q, int w) { return static_cast<int16_t>(p + (((((q - p) * w) >> 14) + 1) >> 1)); }

void widen(const Enlarging& g, int64_t row, int16_t* wide) {
  const uint8_t* src = g.src + row * g.src_stride;
  for (int64_t c = 0; c < g.channels; ++c) {
    for (int64_t x = 0; x < g.columns; ++x) {
      const uint8_t* p = src + (g.base[x / kGroup] + g.places[2 * x + 1]) * g.channels + c;
      const bool last = p + g.channels >= src + g.used * g.channels;
      wide[c * g.wide_stride + x] = mixed(p[0] << 7, (last ? 0 : p[g.channels]) << 7, g.share[x]);
    }
  }
}
void mix_rows(const int16_t* upper, const int16_t* lower, int16_t w, int64_t n, uint8_t* dst) {
  for (int64_t x = 0; x < n; ++x) dst[x] = static_cast<uint8_t>((mixed(upper[x], lower[x], w) + 64) >> 7);
}

#if defined(__x86_64__)
#define FREIGHT_AVX2 __attribute__((target("avx2")))

// For pixels of three bytes: which byte of the 16 from 16 * part on is channel c of pixel i.
struct Picks {
  alignas(16) int8_t at[3][3][16];  // (c, part, i)
  constexpr Picks() : at() {
    for (int c = 0; c < 3; ++c) {
      for (int k = 0; k < 48; ++k) {
        const int byte = 3 * (k % 16) + c - k / 16 * 16;
        at[c][k / 16][k % 16] = static_cast<int8_t>(byte >= 0 && byte < 16 ? byte : -1);
      }
    }
  }
};
constexpr Picks kPicks;

FREIGHT_AVX2 void split_planes(const uint8_t* src, int64_t n, uint8_t* planes, int64_t stride) {
  const auto pick = [](int c, int part)
                        FREIGHT_AVX2 { return _mm_load_si128(reinterpret_cast<const __m128i*>(kPicks.at[c][part])); };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const auto* p = reinterpret_cast<const __m128i*>(src + 3 * i);
    const __m128i parts[] = {_mm_loadu_si128(p), _mm_loadu_si128(p + 1), _mm_loadu_si128(p + 2)};
    for (int c = 0; c < 3; ++c) {
      const __m128i v =
          _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(parts[0], pick(c, 0)), _mm_shuffle_epi8(parts[1], pick(c, 1))),
                       _mm_shuffle_epi8(parts[2], pick(c, 2)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(planes + c * stride + i), v);
    }
  }
  for (; i < n; ++i) {
    for (int c = 0; c < 3; ++c) planes[c * stride + i] = src[3 * i + c];
  }
}

FREIGHT_AVX2 inline __m256i mixed_avx2(__m256i p, __m256i q, __m256i w) {
  return _mm256_add_epi16(p, _mm256_mulhrs_epi16(_mm256_sub_epi16(q, p), w));
}
FREIGHT_AVX2 inline __m256i load16(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

// All rows at once: a row that is read right after it was written waits for its writes.
FREIGHT_AVX2 void split_rows_avx2(const Enlarging& g) {
  for (int64_t row = 0; row < g.source_rows; ++row) {
    const uint8_t* src = g.src + row * g.src_stride;
    uint8_t* planes = g.planes + row * g.channels * g.plane_stride;
    if (g.channels == 3) {
      split_planes(src, g.used, planes, g.plane_stride);
    } else {
      std::memcpy(planes, src, at(g.used));
    }
  }
}

FREIGHT_AVX2 void widen_avx2(const Enlarging& g, int64_t row, int16_t* wide) {
  const int64_t stride = g.plane_stride, wide_stride = g.wide_stride, channels = g.channels;
  const uint8_t* planes = g.planes + row * channels * stride;
  const __m256i one = _mm256_set1_epi8(1);
  for (int64_t x = 0; x < wide_stride; x += 2 * kGroup) {
    const __m256i left = load16(g.places + 2 * x), right = _mm256_add_epi8(left, one), w = load16(g.share + x);
    const uint8_t *lower = planes + g.base[x / kGroup], *upper = planes + g.base[x / kGroup + 1];
    int16_t* out = wide + x;
    for (int64_t c = 0; c < channels; ++c, lower += stride, upper += stride, out += wide_stride) {
      const __m256i v =
          _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lower))),
                                  _mm_loadu_si128(reinterpret_cast<const __m128i*>(upper)), 1);
      const __m256i p = _mm256_srli_epi16(_mm256_shuffle_epi8(v, left), 1),
                    q = _mm256_srli_epi16(_mm256_shuffle_epi8(v, right), 1);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), mixed_avx2(p, q, w));
    }
  }
}

FREIGHT_AVX2 void mix_rows_avx2(const int16_t* upper, const int16_t* lower, int16_t w, int64_t n, uint8_t* dst) {
  const __m256i weight = _mm256_set1_epi16(w), half = _mm256_set1_epi16(64);
  int64_t x = 0;
  for (; x + 16 <= n; x += 16) {
    const __m256i v = mixed_avx2(load16(upper + x), load16(lower + x), weight);
    const __m256i rounded = _mm256_srli_epi16(_mm256_add_epi16(v, half), 7);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + x), bytes);
  }
  mix_rows(upper + x, lower + x, w, n - x, dst + x);
}
#endif

int16_t share_of(float weight) { return static_cast<int16_t>(std::min(weight * 32768.0f + 0.5f, 32767.0f)); }

template <class Widen, class MixRows>
void grow(const Enlarging& g, const Widen& widen_row, const MixRows& mix) {
  const int64_t size = g.channels * g.wide_stride;
  int64_t next = g.down_first[0];  // the first row not widened yet: sources never go back
  for (int64_t y = 0; y < g.rows; ++y) {
    const int64_t first = g.down_first[y];
    const int16_t w = share_of(g.down[2 * y + 1]);
    const int64_t last = w > 0 ? first + 1 : first;
    for (next = std::max(next, first); next <= last; ++next) {
      widen_row(g, next - g.down_first[0], g.wide + next % 2 * size);
    }
    const int16_t *upper = g.wide + first % 2 * size, *lower = g.wide + last % 2 * size;
    for (int64_t c = 0; c < g.channels; ++c) {
      mix(upper + c * g.wide_stride, lower + c * g.wide_stride, w, g.columns, g.sink.begin(c, y));
      g.sink.end(c, y);
    }
  }
}
}  // namespace

// Pixel centers are at i + 1/2; the filter is max(0, 1 - |d| / support). [from, from + extent) becomes `positions`
// pixels; source positions are limited to [0, limit).
void Resampler::Taps::make(double from, double extent, int64_t limit, int64_t positions) {
  const double scale = extent / static_cast<double>(positions), support = std::max(1.0, scale);
  width = static_cast<int64_t>(std::ceil(2 * support));  // so many centers lie in an open interval of that length
  first.assign(at(positions), 0);
  weights.assign(at(positions * width), 0.0f);
  if (scale <= 1) {  // two neighbors, or one beyond the outermost centers
    for (int64_t i = 0; i < positions; ++i) {
      const double place = from + (static_cast<double>(i) + 0.5) * scale - 0.5;
      const double inside = std::clamp(place, 0.0, static_cast<double>(limit - 1));
      const auto begin = static_cast<int64_t>(inside);
      const double second = inside - static_cast<double>(begin);
      first[at(i)] = begin;
      weights[at(2 * i)] = static_cast<float>(1 - second);
      weights[at(2 * i + 1)] = static_cast<float>(second);
    }
    return;
  }
  exact.resize(at(width));
  for (int64_t i = 0; i < positions; ++i) {
    const double center = from + (static_cast<double>(i) + 0.5) * scale;
    int64_t begin = std::max<int64_t>(0, static_cast<int64_t>(std::floor(center - support + 0.5)));
    int64_t end = std::min(limit, static_cast<int64_t>(std::ceil(center + support - 0.5)));
    // A center on the last border and a rounding error must not leave a position without a source.
    begin = std::min(begin, limit - 1);
    end = std::clamp(end, begin + 1, begin + width);
    double sum = 0;
    for (int64_t s = begin; s < end; ++s) {
      const double w = std::max(0.0, 1.0 - std::fabs(static_cast<double>(s) + 0.5 - center) / support);
      exact[at(s - begin)] = w;
      sum += w;
    }
    if (sum == 0) exact[0] = sum = 1;
    first[at(i)] = begin;
    for (int64_t s = begin; s < end; ++s) {
      weights[at(i * width + s - begin)] = static_cast<float>(exact[at(s - begin)] / sum);
    }
  }
}

// Position i takes the place of the last but i.
void Resampler::Taps::reverse() {
  std::reverse(first.begin(), first.end());
  for (size_t i = 0, j = first.size() - 1; i < j; ++i, --j) {
    std::swap_ranges(weights.begin() + static_cast<int64_t>(i) * width,
                     weights.begin() + static_cast<int64_t>(i + 1) * width,
                     weights.begin() + static_cast<int64_t>(j) * width);
  }
}

// An axis shrinks: see Job.
void Resampler::shrink_to(const PixelView& src, int64_t base, int64_t used, int64_t rows, int64_t columns,
                          const RowSink& sink) {
  // Room for weights of 0 beyond the last column, and for a load of four lanes at the very end; zeros, not NaN.
  line_.assign(at((used + across_.width) * src.channels + 4), 0.0f);
  planar_.resize(at(3 * columns));
  const Job job{.src = src.pixels + base * src.channels,
                .src_stride = src.columns * src.channels,
                .used = used,
                .channels = src.channels,
                .rows = rows,
                .columns = columns,
                .down_first = down_.first.data(),
                .across_first = across_.first.data(),
                .down = down_.weights.data(),
                .across = across_.weights.data(),
                .down_width = down_.width,
                .across_width = across_.width,
                .line = line_.data(),
                .planar = planar_.data(),
                .sink = sink};
#if defined(__x86_64__)
  if (has_avx2()) return rows_of_avx2(job);
#endif
  rows_of(job);
}

// Both axes grow or stay: see Enlarging.
void Resampler::grow_to(const PixelView& src, int64_t base, int64_t used, int64_t rows, int64_t columns,
                        const RowSink& sink) {
  const int64_t padded = (columns + kRowPadding - 1) / kRowPadding * kRowPadding, stride = used + kRowPadding;
  base_.assign(at(padded / kGroup), 0);
  places_.assign(at(2 * padded), 128);
  share_.assign(at(padded), 0);
  for (int64_t g = 0; g < columns; g += kGroup) {
    const int64_t last = std::min(g + kGroup, columns) - 1;
    const int64_t begin = std::min(across_.first[at(g)], across_.first[at(last)]);  // mirrored, the last is the least
    base_[at(g / kGroup)] = static_cast<int32_t>(begin);
    for (int64_t x = g; x <= last; ++x) {
      places_[at(2 * x + 1)] = static_cast<uint8_t>(across_.first[at(x)] - begin);
      share_[at(x)] = share_of(across_.weights[at(2 * x + 1)]);
    }
  }
  const int64_t top = down_.first.front(), source_rows = std::min(src.rows, down_.first.back() + 2) - top;
  planes_.resize(at(source_rows * src.channels * stride));
  wide_.resize(at(2 * src.channels * padded));
  const Enlarging g{.src = src.pixels + (top * src.columns + base) * src.channels,
                    .src_stride = src.columns * src.channels,
                    .used = used,
                    .channels = src.channels,
                    .rows = rows,
                    .columns = columns,
                    .down_first = down_.first.data(),
                    .down = down_.weights.data(),
                    .base = base_.data(),
                    .places = places_.data(),
                    .share = share_.data(),
                    .source_rows = source_rows,
                    .planes = planes_.data(),
                    .wide = wide_.data(),
                    .plane_stride = stride,
                    .wide_stride = padded,
                    .sink = sink};
#if defined(__x86_64__)
  if (has_avx2()) {
    split_rows_avx2(g);
    return grow(g, widen_avx2, mix_rows_avx2);
  }
#endif
  grow(g, widen, mix_rows);
}

void Resampler::run(const PixelView& src, const Box& box, Mirror mirror, int64_t channels, int64_t rows,
                    int64_t columns, const PlaneTarget& dst) {
  FREIGHT_CHECK((src.channels == 1 || src.channels == 3) && (channels == 1 || channels == 3) && src.rows > 0 &&
                    src.columns > 0 && rows > 0 && columns > 0 && box.rows > 0 && box.columns > 0,
                "an image of 1 or 3 channels that is not empty");
  down_.make(box.y, box.rows, src.rows, rows);
  across_.make(box.x, box.columns, src.columns, columns);
  const int64_t c = src.channels, base = across_.first.front(), plane = rows * columns;
  const int64_t used = std::min(src.columns, across_.first.back() + across_.width) - base;
  for (int64_t& first : across_.first) first -= base;
  if (mirror == Mirror::yes) across_.reverse();
  const bool to_gray = c == 3 && channels == 1;
  if (to_gray) color_.resize(at(3 * plane));
  const PlaneTarget color(color_.data());
  FREIGHT_CHECK(!to_gray || dst.bytes, "grayscale of RGB goes to bytes");
  if (dst.values) row_.resize(at(columns));
  const PlaneTarget& out = to_gray ? color : dst;
  const RowSink sink{out, plane, columns, channels == 3 && c == 1 ? 3 : 1, row_.data()};
  if (down_.width == 2 && across_.width == 2) {
    grow_to(src, base, used, rows, columns, sink);
  } else {
    shrink_to(src, base, used, rows, columns, sink);
  }
  if (to_gray) {
    const auto value = [&](int64_t i) { return static_cast<float>(color_[at(i)]); };
    for (int64_t i = 0; i < plane; ++i) {
      const float gray = 0.299f * value(i) + 0.587f * value(plane + i) + 0.114f * value(2 * plane + i);
      dst.bytes[i] = static_cast<uint8_t>(gray + 0.5f);
    }
  } else if (c == 1 && channels == 3 && dst.bytes) {
    std::memcpy(dst.bytes + plane, dst.bytes, at(plane));
    std::memcpy(dst.bytes + 2 * plane, dst.bytes, at(plane));
  }
#if defined(__x86_64__)
  if (dst.values) _mm_sfence();  // before another thread is told of them
#endif
}

Dataset resized(const Dataset& set, int64_t rows, int64_t columns) {
  const Shape s = set.images.shape();
  if (s.rank() == 4 && s[2] == rows && s[3] == columns) return set;
  if (set.files || set.images.dtype() != DType::u8 || s.rank() != 4) {
    fail(ErrorKind::data, set.name, "only u8 images (C, H, W) can be resized to ", rows, "x", columns, ": samples are ",
         set.images.dtype(), set.sample_shape());
  }
  Dataset out = set;
  out.images = Array(DType::u8, {s[0], s[1], rows, columns});
  const int64_t from = s[2] * s[3], to = rows * columns;
  const auto* src = set.images.data<uint8_t>();
  auto* dst = out.images.data<uint8_t>();
  const Box whole{0, 0, static_cast<double>(s[2]), static_cast<double>(s[3])};
  parallel_for(s[0], [&](int64_t i) {
    Resampler resampler;
    for (int64_t plane = i * s[1]; plane < (i + 1) * s[1]; ++plane) {  // an image of one channel
      resampler.run({src + plane * from, s[2], s[3], 1}, whole, Mirror::no, 1, rows, columns, dst + plane * to);
    }
  });
  return out;
}

}  // namespace freight::data
