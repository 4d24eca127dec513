// See pool.h. Numbers that are neither negative nor none are ordered as their bits are: the maximum of a window is that
// of 16-bit integers, and it tells whether any number was of another kind. Those windows are looked at again.
#include "freight/backend/cpu/kernels/bf16/pool.h"

#include "freight/backend/cpu/kernels/bf16/blocks.h"

#ifdef __x86_64__
#include "freight/backend/cpu/kernels/bf16/simd.h"

namespace freight::cpu {

namespace {

constexpr int64_t kLanes = 32;
constexpr Bf16 kInfinity = 0x7f80, kLeast = 0xff80;

// Where the pixel (h, w) is in window (oh, ow).
int place_in_window(const PoolGeometry& g, int64_t oh, int64_t ow, int64_t h, int64_t w) {
  return static_cast<int>((h + g.pad[0] - oh * g.stride[0]) * g.kernel[1] + w + g.pad[1] - ow * g.stride[1]);
}

// Windows that meet, or the pixels of one: `rows` x `columns` pixels and the places in their windows.
struct Grid {
  int64_t first = 0, row = 0;  // numbers: the first pixel, from row to row
  int64_t rows = 0, columns = 0;
  int place = 0, row_place = 0, column_place = 0;  // of the first one, from row to row, from column to column
};

// Calls f.operator()<rows, columns>() with extents that the compiler knows; 0: those of the grid.
template <class F>
FREIGHT_AVX512 inline void with_extents(const Grid& g, F f) {
  if (std::min(g.rows, g.columns) < 1 || std::max(g.rows, g.columns) > 3) return f.template operator()<0, 0>();
  switch (g.rows * 4 + g.columns) {
    case 5: return f.template operator()<1, 1>();
    case 6: return f.template operator()<1, 2>();
    case 9: return f.template operator()<2, 1>();
    case 10: return f.template operator()<2, 2>();
    case 11: return f.template operator()<2, 3>();
    case 14: return f.template operator()<3, 2>();
    case 15: return f.template operator()<3, 3>();
    default: return f.template operator()<0, 0>();
  }
}

// f(first number of the pixel, its place) for all pixels of a grid.
template <int kGridRows, int kGridColumns, class F>
FREIGHT_AVX512 inline void each(const Grid& g, int64_t channels, F f) {
  const int64_t rows = kGridRows > 0 ? kGridRows : g.rows, columns = kGridColumns > 0 ? kGridColumns : g.columns;
#pragma GCC unroll 3
  for (int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 3
    for (int64_t j = 0; j < columns; ++j) {
      f(g.first + i * g.row + j * channels,
        g.place + static_cast<int>(i) * g.row_place + static_cast<int>(j) * g.column_place);
    }
  }
}

// 32 channels of one pixel, or what is left of them.
struct ChannelBlock {
  __mmask32 some;
  bool whole;
  FREIGHT_AVX512 __m512i load(const Bf16* p) const {
    return whole ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16(some, p);
  }
  FREIGHT_AVX512 __m256i load(const uint8_t* p) const {
    return whole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)) : _mm256_maskz_loadu_epi8(some, p);
  }
  FREIGHT_AVX512 void store(Bf16* p, __m512i v) const {
    if (whole) {
      _mm512_storeu_si512(p, v);
    } else {
      _mm512_mask_storeu_epi16(p, some, v);
    }
  }
  FREIGHT_AVX512 void store(uint8_t* p, __m256i v) const {
    if (whole) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
    } else {
      _mm256_mask_storeu_epi8(p, some, v);
    }
  }
};

// f(channel, part) for the parts of a pixel.
template <class F>
FREIGHT_AVX512 inline void each_part(int64_t channels, F f) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) f(c, ChannelBlock{~__mmask32{0}, true});
  if (c < channels) f(c, ChannelBlock{first32(channels - c), false});
}

struct Winners {
  __m512i values;
  __m256i places;
};

// Integers in the order of all numbers: both zeros are equal, and those that are none are above all.
FREIGHT_AVX512 inline __m512i ordered(__m512i v) {
  const __m512i size = _mm512_and_si512(v, _mm512_set1_epi16(0x7fff));
  const __m512i key = _mm512_mask_sub_epi16(size, _mm512_movepi16_mask(v), _mm512_setzero_si512(), size);
  return _mm512_mask_mov_epi16(key, _mm512_cmpgt_epi16_mask(size, _mm512_set1_epi16(kInfinity)),
                               _mm512_set1_epi16(0x7fff));
}

// The first of the largest numbers of a window; of numbers that are none, the first.
enum class Numbers : uint8_t { positive, any };
template <Numbers kNumbers, int kGridRows, int kGridColumns>
FREIGHT_AVX512 inline Winners largest(const Grid& g, int64_t channels, const Bf16* x, ChannelBlock part) {
  __m512i best = part.load(x + g.first), key = kNumbers == Numbers::any ? ordered(best) : best;
  __m256i at = _mm256_set1_epi8(static_cast<char>(g.place));
  each<kGridRows, kGridColumns>(g, channels, [&](int64_t i, int place) FREIGHT_AVX512 {
    if (place == g.place) return;
    const __m512i v = part.load(x + i);
    __mmask32 wins;
    if (kNumbers == Numbers::positive) {
      wins = _mm512_cmpgt_epu16_mask(v, best);
      best = _mm512_max_epu16(best, v);
    } else {
      const __m512i k = ordered(v);
      wins = _mm512_cmpgt_epi16_mask(k, key);
      key = _mm512_max_epi16(key, k);
      best = _mm512_mask_mov_epi16(best, wins, v);
    }
    at = _mm256_mask_mov_epi8(at, wins, _mm256_set1_epi8(static_cast<char>(place)));
  });
  return {best, at};
}

// The numbers' two halves as f32: those with even and those with odd indices.
FREIGHT_AVX512 inline __m512 even(__m512i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); }
FREIGHT_AVX512 inline __m512 odd(__m512i v) {
  return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}
FREIGHT_AVX512 inline __m512i joined(__m512 even, __m512 odd) {
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(odd, even),
                order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, halves);
}

FREIGHT_AVX512 void max(const PoolGeometry& g, const void* x_, void* y_, int32_t* places, int64_t row) {
  const int64_t channels = g.channels, oh = row % g.out[0];
  const Bf16* x = static_cast<const Bf16*>(x_) + row / g.out[0] * g.in[0] * g.in[1] * channels;
  Bf16* y = static_cast<Bf16*>(y_) + row * g.out[1] * channels;
  auto* at = reinterpret_cast<uint8_t*>(places) + row * g.out[1] * channels;
  const PoolRange rows = g.window(0, oh);
  for (int64_t ow = 0; ow < g.out[1]; ++ow, y += channels, at += channels) {
    const PoolRange columns = g.window(1, ow);
    if (rows.from >= rows.to || columns.from >= columns.to) {
      std::fill_n(y, channels, kLeast);
      continue;
    }
    const Grid grid{(rows.from * g.in[1] + columns.from) * channels,
                    g.in[1] * channels,
                    rows.to - rows.from,
                    columns.to - columns.from,
                    place_in_window(g, oh, ow, rows.from, columns.from),
                    static_cast<int>(g.kernel[1]),
                    1};
    with_extents(grid, [&]<int kGridRows, int kGridColumns>() FREIGHT_AVX512 {
      each_part(channels, [&](int64_t c, ChannelBlock part) FREIGHT_AVX512 {
        Winners w = largest<Numbers::positive, kGridRows, kGridColumns>(grid, channels, x + c, part);
        if (_mm512_cmpgt_epu16_mask(w.values, _mm512_set1_epi16(kInfinity)) != 0)
          w = largest<Numbers::any, 0, 0>(grid, channels, x + c, part);
        part.store(y + c, w.values);
        part.store(at + c, w.places);
      });
    });
  }
}

FREIGHT_AVX512 void max_grad(const PoolGeometry& g, const void* dy_, const int32_t* places, void* dx_, int64_t row) {
  const int64_t channels = g.channels, h = row % g.in[0], image = row / g.in[0] * g.out[0] * g.out[1] * channels;
  const Bf16* dy = static_cast<const Bf16*>(dy_) + image;
  const auto* at = reinterpret_cast<const uint8_t*>(places) + image;
  Bf16* dx = static_cast<Bf16*>(dx_) + row * g.in[1] * channels;
  const PoolRange rows = g.covering(0, h);
  for (int64_t w = 0; w < g.in[1]; ++w, dx += channels) {
    const PoolRange columns = g.covering(1, w);
    const Grid grid{(rows.from * g.out[1] + columns.from) * channels,
                    g.out[1] * channels,
                    rows.to - rows.from,
                    columns.to - columns.from,
                    place_in_window(g, rows.from, columns.from, h, w),
                    static_cast<int>(-g.stride[0] * g.kernel[1]),
                    static_cast<int>(-g.stride[1])};
    with_extents(grid, [&]<int kGridRows, int kGridColumns>() FREIGHT_AVX512 {
      each_part(channels, [&](int64_t c, ChannelBlock part) FREIGHT_AVX512 {
        const auto chosen = [&](int64_t i, int place) FREIGHT_AVX512 {
          const __m256i here = _mm256_set1_epi8(static_cast<char>(place));
          return _mm512_maskz_mov_epi16(_mm256_cmpeq_epi8_mask(part.load(at + i + c), here), part.load(dy + i + c));
        };
        if (kGridRows * kGridColumns == 1) return part.store(dx + c, chosen(grid.first, grid.place));
        __m512 sum0 = _mm512_setzero_ps(), sum1 = sum0;
        each<kGridRows, kGridColumns>(grid, channels, [&](int64_t i, int place) FREIGHT_AVX512 {
          const __m512i v = chosen(i, place);
          sum0 = _mm512_add_ps(sum0, even(v));
          sum1 = _mm512_add_ps(sum1, odd(v));
        });
        part.store(dx + c, joined(sum0, sum1));
      });
    });
  }
}

}  // namespace

const PoolTable& bf16_pool_table() {
  static const PoolTable kTable = [] {
    PoolTable t = pool_tables().bf16;
    t.max = max;
    t.max_grad = max_grad;
    return t;
  }();
  return kTable;
}

}  // namespace freight::cpu

#else

namespace freight::cpu {

const PoolTable& bf16_pool_table() { return pool_tables().bf16; }

}  // namespace freight::cpu

#endif
