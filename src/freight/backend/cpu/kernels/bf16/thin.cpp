// See thin.h.
#include "freight/backend/cpu/kernels/bf16/thin.h"

#ifdef __x86_64__
#include <cstring>
#include <string_view>

#include "freight/backend/cpu/kernels/bf16/simd.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kSteps = Bf16Table::kSteps;
constexpr int64_t kPiece = Bf16Table::kPiece, kBlock = Bf16Table::kBlock, kTile = kPiece / 2;

// 32 lines and 32 steps of the matrix as the right operand: two rows of memory side by side.
FREIGHT_AVX512 inline void interleave(Bf16* to, const Bf16* from, ptrdiff_t row, int64_t rows, __mmask32 some) {
  const auto at = [&](int64_t i) FREIGHT_AVX512 {
    return i < rows ? _mm512_maskz_loadu_epi16(some, from + i * row) : _mm512_setzero_si512();
  };
  for (int64_t i = 0; i < kSteps; i += 2, to += kSide) {
    const __m512i even = at(i), odd = at(i + 1);
    _mm512_store_si512(to, _mm512_unpacklo_epi16(even, odd));
    _mm512_store_si512(to + kTile, _mm512_unpackhi_epi16(even, odd));
  }
}

}  // namespace

struct ThinGemm::Call {
  const Bf16 *rows, *b;  // the rows packed
  Bf16* c;
  const Bf16 *bias, *residual;

  Bf16Result result(const GemmProblem& p, int64_t column, int64_t columns) const {
    Bf16Result r{.to = c + column, .row = p.c_row, .rows = p.m, .columns = columns, .relu = p.relu};
    r.most = static_cast<float>(p.most);
    r.bias = bias ? bias + column : nullptr;
    r.residual = residual ? residual + column : nullptr;
    return r;
  }
};

bool ThinGemm::fits(const GemmProblem& p) {
  const Bf16Table* const table = bf16_table();
  const bool tiles = table && std::string_view(table->name) == "amx";
  const bool whole_tiles = p.b_row == 1 && p.b_col > 1 && p.k % kSteps == 0;
  return tiles && !p.accumulate && !p.subtract && p.batch == 1 && p.m <= kSide && p.n >= kSide &&
         (whole_tiles || p.b_col == 1) && p.n * p.k * static_cast<int64_t>(sizeof(Bf16)) > cache_bytes();
}

ThinGemm::ThinGemm(const GemmProblem& problem)
    : p_(problem),
      along_(p_.b_col != 1),
      pieces_(ceil_div(p_.k, kSteps)),
      panels_(ceil_div(p_.n, kSide)),
      rows_(ceil_div(p_.m, 8) * 4) {
  if (along_) return;
  const int64_t room = cache_bytes() / 2 / static_cast<int64_t>(sizeof(float)) / (2 * rows_ * kSide);
  sweep_ = std::clamp<int64_t>(room, 1, ceil_div(panels_, thread_count()));
  reserve_thread_scratch(static_cast<size_t>(sweep_ * kBlock) * sizeof(float));
}

size_t ThinGemm::scratch_bytes() const { return static_cast<size_t>(pieces_ * kPiece) * sizeof(Bf16); }

// As the left operand, or, of the transposed product, as the right one with rows of both tiles side by side, as short
// as they are.
void ThinGemm::pack_rows(const Bf16* a, Bf16* to) const {
  const Bf16Table& table = *bf16_table();
  parallel_for(pieces_, [&](int64_t i) {
    const int64_t step = i * kSteps;
    const Bf16Lines lines{a + step * p_.a_col, p_.a_col, p_.a_row, std::min(kSteps, p_.k - step), p_.m};
    if (!along_) return table.pack(to + i * kPiece, lines, Bf16Table::Operand::left);
    alignas(64) Bf16 piece[kPiece];
    table.pack(piece, lines, Bf16Table::Operand::right);
    Bf16* row = to + i * 4 * rows_ * kRows;
    for (int64_t k = 0; k < kRows; ++k) {
      for (int64_t tile = 0; tile < 2; ++tile, row += 2 * rows_)
        std::memcpy(row, piece + tile * kTile + k * kSide, static_cast<size_t>(2 * rows_) * sizeof(Bf16));
    }
  });
}

// The transposed product: tiles of the matrix are loaded from where they lie, those of the last panel reach back into
// the one before it.
FREIGHT_AMX void ThinGemm::along_steps(const Call& call, int64_t panel0, int64_t panel1) const {
  const Bf16Table& table = *bf16_table();
  TileShapes shapes;  // of the left operand 4 and 5, of the right one 6 and 7
  for (const int tile : {0, 1, 2, 3, 6, 7}) shapes.row_bytes[tile] = static_cast<uint16_t>(rows_ * sizeof(float));
  _tile_loadconfig(&shapes);
  alignas(64) float natural[kBlock] = {}, sums[kBlock] = {};
  const auto stride = static_cast<int64_t>(sizeof(Bf16)) * p_.b_col, short_row = 8 * rows_;
  for (int64_t panel = panel0; panel < panel1; ++panel) {
    const int64_t column = panel * kSide, columns = std::min(kSide, p_.n - column), skipped = kSide - columns;
    const Bf16 *from = call.b + (column - skipped) * p_.b_col, *below = from + kRows * p_.b_col, *rows = call.rows;
    load_sums(nullptr, false);
    for (int64_t i = 0; i < pieces_; ++i, from += kSteps, below += kSteps, rows += 4 * rows_ * kRows) {
      _tile_loadd(6, rows, short_row);
      _tile_loadd(4, from, stride);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, rows + 2 * rows_, short_row);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, below, stride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    store_sums(natural);
    for (int64_t i = 0; i < columns; ++i)
      std::memcpy(sums + place(i) * kSide, natural + (skipped + i) * kSide, kSumsRow);
    Bf16Result r = call.result(p_, column, columns);
    r.turned = true;
    table.finish(sums, r);
  }
  _tile_release();
}

// 32 rows of the matrix at a time; the sums of all columns wait in the cache. A piece of the next panel is interleaved
// while this one is multiplied.
FREIGHT_AMX void ThinGemm::across_steps(const Call& call, int64_t panel0, int64_t panel1) const {
  const Bf16Table& table = *bf16_table();
  TileShapes shapes;  // of the left operand 4 and 5, of the right one 6 and 7
  for (const int tile : {0, 1, 2, 3, 4, 5}) shapes.rows[tile] = static_cast<uint8_t>(rows_);
  _tile_loadconfig(&shapes);
  alignas(64) Bf16 buffers[2][kPiece];
  auto* sums = static_cast<float*>(thread_scratch(static_cast<size_t>(sweep_ * kBlock) * sizeof(float)));
  for (int64_t first = panel0; first < panel1; first += sweep_) {
    const int64_t last = std::min(first + sweep_, panel1);
    for (int64_t i = 0; i < pieces_; ++i) {
      const Bf16* const rows = call.rows + i * kPiece;
      const auto next = [&](int64_t panel) FREIGHT_AVX512 {
        const int64_t column = panel * kSide;
        interleave(buffers[panel % 2], call.b + i * kSteps * p_.b_row + column, p_.b_row, p_.k - i * kSteps,
                   first32(p_.n - column));
      };
      next(first);
      float* s = sums;
      for (int64_t panel = first; panel < last; ++panel, s += kBlock) {
        load_sums(s, i > 0);
        multiply_piece(rows, buffers[panel % 2]);
        if (panel + 1 < last) next(panel + 1);
        store_sums(s);
      }
    }
    for (int64_t panel = first; panel < last; ++panel) {
      const int64_t column = panel * kSide;
      table.finish(sums + (panel - first) * kBlock, call.result(p_, column, std::min(kSide, p_.n - column)));
    }
  }
  _tile_release();
}

void ThinGemm::run(const Bf16* a, const Bf16* b, Bf16* c, const Bf16* bias, const Bf16* residual, void* scratch) const {
  auto* rows = static_cast<Bf16*>(scratch);
  pack_rows(a, rows);
  const Call call{rows, b, c, bias, residual};
  const int64_t tasks = std::min<int64_t>(thread_count(), panels_);
  parallel_for(tasks, [&](int64_t task) {
    const int64_t panel0 = panels_ * task / tasks, panel1 = panels_ * (task + 1) / tasks;
    if (along_) {
      along_steps(call, panel0, panel1);
    } else {
      across_steps(call, panel0, panel1);
    }
  });
}

}  // namespace freight::cpu

#else

namespace freight::cpu {

bool ThinGemm::fits(const GemmProblem&) { return false; }
ThinGemm::ThinGemm(const GemmProblem& problem) : p_(problem) {}
void ThinGemm::run(const Bf16*, const Bf16*, Bf16*, const Bf16*, const Bf16*, void*) const {}
size_t ThinGemm::scratch_bytes() const { return 0; }

}  // namespace freight::cpu

#endif
