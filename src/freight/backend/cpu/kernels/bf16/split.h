// Where an f32 product by three parts of bf16 (Bf16Table::block_split) is as exact as one in f32, and the blocks of the
// result for which it is not, in f32. The parts' products know no numbers below 2^-126, and no infinities; sums of
// parts overflow a little earlier than the numbers' own.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/gemm.h"

namespace freight::cpu {

// What the ranges of a block's operands say of its sums of k products.
struct SplitLimits {
  SplitLimits(const SplitRange& left, const SplitRange& right, int64_t k);
  bool overflows = false;  // a part, or a sum, may be too large
  // Sums of this magnitude or more are exact; what the parts lose is below 2^-26 of the sum of the products'
  // magnitudes. 0: all are.
  float exact_from = 0;
};

// True where the products of two such panels are exact without a closer look, as of most data: up to 2^19 of them.
inline bool is_ordinary(const SplitRange& r) {
  constexpr uint32_t kExponent = uint32_t{1} << 24, kBias = 127;
  return r.least >= (kBias - 39) * kExponent && r.most < (kBias + 40) * kExponent;
}

// A block of c = a b: `rows` rows of a and `columns` columns of b, 32 at most, and all k steps, as the strides of
// `problem` say.
struct SplitBlock {
  const GemmProblem& problem;
  const float *a, *b;
  int64_t rows, columns;
};

// True where each sum, in the panels' order, is exact or belongs to a line that is zero.
bool sums_are_exact(const float* sums, const SplitBlock& block, const SplitLimits& limits);
// The sums in f32, in the panels' order. `scratch` has kSplitScratch numbers.
constexpr int64_t kSplitDepth = 256, kSplitScratch = Bf16Table::kSide * (kSplitDepth + Bf16Table::kSide);
void multiply_in_f32(float* sums, const SplitBlock& block, float* scratch);

}  // namespace freight::cpu
