// Matrix products of bf16 with sums in f32, on the blocks of bf16/blocks.h: operands of any strides are packed in
// stretches that stay in the second-level cache, each thread for its part of the result. An element of the result is
// summed in one order whatever the cut, so bits do not depend on threads.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/gemm.h"

namespace freight::cpu {

class Bf16Gemm {
 public:
  // As of f32 products, in numbers of bf16; `packed` is not known here.
  explicit Bf16Gemm(const GemmProblem& problem);
  // bias (n) and residual (like c) may be null. `scratch` is not used.
  void run(const Bf16* a, const Bf16* b, Bf16* c, const Bf16* bias, const Bf16* residual, void* scratch) const;
  size_t scratch_bytes() const { return 0; }

 private:
  struct Call;
  void multiply(const Call& call, int64_t row0, int64_t row1, int64_t column0, int64_t column1) const;
  bool cut(int64_t threads);

  GemmProblem p_;
  bool turned_ = false;  // computed as the transposed product: few rows by a matrix whose columns lie along the steps
  int64_t row_tasks_ = 1, column_tasks_ = 1;
  int64_t row_block_ = 0, column_block_ = 0, k_block_ = 0, k_packed_ = 0;  // lines and steps
  bool sums_aside_ = false;  // the columns are packed in parts of the sum: those of all rows wait for the next part
  size_t left_bytes_ = 0, right_bytes_ = 0, thread_bytes_ = 0;
};

}  // namespace freight::cpu
