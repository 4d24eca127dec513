// Matrix products of bf16 on the register tile of bf16/dots.h: what bf16/gemm.h does on AMX's blocks, in the same order
// of sums.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/bf16/gemm_tasks.h"
#include "freight/backend/cpu/kernels/gemm.h"

namespace freight::cpu {

class DotGemm {
 public:
  // The operands are those of BlockGemm.
  explicit DotGemm(const GemmProblem& problem);
  void run(const Bf16* a, const Bf16* b, Bf16* c, const Bf16* bias, const Bf16* residual, void* scratch) const;
  size_t scratch_bytes() const { return 0; }

 private:
  using Call = GemmCall<Bf16>;
  using Part = GemmPart;
  void multiply(const Call& call, const Part& part) const;
  void pack(Bf16* to, const Bf16* from, ptrdiff_t step, ptrdiff_t line, int64_t lines, int64_t steps) const;
  Bf16Result result(const Call& call, const Part& part, int64_t row, int64_t column) const;

  GemmProblem p_;
  bool turned_ = false;  // computed as the transposed product: few rows by a matrix whose columns lie along the steps
  bool along_ = false;   // rows lie along the steps, and are read in place
  GemmTasks tasks_;
  int64_t k_block_ = 0, k_packed_ = 0;  // steps that are multiplied, that are packed at once
  // Columns that are packed at once; rows whose sums wait for the next steps; rows that stay in the cache for all
  // columns.
  int64_t column_block_ = 0, rows_at_once_ = 0, row_block_ = 0;
  size_t left_bytes_ = 0, right_bytes_ = 0, thread_bytes_ = 0;
};

}  // namespace freight::cpu
