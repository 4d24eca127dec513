// See bf16/gemm.h.
#include "freight/backend/cpu/kernels/bf16/gemm.h"

#include <algorithm>
#include <type_traits>

#include "freight/backend/cpu/kernels/bf16/asked.h"
#include "freight/backend/cpu/kernels/bf16/dots.h"
#include "freight/backend/cpu/kernels/bf16/split.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kSteps = Bf16Table::kSteps;
constexpr int64_t kPiece = Bf16Table::kPiece, kBlock = Bf16Table::kBlock;
// Steps of a block, in all parts. In one block two panels of 24 KiB share the first-level cache; of longer sums the
// sums pass through it as well.
constexpr int64_t kWhole = 384, kDepth = 288;
constexpr int64_t kTurnedDepth = 2304;  // of a turned one, which waits for memory: rows are read in long stretches

int64_t panels(int64_t lines) { return GemmTasks::panels(lines); }
int64_t pieces(int64_t steps) { return ceil_div(steps, kSteps); }

template <class T>
constexpr bool kSplits = std::is_same_v<T, float>;
template <class T>
constexpr int64_t kPartsOf = kSplits<T> ? Bf16Table::kParts : 1;

}  // namespace

template <class T>
BlockGemm<T>::BlockGemm(const GemmProblem& problem, const Bf16Table& table) : p_(problem), table_(&table) {
  FREIGHT_CHECK(!p_.accumulate && !p_.subtract, "products on blocks of bf16 overwrite their result");
  FREIGHT_CHECK(!p_.packed || !kSplits<T>, "packed columns of f32");
  const int64_t cache = cache_bytes();
  constexpr int64_t kParts = kPartsOf<T>;
  turned_ = turn(p_);
  // Packing a panel costs so many blocks of products, at most.
  constexpr double kSplit = kParts > 1 ? 8 : 0, kProducts = kParts > 1 ? 6 : 1;
  const double left = ((p_.a_col == 1 ? 2 : 12) + kSplit) / kProducts,
               right = p_.packed ? 0 : ((p_.b_col == 1 ? 5 : 12) + kSplit) / kProducts;
  tasks_ = GemmTasks(p_, left, right);
  const int64_t rows = tasks_.rows_of_part(p_), columns = tasks_.columns_of_part(p_);
  const int64_t room = cache / 2 / kParts / static_cast<int64_t>(sizeof(Bf16));  // for columns
  const int64_t depth = turned_ ? kTurnedDepth : p_.k * kParts <= kWhole ? kWhole : kDepth;
  k_block_ = even_block(p_.k, depth / kParts, kSteps);
  k_packed_ = round_up(p_.k, kSteps);
  column_block_ = even_block(columns, room / k_packed_ / kSide * kSide, kSide);
  rows_at_once_ = rows;
  // Rows are packed again for each block of columns. Or all columns are packed in parts of the sum, again for all rows
  // whose sums, which wait meanwhile, stay in the cache.
  const int64_t wide = even_block(columns, 32 * kSide, kSide);
  const int64_t tall = even_block(rows, cache * 3 / 4 / static_cast<int64_t>(sizeof(float)) / wide, kSide);
  const auto packed = [&](int64_t row_passes, int64_t column_passes) {
    return left * static_cast<double>(rows * row_passes) + right * static_cast<double>(columns * column_passes);
  };
  if (!p_.packed &&
      packed(ceil_div(columns, wide), ceil_div(rows, tall)) < packed(ceil_div(columns, column_block_), 1)) {
    column_block_ = wide;
    rows_at_once_ = tall;
    k_packed_ = k_block_;
  }
  sums_aside_ = k_packed_ < p_.k;
  // Rows whose sums go through memory are few at a time: their blocks and the columns share the cache.
  row_block_ = even_block(rows_at_once_, (k_block_ < p_.k ? 2 : 8) * kSide, kSide);
  left_bytes_ = static_cast<size_t>(kParts * row_block_ * k_block_) * sizeof(Bf16);
  right_bytes_ = p_.packed ? 0 : static_cast<size_t>(kParts * column_block_ * k_packed_) * sizeof(Bf16);
  if (kSplits<T>) {
    const auto ranges = static_cast<size_t>(panels(rows_at_once_) + panels(column_block_)) * sizeof(SplitRange);
    split_bytes_ = kSplitScratch * sizeof(float) + (ranges + 63) / 64 * 64;
  }
  const int64_t sums = (sums_aside_ ? rows_at_once_ : k_block_ < p_.k ? row_block_ : kSide) * column_block_;
  thread_bytes_ = left_bytes_ + right_bytes_ + static_cast<size_t>(sums) * sizeof(float);
  if (kSplits<T>) thread_bytes_ += split_bytes_ + static_cast<size_t>(kParts * kSide * k_block_) * sizeof(Bf16);
  reserve_thread_scratch(thread_bytes_);
}

// As memory goes: lines that lie along the steps one panel after the other, else all panels piece by piece.
template <class T>
void BlockGemm<T>::pack(Bf16* to, int64_t part, const T* from, ptrdiff_t step, ptrdiff_t line, int64_t lines,
                        int64_t steps, Bf16Table::Operand side, SplitRange* ranges) const {
  const Bf16Table& table = *table_;
  const int64_t at_once = line == 1 ? kSteps : std::min(steps, k_block_);
  for (int64_t k = 0; k < steps; k += at_once) {
    for (int64_t i = 0; i < lines; i += kSide) {
      Bf16* const panel = to + (i / kSide * pieces(steps) + k / kSteps) * kPiece;
      const T* const source = from + i * line + k * step;
      const int64_t count = std::min(at_once, steps - k), height = std::min(kSide, lines - i);
      if constexpr (!kSplits<T>) {
        table.pack(panel, {source, step, line, count, height}, side);
      } else {
        auto* parts = reinterpret_cast<Bf16*>(static_cast<char*>(thread_scratch(thread_bytes_)) + thread_bytes_) -
                      kPartsOf<T> * kSide * k_block_;
        const int64_t row = line == 1 ? kSide : k_block_, rows = line == 1 ? count : height;
        table.split(parts, row, source, line == 1 ? step : line, rows, line == 1 ? height : count, ranges[i / kSide]);
        for (int64_t p = 0; p < kPartsOf<T>; ++p, parts += rows * row)
          table.pack(panel + p * part, {parts, line == 1 ? row : 1, line == 1 ? 1 : row, count, height}, side);
      }
    }
  }
}

// Sums that the parts give less exactly than f32 are computed again.
template <class T>
void BlockGemm<T>::check_sums(float* sums, const Call& call, int64_t row, int64_t column, const SplitRange& left,
                              const SplitRange& right, float* scratch) const {
  if constexpr (kSplits<T>) {
    constexpr int64_t kOrdinarySteps = 1 << 19;
    if (is_ordinary(left) && is_ordinary(right) && p_.k <= kOrdinarySteps) return;
    const SplitLimits limits(left, right, p_.k);
    if (!limits.overflows && limits.exact_from == 0) return;
    const SplitBlock block{p_, call.a + row * p_.a_row, call.b + column * p_.b_col, std::min(kSide, p_.m - row),
                           std::min(kSide, p_.n - column)};
    if (!sums_are_exact(sums, block, limits)) multiply_in_f32(sums, block, scratch);
  }
}

template <class T>
void BlockGemm<T>::multiply(const Call& call, int64_t row0, int64_t row1, int64_t column0, int64_t column1) const {
  const Bf16Table& table = *table_;
  auto* left = static_cast<Bf16*>(thread_scratch(thread_bytes_));
  auto* const packed = left + left_bytes_ / sizeof(Bf16);
  auto* const in_f32 = reinterpret_cast<float*>(packed + right_bytes_ / sizeof(Bf16));
  float* const sums = in_f32 + split_bytes_ / sizeof(float);
  auto *const left_ranges = reinterpret_cast<SplitRange*>(in_f32 + kSplitScratch), *const right_ranges =
                                                                                       left_ranges +
                                                                                       panels(rows_at_once_);
  if (kSplits<T>) std::fill(left_ranges, right_ranges, SplitRange{});
  BlockResult<T> r{.row = p_.c_row, .turned = turned_, .relu = p_.relu, .stream = p_.stream};
  r.most = static_cast<float>(p_.most);
  // Block (panel, row panel) of the sums that wait.
  const int64_t waiting = sums_aside_ ? panels(row1 - row0) : panels(row_block_);
  const float* done = nullptr;  // sums that only wait to be finished, as r says
  table.begin();
  for (int64_t column = column0; column < column1; column += column_block_) {
    const int64_t columns = std::min(column_block_, column1 - column);
    if (kSplits<T>) std::fill_n(right_ranges, panels(columns), SplitRange{});
    for (int64_t k0 = 0; k0 < p_.k; k0 += k_packed_) {
      const int64_t steps = std::min(k_packed_, p_.k - k0), deep = pieces(steps) * kPiece;
      const int64_t right_part = panels(columns) * deep;
      const Bf16* right = packed;
      if constexpr (!kSplits<T>) {
        if (p_.packed) right = call.b + column / kSide * deep;
      }
      if (right == packed) {
        pack(packed, right_part, call.b + column * p_.b_col + k0 * p_.b_row, p_.b_row, p_.b_col, columns, steps,
             Bf16Table::Operand::right, right_ranges);
      }
      for (int64_t row = row0; row < row1; row += row_block_) {
        const int64_t rows = std::min(row_block_, row1 - row);
        for (int64_t k = 0; k < steps; k += k_block_) {
          const int64_t count = std::min(k_block_, steps - k), at = k0 + k;
          const int64_t left_part = panels(rows) * pieces(count) * kPiece;
          const bool last = at + count == p_.k;
          pack(left, left_part, call.a + row * p_.a_row + at * p_.a_col, p_.a_col, p_.a_row, rows, count,
               Bf16Table::Operand::left, left_ranges + (row - row0) / kSide);
          // The next rows, or, behind the last ones, the next steps' first rows.
          const bool more = k + count < steps, others = row + row_block_ < row1;
          const int64_t next_row = more ? row : others ? row + row_block_ : row0;
          const int64_t next_at = more ? at + count : others ? k0 : k0 + steps;
          Asked next;
          if (next_at < p_.k) {
            next = Asked::block(call.a + next_row * p_.a_row + next_at * p_.a_col, p_.a_col, p_.a_row,
                                std::min(row_block_, row1 - next_row), std::min(k_block_, p_.k - next_at));
          }
          const int64_t share = ceil_div(next.lines(), panels(rows) * panels(columns));
          for (int64_t i = 0; i < panels(rows); ++i) {
            for (int64_t j = 0; j < panels(columns); ++j) {
              next.ask(share);
              const bool aside = k_block_ < p_.k;
              const int64_t panel = sums_aside_ ? (row - row0) / kSide + i : i;
              float* s = sums + (aside ? (j * waiting + panel) * kBlock : 0);
              const Bf16 *a = left + i * pieces(count) * kPiece, *b = right + j * deep + k / kSteps * kPiece;
              if constexpr (kSplits<T>) {
                if (done) table.finish_f32(done, r);
                table.block_split(a, left_part, b, right_part, pieces(count), s, at > 0);
              } else if (done) {
                table.block_meanwhile(a, b, pieces(count), s, at > 0, done, r);
              } else {
                table.block(a, b, pieces(count), s, at > 0);
              }
              done = last ? s : nullptr;
              if (!last) continue;
              const int64_t y = row + i * kSide, x = column + j * kSide;
              if (kSplits<T>) check_sums(s, call, y, x, left_ranges[(y - row0) / kSide], right_ranges[j], in_f32);
              r.rows = std::min(kSide, row1 - y);
              r.columns = std::min(kSide, column1 - x);
              if (turned_) std::swap(r.rows, r.columns);
              const int64_t offset = turned_ ? x * p_.c_row + y : y * p_.c_row + x;
              r.to = call.c + offset;
              r.bias = call.bias ? call.bias + (turned_ ? y : x) : nullptr;
              r.residual = call.residual ? call.residual + offset : nullptr;
            }
          }
        }
      }
    }
  }
  if (!done) {  // no columns, where there are fewer panels than tasks
  } else if constexpr (kSplits<T>) {
    table.finish_f32(done, r);
  } else {
    table.finish(done, r);
  }
  table.end();
}

template <class T>
void BlockGemm<T>::run(const T* a, const T* b, T* c, const T* bias, const T* residual, void*) const {
  if (turned_) std::swap(a, b);
  tasks_.run(p_, Call{a, b, c, bias, residual}, rows_at_once_, [&](const Call& call, const GemmPart& part) {
    multiply(call, part.row0, part.row1, part.column0, part.column1);
  });
}

int64_t bf16_panel_size(int64_t k, int64_t n) { return round_up(n, kSide) * round_up(k, kSteps); }

void pack_bf16_columns(Bf16* panels, const Bf16* b, ptrdiff_t k_stride, ptrdiff_t n_stride, int64_t k, int64_t n) {
  const int64_t panel = bf16_panel_size(k, 1);
  parallel_for(ceil_div(n, kSide), [&](int64_t i) {
    const Bf16Lines lines{b + i * kSide * n_stride, k_stride, n_stride, k, std::min(kSide, n - i * kSide)};
    bf16_table()->pack(panels + i * panel, lines, Bf16Table::Operand::right);
  });
}

Bf16Gemm::Bf16Gemm(const GemmProblem& problem)
    : gemm_(uses_dots() ? decltype(gemm_)(std::in_place_type<DotGemm>, problem)
                        : decltype(gemm_)(std::in_place_type<BlockGemm<Bf16>>, problem)) {}

void Bf16Gemm::run(const Bf16* a, const Bf16* b, Bf16* c, const Bf16* bias, const Bf16* residual, void* scratch) const {
  std::visit([&](const auto& gemm) { gemm.run(a, b, c, bias, residual, scratch); }, gemm_);
}

template class BlockGemm<Bf16>;
template class BlockGemm<float>;

}  // namespace freight::cpu
