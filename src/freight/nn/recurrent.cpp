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
#include "freight/ops/sequence_internal.h"
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
    const int64_t width = layer == 0 ? fields.in : outputs() * sides;
    Direction d;
    d.weight_ih = parameter("weight_ih" + suffix, {gates, width}, draw);
    d.weight_hh = parameter("weight_hh" + suffix, {gates, outputs()}, draw);
    if (fields.bias) d.bias_ih = parameter("bias_ih" + suffix, {gates}, bias);
    if (fields.bias) d.bias_hh = parameter("bias_hh" + suffix, {gates}, draw);
    if (fields.projection > 0) d.weight_hr = parameter("weight_hr" + suffix, {fields.projection, hidden}, draw);
    directions_.push_back(d);
  }
}
namespace {

const RecurrentFields& need_smaller_projection(const RecurrentFields& f) {
  if (f.projection < f.hidden || f.projection == 0) return f;
  fail(ErrorKind::usage, "LSTM", "projection must be smaller than hidden = ", f.hidden, ": got ", f.projection);
}
const RecurrentFields& need_no_projection(const RecurrentFields& f) {
  if (f.projection == 0) return f;
  fail(ErrorKind::usage, "GRU", "projection is for an LSTM: expected 0, got ", f.projection);
}

}  // namespace

LSTM::LSTM(const Fields& fields) : Recurrent(Cell::lstm, need_smaller_projection(checked<LSTM>(fields))) {}
GRU::GRU(const Fields& fields) : Recurrent(Cell::gru, need_no_projection(checked<GRU>(fields))) {}

Recurrent::Biases Recurrent::biases(const Direction& d, DType dtype) const {
  const int64_t hidden = fields_.hidden;
  if (!fields_.bias) return {full({d.weight_ih.shape()[0]}, 0, dtype), full({hidden}, 0, dtype)};
  if (cell_ == Cell::lstm) return {d.bias_ih + d.bias_hh, {}};
  return {d.bias_ih + concat({narrow(d.bias_hh, 0, 0, 2 * hidden), zeros({hidden})}, 0),
          narrow(d.bias_hh, 0, 2 * hidden, hidden)};
}

Recurrent::Run Recurrent::run(const Direction& d, const Tensor& x, bool reverse, const Tensor& counts,
                              Cells cells) const {
  if (d.weight_hr.defined()) {
    const auto begin = [&](int64_t numbers) { return full({x.dim(0), numbers}, 0, x.dtype()); };
    return run_from(d, x, reverse, counts, {begin(outputs()), begin(fields_.hidden)});
  }
  const SequenceOptions options{.reverse = reverse, .counts = counts};
  const Biases b = biases(d, x.dtype());
  const int64_t last = reverse ? 0 : x.dim(1) - 1;
  if (cells == Cells::last && cell_ == Cell::lstm) {
    // The op of the whole layer may keep its cells in a library's format; the one of the steps gives them as they are.
    std::vector<Tensor> in{linear(x, d.weight_ih, b.joined), d.weight_hh.value()};
    if (counts.defined()) in.push_back(counts);
    const std::vector<Tensor> made =
        trace::add(Op::recurrent, RecurrentAttrs{.reverse = reverse, .lengths = counts.defined()}, in);
    return {made[0], select(made[0], 1, last), select(made[1], 1, last)};
  }
  const Tensor states = cell_ == Cell::lstm ? lstm_layer(x, d.weight_ih, b.joined, d.weight_hh, options)
                                            : gru_layer(x, d.weight_ih, b.joined, d.weight_hh, b.inside, options);
  return {states, select(states, 1, last), {}};
}

// Runs step by step, since the op starts from zeros. A given state cannot be emulated by the first step's input: W h
// can be added to its gates, but one step from zero gives a cell of at most 1 in absolute value, and after long
// sequences cells are larger. The same holds for a GRU's state.
Recurrent::Run Recurrent::run_from(const Direction& d, const Tensor& x, bool reverse, const Tensor& counts,
                                   const RecurrentState& at) const {
  const int64_t n = x.dim(0), steps = x.dim(1), width = fields_.hidden;
  const Biases b = biases(d, x.dtype());
  const Tensor parts = linear(x, d.weight_ih, b.joined);  // (N, T, G H)
  Tensor h = at.h, c = at.c;                              // (N, H)
  std::vector<Tensor> states(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t step = reverse ? steps - 1 - i : i;
    const Tensor part = select(parts, 1, step), product = linear(h, d.weight_hh), both = part + product;
    const auto columns = [&](const Tensor& t, int64_t gate) { return narrow(t, 1, gate * width, width); };
    const auto gate = [&](int64_t k) { return sigmoid(columns(both, k)); };
    Tensor next, cell = c;
    if (cell_ == Cell::lstm) {
      cell = gate(1) * c + gate(0) * tanh(columns(both, 2));
      next = gate(3) * tanh(cell);
      if (d.weight_hr.defined()) next = linear(next, d.weight_hr);
    } else {
      const Tensor fresh = tanh(columns(part, 2) + gate(0) * (columns(product, 2) + b.inside));
      next = fresh + gate(1) * (h - fresh);
    }
    if (counts.defined()) {
      const Tensor valid = reshape(counts, {n, 1}) > step;
      next = where(valid, next, h);
      if (cell_ == Cell::lstm) cell = where(valid, cell, c);
    }
    states[static_cast<size_t>(step)] = h = next;
    c = cell;
  }
  return {stack(states, 1), h, c};
}

void Recurrent::need_steps(const Tensor& x) const {
  if (x.rank() != 3 || x.dim(2) != fields_.in || x.dim(1) < 1) {
    trace::fail_here(type_name(), "expected (N, T, ", fields_.in, ") with T of at least 1, got ", x.type());
  }
}

Tensor Recurrent::forward(const Tensor& x) {
  need_steps(x);
  const Tensor counts = token_counts(x);
  const size_t sides = fields_.bidirectional ? 2 : 1;
  Tensor y = x;
  std::vector<Tensor> results, last;
  for (size_t i = 0; i < directions_.size(); i += sides) {
    if (i > 0 && training()) y = dropout(y, fields_.dropout);
    results.clear();
    last.clear();
    for (size_t k = 0; k < sides; ++k) {
      const Run made = run(directions_[i + k], y, k == 1, counts, Cells::none);
      results.push_back(made.states);
      last.push_back(made.h);
    }
    y = concat(results, 2);
  }
  return fields_.last ? concat(last, 1) : y;
}

void Recurrent::need_states(const RecurrentCall& call, int64_t samples) const {
  const auto need = [&](const char* name, const Tensor& t, int64_t numbers) {
    const Shape shape{static_cast<int64_t>(directions_.size()), samples, numbers};
    if (t.shape() == shape) return;
    trace::fail_here(type_name(), "state ", name, " does not fit: expected (layers * directions, N, H) = ", shape,
                     ", got ", t.type());
  };
  const RecurrentState& s = call.state;
  if (cell_ == Cell::gru && s.c.defined()) {
    trace::fail_here("GRU", "has no cell state: expected h alone, got a state c ", s.c.type());
  }
  if (cell_ == Cell::lstm && s.h.defined() != s.c.defined()) {
    trace::fail_here("LSTM", "a state is h and c: got ", s.h.defined() ? "h" : "c", " alone");
  }
  if (s.h.defined()) need("h", s.h, outputs());
  if (s.c.defined()) need("c", s.c, fields_.hidden);
  const Tensor& lengths = call.lengths;
  if (lengths.defined() && (lengths.shape() != Shape{samples} || !is_integer(lengths.dtype()))) {
    trace::fail_here(type_name(), "lengths must be integers, one per sample: expected (", samples, "), got ",
                     lengths.type());
  }
}

RecurrentOutput Recurrent::forward(const Tensor& x, const RecurrentCall& call) {
  need_steps(x);
  need_states(call, x.dim(0));
  const Tensor counts =
      call.lengths.defined() ? ops::counts_within(call.lengths, x.dim(1), "recurrent") : token_counts(x);
  const size_t sides = fields_.bidirectional ? 2 : 1;
  Tensor y = x;
  std::vector<Tensor> h, c, last;
  for (size_t i = 0; i < directions_.size(); i += sides) {
    if (i > 0 && training()) y = dropout(y, fields_.dropout);
    std::vector<Tensor> results;
    last.clear();
    for (size_t k = 0; k < sides; ++k) {
      RecurrentState begin;
      if (call.state.h.defined()) begin.h = select(call.state.h, 0, static_cast<int64_t>(i + k));
      if (call.state.c.defined()) begin.c = select(call.state.c, 0, static_cast<int64_t>(i + k));
      const Run made = begin.h.defined() ? run_from(directions_[i + k], y, k == 1, counts, begin)
                                         : run(directions_[i + k], y, k == 1, counts, Cells::last);
      results.push_back(made.states);
      last.push_back(made.h);
      h.push_back(made.h);
      if (cell_ == Cell::lstm) c.push_back(made.c);
    }
    y = concat(results, 2);
  }
  if (counts.defined()) y = where(iota({1, x.dim(1), 1}, 1) < reshape(counts, {x.dim(0), 1, 1}), y, 0.0);
  RecurrentOutput out{fields_.last ? concat(last, 1) : y, {stack(h, 0), {}}};
  if (cell_ == Cell::lstm) out.state.c = stack(c, 0);
  return out;
}

RecurrentOutput Recurrent::operator()(const In& x, const RecurrentCall& call) {
  const Module::Call entered(*this, x.where);
  const std::vector<Tensor> in = entered.given({trace::tensor_of(x, type_name())});
  const RecurrentOutput made = forward(in[0], call);
  std::vector<Tensor> out = entered.done(in, {made.output, made.state.h, made.state.c});
  return {std::move(out[0]), {std::move(out[1]), std::move(out[2])}};
}

std::vector<Tensor> Recurrent::forward_all(const std::vector<Tensor>& inputs) {
  const size_t with_states = cell_ == Cell::lstm ? 3 : 2;
  if (inputs.size() != with_states) return Module::forward_all(inputs);
  const RecurrentOutput made = forward(inputs[0], {.state = {inputs[1], cell_ == Cell::lstm ? inputs[2] : Tensor()}});
  if (cell_ == Cell::gru) return {made.output, made.state.h};
  return {made.output, made.state.h, made.state.c};
}

namespace {

template <class Net>
Layer<Net> recurrent_layer(const char* name, const char* doc) {
  return std::move(Layer<Net>(name, doc)
                       .size("in", &RecurrentFields::in, 2, "numbers per step of the input")
                       .required("hidden", &RecurrentFields::hidden, "H, numbers of a state")
                       .field("layers", &RecurrentFields::layers, "stacked layers", {.least = 1, .most = 20000})
                       .field("bidirectional", &RecurrentFields::bidirectional, "also backwards: results of size 2 H")
                       .field("dropout", &RecurrentFields::dropout, "between layers, in training", kProbability)
                       .field("last", &RecurrentFields::last, "return only the last states (N, H)")
                       .field("memory", &RecurrentFields::memory,
                              "initial biases keep states for about so many steps; 0: PyTorch's", kNotNegative)
                       .field("bias", &RecurrentFields::bias, "with biases")
                       .weight([](const RecurrentFields& f) {
                         return static_cast<double>(f.layers) * static_cast<double>(f.hidden) *
                                static_cast<double>(std::max(f.in, f.hidden));
                       }));
}

}  // namespace

LayerList recurrent_layers() {
  return {
      declared(
          recurrent_layer<LSTM>(
              "LSTM", "(N, T, in) to the states (N, T, H); Hochreiter and Schmidhuber 1997. PyTorch's parameter names")
              .field("projection", &RecurrentFields::projection,
                     "P, numbers of a state, less than H; 0: H. PyTorch's proj_size", kNotNegative)),
      declared(recurrent_layer<GRU>("GRU", "the same with three gates; Cho et al. 2014. PyTorch's parameter names")),
  };
}

}  // namespace freight::nn
