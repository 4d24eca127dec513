// See recurrent.h.
#include "freight/nn/recurrent.h"

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

Recurrent::Recurrent(Cell cell, int64_t in, int64_t hidden, const RecurrentOptions& options)
    : cell_(cell), in_(in), hidden_(hidden), options_(options) {
  const char* type = cell == Cell::lstm ? "LSTM" : "GRU";
  if (in < 1 || hidden < 1 || options.layers < 1) {
    fail(ErrorKind::usage, type, "in, hidden and layers must be positive: got ", in, ", ", hidden, ", ",
         options.layers);
  }
  if (options.memory < 0) fail(ErrorKind::usage, type, "memory must not be negative: got ", options.memory);
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    fail(ErrorKind::usage, type, "dropout out of range: got ", options.dropout, ", need 0 <= p < 1");
  }
  const int64_t gates = (cell == Cell::lstm ? 4 : 3) * hidden, sides = options.bidirectional ? 2 : 1;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const Init draw = init::uniform(-bound, bound);
  Init bias = draw;
  bias.memory = options.memory;
  bias.gates = gates / hidden;
  bias.coupled = cell == Cell::lstm;
  for (int64_t i = 0; i < options.layers * sides; ++i) {
    const int64_t layer = i / sides;
    const std::string suffix = cat("_l", layer, i % sides == 1 ? "_reverse" : "");
    const int64_t width = layer == 0 ? in : hidden * sides;
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
    const Tensor bias = d.bias_ih + concat({narrow(d.bias_hh, 0, 0, 2 * hidden_), zeros({hidden_})}, 0);
    const Tensor inside = narrow(d.bias_hh, 0, 2 * hidden_, hidden_);
    states = gru_layer(x, d.weight_ih, bias, d.weight_hh, inside, options);
  }
  return {states, select(states, 1, reverse ? 0 : x.dim(1) - 1)};
}

Tensor Recurrent::forward(const Tensor& x) {
  if (x.rank() != 3 || x.dim(2) != in_ || x.dim(1) < 1) {
    trace::fail_here(cell_ == Cell::lstm ? "LSTM" : "GRU", "need (N, T, ", in_, "): got ", x.type());
  }
  const Tensor counts = token_counts(x);
  const size_t sides = options_.bidirectional ? 2 : 1;
  Tensor y = x;
  std::vector<Tensor> results, last;
  for (size_t i = 0; i < directions_.size(); i += sides) {
    if (i > 0 && training()) y = dropout(y, options_.dropout);
    results.clear();
    last.clear();
    for (size_t k = 0; k < sides; ++k) {
      const auto [all, end] = run(directions_[i + k], y, k == 1, counts);
      results.push_back(all);
      last.push_back(end);
    }
    y = concat(results, 2);
  }
  return options_.last ? concat(last, 1) : y;
}

Config Recurrent::config() const {
  return Config{cell_ == Cell::lstm ? "LSTM" : "GRU"}
      .integer("in", in_)
      .integer("hidden", hidden_)
      .integer("layers", options_.layers, 1)
      .flag("bidirectional", options_.bidirectional, false)
      .number("dropout", options_.dropout, 0)
      .flag("last", options_.last, false)
      .integer("memory", options_.memory, 0);
}

}  // namespace freight::nn
