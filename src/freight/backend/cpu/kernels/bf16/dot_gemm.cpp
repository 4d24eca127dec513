// See bf16/dot_gemm.h.
#include "freight/backend/cpu/kernels/bf16/dot_gemm.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/bf16/asked.h"
#include "freight/backend/cpu/kernels/bf16/dots.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kSteps = Bf16Table::kSteps;
constexpr int64_t kBlock = Bf16Table::kBlock;
// Steps for which a panel of columns shares the first-level cache with a tile's rows: 16 KiB of 32, 32 of 48.
constexpr int64_t kDepth = 256, kDeep = 512, kLargeFirstLevel = 48 << 10;
constexpr int64_t kTurnedDepth = 2304;  // of a turned one, which waits for memory: rows are read in long stretches
constexpr int64_t kMostRows = 512;      // of a row block
constexpr int64_t kWide = 256;          // columns that are packed in parts of the sum
constexpr int64_t kWideFew = 512;       // the same for few rows, which wait for memory: long stretches of its rows
// A panel costs this many products of two panels more: to be read, to be packed by copying or by transposing.
constexpr double kRead = 0.02, kCopy = 0.1, kTranspose = 0.2;

int64_t panels(int64_t lines) { return GemmTasks::panels(lines); }

}  // namespace

DotGemm::DotGemm(const GemmProblem& problem) : p_(problem) {
  FREIGHT_CHECK(!p_.accumulate && !p_.subtract, "products on blocks of bf16 overwrite their result");
  turned_ = turn(p_);
  along_ = p_.a_col == 1 || p_.k == 1;
  tasks_ = GemmTasks(p_, along_ ? kRead : kCopy, p_.packed ? kRead : p_.b_col == 1 ? kCopy : kTranspose);
  const int64_t cache = cache_bytes();
  constexpr int64_t kBytes = sizeof(Bf16), kSumBytes = sizeof(float);
  const int64_t rows = tasks_.rows_of_part(p_), columns = tasks_.columns_of_part(p_);
  const bool few = along_ && p_.b_col == 1 && rows <= kTurnedRows && !turned_ && !p_.packed;
  const int64_t depth = !few && cpu_info().l1_bytes >= kLargeFirstLevel ? kDeep : kDepth;
  k_block_ = even_block(p_.k, turned_ ? kTurnedDepth : depth, kSteps);
  k_packed_ = p_.packed || (along_ && !few) ? round_up(p_.k, kSteps) : k_block_;
  if (k_packed_ >= p_.k) {
    column_block_ = even_block(columns, cache / 2 / kBytes / k_packed_ / kSide * kSide, kSide);
    rows_at_once_ = rows;
    row_block_ = even_block(rows, std::min(cache / 4 / kBytes / k_packed_ / kSide * kSide, kMostRows), kSide);
  } else {
    column_block_ = even_block(columns, few ? kWideFew : kWide, kSide);
    rows_at_once_ = even_block(rows, cache / 2 / kSumBytes / column_block_ / kSide * kSide, kSide);
    row_block_ = std::min(2 * kSide, rows_at_once_);
  }
  left_bytes_ = along_ ? 0 : static_cast<size_t>(row_block_ * k_packed_) * sizeof(Bf16);
  right_bytes_ = p_.packed ? 0 : static_cast<size_t>(column_block_ * k_packed_) * sizeof(Bf16);
  const int64_t sums = k_packed_ < p_.k ? rows_at_once_ * column_block_ : row_block_ * kSide;
  thread_bytes_ = left_bytes_ + right_bytes_ + static_cast<size_t>(sums) * sizeof(float);
  reserve_thread_scratch(thread_bytes_);
}

// Panels one behind the other, each of `steps` steps.
void DotGemm::pack(Bf16* to, const Bf16* from, ptrdiff_t step, ptrdiff_t line, int64_t lines, int64_t steps) const {
  const int64_t panel = round_up(steps, kSteps) * kSide;
  for (int64_t i = 0; i < lines; i += kSide, to += panel)
    bf16_table()->pack(to, {from + i * line, step, line, steps, std::min(kSide, lines - i)}, Bf16Table::Operand::right);
}

// The block of the result that begins there.
Bf16Result DotGemm::result(const Call& call, const Part& part, int64_t row, int64_t column) const {
  Bf16Result r{.row = p_.c_row,
               .rows = std::min(kSide, part.row1 - row),
               .columns = std::min(kSide, part.column1 - column),
               .turned = turned_,
               .relu = p_.relu,
               .stream = p_.stream,
               .most = static_cast<float>(p_.most)};
  if (turned_) std::swap(r.rows, r.columns);
  const int64_t offset = turned_ ? column * p_.c_row + row : row * p_.c_row + column;
  r.to = call.c + offset;
  r.bias = call.bias ? call.bias + (turned_ ? row : column) : nullptr;
  r.residual = call.residual ? call.residual + offset : nullptr;
  return r;
}

// A panel of columns stays in the first-level cache while the rows of a block pass by it.
void DotGemm::multiply(const Call& call, const Part& part) const {
  auto* const left = static_cast<Bf16*>(thread_scratch(thread_bytes_));
  auto* const packed_columns = left + left_bytes_ / sizeof(Bf16);
  auto* const sums = reinterpret_cast<float*>(packed_columns + right_bytes_ / sizeof(Bf16));
  const bool in_parts = k_packed_ < p_.k;
  const int64_t waiting = in_parts ? panels(rows_at_once_) : panels(row_block_);
  for (int64_t column = part.column0; column < part.column1; column += column_block_) {
    const int64_t columns = std::min(column_block_, part.column1 - column);
    for (int64_t k0 = 0; k0 < p_.k; k0 += k_packed_) {
      const int64_t packed = std::min(k_packed_, p_.k - k0), deep = round_up(packed, kSteps) * kSide;
      const Bf16* const right = p_.packed ? call.b + column / kSide * deep : packed_columns;
      if (!p_.packed)
        pack(packed_columns, call.b + column * p_.b_col + k0 * p_.b_row, p_.b_row, p_.b_col, columns, packed);
      Asked next_columns;
      if (const int64_t next_k = k0 + k_packed_; next_k < p_.k) {
        next_columns = Asked::block(call.b + column * p_.b_col + next_k * p_.b_row, p_.b_row, p_.b_col, columns,
                                    std::min(k_packed_, p_.k - next_k))
                           .in(DotRows::calls(part.row1 - part.row0, packed) * panels(columns));
      }
      for (int64_t row = part.row0; row < part.row1; row += row_block_) {
        const int64_t rows = std::min(row_block_, part.row1 - row);
        if (!along_) pack(left, call.a + row * p_.a_row + k0 * p_.a_col, p_.a_col, p_.a_row, rows, packed);
        const bool others = row + row_block_ < part.row1;
        const int64_t next_row = others ? row + row_block_ : part.row0, next_k = others ? k0 : k0 + k_packed_;
        Asked next_rows;
        if (next_k < p_.k) {
          next_rows = Asked::block(call.a + next_row * p_.a_row + next_k * p_.a_col, p_.a_col, p_.a_row,
                                   std::min(row_block_, part.row1 - next_row), std::min(k_packed_, p_.k - next_k))
                          .in(DotRows::calls(rows, packed) * panels(columns));
        }
        for (int64_t j = 0; j < panels(columns); ++j) {
          for (int64_t k = 0; k < packed; k += k_block_) {
            const int64_t steps = std::min(k_block_, packed - k), at = k0 + k;
            for (int64_t i = 0; i < panels(rows); ++i) {
              DotRows a{.packed = !along_,
                        .row = p_.a_row,
                        .rows = std::min(kSide, rows - i * kSide),
                        .steps = steps,
                        .next = {&next_rows, &next_columns}};
              a.from = along_ ? call.a + (row + i * kSide) * p_.a_row + at * p_.a_col : left + i * deep + k * kSide;
              const int64_t panel = in_parts ? j * waiting + (row - part.row0) / kSide + i : i;
              const Bf16Result r = result(call, part, row + i * kSide, column + j * kSide);
              multiply_dots(a, right + j * deep + k * kSide, sums + panel * kBlock, at > 0,
                            at + steps == p_.k ? &r : nullptr);
            }
          }
        }
      }
    }
  }
}

void DotGemm::run(const Bf16* a, const Bf16* b, Bf16* c, const Bf16* bias, const Bf16* residual, void*) const {
  if (turned_) std::swap(a, b);
  tasks_.run(p_, Call{a, b, c, bias, residual}, rows_at_once_,
             [&](const Call& call, const Part& part) { multiply(call, part); });
}

}  // namespace freight::cpu
