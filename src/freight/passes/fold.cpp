// In a plan whose states are frozen, what a convolution's or matmul's result is multiplied with or shifted by per
// channel moves into its weight and its bias, where it costs nothing (steps that run once compute them): BatchNorm in
// evaluation mode, y = x a + b with a = scale / sqrt(variance + eps) and b = shift - mean a, and hand-written scalings.
//   (conv(x, w) + c) a + b = conv(x, w a) + (c a + b)
// The product of looked-up rows with a weight, as in a recurrent layer behind an embedding, is made of all rows of the
// table once, and so is the sum with a bias: embedding(i, t) w + b = embedding(i, t w + b).
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "freight/ir/builder.h"
#include "freight/ir/op_rules.h"
#include "freight/passes/passes.h"

namespace freight::passes {

ByValue<bool> frozen_values(const Graph& graph, States states) {
  ByValue<bool> frozen(graph);
  if (states == States::change) return frozen;
  ByValue<bool> updated(graph);
  for (const Update& u : graph.updates) updated[u.state] = true;
  for (const Node& n : graph.nodes) {
    bool all = n.op != Op::input;
    for (Value v : n.inputs) all = all && frozen[v];
    for (Value v : n.outputs) frozen[v] = all && !updated[v];
  }
  return frozen;
}

Value channel_vector(const Graph& g, Value v, int axis, const Shape& shape) {
  const Value thin = g.def(v).op == Op::broadcast ? g.def(v).in(0) : v;
  const Shape& t = g.type(thin).shape;
  if (t.rank() != shape.rank()) return {};
  for (int i = 0; i < t.rank(); ++i) {
    if (t[i] != (i == axis ? shape[axis] : 1)) return {};
  }
  const Node& d = g.def(thin);
  if (d.op == Op::reshape && g.type(d.in(0)).shape == Shape{shape[axis]}) return d.in(0);
  return t.rank() == 1 && thin != v ? thin : Value{};
}

namespace {

class Fold {
 public:
  explicit Fold(const Graph& graph)
      : r_(graph), b_(r_.dst), uses_(graph.use_counts()), frozen_(frozen_values(graph, States::frozen)) {}

  Graph run() {
    for (const Node& n : r_.src.nodes) {
      b_.set_location(n);
      if (n.op == Op::conv || n.op == Op::matmul) {
        contraction(n);
      } else if (!looked_up(n) && !absorbed(n)) {
        r_.copy(n);
      }
    }
    return dead_code(r_.finish());
  }

 private:
  // A contraction with a frozen weight whose result nobody else reads, and the (C) that is added to it, if any.
  struct Affine {
    Node core;  // of the new graph
    int channel = 1, weight_channel = 0;
    Value bias;
  };

  // A node that looks rows up in a table made of frozen values, with operands of the new graph.
  struct Lookup {
    Op op;
    Attrs attributes;
    std::vector<Value> inputs;
    size_t operand;      // the table's
    const Node* origin;  // in the source: errors of an index name it
    Value& table() { return inputs[operand]; }
  };

  // Nothing where the products of all rows would take much memory, or as much work as those of many runs: a plan for
  // one short text starts without them.
  std::optional<Lookup> product_of_rows(const Node& n) const {
    constexpr size_t kMostBytes = 64 << 20;
    constexpr int64_t kMostRuns = 8;
    const Graph& g = r_.src;
    const Type &y = g.type(n.out()), &w = g.type(n.in(1));
    if (n.op != Op::matmul || n.inputs.size() != 2 || attrs<MatmulAttrs>(n).trans_a) return {};
    if (!frozen_[n.in(1)] || w.shape.rank() != 2) return {};
    const Value rows = g.def(n.in(0)).op == Op::reshape ? g.def(n.in(0)).in(0) : n.in(0);
    const Node& lookup = g.def(rows);
    const int operand = info(lookup.op).table;
    if (operand < 0 || !frozen_[lookup.in(operand)]) return {};
    const Type& table = g.type(lookup.in(operand));
    const Shape& read = g.type(n.in(0)).shape;
    if (table.shape.rank() != 2 || read[read.rank() - 1] != table.shape[1]) return {};
    const int64_t columns = y.shape[y.shape.rank() - 1];
    if (table.numel() == 0 || y.numel() == 0 || table.shape[0] > kMostRuns * (y.numel() / columns)) return {};
    if (Type{y.dtype, {table.shape[0], columns}}.bytes() > kMostBytes) return {};
    return Lookup{lookup.op, lookup.attrs, r_(lookup.inputs), static_cast<size_t>(operand), &lookup};
  }

  void look_up(const Node& n, const Lookup& from) {
    b_.set_location(*from.origin);
    const Value rows = b_.one(from.op, from.attributes, from.inputs);
    b_.set_location(n);
    r_.replace(n.out(), b_.reshape(rows, r_.src.type(n.out()).shape));
    lookups_[n.out().id] = from;
  }

  // A view of looked-up rows, or their sum with a vector of the columns.
  bool looked_up(const Node& n) {
    if (n.op == Op::reshape) {
      const auto at = lookups_.find(n.in(0).id);
      const Shape &from = r_.src.type(n.in(0)).shape, &to = r_.src.type(n.out()).shape;
      if (at == lookups_.end() || to.rank() == 0 || to[to.rank() - 1] != from[from.rank() - 1]) return false;
      look_up(n, at->second);
      return true;
    }
    for (int k = 0; n.op == Op::add && k < 2; ++k) {
      const auto at = lookups_.find(n.in(k).id);
      if (at == lookups_.end() || !frozen_[n.in(1 - k)]) continue;
      const Shape& shape = r_.src.type(n.out()).shape;
      const Value bias = channel_vector(r_.dst, r_(n.in(1 - k)), shape.rank() - 1, shape);
      if (!bias.valid()) continue;
      Lookup shifted = at->second;
      Value& table = shifted.table();
      table = b_.binary(Op::add, table, b_.broadcast_axis(bias, 1, b_.shape(table)));
      look_up(n, shifted);
      return true;
    }
    return false;
  }

  void contraction(const Node& n) {
    if (std::optional<Lookup> rows = product_of_rows(n)) {
      rows->table() = b_.one(Op::matmul, n.attrs, {rows->table(), r_(n.in(1))});
      return look_up(n, *rows);
    }
    r_.copy(n);
    const Type w = r_.src.type(n.in(1));
    if (n.inputs.size() != 2 || !frozen_[n.in(1)] || w.dtype != DType::f32 || uses_[n.out()] != 1) return;
    const bool conv = n.op == Op::conv;
    if (!conv && (w.shape.rank() != 2 || r_.src.type(n.out()).shape.rank() != 2)) return;
    const Value y = r_(n.out());
    affine_[n.out().id] = {r_.dst.def(y), 1, conv || attrs<MatmulAttrs>(n).trans_b ? 0 : 1, {}};
  }

  // The affine result behind input k of n.
  const Affine* affine(const Node& n, int k) const {
    const auto it = affine_.find(n.in(k).id);
    return it == affine_.end() ? nullptr : &it->second;
  }

  bool absorbed(const Node& n) {
    if (const PerChannelFn per_channel = info(n.op).per_channel) {
      const Affine* a = affine(n, 0);
      if (!a || !std::all_of(n.inputs.begin() + 1, n.inputs.end(), [&](Value v) { return vector(v); })) return false;
      const auto [scale, shift] = per_channel(b_, n, r_(n.inputs));
      replace(n, shifted(scaled(*a, scale), shift));
      return true;
    }
    if (n.op != Op::mul && n.op != Op::add) return false;
    for (int k = 0; k < 2; ++k) {
      const Affine* a = affine(n, k);
      if (!a || !frozen_[n.in(1 - k)]) continue;
      const Ex v{&b_, channel_vector(r_.dst, r_(n.in(1 - k)), a->channel, r_.src.type(n.out()).shape)};
      if (!v.v.valid() || v.type().dtype != DType::f32) continue;
      replace(n, n.op == Op::mul ? scaled(*a, v) : shifted(*a, v));
      return true;
    }
    return false;
  }

  bool vector(Value v) const { return frozen_[v] && r_.src.type(v).dtype == DType::f32; }

  Affine scaled(Affine a, Ex by) {
    Value& w = a.core.inputs[1];
    w = (Ex{&b_, w} * Ex{&b_, b_.broadcast_axis(by.v, a.weight_channel, b_.shape(w))}).v;
    if (a.bias.valid()) a.bias = (Ex{&b_, a.bias} * by).v;
    return a;
  }
  Affine shifted(Affine a, Ex by) {
    a.bias = a.bias.valid() ? (Ex{&b_, a.bias} + by).v : by.v;
    return a;
  }

  // Puts the contraction with its new weight and bias in the place of n.
  void replace(const Node& n, const Affine& a) {
    Value y = r_.dst.add(a.core.op, a.core.attrs, a.core.inputs, a.core.scope, a.core.where)[0];
    if (a.bias.valid()) y = b_.binary(Op::add, y, b_.broadcast_axis(a.bias, a.channel, b_.shape(y)));
    r_.replace(n.out(), y);
    if (uses_[n.out()] == 1) affine_[n.out().id] = a;
  }

  Rewriter r_;
  Builder b_;
  ByValue<int> uses_;                            // of the old graph
  ByValue<bool> frozen_;                         // of the old graph
  std::unordered_map<int32_t, Affine> affine_;   // by value of the old graph
  std::unordered_map<int32_t, Lookup> lookups_;  // the same
};

}  // namespace

Graph fold(const Graph& graph) { return Fold(graph).run(); }

}  // namespace freight::passes
