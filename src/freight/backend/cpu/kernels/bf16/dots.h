// Products of bf16 by avx512_bf16's dot products: the register tile, 8 rows by 32 columns. Unlike AMX's tiles it reads
// rows where they lie, two steps of one number at a time, and needs no packed copy of them.
#pragma once
#include "freight/backend/cpu/kernels/bf16/asked.h"
#include "freight/backend/cpu/kernels/bf16/blocks.h"

namespace freight::cpu {

// Up to 32 rows of the left operand: numbers along the steps, `row` apart; or packed as the lines of a right operand.
struct DotRows {
  const Bf16* from = nullptr;
  bool packed = false;
  ptrdiff_t row = 0;
  int64_t rows = 0, steps = 0;
  // What later products need, asked for meanwhile: a little with each of calls() pieces of a tile of 8 rows.
  Asked* next[2] = {};
  static int64_t calls(int64_t rows, int64_t steps) { return ceil_div(rows, 8) * ceil_div(steps, Bf16Table::kSteps); }
};

// sums (a block in the panels' order) = a b, or sums + a b, where b is a packed panel of columns. With `result` the
// sums end there, and what the block holds afterwards has no meaning.
void multiply_dots(const DotRows& a, const Bf16* b, float* sums, bool accumulate, const Bf16Result* result);
// Whether the processor has the instructions and nothing faster.
bool uses_dots();

}  // namespace freight::cpu
