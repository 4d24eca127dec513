// The steps of LSTM and GRU layers and their gradient on bf16 tensors with products on the blocks of bf16/blocks.h; the
// weights and their gradients, an LSTM's cells, a GRU's states and all arithmetic of gates are f32. As in recurrent.h,
// a thread takes its samples, 32 at most, through all steps, and going forward with few samples some of the hidden
// numbers.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/recurrent.h"

namespace freight::cpu {

class Bf16Recurrent {
 public:
  using Number = Bf16;
  Bf16Recurrent(const RecurrentProblem& problem, bool gradient);
  void forward(const RecurrentOperands<Bf16>& o, void* scratch) const;
  void backward(const RecurrentOperands<Bf16>& o, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void pack(const float* w, Bf16* panels) const;
  // `share` has blocks of hidden numbers. `states`: room for h of two steps of its samples, in zeros, which all parts
  // have together.
  void run_forward(const RecurrentOperands<Bf16>& o, const Bf16* panels, Bf16* states,
                   const RecurrentShare& share) const;
  void run_backward(const RecurrentOperands<Bf16>& o, const Bf16* panels, Bf16* dinner, int64_t first,
                    int64_t last) const;
  void multiply_weights(const RecurrentOperands<Bf16>& o, const Bf16* dinner, int64_t first, int64_t last) const;

  RecurrentProblem p_;
  bool gradient_;
  int64_t blocks_ = 0, panels_ = 0;  // of 32 hidden numbers; numbers of the packed weights
  int64_t tasks_ = 1, weight_tasks_ = 1;
  bool shared_ = false, dots_ = false;  // going forward: a step by all threads; products by dots, not by blocks
  size_t scratch_bytes_ = 0, thread_bytes_ = 0, weight_bytes_ = 0;
};

}  // namespace freight::cpu
