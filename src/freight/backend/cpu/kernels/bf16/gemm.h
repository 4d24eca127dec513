// Matrix products of bf16 with sums in f32, on the blocks of bf16/blocks.h: operands of any strides are packed in
// stretches that stay in the second-level cache, each thread for its part of the result. An element of the result is
// summed in one order whatever the cut, so bits do not depend on threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <variant>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/bf16/dot_gemm.h"
#include "freight/backend/cpu/kernels/bf16/gemm_tasks.h"
#include "freight/backend/cpu/kernels/gemm.h"

namespace freight::cpu {

// T: bf16, or f32 by three parts of bf16 a number (`block_split` of the table), and blocks for which these do not do in
// f32 (bf16/split.h).
template <class T>
class BlockGemm {
 public:
  // The problem is described as one of f32, in numbers of T. T = Bf16 takes `packed` from pack_bf16_columns, f32 never.
  explicit BlockGemm(const GemmProblem& problem)
      : BlockGemm(problem, *(sizeof(T) == 4 ? split_table() : bf16_table())) {}
  BlockGemm(const GemmProblem& problem, const Bf16Table& table);
  // bias (n) and residual (like c) may be null. `scratch` is not used.
  void run(const T* a, const T* b, T* c, const T* bias, const T* residual, void* scratch) const;
  size_t scratch_bytes() const { return 0; }

 private:
  using Call = GemmCall<T>;
  void pack(Bf16* to, int64_t part, const T* from, ptrdiff_t step, ptrdiff_t line, int64_t lines, int64_t steps,
            Bf16Table::Operand side, SplitRange* ranges) const;
  void check_sums(float* sums, const Call& call, int64_t row, int64_t column, const SplitRange& left,
                  const SplitRange& right, float* scratch) const;
  void multiply(const Call& call, int64_t row0, int64_t row1, int64_t column0, int64_t column1) const;

  GemmProblem p_;
  const Bf16Table* table_;
  bool turned_ = false;  // computed as the transposed product: few rows by a matrix whose columns lie along the steps
  GemmTasks tasks_;
  int64_t row_block_ = 0, column_block_ = 0, k_block_ = 0, k_packed_ = 0;  // lines and steps
  // The columns are packed in parts of the sum: the sums of `rows_at_once_` rows wait for the next part.
  bool sums_aside_ = false;
  int64_t rows_at_once_ = 0;
  // Of a thread's scratch memory: packed operands, what split products are checked and corrected in, all.
  size_t left_bytes_ = 0, right_bytes_ = 0, split_bytes_ = 0, thread_bytes_ = 0;
};
using SplitGemm = BlockGemm<float>;

// A right operand (k, n), one of whose strides is 1, as GemmProblem::packed has it for Bf16Gemm: panels of 32 columns
// over all steps. The second function gives their numbers.
void pack_bf16_columns(Bf16* panels, const Bf16* b, ptrdiff_t k_stride, ptrdiff_t n_stride, int64_t k, int64_t n);
int64_t bf16_panel_size(int64_t k, int64_t n);

// Products of bf16 by what the processor has.
class Bf16Gemm {
 public:
  explicit Bf16Gemm(const GemmProblem& problem);
  void run(const Bf16* a, const Bf16* b, Bf16* c, const Bf16* bias, const Bf16* residual, void* scratch) const;
  size_t scratch_bytes() const { return 0; }

 private:
  std::variant<BlockGemm<Bf16>, DotGemm> gemm_;
};

// True where f32 products run so here.
inline bool splits_f32() { return split_table() != nullptr; }

}  // namespace freight::cpu
