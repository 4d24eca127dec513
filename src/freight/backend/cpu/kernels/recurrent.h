// The steps of LSTM and GRU layers and their gradient in f32: each thread takes some samples through all steps, so that
// none waits for another, and the weights, packed once, stay in its cache. Going forward with few samples, each takes
// some of the hidden numbers instead, and waits for the others behind each step. N samples, T steps, H hidden numbers,
// G gates (LSTM i f g o, GRU r z n). What the operands are: the op table's rows `recurrent` and `recurrent_grad`.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/recurrent_rows.h"
#include "freight/base/threads.h"

namespace freight::cpu {

struct RecurrentProblem {
  bool gru = false, reverse = false;
  int64_t samples = 0, steps = 0, width = 0;  // N T H
  int64_t gates() const { return gru ? 3 : 4; }
};

template <class T>
struct RecurrentOperands {
  const T *x = nullptr, *dy = nullptr;
  const float *w = nullptr, *inside = nullptr;
  const int32_t* counts = nullptr;                                    // null: all steps of all samples
  T *y = nullptr, *inner = nullptr, *gates = nullptr, *dx = nullptr;  // the first three: of forward; read by backward
  float *dw = nullptr, *dinside = nullptr;                            // dinside: of a GRU
};

// A thread's share of the forward pass: it computes samples [first, last), and of them hidden numbers [from, until), or
// blocks of them. `parts` threads have all of these together, and meet behind each step.
struct RecurrentShare {
  int64_t first = 0, last = 0, from = 0, until = 0, parts = 1;
  Meeting* meeting = nullptr;
};
constexpr int64_t kLeastSharedGroups = 2;  // of a thread
// Returns true where threads share the steps of a layer whose samples one of them would take, in so many groups of
// hidden numbers. With less to do, they would wait longer than they compute.
inline bool shares_steps(const RecurrentProblem& p, int64_t groups) {
  constexpr int64_t kLeastWeights = 32768;
  return groups >= 2 * kLeastSharedGroups && p.gates() * p.width * p.width >= kLeastWeights;
}
// Calls run(share) for each of these threads.
template <class Run>
void share_steps(const RecurrentProblem& p, int64_t groups, Run run) {
  Meeting meeting;
  in_team([&](int64_t part, int64_t parts) {
    parts = std::clamp<int64_t>(groups / kLeastSharedGroups, 1, parts);
    if (part >= parts) return;
    run(RecurrentShare{0, p.samples, groups * part / parts, groups * (part + 1) / parts, parts, &meeting});
  });
}

class Recurrent {
 public:
  using Number = float;
  Recurrent(const RecurrentProblem& problem, bool gradient);
  void forward(const RecurrentOperands<float>& o, void* scratch) const;
  void backward(const RecurrentOperands<float>& o, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void pack(const RecurrentOperands<float>& o, float* panels) const;
  RecurrentRows rows_of(const RecurrentOperands<float>& o, int64_t first, int64_t last) const;
  void run_forward(const RecurrentOperands<float>& o, const float* panels, const RecurrentShare& share) const;
  void run_backward(const RecurrentOperands<float>& o, float* scratch, int64_t first, int64_t last) const;

  RecurrentProblem p_;
  bool gradient_;
  int64_t tasks_ = 1, group_;                    // group_: columns of a panel
  int64_t panels_ = 0, first_ = 0, dinner_ = 0;  // floats of the packed weights, of first steps' dx, of dinner
  std::vector<Gemm<float>> weight_products_;
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

}  // namespace freight::cpu
