// See recurrent.h.
#include "freight/nn/recurrent.h"

#include <cmath>

#include "freight/base/error.h"
#include "freight/nn/init.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/random.h"
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

// The inputs' part of the gates of all steps is one product; the steps follow each other as ordinary nodes.
std::pair<Tensor, Tensor> Recurrent::run(const Direction& d, const Tensor& x, bool reverse,
                                         const Tensor& counts) const {
  const int64_t n = x.dim(0), steps = x.dim(1);
  const bool is_lstm = cell_ == Cell::lstm;
  const auto gate = [&](const Tensor& z, int64_t k) { return narrow(z, 1, k * hidden_, hidden_); };  // (N, H)
  // GRU's third gate scales what W_hn gives with its bias; all other biases join the inputs' part.
  const Tensor inside = is_lstm ? d.bias_hh.value() : narrow(d.bias_hh, 0, 2 * hidden_, hidden_);
  const Tensor bias =
      is_lstm ? d.bias_ih + inside : d.bias_ih + concat({narrow(d.bias_hh, 0, 0, 2 * hidden_), zeros({hidden_})}, 0);
  const Tensor from_inputs = linear(x, d.weight_ih, bias);  // (N, T, G H)
  Tensor h = zeros({n, hidden_}), c = h;
  std::vector<Tensor> states(static_cast<size_t>(steps));
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t t = reverse ? steps - 1 - step : step;
    const Tensor in = select(from_inputs, 1, t), z = linear(h, d.weight_hh), both = in + z;  // (N, G H)
    Tensor next, next_c = c;
    if (is_lstm) {
      next_c = sigmoid(gate(both, 1)) * c + sigmoid(gate(both, 0)) * tanh(gate(both, 2));
      next = sigmoid(gate(both, 3)) * tanh(next_c);
    } else {
      const Tensor fresh = tanh(gate(in, 2) + sigmoid(gate(both, 0)) * (gate(z, 2) + inside));
      next = fresh + sigmoid(gate(both, 1)) * (h - fresh);
    }
    if (counts.defined()) {  // behind its last token a sample keeps its state
      const Tensor token = unsqueeze(counts > static_cast<double>(t), 1);  // (N, 1)
      next = where(token, next, h);
      if (is_lstm) next_c = where(token, next_c, c);
    }
    h = next;
    c = next_c;
    states[static_cast<size_t>(t)] = h;
  }
  return {stack(states, 1), h};
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
