// One step of LSTM and GRU cells and its gradient, element by element, for some samples. H hidden numbers, G gates.
// Chosen per CPU by Highway.
#pragma once
#include <cstddef>
#include <cstdint>

namespace freight::cpu {

// Pointers are to the step's numbers of the first sample.
struct RecurrentRows {
  int64_t rows = 0, width = 0;                 // samples; H
  int64_t from = 0, until = 0;                 // of the H numbers, those that are computed
  ptrdiff_t gates_row = 0, state_row = 0;      // from sample to sample of tensors (N, T, G H) and (N, T, H),
  ptrdiff_t product_row = 0, compact_row = 0;  // of products (rows, G H), and of h, c, dh, dc, which lie together
  const int32_t* counts = nullptr;             // tokens of the samples: from step counts[r] on the state stays
  int64_t step = 0;
  // Forward: x, product (h before by the weights) and inside, h, c -> gates, inner, y, h, c.
  const float *x = nullptr, *product = nullptr, *inside = nullptr;
  float *gates = nullptr, *inner = nullptr, *y = nullptr, *h = nullptr, *c = nullptr;
  // Backward: gates, inner, dy, what the step before left (null: zeros), dh, dc -> dx; dz, which are the products', and
  // of a GRU their last gate alone, dinner; what reaches the step before by itself in dh and dc.
  const float *dy = nullptr, *y_before = nullptr, *inner_before = nullptr;
  float *dx = nullptr, *dz = nullptr, *dinner = nullptr, *dh = nullptr, *dc = nullptr;
};

struct RecurrentTable {
  void (*lstm)(const RecurrentRows& r);
  void (*gru)(const RecurrentRows& r);
  void (*lstm_grad)(const RecurrentRows& r);
  void (*gru_grad)(const RecurrentRows& r);
};
const RecurrentTable& recurrent_table();

}  // namespace freight::cpu
