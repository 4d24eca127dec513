// See recurrent.h.
#include "freight/nn/recurrent.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/nn/init.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/random.h"
#include "freight/ops/sequence.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

Recurrent::Recurrent(Cell cell, const Fields& fields) : cell_(cell), fields_(fields) {
  const int64_t hidden = fields.hidden;
  const int64_t gates = (cell == Cell::lstm ? 4 : 3) * hidden, sides = fields.bidirectional ? 2 : 1;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const Init draw = init::uniform(-bound, bound);
  Init bias = draw;
  bias.memory = fields.memory;
  bias.gates = gates / hidden;
  bias.coupled = cell == Cell::lstm;
  for (int64_t i = 0; i < fields.layers * sides; ++i) {
    const int64_t layer = i / sides;
    const std::string suffix = cat("_l", layer, i % sides == 1 ? "_reverse" : "");
    const int64_t width = layer == 0 ? fields.in : hidden * sides;
    Direction d;
    d.weight_ih = parameter("weight_ih" + suffix, {gates, width}, draw);
    d.weight_hh = parameter("weight_hh" + suffix, {gates, hidden}, draw);
    d.bias_ih = parameter("bias_ih" + suffix, {gates}, bias);
    d.bias_hh = parameter("bias_hh" + suffix, {gates}, draw);
    directions_.push_back(d);
  }
}

// All biases but the one inside the GRU's third gate join the inputs' part.
std::pair<Tensor, Tensor> Recurrent::run(const Direction& d, const Tensor& x, bool reverse,
                                         const Tensor& counts) const {
  const SequenceOptions options{.reverse = reverse, .counts = counts};
  Tensor states;
  if (cell_ == Cell::lstm) {
    states = lstm_layer(x, d.weight_ih, d.bias_ih + d.bias_hh, d.weight_hh, options);
  } else {
    const Tensor bias = d.bias_ih + concat({narrow(d.bias_hh, 0, 0, 2 * fields_.hidden), zeros({fields_.hidden})}, 0);
    const Tensor inside = narrow(d.bias_hh, 0, 2 * fields_.hidden, fields_.hidden);
    states = gru_layer(x, d.weight_ih, bias, d.weight_hh, inside, options);
  }
  return {states, select(states, 1, reverse ? 0 : x.dim(1) - 1)};
}

Tensor Recurrent::forward(const Tensor& x) {
  if (x.rank() != 3 || x.dim(2) != fields_.in || x.dim(1) < 1) {
    trace::fail_here(cell_ == Cell::lstm ? "LSTM" : "GRU", "need (N, T, ", fields_.in, "): got ", x.type());
  }
  const Tensor counts = token_counts(x);
  const size_t sides = fields_.bidirectional ? 2 : 1;
  Tensor y = x;
  std::vector<Tensor> results, last;
  for (size_t i = 0; i < directions_.size(); i += sides) {
    if (i > 0 && training()) y = dropout(y, fields_.dropout);
    results.clear();
    last.clear();
    for (size_t k = 0; k < sides; ++k) {
      const auto [all, end] = run(directions_[i + k], y, k == 1, counts);
      results.push_back(all);
      last.push_back(end);
    }
    y = concat(results, 2);
  }
  return fields_.last ? concat(last, 1) : y;
}

namespace {

template <class Net>
std::shared_ptr<const LayerType> recurrent_layer(const char* name, const char* doc) {
  return declared(Layer<Net>(name, doc)
                      .size("in", &RecurrentFields::in, 2, "numbers per step of the input")
                      .required("hidden", &RecurrentFields::hidden, "H, numbers of a state")
                      .field("layers", &RecurrentFields::layers, "one upon the other", {.least = 1, .most = 20000})
                      .field("bidirectional", &RecurrentFields::bidirectional, "also from the end: results of 2 H")
                      .field("dropout", &RecurrentFields::dropout, "between layers, in training", kProbability)
                      .field("last", &RecurrentFields::last, "gives the last states (N, H) alone")
                      .field("memory", &RecurrentFields::memory,
                             "steps that states last for before training; 0: PyTorch's biases", kNotNegative)
                      .weight([](const RecurrentFields& f) {
                        return static_cast<double>(f.layers) * static_cast<double>(f.hidden) *
                               static_cast<double>(std::max(f.in, f.hidden));
                      }));
}

}  // namespace

LayerList recurrent_layers() {
  return {
      recurrent_layer<LSTM>(
          "LSTM", "(N, T, in) to the states (N, T, H); Hochreiter and Schmidhuber 1997. PyTorch's parameter names"),
      recurrent_layer<GRU>("GRU", "the same with three gates; Cho et al. 2014. PyTorch's parameter names"),
  };
}

}  // namespace freight::nn
