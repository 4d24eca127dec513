// Mixed precision: the graph of a step, backward and update included, computed in a 16-bit type where the op table says
// so. States, inputs and results keep their types: master weights, moments and statistics stay f32.
//
// Two walks decide. Forward: a result can be 16 bits wide where its op is `low` or `low_if_supported` (in whatever it
// computes), or `match_inputs` and all operands can. Backward: it is where a contraction makes it, or where it goes
// on into one element by element, by `match_inputs` ops alone, whatever f32 operands (a norm's statistics) join it:
// activations and their gradients, which steps store. What ends in updates, reductions or losses stays f32, so that the
// gradients of a weight that is used many times add up in f32; so do products with a parameter (a norm's scale) on such
// a way. Casts are shared by all readers and go below views: a weight is cast once per step. They go below look-ups of
// rows in a table that a plan with frozen states makes once and stores (passes::fold): it is stored in 16 bits then. A
// table that is a state itself would have to be stored a second time.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "freight/backend/backend.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"

namespace freight::passes {

namespace {

class Autocast {
 public:
  Autocast(const Graph& graph, DType low, const Backend* backend, States states)
      : r_(graph),
        b_(r_.dst),
        low_type_(low),
        backend_(backend),
        roots_(memory_roots(graph)),
        frozen_(frozen_values(graph, states)) {}

  Graph run() {
    decide();
    for (const NodeId i : r_.src.node_ids()) emit(r_.src.node(i), low_[i]);
    for (Value v : r_.src.outputs) restore(v);
    for (const Update& u : r_.src.updates) restore(u.next);
    return r_.finish();
  }

 private:
  bool is_f32(Value v) const { return r_.src.type(v).dtype == DType::f32; }

  // A number, or spread over a tensor a parameter, a sum with one (a bias), or what is made of frozen ones (a bias of
  // passes::fold), which over a batch of one sample is a vector with more axes: takes the type of what it meets.
  bool adapts(Value v) const {
    bool spread = false;
    const Node* d = &r_.src.def(v);
    for (; info(d->op).kind == OpKind::view; d = &r_.src.def(d->in(0))) spread = spread || d->op == Op::broadcast;
    double number;
    const bool sum = d->op == Op::add && is_state(d->in(0));
    const bool frozen = frozen_[d->out()] && (spread || r_.src.type(d->out()).shape.rank() == 1);
    return splat_value(r_.src, d->out(), number) || frozen || (spread && (sum || d->op == Op::state));
  }
  bool is_state(Value v) const { return r_.src.def(roots_[v]).op == Op::state; }

  // Says whether the node can compute in 16 bits, given which values can be.
  bool possible(const Node& n, const ByValue<bool>& can) const {
    const Precision p = info(n.op).precision;
    if (p == Precision::full) return false;
    if (p == Precision::low) return is_f32(n.in(0)) && !(backend_ && backend_->keeps_f32(r_.src, n, low_type_));
    if (p == Precision::low_if_supported) return is_f32(n.in(0)) && backend_ && backend_->narrows(r_.src, n, low_type_);
    if (p == Precision::match_first_input) return can[n.in(0)];
    bool any = false;
    for (Value v : n.inputs) {
      if (!is_f32(v)) continue;
      if (!can[v] && !adapts(v)) return false;
      any = any || can[v];
    }
    return any;
  }

  // A statistic of a `low_if_supported` op, or a weight, is f32 in any case.
  bool statistic(const Node& n, Value v) const {
    return info(n.op).precision == Precision::low_if_supported &&
           r_.src.type(v).shape.rank() < r_.src.type(n.out()).shape.rank();
  }

  // A bias, relu or bound right behind a contraction belongs to its epilogue: the sum is rounded once either way.
  bool rides(const Node& n, const ByValue<bool>& contracted) const {
    if (n.op != Op::add && n.op != Op::relu && n.op != Op::minimum) return false;
    const auto rows = [&](Value v) { return r_.src.def(v).op == Op::reshape ? r_.src.def(v).in(0) : v; };  // (N T, C)
    return std::all_of(n.inputs.begin(), n.inputs.end(), [&](Value v) { return contracted[rows(v)] || adapts(v); }) &&
           (n.op == Op::relu || adapts(n.in(0)) || adapts(n.in(1)));
  }

  void decide() {
    ByValue<bool> can(r_.src), wanted(r_.src);
    low_ = ByNode<bool>(r_.src);
    for (const NodeId i : r_.src.node_ids()) {
      const Node& n = r_.src.node(i);
      const Precision p = info(n.op).precision;
      low_[i] = possible(n, can);
      if ((!low_[i] && p != Precision::low_if_supported) || !is_f32(n.out())) continue;
      for (Value v : n.outputs) {
        if (statistic(n, v)) break;
        can[v] = true;
        wanted[v] = low_[i] && (p == Precision::low || p == Precision::low_if_supported || rides(n, wanted));
        if (p != Precision::low_if_supported) break;
      }
    }
    for (const NodeId i : r_.src.node_ids().reversed()) {
      const Node& n = r_.src.node(i);
      const Precision p = info(n.op).precision;
      if (!is_f32(n.out())) continue;  // comparisons take what there is
      low_[i] = low_[i] && wanted[n.out()];
      if (!low_[i] && (p != Precision::match_inputs || !wanted[n.out()])) continue;
      for (Value v : n.inputs) {
        const std::vector<Value>& from = r_.src.def(roots_[v]).inputs;
        const bool scaled = std::any_of(from.begin(), from.end(), [&](Value u) { return is_state(u); });
        wanted[v] = wanted[v] || (low_[i] ? !statistic(n, v) : !scaled);
        if (p == Precision::match_first_input) break;
      }
    }
  }

  void emit(const Node& n, bool low) {
    b_.set_location(n);
    if (low && !is_f32(n.out())) {
      for (Value v : n.inputs) low = low && (!is_f32(v) || adapts(v) || b_.type(r_(v)).dtype == low_type_);
    }
    const bool first_only = info(n.op).precision == Precision::match_first_input;
    std::vector<Value> in;
    for (Value v : n.inputs) {
      const DType t = low && !(first_only && !in.empty()) && !statistic(n, v) ? low_type_ : DType::f32;
      in.push_back(is_f32(v) ? as(r_(v), t) : r_(v));
    }
    const std::vector<Value> out = b_.add(n.op, n.attrs, in);
    for (size_t i = 0; i < out.size(); ++i) r_.replace(n.outputs[i], out[i]);
    const int table = info(n.op).table;
    if (table >= 0 && frozen_[n.in(table)] && !is_state(n.in(table))) looked_up_.insert(out[0].id);
  }

  void restore(Value v) {
    const Node& n = r_.src.def(v);
    b_.set_location(n);
    if (is_f32(v)) r_.replace(v, as(r_(v), DType::f32));
  }

  // A value of the new graph in the other of the two types.
  Value as(Value v, DType t) {
    if (b_.type(v).dtype == t) return v;
    if (const auto it = casts_.find(v.id); it != casts_.end()) return it->second;
    const Node d = r_.dst.def(v);  // a copy: the graph grows below
    double number;
    Value made;
    if (splat_value(r_.dst, v, number)) {
      made = b_.constant(number, {t, b_.shape(v)});
    } else if (d.op == Op::reshape || d.op == Op::transpose || d.op == Op::broadcast) {
      made = b_.one(d.op, d.attrs, {as(d.in(0), t)});
    } else if (looked_up_.contains(v.id)) {
      std::vector<Value> in = d.inputs;
      Value& table = in[static_cast<size_t>(info(d.op).table)];
      table = as(table, t);
      made = b_.one(d.op, d.attrs, in);
    } else {
      made = b_.cast(v, t);
    }
    return casts_[v.id] = made;
  }

  Rewriter r_;
  Builder b_;
  DType low_type_;
  const Backend* backend_;
  ByValue<Value> roots_;  // behind all views
  ByNode<bool> low_;      // computes in 16 bits
  ByValue<bool> frozen_;
  std::unordered_set<int32_t> looked_up_;     // of the new graph: rows of a table that is made once
  std::unordered_map<int32_t, Value> casts_;  // of the new graph
};

}  // namespace

Graph autocast(const Graph& graph, DType low, const Backend* backend, States states) {
  return Autocast(graph, low, backend, states).run();
}

}  // namespace freight::passes
