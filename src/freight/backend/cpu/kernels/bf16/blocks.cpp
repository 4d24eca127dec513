// See bf16/blocks.h. Intel's Software Developer's Manual, volume 1 chapter 18: tiles, and the system's leave to use
// them.
#include "freight/backend/cpu/kernels/bf16/blocks.h"

#include "freight/backend/cpu/kernels/bf16/convert.h"
#include "freight/backend/cpu/kernels/bf16/tiles.h"
#include "freight/backend/cpu/kernels/simd_tables.h"

#include <algorithm>
#include <limits>

#ifdef __x86_64__
#include <sys/syscall.h>
#include <unistd.h>

#include "freight/backend/cpu/kernels/bf16/simd.h"
#endif

#include "freight/base/cpu_info.h"

namespace freight::cpu {

#ifdef __x86_64__

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kPiece = Bf16Table::kPiece, kTile = kPiece / 2;

// --- packing ---

// Pieces whose lines lie along the steps, as the left operand wants them. The next panel's lines are asked for.
FREIGHT_AVX512 inline void copy_lines(Bf16* to, const Bf16Lines& l, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < kSide; ++i) {
    Bf16* out = to + place(i) * kSide;
    const Bf16* from = l.from + i * l.line_stride;
    for (int64_t step = begin; step < end; step += Bf16Table::kSteps, out += kPiece) {
      if (i >= l.lines) {
        _mm512_store_si512(out, _mm512_setzero_si512());
        continue;
      }
      _mm_prefetch(from + step + kSide * l.line_stride, _MM_HINT_T1);
      _mm512_store_si512(out, _mm512_maskz_loadu_epi16(first32(l.steps - step), from + step));
    }
  }
}

// A piece whose steps lie along the lines, as the right operand wants it: `at` gives the lines of a step.
template <class At>
FREIGHT_AVX512 inline void interleave(Bf16* to, int64_t step, int64_t steps, At at) {
  const auto put = [&](__m512i even, __m512i odd) FREIGHT_AVX512 {
    _mm512_store_si512(to, _mm512_unpacklo_epi16(even, odd));
    _mm512_store_si512(to + kTile, _mm512_unpackhi_epi16(even, odd));
    to += kSide;
  };
  const __m512i none = _mm512_setzero_si512();
  if (step + Bf16Table::kSteps <= steps) {
    for (int i = 0; i < kRows; ++i, step += 2) put(at(step), at(step + 1));
  } else {
    for (int i = 0; i < kRows; ++i, step += 2)
      put(step < steps ? at(step) : none, step + 1 < steps ? at(step + 1) : none);
  }
}

// It asks for what the next piece reads.
FREIGHT_AVX512 inline void interleave(Bf16* to, const Bf16Lines& l, int64_t step) {
  const Bf16* const from = l.from;
  const __mmask32 some = first32(l.lines);
  if (const int32_t* const places = l.steps_at) {
    const int64_t last = l.steps - 1;
    interleave(to, step, l.steps, [=](int64_t s) FREIGHT_AVX512 {
      _mm_prefetch(from + places[std::min(s + Bf16Table::kSteps, last)], _MM_HINT_T0);
      return _mm512_maskz_loadu_epi16(some, from + places[s]);
    });
    return;
  }
  const ptrdiff_t stride = l.step_stride, ahead = Bf16Table::kSteps * stride;
  interleave(to, step, l.steps, [=](int64_t s) FREIGHT_AVX512 {
    _mm_prefetch(from + s * stride + ahead, _MM_HINT_T0);
    return _mm512_maskz_loadu_epi16(some, from + s * stride);
  });
}

FREIGHT_AVX512 void pack(Bf16* to, const Bf16Lines& l, Bf16Table::Operand side) {
  const bool left = side == Bf16Table::Operand::left,
             along_steps = !l.steps_at && l.step_stride == 1 && l.line_stride != 1;
  if (along_steps && left) return copy_lines(to, l, 0, l.steps);
  alignas(64) Bf16 piece[kPiece];
  for (int64_t step = 0; step < l.steps; step += Bf16Table::kSteps, to += kPiece) {
    if (along_steps != left) {
      const Bf16* from = piece;
      ptrdiff_t tile = kTile, group = 4 * kSide, row = kSide;
      if (!along_steps) {
        interleave(piece, l, step);
      } else if (l.lines == kSide && step + Bf16Table::kSteps <= l.steps) {
        from = l.from + step;
        row = l.line_stride;
        tile = 4 * row;
        group = 8 * row;
      } else {
        copy_lines(piece, l, step, step + 1);
      }
      constexpr ptrdiff_t kBytes = sizeof(Bf16);
      transpose(to, from, group * kBytes, row * kBytes);
      transpose(to + kTile, from + tile, group * kBytes, row * kBytes);
    } else {
      interleave(to, l, step);
    }
  }
}

// --- results ---

FREIGHT_AVX512 inline __m512 some_of(const Bf16* from, __mmask16 some) {
  return widened(_mm256_maskz_loadu_epi16(some, from));
}
FREIGHT_AVX512 inline __m512 some_of(const float* from, __mmask16 some) { return _mm512_maskz_loadu_ps(some, from); }
FREIGHT_AVX512 inline void store_some_of(Bf16* to, __mmask16 some, __m512 v) {
  _mm256_mask_storeu_epi16(to, some, (__m256i)_mm512_cvtneps_pbh(v));
}
FREIGHT_AVX512 inline void store_some_of(float* to, __mmask16 some, __m512 v) { _mm512_mask_storeu_ps(to, some, v); }

// 16 numbers of a row of the result, from column j on.
template <class T>
FREIGHT_AVX512 inline void put(__m512 v, const BlockResult<T>& r, int64_t i, int64_t j, __mmask16 some) {
  if (r.bias) v = _mm512_add_ps(v, some_of(r.bias + j, some));
  if (r.residual) v = _mm512_add_ps(v, some_of(r.residual + i * r.row + j, some));
  if (r.relu) v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LE_OQ), _mm512_setzero_ps());
  v = _mm512_min_ps(_mm512_set1_ps(r.most), v);  // of a NaN and a number the second operand: a NaN stays
  store_some_of(r.to + i * r.row + j, some, v);
}

// Gives the first or the second 16 numbers of a row that lies in the panels' order (a, b).
FREIGHT_AVX512 inline __m512 natural(__m512 a, __m512 b, int half) {
  const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  return _mm512_permutex2var_ps(a, half == 0 ? low : _mm512_add_epi32(low, _mm512_set1_epi32(8)), b);
}

FREIGHT_AVX512 inline void finish_lines(const float* sums, const Bf16Result& r, int64_t begin, int64_t end) {
  const LineFinish lines(r);
  for (int64_t i = begin; i < end; ++i) {
    const float* row = sums + place(i) * kSide;
    lines.store(i, _mm512_load_ps(row), _mm512_load_ps(row + kRows));
  }
}

template <class T>
FREIGHT_AVX512 void finish(const float* sums, const BlockResult<T>& r) {
  if constexpr (sizeof(T) == sizeof(Bf16)) {
    if (has_whole_lines(r)) return finish_lines(sums, r, 0, r.rows);
  }
  alignas(64) float turned[kSide * kSide];
  if (r.turned) {
    for (int i = 0; i < 4; ++i) {
      const int row = i / 2 * kRows, column = i % 2 * kRows;
      constexpr ptrdiff_t kRow = kSide * sizeof(float);
      alignas(64) float tile[kRows * kRows];
      transpose(tile, sums + row * kSide + column, 4 * kRow, kRow);
      for (int k = 0; k < kRows; ++k)
        _mm512_store_ps(turned + (column + k) * kSide + row, _mm512_load_ps(tile + k * kRows));
    }
    sums = turned;
  }
  for (int64_t i = 0; i < r.rows; ++i) {
    const float* row = sums + place(i) * kSide;
    const __m512 a = _mm512_load_ps(row), b = _mm512_load_ps(row + kRows);
    put(natural(a, b, 0), r, i, 0, first(r.columns));
    if (r.columns > kRows) put(natural(a, b, 1), r, i, kRows, first(r.columns - kRows));
  }
}

// --- blocks ---

FREIGHT_AMX void begin_amx() {
  static const TileShapes kShapes;
  _tile_loadconfig(&kShapes);
}
FREIGHT_AMX void end_amx() { _tile_release(); }

// `beside(i)` is called behind piece i: the tiles' products take their time anyway.
template <class Beside>
FREIGHT_AMX inline void block_amx(const Bf16* a, const Bf16* b, int64_t pieces, float* sums, bool accumulate,
                                  Beside beside) {
  load_sums(sums, accumulate);
  for (int64_t i = 0; i < pieces; ++i, a += kPiece, b += kPiece) {
    multiply_piece(a, b);
    beside(i);
  }
  store_sums(sums);
}

FREIGHT_AMX void block_alone(const Bf16* a, const Bf16* b, int64_t pieces, float* sums, bool accumulate) {
  block_amx(a, b, pieces, sums, accumulate, [](int64_t) {});
}

FREIGHT_AMX void block_meanwhile(const Bf16* a, const Bf16* b, int64_t pieces, float* sums, bool accumulate,
                                 const float* finished, const Bf16Result& r) {
  if (!has_whole_lines(r)) {
    finish(finished, r);
    return block_alone(a, b, pieces, sums, accumulate);
  }
  const int64_t rows = r.rows;
  block_amx(a, b, pieces, sums, accumulate,
            [&](int64_t i) FREIGHT_AMX { finish_lines(finished, r, rows * i / pieces, rows * (i + 1) / pieces); });
}

// The parts' products in an order in which each needs one operand of the last one again. Small ones first would gain
// nothing: all go to the same sums.
FREIGHT_AMX void block_split_amx(const Bf16* a, int64_t a_part, const Bf16* b, int64_t b_part, int64_t pieces,
                                 float* sums, bool accumulate) {
  load_sums(sums, accumulate);
  for (int64_t i = 0; i < pieces; ++i, a += kPiece, b += kPiece) {
    const auto left = [&](int64_t part) FREIGHT_AMX {
      _tile_loadd(4, a + part * a_part, 64);
      _tile_loadd(5, a + part * a_part + kTile, 64);
    };
    const auto right = [&](int64_t part) FREIGHT_AMX {
      _tile_loadd(6, b + part * b_part, 64);
      _tile_loadd(7, b + part * b_part + kTile, 64);
    };
    const auto multiply = []() FREIGHT_AMX {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    };
    left(0);
    right(2);
    multiply();
    right(1);
    multiply();
    left(1);
    multiply();
    right(0);
    multiply();
    left(2);
    multiply();
    left(0);
    multiply();
  }
  store_sums(sums);
}

void nothing() {}

FREIGHT_AVX512 void block_dots(const Bf16* a, const Bf16* b, int64_t pieces, float* sums, bool accumulate) {
  constexpr int kAtOnce = 8;
  for (int64_t begin = 0; begin < kSide; begin += kAtOnce, sums += kAtOnce * kSide) {
    __m512 acc[kAtOnce][2];
#pragma GCC unroll 8
    for (int r = 0; r < kAtOnce; ++r) {
      acc[r][0] = accumulate ? _mm512_loadu_ps(sums + r * kSide) : _mm512_setzero_ps();
      acc[r][1] = accumulate ? _mm512_loadu_ps(sums + r * kSide + kRows) : _mm512_setzero_ps();
    }
    const Bf16 *rows = a + begin * kSide, *columns = b;
    for (int64_t i = 0; i < pieces; ++i, rows += kPiece, columns += kPiece) {
      for (int pair = 0; pair < kRows; ++pair) {
        const auto c0 = (__m512bh)_mm512_load_si512(columns + pair * kSide);
        const auto c1 = (__m512bh)_mm512_load_si512(columns + kTile + pair * kSide);
#pragma GCC unroll 8
        for (int r = 0; r < kAtOnce; ++r) {
          const auto x = (__m512bh)_mm512_set1_epi32(*reinterpret_cast<const int*>(rows + r * kSide + 2 * pair));
          acc[r][0] = _mm512_dpbf16_ps(acc[r][0], x, c0);
          acc[r][1] = _mm512_dpbf16_ps(acc[r][1], x, c1);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kAtOnce; ++r) {
      _mm512_storeu_ps(sums + r * kSide, acc[r][0]);
      _mm512_storeu_ps(sums + r * kSide + kRows, acc[r][1]);
    }
  }
}

void block_dots_meanwhile(const Bf16* a, const Bf16* b, int64_t pieces, float* sums, bool accumulate,
                          const float* finished, const Bf16Result& r) {
  finish(finished, r);
  block_dots(a, b, pieces, sums, accumulate);
}

// --- conversion ---

// The first or the second 16 of 32 numbers.
FREIGHT_AVX512 inline __m512 widened_half(__m512i bits, int half) {
  const __m512i low = _mm512_setr_epi32(0, 1 << 16, 2 << 16, 3 << 16, 4 << 16, 5 << 16, 6 << 16, 7 << 16, 8 << 16,
                                        9 << 16, 10 << 16, 11 << 16, 12 << 16, 13 << 16, 14 << 16, 15 << 16);
  const __m512i at = half == 0 ? low : _mm512_add_epi32(low, _mm512_set1_epi32(kRows << 16));
  return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, at, bits));
}

FREIGHT_AVX512 void split(Bf16* to, int64_t to_row, const float* from, ptrdiff_t row, int64_t rows, int64_t n,
                          SplitRange& range) {
  const int64_t part = rows * to_row;
  const __m512i one = _mm512_set1_epi32(1);
  __m512i least = _mm512_set1_epi32(-1), most = _mm512_setzero_si512();
  for (int64_t i = 0; i < rows; ++i, to += to_row, from += row) {
    for (int64_t j = 0; j < n; j += kSide) {
      __m512 v0 = _mm512_maskz_loadu_ps(first(n - j), from + j);
      __m512 v1 = _mm512_maskz_loadu_ps(first(n - j - kRows), from + j + kRows);
      const __mmask32 some = first32(n - j);
      const __m512i size0 = _mm512_slli_epi32(_mm512_castps_si512(v0), 1),
                    size1 = _mm512_slli_epi32(_mm512_castps_si512(v1), 1);
      most = _mm512_max_epu32(most, _mm512_max_epu32(size0, size1));
      // Less 1, a zero is the largest of all.
      least = _mm512_min_epu32(least, _mm512_min_epu32(_mm512_sub_epi32(size0, one), _mm512_sub_epi32(size1, one)));
      const auto put = [&](int64_t p) FREIGHT_AVX512 {
        const auto bits = (__m512i)_mm512_cvtne2ps_pbh(v1, v0);
        _mm512_mask_storeu_epi16(to + p * part + j, some, bits);
        return bits;
      };
      for (int64_t p = 0; p < Bf16Table::kParts - 1; ++p) {
        const __m512i bits = put(p);
        v0 = _mm512_sub_ps(v0, widened_half(bits, 0));
        v1 = _mm512_sub_ps(v1, widened_half(bits, 1));
      }
      put(Bf16Table::kParts - 1);
    }
  }
  range.most = std::max(range.most, _mm512_reduce_max_epu32(most));
  const uint32_t smallest = _mm512_reduce_min_epu32(least);
  if (smallest != ~uint32_t{0}) range.least = std::min(range.least, smallest + 1);
}

FREIGHT_AVX512 void load(void* dst, const void* a, const void*, const void*, size_t n) {
  auto* to = static_cast<float*>(dst);
  const auto* from = static_cast<const Bf16*>(a);
  size_t i = 0;
  for (; i + kSide <= n; i += kSide) {
    const __m512 v0 = widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
    const __m512 v1 = widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + kRows)));
    _mm512_storeu_ps(to + i, v0);
    _mm512_storeu_ps(to + i + kRows, v1);
  }
  for (; i < n; i += kRows) {
    const __mmask16 some = first(static_cast<int64_t>(n - i));
    _mm512_mask_storeu_ps(to + i, some, widened(_mm256_maskz_loadu_epi16(some, from + i)));
  }
}

FREIGHT_AVX512 inline void store_some(Bf16* to, const float* from, size_t n) {
  for (size_t i = 0; i < n; i += kRows) {
    const __mmask16 some = first(static_cast<int64_t>(n - i));
    const auto bits = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, from + i));
    _mm256_mask_storeu_epi16(to + i, some, bits);
  }
}

FREIGHT_AVX512 void store(void* dst, const void* a, const void*, const void*, size_t n) {
  auto* to = static_cast<Bf16*>(dst);
  const auto* from = static_cast<const float*>(a);
  size_t i = 0;
  for (; i + kSide <= n; i += kSide) {
    const auto bits = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + kRows), _mm512_loadu_ps(from + i));
    _mm512_storeu_si512(to + i, bits);
  }
  store_some(to + i, from + i, n - i);
}

bool has(const char* instructions) {
  const auto all = cpu_info().instructions;
  return std::find(all.begin(), all.end(), instructions) != all.end();
}

// The system gives the tiles' registers to a process that asks for them.
bool tiles_allowed() {
  constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
}

}  // namespace

const Bf16Table* const* bf16_tables(int& count) {
  static const Bf16Table kAmx{"amx",        begin_amx,  end_amx,         block_alone, block_meanwhile, pack,
                              finish<Bf16>, &kAmxTiles, block_split_amx, split,       finish<float>};
  static const Bf16Table kDots{"avx512_bf16",        nothing, nothing,      block_dots,
                               block_dots_meanwhile, pack,    finish<Bf16>, &kDotsTiles};
  static const Bf16Table* tables[2];
  static const int found = [] {
    int n = 0;
    if (!has("avx512_bf16")) return n;  // which no processor has without AVX-512's other sets
    if (has("amx_bf16") && tiles_allowed()) tables[n++] = &kAmx;
    tables[n++] = &kDots;
    return n;
  }();
  count = found;
  return tables;
}

Bf16Conversion native_conversion() { return {load, store}; }

#else

const Bf16Table* const* bf16_tables(int& count) {
  count = 0;
  return nullptr;
}
Bf16Conversion native_conversion() { return {}; }

#endif

int64_t cache_bytes() {
  static const int64_t bytes = std::max<int64_t>(cpu_info().l2_bytes, 512 << 10);
  return bytes;
}

const Bf16Table* bf16_table() {
  if (!ForcedSimdTarget::allows_avx512()) return nullptr;
  int count = 0;
  const Bf16Table* const* tables = bf16_tables(count);
  return count > 0 ? tables[0] : nullptr;
}

namespace {
const Bf16Table* forced_split_table = nullptr;
}  // namespace

ForcedSplitTable::ForcedSplitTable(const Bf16Table& table) { forced_split_table = &table; }
ForcedSplitTable::~ForcedSplitTable() { forced_split_table = nullptr; }

const Bf16Table* split_table() {
  if (forced_split_table) return forced_split_table;
  const Bf16Table* const table = bf16_table();
  return table && table->block_split ? table : nullptr;
}

}  // namespace freight::cpu
