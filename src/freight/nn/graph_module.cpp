// See graph_module.h. A forward is traced for three sizes of the batch. What its arrays and numbers follow from the
// size becomes nodes (batch_array_internal.h); then the texts of the three give the one with N, where they differ in
// integers.
#include "freight/nn/graph_module.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/ir/batch_graph.h"
#include "freight/nn/batch_array_internal.h"
#include "freight/nn/container.h"
#include "freight/nn/evaluating.h"
#include "freight/nn/init.h"
#include "freight/trace/batch_statistics.h"
#include "freight/trace/device.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

namespace {

constexpr const char *kInput = "x", *kRandom = "rng";  // the names of inputs

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(ErrorKind::usage, "GraphModule", parts...);
}

bool is_random_key(const Graph& g, Value input) { return leaf_name(g, input) == kRandom; }

// The graph for a batch, which only has what a module can run.
Graph graph_for(const std::string& text, int64_t batch) {
  Graph g = parse_for_batch(text, "graph", batch);
  const std::vector<Value> inputs = g.leaves(Op::input);
  const auto keys = std::count_if(inputs.begin(), inputs.end(), [&](Value v) { return is_random_key(g, v); });
  if (inputs.size() - static_cast<size_t>(keys) != 1 || keys > 1 || is_random_key(g, inputs[0])) {
    refuse("expected one input, optionally followed by \"", kRandom, "\" for random numbers, got ", inputs.size(),
           " inputs");
  }
  if (g.type(inputs[0]).shape.rank() == 0) refuse("the input has no axis of samples: got ", g.type(inputs[0]));
  if (g.outputs.empty()) refuse("the graph returns nothing");
  for (const Node& n : g.nodes) {
    const OpKind kind = info(n.op).kind;
    if (kind == OpKind::collective || n.op == Op::fused) refuse(name(n.op), " is not for graphs of modules");
  }
  return g;
}

// A variable for each state of the graph.
std::vector<NamedVariable> variables_of(const GraphModuleOptions& fields) {
  std::istringstream words(fields.buffers);
  std::set<std::string> buffers{std::istream_iterator<std::string>(words), {}};
  const Graph g = graph_for(fields.graph, 1);
  std::vector<NamedVariable> all;
  for (Value v : g.leaves(Op::state)) {
    const std::string& name = leaf_name(g, v);
    const Type& type = g.type(v);
    const bool trained = buffers.erase(name) == 0;
    const bool drawn = trained && type.shape.rank() > 1;
    all.push_back({name, Variable(name, type, drawn ? weight_init(WeightInit::standard, type.shape) : init::zeros(),
                                  trained ? Variable::Role::parameter : Variable::Role::state)});
    if (trained && !fields.trainable) all.back().variable.set_trainable(false);
  }
  if (!buffers.empty()) refuse("buffers: the graph has no state ", *buffers.begin());
  return all;
}

void need_states(const std::string& text, const std::vector<NamedVariable>& variables) {
  const Graph g = graph_for(text, 1);
  const std::vector<Value> states = g.leaves(Op::state);
  bool same = states.size() == variables.size();
  for (size_t i = 0; same && i < states.size(); ++i)
    same = leaf_name(g, states[i]) == variables[i].name && g.type(states[i]) == variables[i].variable.type();
  if (!same) {
    refuse("the states of a graph are not the module's: expected the ", variables.size(),
           " states of `graph`, with these names and types in this order, got ", states.size());
  }
}

}  // namespace

struct GraphModule::Last {
  std::mutex mutex;
  int64_t batch = -1;
  bool training = false;
  std::shared_ptr<const Graph> graph;
};

GraphModule::GraphModule(const Fields& fields) : GraphModule(fields, variables_of(fields)) {}

GraphModule::GraphModule(const Fields& fields, const std::vector<NamedVariable>& variables)
    : fields_(fields), last_(std::make_shared<Last>()) {
  need_states(fields.graph, variables);
  if (!fields.training_graph.empty()) need_states(fields.training_graph, variables);
  for (const NamedVariable& v : variables) own(v.name, v.variable);
}

std::shared_ptr<const Graph> GraphModule::graph(int64_t batch) const {
  const bool in_training = training() && !fields_.training_graph.empty();
  const std::lock_guard lock(last_->mutex);
  if (last_->batch != batch || last_->training != in_training) {
    last_->graph =
        std::make_shared<const Graph>(graph_for(in_training ? fields_.training_graph : fields_.graph, batch));
    last_->batch = batch;
    last_->training = in_training;
  }
  return last_->graph;
}

Tensor GraphModule::forward(const Tensor& x) { return forward_all({x})[0]; }

std::vector<Tensor> GraphModule::forward_all(const std::vector<Tensor>& inputs) {
  if (inputs.size() != 1) refuse_inputs(inputs.size(), 1);
  const Tensor& x = inputs[0];
  const std::shared_ptr<const Graph> g = graph(x.rank() == 0 ? 1 : x.dim(0));
  const Type& expected = g->type(g->leaves(Op::input)[0]);
  if (!(x.type() == expected)) {
    trace::fail_here("GraphModule", "the network was traced for samples of one shape and type: expected ", expected,
                     ", got ", x.type());
  }
  const trace::OnePiece whole;
  const ByValue<int> uses = g->use_counts();
  ByValue<Tensor> values(*g);
  size_t state = 0;
  for (const Node& n : g->nodes) {
    if (n.op == Op::input) {
      values[n.out()] = is_random_key(*g, n.out()) ? rng_state().value() : x;
      continue;
    }
    if (n.op == Op::state) {
      const Variable& v = variables()[state++].variable;
      if (uses[n.out()] > 0) values[n.out()] = v.value();
      continue;
    }
    const Scope scope(n.scope);
    Attrs attributes = n.attrs;
    int64_t* stream = nullptr;
    if (auto* const a = std::get_if<RandomAttrs>(&attributes)) stream = &a->stream;
    if (auto* const a = std::get_if<DropoutAttrs>(&attributes)) stream = &a->stream;
    if (stream) *stream = trace::Session()->next_stream();
    std::vector<Tensor> operands;
    for (Value v : n.inputs) operands.push_back(values[v]);
    const std::vector<Tensor> results = trace::add(n.op, std::move(attributes), operands);
    for (size_t i = 0; i < results.size(); ++i) values[n.outputs[i]] = results[i];
    if (!stream) continue;
    trace::Session()->key_drawn();
    results[0].impl()->follows = false;  // though the key does
  }
  state = 0;
  for (const Value leaf : g->leaves(Op::state)) {
    const auto update =
        std::find_if(g->updates.begin(), g->updates.end(), [&](const Update& u) { return u.state == leaf; });
    if (update != g->updates.end()) variables()[state].variable.assign(values[update->next]);
    ++state;
  }
  std::vector<Tensor> results;
  for (Value v : g->outputs) results.push_back(values[v]);
  return results;
}

namespace {

// ---- Text for all batches ----

// Takes the first token off: a string, a number, a word, or one other character.
std::string_view take_token(std::string_view& rest) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto in_number = [&](char c) { return in_word(c) || c == '.' || c == '-' || c == '+'; };
  size_t n = 1;
  if (rest.empty()) return rest;
  if (rest[0] == '"') {
    while (n < rest.size() && rest[n] != '"') n += rest[n] == '\\' ? 2 : 1;
    ++n;
  } else if (rest[0] == '-' || std::isdigit(static_cast<unsigned char>(rest[0])) != 0) {
    while (n < rest.size() && in_number(rest[n])) ++n;
  } else if (in_word(rest[0])) {
    while (n < rest.size() && in_word(rest[n])) ++n;
  }
  const std::string_view token = rest.substr(0, n);
  rest.remove_prefix(token.size());
  return token;
}

// The same token, or "8N+1" for 8073, 8105 and 8145; empty where N has no such formula.
std::string for_all(const std::array<std::string_view, 3>& tokens) {
  if (tokens[0] == tokens[1] && tokens[0] == tokens[2]) return std::string(tokens[0]);
  std::array<int64_t, 3> seen{};
  for (size_t k = 0; k < 3; ++k) {
    const auto number = parse_number<int64_t>(tokens[k]);
    if (!number) return {};
    seen[k] = *number;
  }
  const auto size = BatchSize::of(seen);
  if (!size) return {};
  return cat(size->slope == 1 ? "" : std::to_string(size->slope), "N", size->more > 0 ? "+" : "",
             size->more == 0 ? "" : std::to_string(size->more));
}

// ---- Tracing ----

bool is_uniform(const Array& a) {
  const size_t size = size_of(a.dtype());
  const auto* const bytes = static_cast<const uint8_t*>(a.raw());
  return a.numel() < 2 || std::memcmp(bytes, bytes + size, a.bytes() - size) == 0;
}

// A number where all elements are one, which then may be N of them.
ConstantAttrs constant_of(const Array& a) {
  constexpr double kExact = 0x1p53;  // up to it doubles have all integers
  const Type type{a.dtype(), a.shape()};
  if (a.numel() == 0) return {type, 0, {}};
  const Array one(a.dtype(), {1});
  std::memcpy(one.raw(), a.raw(), one.bytes());
  const bool number = is_uniform(a) && !is_complex(a.dtype());
  const double value = number ? *one.cast(DType::f64).data<double>() : 0;
  if (number && (is_floating(a.dtype()) || std::abs(value) < kExact)) return {type, value, {}};
  return {type, 0, a};
}

bool same_elements(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// True for constants of one number, of which larger batches may have more elements.
bool same_number(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.numel() > 0 && b.numel() > 0 && is_uniform(a) && is_uniform(b) &&
         std::memcmp(a.raw(), b.raw(), size_of(a.dtype())) == 0;
}

bool any_of(const std::vector<Value>& values, const ByValue<bool>& of) {
  return std::any_of(values.begin(), values.end(), [&](Value v) { return of[v]; });
}

// What the results are computed from, and they themselves.
ByValue<bool> live_values(const Graph& g, const std::vector<Value>& results) {
  ByValue<bool> live(g);
  for (Value v : results) live[v] = true;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    if (!any_of(g.nodes[i].outputs, live)) continue;
    for (Value v : g.nodes[i].inputs) live[v] = true;
  }
  return live;
}

// A forward that was traced for one size of the batch.
struct Traced {
  std::shared_ptr<trace::Trace> tape;
  std::vector<Value> results;
  std::vector<Array> captured;  // of its inputs after x, in their order
};

// Arrays and numbers that differ between sizes of the batch have a rule, where one is known, by the number of the
// captured array, or of the constant's node.
using Rules = std::map<size_t, std::optional<BatchArray>>;

// The traces of one mode for all sizes.
struct Traces {
  std::array<Traced, 3> of_batch;
  Rules arrays, numbers;
};

// A graph, and for each node where the program computes it.
struct Located {
  Graph graph;
  std::vector<std::string> at;
  // Says it of the nodes that were added since the last call.
  void are_at(const std::string& where) { at.resize(graph.nodes.size(), where); }
  std::string where(size_t node) const { return node < at.size() ? at[node] : ""; }
};

template <class... Parts>
[[noreturn]] void refuse_batch(const std::string& where, const Parts&... parts) {
  throw Error(ErrorKind::usage, "GraphModule",
              cat("forward computes something else for another size of the batch: ", parts...), where);
}

[[noreturn]] void refuse_unknown_rule(const Graph& g, const Node& n) {
  constexpr const char* kHow = " follows the size in a way that a file cannot express; expected ";
  const Type& type = g.type(n.out());
  if (n.op == Op::constant || type.shape.rank() == 0) {
    refuse_batch(n.location(), "a number", kHow,
                 "one that is computed from the input, or a multiple of the size, of its root, or of 1 / either");
  }
  refuse_batch(n.location(), "an array, ", type, " for ", kBatches[0], " samples,", kHow,
               "one that is computed from the input, or made by arange, linspace, broadcast_to, tile, repeat or eye");
}

// The texts of the graphs differ in these tokens of a line, behind `before`.
[[noreturn]] void refuse_tokens(const std::array<Located, 3>& graphs, const std::string& before,
                                const std::array<std::string_view, 3>& tokens) {
  const auto node = static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) - 1;
  const auto name_in = [&](size_t k) {
    const auto& nodes = graphs[k].graph.nodes;
    return std::string(node < nodes.size() ? name(nodes[node].op) : "no more");
  };
  const std::string first = name_in(0), second = name_in(1), last = name_in(2), where = graphs[0].where(node);
  const auto all = [](const auto& a, const auto& b, const auto& c) {
    return cat(a, " for ", kBatches[0], " samples, ", b, " for ", kBatches[1], " and ", c, " for ", kBatches[2]);
  };
  if (first != second || first != last)
    refuse_batch(where, "it computes ", all(first, second, last), "; expected the same operations for all sizes");
  if (before.back() == '%' || !parse_number<int64_t>(tokens[0]))
    refuse_batch(where, first, " is computed from other values; expected the same operations for all sizes");
  refuse_batch(where, first, " has the number ", all(tokens[0], tokens[1], tokens[2]),
               "; expected one number for all sizes, or a multiple of the size, with a number added");
}

// Traces of one module. Their graphs have the same states: the module's variables, and the arrays that forward reads
// besides.
class Tracing {
 public:
  Tracing(Module& net, const Type& sample) : net_(net), sample_(sample), variables_(net.state_dict()) {
    for (size_t i = 0; i < variables_.size(); ++i) places_.try_emplace(variables_[i].variable.impl().get(), i);
  }

  const std::vector<NamedVariable>& variables() const { return variables_; }
  // In the module's present mode, for each size of the batch.
  Traces trace();
  // Throws where the gradients of a trace are not those of its graph.
  void need_plain_gradients(const Traces& all) const {
    for (const Traced& t : all.of_batch) {
      if (!t.tape->gradient_hooks().empty()) refuse("its gradients pass a custom gradient, or a hook of a module");
    }
    if (auxiliary_heads_) refuse("its loss has the loss of an auxiliary head");
  }
  // The text of all sizes, when all is traced.
  std::string text(const Traces& traces) const;

 private:
  Traced trace(int64_t batch);
  Located graph_of(const Traces& all, size_t k) const;
  // The place of a captured array among the variables; their number where it is none: uniform arrays are constants,
  // whose size may be N, and so are all but those of f32.
  size_t place_of(const Array& array) const;
  void keep(const Array& array);
  void add_state(const std::string& name, const Array& value);

  Module& net_;
  Type sample_;
  std::vector<NamedVariable> variables_;
  std::map<const trace::VariableImpl*, size_t> places_;
  std::vector<std::pair<Array, size_t>> arrays_;  // captured ones, and their places
  bool auxiliary_heads_ = false;
};

void Tracing::add_state(const std::string& name, const Array& value) {
  const auto taken = [&](const std::string& n) {
    return std::any_of(variables_.begin(), variables_.end(), [&](const NamedVariable& v) { return v.name == n; });
  };
  const DeviceScope beside(variables_.empty() ? "auto" : variables_[0].variable.device());
  std::string own = kReadByForward + name;
  for (int i = 2; taken(own); ++i) own = cat(kReadByForward, name, "_", i);
  const Variable v(own, {value.dtype(), value.shape()});
  v.set(value);
  variables_.push_back({own, v});
}

size_t Tracing::place_of(const Array& array) const {
  const auto at = std::find_if(arrays_.begin(), arrays_.end(),
                               [&](const auto& known) { return same_elements(known.first, array); });
  return at == arrays_.end() ? variables_.size() : at->second;
}

void Tracing::keep(const Array& array) {
  if (array.dtype() != DType::f32 || is_uniform(array) || place_of(array) < variables_.size()) return;
  arrays_.emplace_back(array, variables_.size());
  add_state(cat("array", arrays_.size()), array);
}

Traced Tracing::trace(int64_t batch) {
  Traced t{std::make_shared<trace::Trace>(trace::Trace::Mode::compile), {}, {}};
  {
    const trace::ScopeInstead top("");
    const trace::Recording recording(t.tape);
    const trace::AnyBatch counted;
    const AuxiliaryOutputs heads;
    Shape shape = sample_.shape;
    shape.insert(0, batch);
    constexpr SourceLine unknown{nullptr, 0};  // nodes record the lines of the forward
    for (const Tensor& y : net_.call({t.tape->input(kInput, {sample_.dtype, shape})}, unknown)) {
      if (y.defined()) t.results.push_back(t.tape->value_of(y));
    }
    auxiliary_heads_ = auxiliary_heads_ || !heads.list.empty();
  }
  t.captured = t.tape->captured();
  for (const auto& v : t.tape->variables()) {  // those of other modules, and of none, stay as they are now
    if (v == rng_state().impl() || places_.contains(v.get())) continue;
    places_.emplace(v.get(), variables_.size());
    add_state(v->name.empty() ? "variable" : v->name, Array(v->type.dtype, v->type.shape, v->materialize()));
  }
  return t;
}

Traces Tracing::trace() {
  Traces all;
  for (size_t k = 0; k < kBatches.size(); ++k) all.of_batch[k] = trace(kBatches[k]);
  const auto& t = all.of_batch;
  const auto alike = [&](auto size) { return size(t[0]) == size(t[1]) && size(t[0]) == size(t[2]); };
  const bool paired = alike([](const Traced& one) { return one.captured.size(); });
  for (size_t i = 0; i < t[0].captured.size(); ++i) {
    const Array& first = t[0].captured[i];
    const auto differs = [&](const Traced& other) {
      return !same_elements(first, other.captured[i]) && !same_number(first, other.captured[i]);
    };
    if (!paired || !(differs(t[1]) || differs(t[2]))) {
      keep(first);
      continue;
    }
    const auto rule = BatchArray::of({first, t[1].captured[i], t[2].captured[i]});
    if (rule && rule->repeated().defined()) keep(rule->repeated());
    all.arrays[i] = rule;
  }
  if (!alike([](const Traced& one) { return one.tape->graph().nodes.size(); })) return all;
  for (size_t i = 0; i < t[0].tape->graph().nodes.size(); ++i) {
    SeenArrays seen;
    for (size_t k = 0; k < t.size(); ++k) {
      const Node& n = t[k].tape->graph().nodes[i];
      const auto* const a = std::get_if<ConstantAttrs>(&n.attrs);
      if (!a || a->data.defined() || is_complex(a->type.dtype)) break;
      seen[k] = Array::of<double>({a->value}, {}).cast(a->type.dtype);
    }
    if (!seen[2].defined() || (same_elements(seen[0], seen[1]) && same_elements(seen[0], seen[2]))) continue;
    all.numbers[i] = BatchArray::of(seen);
  }
  return all;
}

Located Tracing::graph_of(const Traces& all, size_t k) const {
  const Traced& t = all.of_batch[k];
  const Graph& g = t.tape->graph();
  std::vector<Value> results = t.results;
  std::vector<Update> updates;
  bool random = false;
  std::map<int32_t, size_t> states;
  for (const trace::StateUse& s : t.tape->states()) {
    if (s.variable == rng_state().impl()) {
      random = true;
      continue;
    }
    states.emplace(s.leaf.id, places_.at(s.variable.get()));
    if (!s.assigned()) continue;
    updates.push_back({s.leaf, s.next});
    results.push_back(s.next);
  }
  const ByValue<bool> live = live_values(g, results);
  Located found;
  Graph& out = found.graph;
  ByValue<Value> map(g);
  const std::vector<Value> inputs = g.leaves(Op::input);
  map[inputs[0]] = out.add(Op::input, LeafAttrs{kInput, g.type(inputs[0])}, {})[0];
  const Value key = random ? out.add(Op::input, LeafAttrs{kRandom, {DType::i64, {2}}}, {})[0] : Value{};
  std::vector<Value> places;
  for (const NamedVariable& v : variables_)
    places.push_back(out.add(Op::state, LeafAttrs{v.name, v.variable.type()}, {})[0]);
  found.are_at("");
  const auto state_of = [&](const Array& array) {
    const size_t place = array.defined() ? place_of(array) : places.size();
    return place < places.size() ? places[place] : Value{};
  };
  const auto computed = [&](const std::optional<BatchArray>& rule, const Node& n) {
    if (!rule) refuse_unknown_rule(g, n);
    return rule->add_to(out, kBatches[k], state_of(rule->repeated()));
  };
  for (size_t i = 1; i < inputs.size(); ++i) {
    const Array& array = t.captured[i - 1];
    if (!live[inputs[i]]) continue;
    const Node& n = g.def(inputs[i]);
    if (const auto of_batch = all.arrays.find(i - 1); of_batch != all.arrays.end()) {
      map[inputs[i]] = computed(of_batch->second, n);
    } else {
      const Value state = state_of(array);
      map[inputs[i]] = state.valid() ? state : out.add(Op::constant, constant_of(array), {})[0];
    }
    found.are_at(n.location());
  }
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (n.op == Op::input || !any_of(n.outputs, live)) continue;
    if (n.op == Op::state) {
      const auto at = states.find(n.out().id);
      map[n.out()] = at == states.end() ? key : places[at->second];
      continue;
    }
    if (const auto of_batch = all.numbers.find(i); of_batch != all.numbers.end()) {
      Value v = computed(of_batch->second, n);
      const Shape& shape = g.type(n.out()).shape;
      if (shape.rank() > 0) {
        v = out.add(Op::reshape, ShapeAttrs{Shape::filled(shape.rank(), 1)}, {v})[0];
        v = out.add(Op::broadcast, ShapeAttrs{shape}, {v})[0];
      }
      map[n.out()] = v;
    } else {
      std::vector<Value> operands;
      for (Value v : n.inputs) operands.push_back(map[v]);
      const std::vector<Value> made = out.add(n.op, n.attrs, operands, n.scope.empty() ? n.where : n.scope);
      for (size_t j = 0; j < made.size(); ++j) map[n.outputs[j]] = made[j];
    }
    found.are_at(n.location());
  }
  for (Value v : t.results) out.outputs.push_back(map[v]);
  for (const Update& u : updates) out.updates.push_back({map[u.state], map[u.next]});
  return found;
}

std::string Tracing::text(const Traces& traces) const {
  std::array<Located, 3> graphs;
  std::array<std::string, 3> texts;
  std::array<std::string_view, 3> rest;
  for (size_t k = 0; k < 3; ++k) {
    graphs[k] = graph_of(traces, k);
    rest[k] = texts[k] = print(graphs[k].graph);
  }
  std::string out;
  while (!rest[0].empty()) {
    const std::array<std::string_view, 3> tokens{take_token(rest[0]), take_token(rest[1]), take_token(rest[2])};
    const std::string all = for_all(tokens);
    if (all.empty()) refuse_tokens(graphs, out, tokens);
    out += all;
  }
  for (const int64_t batch : {1, 2}) {
    try {
      graph_for(out, batch);
    } catch (const Error& e) {  // at "graph:LINE", of which the first is `graph {`, as the second is of nodes
      const auto line = parse_number<size_t>(e.where().substr(e.where().find(':') + 1)).value_or(1);
      refuse_batch(graphs[0].where(line - 2), "with ", batch, batch == 1 ? " sample " : " samples ", e.op(), ": ",
                   e.message());
    }
  }
  return out;
}

}  // namespace

std::shared_ptr<GraphModule> trace_module(Module& net, const Type& sample, std::string* untrained) {
  Tracing tracing(net, sample);
  const Evaluating modes(net);
  const Traces evaluation = tracing.trace();
  Traces training;
  std::string why;
  try {
    net.train();
    training = tracing.trace();
    tracing.need_plain_gradients(training);
  } catch (const std::exception& e) {
    why = e.what();
  }
  GraphModuleOptions fields;
  fields.graph = tracing.text(evaluation);
  if (why.empty()) {
    try {
      fields.training_graph = tracing.text(training);
    } catch (const Error& e) {
      why = e.what();
    }
  }
  if (fields.training_graph == fields.graph) fields.training_graph.clear();
  if (untrained) *untrained = why;
  fields.trainable = why.empty();
  for (const NamedVariable& v : tracing.variables()) {
    if (v.variable.role() == Variable::Role::state) fields.buffers += cat(fields.buffers.empty() ? "" : " ", v.name);
  }
  return std::make_shared<GraphModule>(fields, tracing.variables());
}

LayerList graph_layers() {
  return {
      declared(Layer<GraphModule>(
                   "GraphModule",
                   "a traced graph (graph-text.md) of samples of one shape, as networks whose forward is code are "
                   "stored; N is the size of the batch")
                   .required("graph", &GraphModuleOptions::graph, "of evaluation", kAny)
                   .field("training_graph", &GraphModuleOptions::training_graph, "of training; empty: `graph`")
                   .field("buffers", &GraphModuleOptions::buffers, "states that are not trained, separated by blanks")
                   .field("trainable", &GraphModuleOptions::trainable, "false: training is unknown, all is frozen"))};
}

}  // namespace freight::nn
