// Attention and its gradient on bf16 heads, products on the blocks of bf16/blocks.h, weights and statistics in f32. As
// in attention.h no matrix of all weights exists: 32 queries meet all keys, and in the gradient all queries 128 keys.
#pragma once
#include "freight/backend/cpu/kernels/attention.h"
#include "freight/backend/cpu/kernels/bf16/blocks.h"

namespace freight::cpu {

class Bf16Attention {
 public:
  // Sees to the threads' scratch memory.
  Bf16Attention(const AttentionProblem& problem, bool gradient);
  // As Attention's; heads are bf16.
  void forward(const AttentionOperands& o) const;
  void backward(const AttentionOperands& o) const;

 private:
  void queries(const AttentionOperands& o, int64_t head, int64_t first, int64_t last) const;
  void gradients(const AttentionOperands& o, int64_t head) const;
  AttentionProblem p_;
  int64_t deep_ = 0, query_blocks_ = 0, key_blocks_ = 0;  // pieces of a head's numbers; blocks of 32
  size_t thread_bytes_ = 0;
};

}  // namespace freight::cpu
