// See bf16/dots.h.
#include "freight/backend/cpu/kernels/bf16/dots.h"

#include <string_view>

#ifdef __x86_64__
#include <limits>

#include "freight/backend/cpu/kernels/bf16/simd.h"
#endif

namespace freight::cpu {

#ifdef __x86_64__

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kPiece = Bf16Table::kPiece, kTile = kPiece / 2, kSteps = Bf16Table::kSteps;
constexpr int kTileRows = 8;

// A tile of 8 rows. Row r is line `line` + r, behind the fourth one + `gap` more, and so are the places of its sums.
struct TileRows {
  int64_t line, line_gap, place, place_gap;
  int64_t line_of(int r) const { return line + r / 4 * line_gap + r % 4; }
  int64_t place_of(int r) const { return place + r / 4 * place_gap + r % 4; }
};
constexpr TileRows along_tile(int64_t i) { return {8 * i, 4, 4 * i, kRows}; }
// Half of a packed tile.
constexpr TileRows packed_tile(int64_t i) { return {i / 2 * 4 + i % 2 * 16, 8, kTileRows * i, 4}; }

using Sums = __m512[kTileRows][2];

template <class Row>
FREIGHT_AVX512 inline void add_pair(Sums& acc, const Bf16* columns, const Row& row) {
  const auto c0 = (__m512bh)_mm512_load_si512(columns), c1 = (__m512bh)_mm512_load_si512(columns + kTile);
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
    const auto x = (__m512bh)_mm512_set1_epi32(row(r));
    acc[r][0] = _mm512_dpbf16_ps(acc[r][0], x, c0);
    acc[r][1] = _mm512_dpbf16_ps(acc[r][1], x, c1);
  }
}

inline void ask(const DotRows& a) {
  for (Asked* const next : a.next) {
    if (next) next->ask();
  }
}

inline int pair_at(const Bf16* from) { return *reinterpret_cast<const int*>(from); }

// Rows where they lie. Missing ones are the last one again. The next tile's rows are asked for.
FREIGHT_AVX512 inline void add_along(Sums& acc, const DotRows& a, const TileRows& tile, const Bf16* b) {
  const Bf16* row[kTileRows];
  for (int r = 0; r < kTileRows; ++r) row[r] = a.from + std::min(tile.line_of(r), a.rows - 1) * a.row;
  const ptrdiff_t next = kTileRows * a.row;
  int64_t step = 0;
  for (; step + kSteps <= a.steps; step += kSteps, b += kPiece) {
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) _mm_prefetch(row[r] + step + next, _MM_HINT_T0);
    ask(a);
    for (int pair = 0; pair < kRows; ++pair)
      add_pair(acc, b + pair * kSide, [&](int r) FREIGHT_AVX512 { return pair_at(row[r] + step + 2 * pair); });
  }
  for (; step + 2 <= a.steps; step += 2, b += kSide)
    add_pair(acc, b, [&](int r) FREIGHT_AVX512 { return pair_at(row[r] + step); });
  if (step < a.steps) add_pair(acc, b, [&](int r) FREIGHT_AVX512 { return int{row[r][step]}; });
}

FREIGHT_AVX512 inline void add_packed(Sums& acc, const DotRows& a, int64_t i, const Bf16* b) {
  const Bf16* rows = a.from + i / 2 * kTile + i % 2 * 2 * kTileRows;
  for (int64_t step = 0; step < a.steps; step += kSteps, rows += kPiece, b += kPiece) {
    ask(a);
    for (int pair = 0; pair < kRows; ++pair)
      add_pair(acc, b + pair * kSide, [&](int r) FREIGHT_AVX512 { return pair_at(rows + pair * kSide + 2 * r); });
  }
}

// With `lines` the sums end there.
template <class Add>
[[gnu::always_inline]] FREIGHT_AVX512 inline void multiply_tile(const TileRows& tile, float* sums, bool accumulate,
                                                                const LineFinish* lines, const Add& add) {
  Sums acc;
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
    const float* const from = sums + tile.place_of(r) * kSide;
    acc[r][0] = accumulate ? _mm512_load_ps(from) : _mm512_setzero_ps();
    acc[r][1] = accumulate ? _mm512_load_ps(from + kRows) : _mm512_setzero_ps();
  }
  add(acc);
  if (lines) {
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      if (tile.line_of(r) < lines->rows()) lines->store(tile.line_of(r), acc[r][0], acc[r][1]);
    }
    return;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
    float* const to = sums + tile.place_of(r) * kSide;
    _mm512_store_ps(to, acc[r][0]);
    _mm512_store_ps(to + kRows, acc[r][1]);
  }
}

}  // namespace

FREIGHT_AVX512 void multiply_dots(const DotRows& a, const Bf16* b, float* sums, bool accumulate,
                                  const Bf16Result* result) {
  const bool whole = result && has_whole_lines(*result);
  const Bf16Result ends = whole ? *result : Bf16Result{};
  const LineFinish finish(ends);
  const LineFinish* const lines = whole ? &finish : nullptr;
  for (int64_t i = 0; i < kSide / kTileRows; ++i) {
    const TileRows tile = a.packed ? packed_tile(i) : along_tile(i);
    if (tile.line >= a.rows) continue;
    if (ends.residual) {  // asked for before the sums, behind which it is read
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r)
        _mm_prefetch(ends.residual + std::min(tile.line_of(r), ends.rows - 1) * ends.row, _MM_HINT_T0);
    }
    if (a.packed) {
      multiply_tile(tile, sums, accumulate, lines, [&](Sums& acc) FREIGHT_AVX512 { add_packed(acc, a, i, b); });
    } else {
      multiply_tile(tile, sums, accumulate, lines, [&](Sums& acc) FREIGHT_AVX512 { add_along(acc, a, tile, b); });
    }
  }
  if (result && !whole) bf16_table()->finish(sums, *result);
}

#else

void multiply_dots(const DotRows&, const Bf16*, float*, bool, const Bf16Result*) {}

#endif

bool uses_dots() {
  const Bf16Table* const table = bf16_table();
  return table && std::string_view(table->name) == "avx512_bf16";
}

}  // namespace freight::cpu
