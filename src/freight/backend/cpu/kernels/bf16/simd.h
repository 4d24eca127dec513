// AVX-512 behind the bf16 kernels, which take Intel's own intrinsics: Highway 1.0 knows no tiles. Included by
// bf16_*.cpp alone, on x86-64.
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "freight/backend/cpu/kernels/bf16/blocks.h"

// GCC 12 takes the undefined operands inside its own header for a fault.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#ifndef FREIGHT_AVX512  // tests compile the kernels with emulated instructions (tests/support/emulated_avx512.h)
#define FREIGHT_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define FREIGHT_AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")))
#endif

namespace freight::cpu {

constexpr int kRows = 16;  // of a tile, and lanes of a vector

// The lanes of the first n numbers.
inline __mmask16 first(int64_t n) {
  return static_cast<__mmask16>(n >= kRows ? 0xffff : (1u << std::max<int64_t>(n, 0)) - 1);
}

inline __mmask32 first32(int64_t n) {
  return n >= 2 * kRows ? ~__mmask32{0} : (__mmask32{1} << std::max<int64_t>(n, 0)) - 1;
}

constexpr int64_t place(int64_t line) { return Bf16Table::place(line); }

FREIGHT_AVX512 inline __m512 widened(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// 2^t to 5e-7: around the next whole power by the polynomial of least error that is 1 at 0.
FREIGHT_AVX512 inline __m512 exp2_f32(__m512 t) {
  const __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm512_sub_ps(t, n);
  const auto line = [&](float a, float b)
                        FREIGHT_AVX512 { return _mm512_fmadd_ps(_mm512_set1_ps(a), f, _mm512_set1_ps(b)); };
  const __m512 f2 = _mm512_mul_ps(f, f),
               p = _mm512_fmadd_ps(line(1.11255073e-3f, 9.66628268e-3f), f2, line(5.55740036e-2f, 2.40223512e-1f));
  return _mm512_scalef_ps(_mm512_fmadd_ps(p, f2, line(6.93142831e-1f, 1.0f)), n);
}
constexpr float kLog2E = 1.44269504f;
FREIGHT_AVX512 inline __m512 exp_f32(__m512 x) { return exp2_f32(_mm512_mul_ps(x, _mm512_set1_ps(kLog2E))); }

// 32 numbers in the panels' order (a, b), as bf16 in the order of memory.
FREIGHT_AVX512 inline __m512i narrowed(__m512 a, __m512 b) {
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm512_permutexvar_epi64(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

// The other way round: 32 numbers of bf16 in the order of memory, in the panels' order.
struct PanelLine {
  __m512 a, b;
};
FREIGHT_AVX512 inline PanelLine panel_line(const Bf16* from) {
  const __m512i back = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  const __m512i bits = _mm512_permutexvar_epi64(back, _mm512_loadu_si512(from));
  return {widened(_mm512_castsi512_si256(bits)), widened(_mm512_extracti64x4_epi64(bits, 1))};
}

// Whole lines of a result in bf16, from sums in the panels' order. See finish() of Bf16Table.
template <class T>
inline bool has_whole_lines(const BlockResult<T>& r) {
  return !r.turned && r.columns == Bf16Table::kSide;
}
class LineFinish {
 public:
  [[gnu::always_inline]] FREIGHT_AVX512 inline explicit LineFinish(const Bf16Result& result)
      : r_(result),
        least_(_mm512_set1_ps(r_.relu ? 0.0f : -kInfinity)),
        most_(_mm512_set1_ps(r_.most)),
        bias_(r_.bias ? panel_line(r_.bias) : PanelLine{_mm512_setzero_ps(), _mm512_setzero_ps()}),
        bare_(!r_.relu && !r_.bias && !r_.residual && r_.most == kInfinity),
        past_caches_(r_.stream && r_.row % Bf16Table::kSide == 0 && reinterpret_cast<uintptr_t>(r_.to) % 64 == 0) {}
  int64_t rows() const { return r_.rows; }
  // Inlined, since the sums of a whole tile are in registers around it.
  [[gnu::always_inline]] FREIGHT_AVX512 inline void store(int64_t row, __m512 a, __m512 b) const {
    if (!bare_) {
      a = _mm512_add_ps(a, bias_.a);
      b = _mm512_add_ps(b, bias_.b);
      if (r_.residual) {
        const PanelLine other = panel_line(r_.residual + row * r_.row);
        a = _mm512_add_ps(a, other.a);
        b = _mm512_add_ps(b, other.b);
      }
      // The maximum, or minimum, of a number and a NaN is the second operand: a NaN stays.
      a = _mm512_min_ps(most_, _mm512_max_ps(least_, a));
      b = _mm512_min_ps(most_, _mm512_max_ps(least_, b));
    }
    const __m512i bits = narrowed(a, b);
    Bf16* const to = r_.to + row * r_.row;
    if (past_caches_) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bits);
    } else {
      _mm512_storeu_si512(to, bits);
    }
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Bf16Result r_;  // a copy, which no store of bits can change
  __m512 least_, most_;
  PanelLine bias_;
  bool bare_, past_caches_;
};

// 16 x 16 numbers of 32 bits: number j of row i becomes number i of row j. Row 4 g + q lies at at(g, q).
template <class At>
FREIGHT_AVX512 inline void transpose(void* to, At at) {
  for (int j = 0; j < 4; ++j) {  // four columns at a time
    const auto lanes = [&](int q) FREIGHT_AVX512 {
      const auto part = [&](int g) FREIGHT_AVX512 {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at(g, q) + j * 16));
      };
      const __m512i v = _mm512_inserti32x4(_mm512_castsi128_si512(part(0)), part(1), 1);
      return _mm512_inserti32x4(_mm512_inserti32x4(v, part(2), 2), part(3), 3);
    };
    const __m512i r0 = lanes(0), r1 = lanes(1), r2 = lanes(2), r3 = lanes(3);
    const __m512i a = _mm512_unpacklo_epi32(r0, r1), b = _mm512_unpackhi_epi32(r0, r1);
    const __m512i c = _mm512_unpacklo_epi32(r2, r3), d = _mm512_unpackhi_epi32(r2, r3);
    auto* out = static_cast<__m512i*>(to) + 4 * j;
    _mm512_store_si512(out, _mm512_unpacklo_epi64(a, c));
    _mm512_store_si512(out + 1, _mm512_unpackhi_epi64(a, c));
    _mm512_store_si512(out + 2, _mm512_unpacklo_epi64(b, d));
    _mm512_store_si512(out + 3, _mm512_unpackhi_epi64(b, d));
  }
}

FREIGHT_AVX512 inline void transpose(void* to, const void* from, ptrdiff_t group, ptrdiff_t row) {
  transpose(to, [=](int g, int q) FREIGHT_AVX512 { return static_cast<const char*>(from) + g * group + q * row; });
}

// The shapes of AMX's eight tiles: 16 rows of 64 bytes each, unless one is made shorter.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// The sums of a block, as two rows of two tiles: 0 to 3.
constexpr int kSumsRow = Bf16Table::kSide * sizeof(float), kSumsBelow = Bf16Table::kSide * kRows;
FREIGHT_AMX inline void load_sums(const float* sums, bool accumulate) {
  if (accumulate) {
    _tile_loadd(0, sums, kSumsRow);
    _tile_loadd(1, sums + kRows, kSumsRow);
    _tile_loadd(2, sums + kSumsBelow, kSumsRow);
    _tile_loadd(3, sums + kSumsBelow + kRows, kSumsRow);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
}
FREIGHT_AMX inline void store_sums(float* sums) {
  _tile_stored(0, sums, kSumsRow);
  _tile_stored(1, sums + kRows, kSumsRow);
  _tile_stored(2, sums + kSumsBelow, kSumsRow);
  _tile_stored(3, sums + kSumsBelow + kRows, kSumsRow);
}

// Adds the products of a piece of two panels to them; takes the other four tiles.
FREIGHT_AMX inline void multiply_piece(const Bf16* a, const Bf16* b) {
  constexpr int64_t kTile = Bf16Table::kPiece / 2;
  _tile_loadd(4, a, 64);
  _tile_loadd(6, b, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(7, b + kTile, 64);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(5, a + kTile, 64);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

}  // namespace freight::cpu
