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
  bool bias = true;  // with biases of the gates
  // P, of an LSTM: numbers of a state h, which is weight_hr (P, H) times the H of PyTorch's cell. 0: they are the
  // state. Its steps are single nodes of the plan. Sak et al. 2014.
  int64_t projection = 0;
};
struct RecurrentFields : RecurrentOptions {
  int64_t in = 0, hidden = 0;  // C, H
};

// States of all layers and directions, layer by layer, forward before backward: (layers * directions, N, H). c are the
// cells of an LSTM; a GRU has none. With a projection h has P numbers in place of H.
struct RecurrentState {
  Tensor h = {}, c = {};  // as above
};
// The beginning of one call.
struct RecurrentCall {
  RecurrentState state = {};  // undefined: zeros
  // Integers (N): steps of each sample, T where more, none where negative; undefined: as an Embedding announced, or T.
  Tensor lengths = {};
};
// The results of a call with states.
struct RecurrentOutput {
  Tensor
      output;  // (N, T, H), or (N, T, 2 H) bidirectional, zeros behind a sample's last step; with .last its last states
  RecurrentState state;  // behind the last step of each sample: what the next call begins with
};

// (N, T, C) -> (N, T, H), or (N, T, 2 H) bidirectional. Where an Embedding has announced padding, a sample keeps its
// state behind its last token, and the backward direction starts there; so the last states are those of real tokens.
class Recurrent : public Module {
 public:
  using Fields = RecurrentFields;
  const Fields& fields() const { return fields_; }
  using Module::operator();
  Tensor forward(const Tensor& x) override;
  // The same with states and lengths, as PyTorch's layers on packed sequences: auto [y, state] = lstm(x, {}). The steps
  // of a call that is given states are single nodes of the plan, so long sequences take their time to plan.
  RecurrentOutput operator()(const In& x, const RecurrentCall& call);
  // The function of that call, without its name and its hooks.
  RecurrentOutput forward(const Tensor& x, const RecurrentCall& call);
  // x, or x with h and an LSTM's c, which gives the output with the new ones.
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;

 protected:
  // The kinds of cells.
  enum class Cell { lstm, gru };
  // A layer of such cells.
  Recurrent(Cell cell, const Fields& fields);

 private:
  struct Direction {
    Variable weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;
  };
  // The gates' biases: those that join the inputs' part, and the one inside the GRU's third gate, undefined for LSTMs.
  struct Biases {
    Tensor joined, inside;
  };
  // One direction: the states behind each step (N, T, H), and the last ones to be reached (N, H).
  struct Run {
    Tensor states, h, c;
  };
  // Numbers of a state h.
  int64_t outputs() const { return fields_.projection > 0 ? fields_.projection : fields_.hidden; }
  const char* type_name() const { return cell_ == Cell::lstm ? "LSTM" : "GRU"; }
  void need_steps(const Tensor& x) const;
  void need_states(const RecurrentCall& call, int64_t samples) const;
  Biases biases(const Direction& d, DType dtype) const;
  // From states of zeros; c where it is asked for.
  enum class Cells { none, last };
  Run run(const Direction& d, const Tensor& x, bool reverse, const Tensor& counts, Cells cells) const;
  // From given states, step by step.
  Run run_from(const Direction& d, const Tensor& x, bool reverse, const Tensor& counts, const RecurrentState& at) const;
  Cell cell_;
  Fields fields_;
  std::vector<Direction> directions_;  // layer by layer, forward before backward
};

// Hochreiter and Schmidhuber 1997; gates i f g o.
class LSTM : public Recurrent {
 public:
  explicit LSTM(const Fields& fields);
  LSTM(WholeNumber in, WholeNumber hidden, const RecurrentOptions& options = {}) : LSTM(Fields{options, in, hidden}) {}
};
// Cho et al. 2014; gates r z n, the reset gate behind the product.
class GRU : public Recurrent {
 public:
  explicit GRU(const Fields& fields);
  GRU(WholeNumber in, WholeNumber hidden, const RecurrentOptions& options = {}) : GRU(Fields{options, in, hidden}) {}
};

}  // namespace freight::nn
