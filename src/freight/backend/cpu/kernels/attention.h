// Attention and its gradient in f32 without the matrix of all weights (Dao et al. 2022): blocks of keys pass by a block
// of queries, whose running maximum and sum rescale what was added up before; the gradient computes the weights again
// from the row statistics. B samples, H heads, T queries, S keys, D numbers per head.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/attention_rows.h"

namespace freight::cpu {

// A tensor (B, H, rows, D); strides in elements, D contiguous.
struct Heads {
  void* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;
  template <class T = float>
  T* at(int64_t b, int64_t h) const {
    return static_cast<T*>(data) + b * batch + h * head;
  }
};

// A mask (B, H, T, S) of bool, true where a query sees a key, or of f32, which is added to the scores. Strides in
// elements, 0 along axes that it is broadcast along; S contiguous.
struct AttentionMask {
  const void* data = nullptr;  // null: there is none
  bool added = false;
  int64_t batch = 0, head = 0, row = 0;
  // Writes its part for a block of scores, from query i and key j of a head on, into `bias`, which lies as the scores
  // do, and lets the block read it. False where it hides all keys from all queries of the block.
  bool read(int64_t b, int64_t h, int64_t i, int64_t j, float* bias, ScoreBlock& block) const;
};

struct AttentionProblem {
  int64_t samples = 0, heads = 0, queries = 0, keys = 0, width = 0;  // B H T S D
  bool causal = false, wide_lengths = false;
  float scale = 1;
  // The keys that a sample has; one at least. `lengths` as below.
  int64_t keys_of(const void* lengths, int64_t b) const;
};

// The operands of a run: `lengths` (B; i64 where they are wide, else i32) may be null, and so may dlse. A query that
// sees no key has zeros in y, and lse 0.
struct AttentionOperands {
  Heads q, k, v, y, dy, dq, dk, dv;
  const void* lengths = nullptr;
  AttentionMask mask;
  float* lse = nullptr;  // (B, H, T): log of the sum of the exponentials
  const float* dlse = nullptr;
};

class Attention {
 public:
  // Sees to the threads' scratch memory.
  Attention(const AttentionProblem& problem, bool gradient);
  void forward(const AttentionOperands& o) const;   // q, k, v -> y, lse; parallel over heads and chunks of queries
  void backward(const AttentionOperands& o) const;  // q, k, v, y, lse, dy, dlse -> dq, dk, dv; parallel over heads

 private:
  void queries(const AttentionOperands& o, int64_t head, int64_t first, int64_t last) const;
  void gradients(const AttentionOperands& o, int64_t head) const;
  AttentionProblem p_;
  size_t thread_bytes_;
};

}  // namespace freight::cpu
