// One function of numbers in memory, by the loops that the tile interpreter's programs have: for arrays that belong to
// no program, so that both have the same bits.
#pragma once
#include <cstdint>

#include "freight/base/dtype.h"
#include "freight/ir/op.h"

namespace freight::cpu {

// n numbers of a floating type; those of 16 bits are computed in f32. `at` has the result, which may be an operand,
// then one or two operands, and `steps` the bytes from one number to the next.
struct PointwiseLoop {
  Op op;
  DType dtype;
  int operands;
  int64_t n;
  char* const* at;
  const int64_t* steps;
};
// Within 4.1 ulp; special values are those of the op table. Throws Error(internal) for an op that has no SIMD loop of
// the type: f32 has all pointwise ones that tile_chain.cpp and tile_f64.cpp have, f64 those of tile_f64.cpp.
void run_pointwise(const PointwiseLoop& loop);

}  // namespace freight::cpu
