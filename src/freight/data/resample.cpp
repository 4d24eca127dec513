// See resample.h. Separable: for each destination row the source rows are weighted and added, then the columns, in f32;
// rounded once at the end. C is the number of channels.
#include "freight/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::data {

namespace {
// One pixel with its channels side by side; GCC's and Clang's vector type, four lanes on every CPU.
using Lanes = float __attribute__((vector_size(16)));

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Everything below is inlined into `rows_of`, which is compiled twice: for any CPU, and with AVX2 where that is known.
// Both do the same operations in the same order (no fused multiply-add), hence give the same bits.
#define FREIGHT_INLINE inline __attribute__((always_inline))

// Blocks of a constant length, which the compiler turns into vector code.
constexpr int64_t kBlock = 32;

// dst = w * src.
FREIGHT_INLINE void weigh(const uint8_t* __restrict__ src, float* __restrict__ dst, int64_t n, float w) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (int64_t k = 0; k < kBlock; ++k) dst[i + k] = w * static_cast<float>(src[i + k]);
  }
  for (; i < n; ++i) dst[i] = w * static_cast<float>(src[i]);
}
// dst = w * src + v * more: two rows at once, the usual case.
FREIGHT_INLINE void weigh_two(const uint8_t* __restrict__ src, const uint8_t* __restrict__ more,
                              float* __restrict__ dst, int64_t n, float w, float v) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (int64_t k = 0; k < kBlock; ++k) {
      dst[i + k] = w * static_cast<float>(src[i + k]) + v * static_cast<float>(more[i + k]);
    }
  }
  for (; i < n; ++i) dst[i] = w * static_cast<float>(src[i]) + v * static_cast<float>(more[i]);
}
// dst += w * src.
FREIGHT_INLINE void add_weighed(const uint8_t* __restrict__ src, float* __restrict__ dst, int64_t n, float w) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (int64_t k = 0; k < kBlock; ++k) dst[i + k] += w * static_cast<float>(src[i + k]);
  }
  for (; i < n; ++i) dst[i] += w * static_cast<float>(src[i]);
}
// The sums are mixtures of values 0..255, up to rounding: adding 1/2 and cutting off stays in range.
FREIGHT_INLINE void round_row(const float* __restrict__ src, uint8_t* __restrict__ dst, int64_t n) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (int64_t k = 0; k < kBlock; ++k) dst[i + k] = static_cast<uint8_t>(static_cast<int32_t>(src[i + k] + 0.5f));
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
    const auto one = [&](int64_t k) { return pixel<kWidth>(line, first[x + k], weights + (x + k) * width, width); };
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

// One picture: see Resampler::run. `first` of the columns counts from the line's begin.
struct Job {
  const uint8_t* src;  // the first column that counts, of row 0
  int64_t src_stride, used, channels, rows, columns;
  const int64_t *down_first, *across_first;
  const float *down, *across;
  int64_t down_width, across_width;
  float *line, *planar;
  uint8_t* dst;
};

FREIGHT_INLINE void make_rows(const Job& j) {
  const int64_t n = j.used * j.channels, plane = j.rows * j.columns;
  for (int64_t y = 0; y < j.rows; ++y) {
    const float* w = j.down + y * j.down_width;
    const uint8_t* from = j.src + j.down_first[y] * j.src_stride;
    int64_t k = 1;
    if (j.down_width > 1 && w[1] != 0) {
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
      round_row(j.planar + c * j.columns, j.dst + c * plane + y * j.columns, j.columns);
    }
  }
}

void rows_of(const Job& j) { make_rows(j); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) void rows_of_avx2(const Job& j) { make_rows(j); }
bool has_avx2() {
  static const bool kHas = __builtin_cpu_supports("avx2") != 0;
  return kHas;
}
#endif
}  // namespace

// Pixel centres are at i + 1/2; the filter is max(0, 1 - |d| / support). [from, from + extent) becomes `positions`
// pixels; source positions are limited to [0, limit).
void Resampler::Taps::make(double from, double extent, int64_t limit, int64_t positions) {
  const double scale = extent / static_cast<double>(positions), support = std::max(1.0, scale);
  width = static_cast<int64_t>(std::ceil(2 * support));  // so many centres lie in an open interval of that length
  first.assign(at(positions), 0);
  weights.assign(at(positions * width), 0.0f);
  exact.resize(at(width));
  for (int64_t i = 0; i < positions; ++i) {
    const double centre = from + (static_cast<double>(i) + 0.5) * scale;
    int64_t begin = std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - support + 0.5)));
    int64_t end = std::min(limit, static_cast<int64_t>(std::ceil(centre + support - 0.5)));
    // A centre on the last border and a rounding error must not leave a position without a source.
    begin = std::min(begin, limit - 1);
    end = std::clamp(end, begin + 1, begin + width);
    double sum = 0;
    for (int64_t s = begin; s < end; ++s) {
      const double w = std::max(0.0, 1.0 - std::fabs(static_cast<double>(s) + 0.5 - centre) / support);
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

void Resampler::run(const PixelView& src, const Box& box, Mirror mirror, int64_t channels, int64_t rows,
                    int64_t columns, uint8_t* dst) {
  FREIGHT_CHECK((src.channels == 1 || src.channels == 3) && (channels == 1 || channels == 3) && src.rows > 0 &&
                    src.columns > 0 && rows > 0 && columns > 0 && box.rows > 0 && box.columns > 0,
                "a picture of 1 or 3 channels that is not empty");
  down_.make(box.y, box.rows, src.rows, rows);
  across_.make(box.x, box.columns, src.columns, columns);
  const int64_t c = src.channels, base = across_.first.front(), plane = rows * columns;
  const int64_t used = std::min(src.columns, across_.first.back() + across_.width) - base;
  for (int64_t& first : across_.first) first -= base;
  if (mirror == Mirror::yes) across_.reverse();
  // Room for weights of 0 beyond the last column, and for a load of four lanes at the very end; zeros, not NaN.
  line_.assign(at((used + across_.width) * c + 4), 0.0f);
  planar_.resize(at(3 * columns));
  const bool to_grey = c == 3 && channels == 1;
  if (to_grey) colour_.resize(at(3 * plane));
  uint8_t* out = to_grey ? colour_.data() : dst;
  const Job job{.src = src.pixels + base * c,
                .src_stride = src.columns * c,
                .used = used,
                .channels = c,
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
                .dst = out};
#if defined(__x86_64__)
  has_avx2() ? rows_of_avx2(job) : rows_of(job);
#else
  rows_of(job);
#endif
  if (to_grey) {
    const auto value = [&](int64_t i) { return static_cast<float>(out[i]); };
    for (int64_t i = 0; i < plane; ++i) {
      const float grey = 0.299f * value(i) + 0.587f * value(plane + i) + 0.114f * value(2 * plane + i);
      dst[i] = static_cast<uint8_t>(grey + 0.5f);
    }
  } else if (c == 1 && channels == 3) {
    std::memcpy(dst + plane, dst, at(plane));
    std::memcpy(dst + 2 * plane, dst, at(plane));
  }
}

Dataset resized(const Dataset& set, int64_t rows, int64_t columns) {
  const Shape s = set.images.shape();
  if (s.rank() == 4 && s[2] == rows && s[3] == columns) return set;
  if (set.files || set.images.dtype() != DType::u8 || s.rank() != 4) {
    fail(ErrorKind::data, set.name, "only u8 pictures (C, H, W) can be resized to ", rows, "x", columns,
         ": samples are ", set.images.dtype(), set.sample_shape());
  }
  Dataset out = set;
  out.images = Array(DType::u8, {s[0], s[1], rows, columns});
  const int64_t from = s[2] * s[3], to = rows * columns;
  const auto* src = set.images.data<uint8_t>();
  auto* dst = out.images.data<uint8_t>();
  const Box whole{0, 0, static_cast<double>(s[2]), static_cast<double>(s[3])};
  parallel_for(s[0], [&](int64_t i) {
    Resampler resampler;
    for (int64_t plane = i * s[1]; plane < (i + 1) * s[1]; ++plane) {  // a picture of one channel
      resampler.run({src + plane * from, s[2], s[3], 1}, whole, Mirror::no, 1, rows, columns, dst + plane * to);
    }
  });
  return out;
}

}  // namespace freight::data
