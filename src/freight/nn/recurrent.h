// LSTM and GRU layers with PyTorch's parameter names and gate order, batch first: weight_ih_l0 (G H, C), weight_hh_l0
// (G H, H), bias_ih_l0, bias_hh_l0 (G H); l1, l2, ... for further layers, `_reverse` for the backward direction.
// N batch, T steps, C numbers per step, H hidden, G gates.
#pragma once
#include "freight/nn/layer_type.h"
#include "freight/nn/module.h"

namespace freight::nn {

struct RecurrentOptions {
  int64_t layers = 1;          // one on top of the other
  bool bidirectional = false;  // both directions, joined
  double dropout = 0;          // between layers, while training
  bool last = false;           // only the last states: (N, H), or (N, 2 H) of both directions
  // Steps that the states last for before training, 1 to memory - 1 of them: biases of the gates as Tallec and Ollivier
  // 2018 (arXiv:1804.11188) draw them. 0: PyTorch's, whose states fade by half in each step.
  int64_t memory = 0;
};
struct RecurrentFields : RecurrentOptions {
  int64_t in = 0, hidden = 0;  // C, H
};

// (N, T, C) -> (N, T, H), or (N, T, 2 H) bidirectional. Where an Embedding has announced padding, a sample keeps its
// state behind its last token, and the backward direction starts there; so the last states are those of real tokens.
class Recurrent : public Module {
 public:
  using Fields = RecurrentFields;
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 protected:
  // The kinds of cells.
  enum class Cell { lstm, gru };
  // A layer of such cells.
  Recurrent(Cell cell, const Fields& fields);

 private:
  struct Direction {
    Variable weight_ih, weight_hh, bias_ih, bias_hh;
  };
  // One direction: the states behind each step (N, T, H), and the last one to be reached (N, H).
  std::pair<Tensor, Tensor> run(const Direction& d, const Tensor& x, bool reverse, const Tensor& counts) const;
  Cell cell_;
  Fields fields_;
  std::vector<Direction> directions_;  // layer by layer, forward before backward
};

// Hochreiter and Schmidhuber 1997; gates i f g o.
class LSTM : public Recurrent {
 public:
  explicit LSTM(const Fields& fields) : Recurrent(Cell::lstm, checked<LSTM>(fields)) {}
  LSTM(int64_t in, int64_t hidden, const RecurrentOptions& options = {}) : LSTM(Fields{options, in, hidden}) {}
};
// Cho et al. 2014; gates r z n, the reset gate behind the product.
class GRU : public Recurrent {
 public:
  explicit GRU(const Fields& fields) : Recurrent(Cell::gru, checked<GRU>(fields)) {}
  GRU(int64_t in, int64_t hidden, const RecurrentOptions& options = {}) : GRU(Fields{options, in, hidden}) {}
};

}  // namespace freight::nn
