// See frozen_part.h. The network is traced whole for each number of samples; nodes of that trace are then copied into
// the trace that asks, up to the features or from there on.
#include "freight/finetune/frozen_part.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/ir/sample_rows.h"
#include "freight/nn/container.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/shape.h"
#include "freight/trace/thread_context.h"
#include "freight/trace/tracer.h"

namespace freight::finetune {

namespace {

constexpr int64_t kSamples = 2;  // of the trace that is looked at

// A pass through the network, and which of its values are features.
struct Pass {
  std::shared_ptr<trace::Trace> tape;
  Value x, output;
  std::vector<std::pair<Value, double>> auxiliary;  // results of auxiliary heads, and their weights
  ByValue<Dependence> depends;                      // of several samples
  std::vector<Value> features;

  const Graph& graph() const { return tape->graph(); }
  // True for what is computed once per sample.
  bool fixed(Value v) const { return depends[v] == Dependence::rows; }
  // Results of the network, and next values of its statistics.
  std::vector<Value> results() const {
    std::vector<Value> all{output};
    for (const auto& [value, weight] : auxiliary) all.push_back(value);
    for (const trace::StateUse& s : tape->states()) {
      if (s.assigned()) all.push_back(s.next);
    }
    return all;
  }
};

// Features are kept as f32, which has all integers up to 2^24: more than tokens or classes there are.
bool can_be_kept(const Type& type) {
  return type.dtype == DType::f32 || type.dtype == DType::i32 || type.dtype == DType::boolean;
}

[[noreturn]] void refuse_other_operations(const models::Model& model) {
  fail(ErrorKind::usage, "--feature-cache", model.name, " computes a batch of one sample by other operations than a ",
       "larger one: expected the same for all; --feature-cache off computes frozen layers in each epoch");
}

// The value of `one`, a trace of one sample, for each value of `several`, a trace of more. `one` lacks views that
// change no shape there, such as broadcasts along the samples: their value is what they read.
ByValue<Value> values_of_one(const models::Model& model, const Graph& several, const Graph& one) {
  ByValue<Value> at(several, Value{});
  auto next = one.nodes.begin();
  for (const Node& n : several.nodes) {
    const auto reads_as_next = [&] {
      return std::equal(n.inputs.begin(), n.inputs.end(), next->inputs.begin(), next->inputs.end(),
                        [&](Value a, Value b) { return at[a] == b; });
    };
    if (next != one.nodes.end() && next->op == n.op && reads_as_next()) {
      for (size_t i = 0; i < n.outputs.size(); ++i) at[n.outputs[i]] = next->outputs[i];
      ++next;
    } else {
      if (info(n.op).kind != OpKind::view) refuse_other_operations(model);
      at[n.out()] = at[n.inputs[0]];
    }
  }
  if (next != one.nodes.end()) refuse_other_operations(model);
  return at;
}

Pass pass_of(const models::Model& model, const Type& sample, int64_t n) {
  Pass p;
  p.tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  Type batch = sample;
  batch.shape.insert(0, n);
  {
    const trace::Recording recording(p.tape);
    const nn::AuxiliaryOutputs heads;
    const Tensor x = p.tape->input("inputs", batch);
    p.x = p.tape->value_of(x);
    p.output = p.tape->value_of((*model.net)(x));
    for (const nn::AuxiliaryOutput& head : heads.list)
      p.auxiliary.emplace_back(p.tape->value_of(head.output), head.weight);
  }
  const Graph& g = p.graph();
  if (n < kSamples) {
    // The shapes of one sample do not show which axis has the samples.
    const Pass several = pass_of(model, sample, kSamples);
    const ByValue<Value> here = values_of_one(model, several.graph(), g);
    for (const Value v : several.features) p.features.push_back(here[v]);
    return p;
  }
  const auto leaf_dependence = [&](Value leaf) {
    if (leaf == p.x) return Dependence::rows;
    for (const trace::StateUse& s : p.tape->states()) {
      if (!(s.leaf == leaf)) continue;
      const bool changes = s.assigned() || s.variable->trainable || s.variable == rng_state().impl();
      return changes ? Dependence::other : Dependence::constant;
    }
    return Dependence::constant;  // an array that the network has
  };
  p.depends = dependences_of(g, n, leaf_dependence);
  ByValue<bool> read(g, false);
  for (const Node& node : g.nodes) {
    const bool inside = std::all_of(node.outputs.begin(), node.outputs.end(), [&](Value v) { return p.fixed(v); });
    if (inside) continue;
    for (const Value v : node.inputs) read[v] = true;
  }
  for (const Value v : p.results()) read[v] = true;
  for (const Value v : g.value_ids()) {
    if (read[v] && p.fixed(v)) p.features.push_back(v);
  }
  return p;
}

// Copies what `wanted` needs into the trace that is recorded. `here` has the values that are given.
void copy_into_trace(const Pass& p, const std::vector<Value>& wanted, ByValue<Value>& here) {
  const Graph& from = p.graph();
  ByValue<bool> needed(from, false);
  for (const Value v : wanted) needed[v] = true;
  for (const NodeId id : from.node_ids().reversed()) {
    const Node& n = from.node(id);
    const auto missing = [&](Value v) { return needed[v] && !here[v].valid(); };
    if (std::none_of(n.outputs.begin(), n.outputs.end(), missing)) continue;
    for (const Value v : n.inputs) needed[v] = true;
  }
  trace::Session now;
  size_t captured = 0;
  for (const Node& n : from.nodes) {
    const bool is_array = n.op == Op::input && !(n.out() == p.x);
    const size_t number = is_array ? captured++ : 0;
    const auto missing = [&](Value v) { return needed[v] && !here[v].valid(); };
    if (std::none_of(n.outputs.begin(), n.outputs.end(), missing)) continue;
    if (is_array) {
      here[n.out()] = now->value_of(Tensor(p.tape->captured()[number]));
    } else if (n.op == Op::state) {
      const auto& states = p.tape->states();
      const auto at = std::find_if(states.begin(), states.end(), [&](const auto& s) { return s.leaf == n.out(); });
      here[n.out()] = now->read(at->variable);
    } else {
      if (info(n.op).random) now->next_stream();  // the draws of a step are others than those of the one before
      std::vector<Value> in;
      for (const Value v : n.inputs) in.push_back(here[v]);
      const std::vector<Value> out = now->graph().add(n.op, n.attrs, in, n);
      for (size_t i = 0; i < out.size(); ++i) here[n.outputs[i]] = out[i];
    }
  }
  for (const trace::Guard& g : p.tape->guards()) now->depend_on(g.flag);
  for (const trace::GradientHook& hook : p.tape->gradient_hooks()) {
    if (here[hook.value].valid()) now->add_gradient_hook(here[hook.value], *hook.function);
  }
}

int64_t width_of(const Pass& p) {
  int64_t width = 0;
  for (const Value v : p.features) {
    const Type& type = p.graph().type(v);
    if (!can_be_kept(type)) return 0;
    width += type.numel() / p.graph().type(p.x).shape[0];
  }
  return width;
}

// Takes features (N, 1, F) and gives the results of the network.
class Rest final : public nn::Module {
 public:
  Rest(const models::Model& model, const Type& sample) : model_(model), sample_(sample) { adopt("", model.net); }

  Tensor forward(const Tensor& given) override {
    const int64_t n = given.dim(0);
    const Tensor features = reshape(given, {n, given.numel() / n});
    const Pass p = pass_of(model_, sample_, n);
    FREIGHT_CHECK(width_of(p) == features.dim(1), "the features are those of another mode of the network");
    ByValue<Value> here(p.graph(), Value{});
    int64_t column = 0;
    for (const Value v : p.features) {
      const Type& type = p.graph().type(v);
      const int64_t width = type.numel() / n;
      const Tensor part = cast(reshape(narrow(features, 1, column, width), type.shape), type.dtype);
      here[v] = trace::Session()->value_of(part);
      column += width;
    }
    copy_into_trace(p, p.results(), here);
    trace::Session now;
    for (const trace::StateUse& s : p.tape->states()) {
      if (s.assigned()) now->assign(s.variable, here[s.next]);
    }
    if (auto* const heads = trace::thread_context().auxiliary_outputs) {
      for (const auto& [value, weight] : p.auxiliary) heads->list.push_back({now->wrap(here[value]), weight});
    }
    return now->wrap(here[p.output]);
  }

 private:
  models::Model model_;
  Type sample_;
};

// The last part of the path, or "the network".
std::string layer_of(const Node& n) { return n.scope.empty() ? std::string("the network") : n.scope; }

bool reads_trained(const Pass& p, const Node& n) {
  return std::any_of(n.inputs.begin(), n.inputs.end(), [&](Value v) {
    return p.graph().def(v).op == Op::state && p.depends[v] == Dependence::other &&
           p.graph().node(p.graph().node_of(v)).out() == v;
  });
}

// The reason why the part ends at a node that takes features and whose results are not features.
std::string reason_of(const Pass& p, const Node& n) {
  if (info(n.op).random) return cat(layer_of(n), " draws random numbers (", name(n.op), ")");
  if (reads_trained(p, n)) return cat(layer_of(n), " is trained");
  const bool changed =
      std::any_of(n.inputs.begin(), n.inputs.end(), [&](Value v) { return p.depends[v] == Dependence::other; });
  return changed ? cat(layer_of(n), " is trained") : cat(layer_of(n), " computes over the batch (", name(n.op), ")");
}

}  // namespace

FrozenPart::FrozenPart(const models::Model& model, const Type& sample) : model_(model), sample_(sample) {
  const Pass p = pass_of(model, sample, kSamples);
  const Graph& g = p.graph();
  for (const Node& n : g.nodes) {
    const bool inside = std::all_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return p.fixed(v); });
    const double flops = cost(g, n).flops;
    all_flops_ += flops;
    if (inside) {
      flops_ += flops;
      continue;
    }
    const bool takes = std::any_of(n.inputs.begin(), n.inputs.end(), [&](Value v) { return p.fixed(v); });
    if (!takes) continue;
    const std::string reason = reason_of(p, n);
    if (std::find(ends_.begin(), ends_.end(), reason) == ends_.end()) ends_.push_back(reason);
  }
  // Where the samples themselves are read by what is trained, they would be kept for nothing.
  const bool reads_x = std::find(p.features.begin(), p.features.end(), p.x) != p.features.end();
  width_ = reads_x ? 0 : width_of(p);
}

std::string FrozenPart::rest_text() const {
  const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  Type batch = type();
  batch.shape.insert(0, kSamples);
  const trace::Recording recording(tape);
  const nn::AuxiliaryOutputs heads;
  const models::Model behind = rest();
  (*behind.net)(tape->input("inputs", batch));
  return print(tape->graph());
}

models::Model FrozenPart::rest() const {
  models::Model rest = model_;
  rest.input = type();
  rest.net = std::make_shared<Rest>(model_, sample_);
  return rest;
}

Tensor FrozenPart::features(const Tensor& x) const {
  const int64_t n = x.dim(0);
  Type sample = x.type();
  sample.shape.erase(0);
  const Pass p = pass_of(model_, sample, n);
  FREIGHT_CHECK(width_of(p) == width_, "the features have the size of this part");
  ByValue<Value> here(p.graph(), Value{});
  here[p.x] = trace::Session()->value_of(x);
  copy_into_trace(p, p.features, here);
  std::vector<Tensor> rows;
  for (const Value v : p.features) {
    const Tensor t = trace::Session()->wrap(here[v]);
    rows.push_back(cast(reshape(t, {n, t.numel() / n}), DType::f32));
  }
  return rows.size() == 1 ? rows[0] : concat(rows, 1);
}

}  // namespace freight::finetune
