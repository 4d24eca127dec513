// See bf16/tiles.h.
#include "freight/backend/cpu/kernels/bf16/tiles.h"

#ifdef __x86_64__

#include "freight/backend/cpu/kernels/bf16/simd.h"

namespace freight::cpu {

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kPiece = Bf16Table::kPiece, kTile = kPiece / 2;

// --- packing ---

// Steps that lie anywhere give the numbers of one tile or of two, and two of them a row of the right operand's tiles.
template <bool kTwo>
struct Steps {
  const Bf16* const* at;
  ptrdiff_t first, second;
  __mmask32 some;
  __m512i side_by_side;

  FREIGHT_AVX512 explicit Steps(const Bf16Sequence& s)
      : at(s.steps_at), first(s.first), second(s.second), some(first32(s.lines)) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    side_by_side = _mm512_or_si512(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(kRows)), 16));
  }
  FREIGHT_AVX512 __m512i load(int64_t step) const {
    _mm_prefetch(at[step + Bf16Table::kSteps] + first, _MM_HINT_T0);
    const Bf16* const from = at[step] + first;
    if (kTwo) return _mm512_maskz_loadu_epi16(some, from);
    return _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(some), from));
  }
  FREIGHT_AVX512 void put(Bf16* to, __m512i even, __m512i odd) const {
    if (kTwo) {
      _mm512_store_si512(to, _mm512_unpacklo_epi16(even, odd));
      _mm512_store_si512(to + second, _mm512_unpackhi_epi16(even, odd));
    } else {
      const __m512i both = _mm512_inserti64x4(even, _mm512_castsi512_si256(odd), 1);
      _mm512_store_si512(to, _mm512_permutexvar_epi16(side_by_side, both));
    }
  }
};

template <bool kTwo>
FREIGHT_AVX512 inline void pack_right(Bf16* to, const Bf16Sequence& s) {
  const Steps<kTwo> steps(s);
  __m512i even = steps.load(0);
  for (int64_t step = 0; step < s.steps; step += 2, to += kSide) {
    const __m512i odd = steps.load(step + 1), next = steps.load(step + 2);
    steps.put(to, even, odd);
    if (s.odd != 0) steps.put(to + s.odd, odd, next);
    even = next;
  }
}

template <bool kTwo>
FREIGHT_AVX512 inline void pack_left(Bf16* to, const Bf16Sequence& s) {
  alignas(64) Bf16 piece[kPiece];
  Steps<kTwo> steps(s);
  steps.second = kTile;
  for (int64_t step = 0; step < Bf16Table::kSteps; step += 2)
    steps.put(piece + step * kRows, steps.load(step), steps.load(step + 1));
  constexpr ptrdiff_t kRow = kSide * sizeof(Bf16);
  transpose(to, piece, 4 * kRow, kRow);
  if (kTwo) transpose(to + s.second, piece + kTile, 4 * kRow, kRow);
}

FREIGHT_AVX512 void pack(Bf16* to, const Bf16Sequence& s, Bf16Table::Operand side) {
  const bool two = s.lines > kRows;
  if (side == Bf16Table::Operand::left) return two ? pack_left<true>(to, s) : pack_left<false>(to, s);
  return two ? pack_right<true>(to, s) : pack_right<false>(to, s);
}

// --- products ---

constexpr int64_t kSums = Bf16Tiles::kSums;
constexpr int kSumsRow = kRows * sizeof(float);

template <int n>
FREIGHT_AMX inline void begin_tiles(const float* sums, bool accumulate) {
  if (!accumulate) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    return;
  }
  _tile_loadd(0, sums, kSumsRow);
  if constexpr (n > 1) _tile_loadd(1, sums + kSums, kSumsRow);
  if constexpr (n > 2) _tile_loadd(2, sums + 2 * kSums, kSumsRow);
  if constexpr (n > 3) _tile_loadd(3, sums + 3 * kSums, kSumsRow);
  if constexpr (n > 4) _tile_loadd(4, sums + 4 * kSums, kSumsRow);
  if constexpr (n > 5) _tile_loadd(5, sums + 5 * kSums, kSumsRow);
}

template <int n>
FREIGHT_AMX inline void end_tiles(float* sums) {
  _tile_stored(0, sums, kSumsRow);
  if constexpr (n > 1) _tile_stored(1, sums + kSums, kSumsRow);
  if constexpr (n > 2) _tile_stored(2, sums + 2 * kSums, kSumsRow);
  if constexpr (n > 3) _tile_stored(3, sums + 3 * kSums, kSumsRow);
  if constexpr (n > 4) _tile_stored(4, sums + 4 * kSums, kSumsRow);
  if constexpr (n > 5) _tile_stored(5, sums + 5 * kSums, kSumsRow);
}

// Lines of the sums that come next, asked for some at a time.
class Next {
 public:
  FREIGHT_AMX Next(const float* sums, int64_t tiles, int64_t pieces)
      : line_(sums), end_(sums + tiles * kSums), each_((tiles * kRows + pieces - 1) / pieces) {}
  FREIGHT_AMX void ask() {
    for (int64_t k = 0; k < each_ && line_ < end_; ++k, line_ += kRows) _mm_prefetch(line_, _MM_HINT_T0);
  }

 private:
  const float *line_, *end_;
  int64_t each_;
};

template <int n>
FREIGHT_AMX void row_of_tiles(const Bf16Tiles& t, int64_t pieces, bool accumulate) {
  Next next(t.sums + t.next, n, pieces);
  const Bf16 *a = t.a, *b0 = t.b[0], *b1 = t.b[1], *b2 = t.b[2], *b3 = t.b[3], *b4 = t.b[4], *b5 = t.b[5];
  begin_tiles<n>(t.sums, accumulate);
  for (ptrdiff_t at = 0; at < pieces * kTile; at += kTile) {
    _tile_loadd(6, a + at, 64);
    _tile_loadd(7, b0 + at, 64);
    _tile_dpbf16ps(0, 6, 7);
    if constexpr (n > 1) {
      _tile_loadd(7, b1 + at, 64);
      _tile_dpbf16ps(1, 6, 7);
    }
    if constexpr (n > 2) {
      _tile_loadd(7, b2 + at, 64);
      _tile_dpbf16ps(2, 6, 7);
    }
    if constexpr (n > 3) {
      _tile_loadd(7, b3 + at, 64);
      _tile_dpbf16ps(3, 6, 7);
    }
    if constexpr (n > 4) {
      _tile_loadd(7, b4 + at, 64);
      _tile_dpbf16ps(4, 6, 7);
    }
    if constexpr (n > 5) {
      _tile_loadd(7, b5 + at, 64);
      _tile_dpbf16ps(5, 6, 7);
    }
    next.ask();
  }
  end_tiles<n>(t.sums);
}

FREIGHT_AMX void rows_of_tiles(const Bf16Tiles& t, int64_t pieces, bool accumulate) {
  Next next(t.sums + t.next, 3, pieces), next2(t.sums2 + t.next, 3, pieces);
  const Bf16 *a = t.a, *a2 = t.a2, *b0 = t.b[0], *b1 = t.b[1], *b2 = t.b[2];
  begin_tiles<3>(t.sums, accumulate);
  if (accumulate) {
    _tile_loadd(3, t.sums2, kSumsRow);
    _tile_loadd(4, t.sums2 + kSums, kSumsRow);
    _tile_loadd(5, t.sums2 + 2 * kSums, kSumsRow);
  }
  for (ptrdiff_t at = 0; at < pieces * kTile; at += kTile) {
    _tile_loadd(7, b0 + at, 64);
    _tile_loadd(6, a + at, 64);
    _tile_dpbf16ps(0, 6, 7);
    _tile_loadd(6, a2 + at, 64);
    _tile_dpbf16ps(3, 6, 7);
    _tile_loadd(7, b1 + at, 64);
    _tile_dpbf16ps(4, 6, 7);
    _tile_loadd(6, a + at, 64);
    _tile_dpbf16ps(1, 6, 7);
    _tile_loadd(7, b2 + at, 64);
    _tile_dpbf16ps(2, 6, 7);
    _tile_loadd(6, a2 + at, 64);
    _tile_dpbf16ps(5, 6, 7);
    next.ask();
    next2.ask();
  }
  end_tiles<3>(t.sums);
  _tile_stored(3, t.sums2, kSumsRow);
  _tile_stored(4, t.sums2 + kSums, kSumsRow);
  _tile_stored(5, t.sums2 + 2 * kSums, kSumsRow);
}

FREIGHT_AMX void tiles_amx(const Bf16Tiles& t, int64_t pieces, bool accumulate) {
  if (t.a2 && t.count == 3) return rows_of_tiles(t, pieces, accumulate);
  if (t.count == 1) row_of_tiles<1>(t, pieces, accumulate);
  if (t.count == 2) row_of_tiles<2>(t, pieces, accumulate);
  if (t.count == 3) row_of_tiles<3>(t, pieces, accumulate);
  if (t.count == 4) row_of_tiles<4>(t, pieces, accumulate);
  if (t.count == 5) row_of_tiles<5>(t, pieces, accumulate);
  if (t.count == 6) row_of_tiles<6>(t, pieces, accumulate);
  if (t.a2) tiles_amx({t.a2, nullptr, {t.b[0], t.b[1]}, t.count, t.sums2, nullptr, t.next}, pieces, accumulate);
}

// Rows by n tiles of columns, half a tile of rows at a time: 8 n sums in registers, and each row's pair of steps serves
// n products.
template <int n>
FREIGHT_AVX512 inline void row_of_dots(const Bf16* a, const Bf16* const* b, float* sums, int64_t pieces,
                                       bool accumulate) {
  constexpr int kAtOnce = kRows / 2;
  for (int half = 0; half < 2; ++half, a += kAtOnce * kSide, sums += kAtOnce * kRows) {
    __m512 acc[kAtOnce][n];
#pragma GCC unroll 8
    for (int r = 0; r < kAtOnce; ++r) {
#pragma GCC unroll 3
      for (int k = 0; k < n; ++k)
        acc[r][k] = accumulate ? _mm512_load_ps(sums + k * kSums + r * kRows) : _mm512_setzero_ps();
    }
    const Bf16* rows = a;
    for (ptrdiff_t at = 0; at < pieces * kTile; at += kTile, rows += kTile) {
      for (int pair = 0; pair < kRows; ++pair) {
        __m512bh columns[n];
#pragma GCC unroll 3
        for (int k = 0; k < n; ++k) columns[k] = (__m512bh)_mm512_load_si512(b[k] + at + pair * kSide);
#pragma GCC unroll 8
        for (int r = 0; r < kAtOnce; ++r) {
          const auto x = (__m512bh)_mm512_set1_epi32(*reinterpret_cast<const int*>(rows + r * kSide + 2 * pair));
#pragma GCC unroll 3
          for (int k = 0; k < n; ++k) acc[r][k] = _mm512_dpbf16_ps(acc[r][k], x, columns[k]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kAtOnce; ++r) {
#pragma GCC unroll 3
      for (int k = 0; k < n; ++k) _mm512_store_ps(sums + k * kSums + r * kRows, acc[r][k]);
    }
  }
}

FREIGHT_AVX512 void tiles_dots(const Bf16Tiles& t, int64_t pieces, bool accumulate) {
  for (int k = 0; k < t.count;) {
    const int n = t.count - k == 4 ? 2 : std::min(t.count - k, 3);
    const auto row = n == 3 ? row_of_dots<3> : n == 2 ? row_of_dots<2> : row_of_dots<1>;
    row(t.a, t.b + k, t.sums + k * kSums, pieces, accumulate);
    if (t.a2) row(t.a2, t.b + k, t.sums2 + k * kSums, pieces, accumulate);
    k += n;
  }
}

// --- results ---

FREIGHT_AVX512 void finish(const float* const* rows, int64_t n, Bf16* to, const int32_t* at) {
  alignas(64) float turned[kRows * kRows];
  transpose(turned, [=](int g, int q) FREIGHT_AVX512 { return reinterpret_cast<const char*>(rows[4 * g + q]); });
  for (int j = 0; j < kRows; ++j) {
    const auto bits = (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(turned + j * kRows));
    if (at[j] >= 0) _mm256_mask_storeu_epi16(to + at[j], first(n), bits);
  }
}

}  // namespace

const Bf16TileTable kAmxTiles{pack, tiles_amx, finish}, kDotsTiles{pack, tiles_dots, finish};

}  // namespace freight::cpu

#endif
