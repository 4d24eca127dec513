// Products of few rows by a matrix that is larger than the caches, in bf16: dense layers of small batches. All their
// time goes into reading the matrix. It is read where it lies, in 32 streams at once along its rows, as many as the
// processor's prefetcher follows; to ask for lines by hand is slower, since a core waits for 16 of them at most.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/gemm.h"

namespace freight::cpu {

class ThinGemm {
 public:
  // True where the product is such a one and the processor has AMX.
  static bool fits(const GemmProblem& problem);
  explicit ThinGemm(const GemmProblem& problem);
  // The operands are those of BlockGemm; `scratch` has scratch_bytes().
  void run(const Bf16* a, const Bf16* b, Bf16* c, const Bf16* bias, const Bf16* residual, void* scratch) const;
  size_t scratch_bytes() const;

 private:
  struct Call;
  void pack_rows(const Bf16* a, Bf16* to) const;
  void along_steps(const Call& call, int64_t panel0, int64_t panel1) const;
  void across_steps(const Call& call, int64_t panel0, int64_t panel1) const;

  GemmProblem p_;
  bool along_;         // how the matrix's rows of memory lie: along the steps or across them
  int64_t pieces_;     // of 32 steps
  int64_t panels_;     // of 32 columns
  int64_t rows_;       // of a tile, of which two hold all rows
  int64_t sweep_ = 1;  // panels whose sums stay in the cache
};

}  // namespace freight::cpu
