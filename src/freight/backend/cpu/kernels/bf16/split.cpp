// See bf16/split.h.
#include "freight/backend/cpu/kernels/bf16/split.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace freight::cpu {

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kBlock = Bf16Table::kBlock;

// The bits without the sign, doubled -> the magnitude.
double magnitude(uint32_t doubled) { return static_cast<double>(std::bit_cast<float>(doubled / 2)); }

// The lines that hold nothing but zeros, and those that there are not.
uint32_t zero_lines(const float* from, ptrdiff_t step, ptrdiff_t line, int64_t lines, int64_t steps) {
  uint32_t zero = ~uint32_t{0};
  for (int64_t i = 0; i < lines; ++i) {
    const float* const x = from + i * line;
    int64_t k = 0;
    while (k < steps && x[k * step] == 0) ++k;
    if (k < steps) zero &= ~(uint32_t{1} << i);
  }
  return zero;
}

}  // namespace

// A part below 2^-126 counts as 0, which loses up to 2^-126 of a number below 2^-103 times its partner, and so does a
// product or a sum: six products of parts a step, and the sums' sums.
SplitLimits::SplitLimits(const SplitRange& left, const SplitRange& right, int64_t k) {
  constexpr double kLargest = 0x1p127, kLost = 0x1p-126, kWhole = 0x1p-103, kShare = 0x1p-26;
  const double a = magnitude(left.most), b = magnitude(right.most), steps = static_cast<double>(k);
  overflows = !(a < kLargest && b < kLargest && a * b * steps < kLargest / 2);
  if (overflows || a == 0 || b == 0) return;
  const double least_a = magnitude(left.least), least_b = magnitude(right.least);
  const double lost = kLost * steps * (8 + (least_a < kWhole ? b : 0) + (least_b < kWhole ? a : 0));
  if (least_a * least_b < lost / kShare) exact_from = static_cast<float>(std::min(lost / kShare, kLargest));
}

bool sums_are_exact(const float* sums, const SplitBlock& block, const SplitLimits& limits) {
  if (limits.overflows) return false;
  if (limits.exact_from == 0) return true;
  int small = 0;
  for (int64_t i = 0; i < kBlock; ++i) small += !(std::fabs(sums[i]) >= limits.exact_from);
  if (small == 0) return true;
  const GemmProblem& p = block.problem;
  const uint32_t rows = zero_lines(block.a, p.a_col, p.a_row, block.rows, p.k);
  const uint32_t columns = zero_lines(block.b, p.b_row, p.b_col, block.columns, p.k);
  for (int64_t i = 0; i < kSide; ++i) {
    if (rows >> i & 1) continue;
    for (int64_t j = 0; j < kSide; ++j) {
      const float sum = sums[Bf16Table::place(i) * kSide + Bf16Table::place(j)];
      if (!(std::fabs(sum) >= limits.exact_from) && !(columns >> j & 1)) return false;
    }
  }
  return true;
}

void multiply_in_f32(float* sums, const SplitBlock& block, float* scratch) {
  const GemmProblem& p = block.problem;
  float *const c = scratch, *const panels = scratch + kBlock;
  std::fill_n(c, kBlock, 0.0f);
  for (int64_t k = 0; k < p.k; k += kSplitDepth) {
    const int64_t steps = std::min(kSplitDepth, p.k - k);
    pack_columns(panels, block.b + k * p.b_row, p.b_row, p.b_col, steps, block.columns);
    multiply_panels<float>({.a = block.a + k * p.a_col,
                            .a_row = p.a_row,
                            .a_step = p.a_col,
                            .panels = panels,
                            .c = c,
                            .c_row = kSide,
                            .m = block.rows,
                            .n = block.columns,
                            .k = steps,
                            .accumulate = k > 0});
  }
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j < kSide; ++j) sums[Bf16Table::place(i) * kSide + Bf16Table::place(j)] = c[i * kSide + j];
  }
}

}  // namespace freight::cpu
