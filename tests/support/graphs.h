// Graphs for tests: the same graph in other element types (the oracle runs in f64), losses with random weights, and the
// check of gradients against central differences.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "freight/backend/ref/interpret.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"
#include "tests/support/arrays.h"

namespace freight::test {

inline int count(const Graph& g, Op op) {
  return static_cast<int>(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.op == op; }));
}

inline std::vector<Type> leaf_types(const Graph& g, Op kind) {
  std::vector<Type> types;
  for (Value v : g.leaves(kind)) types.push_back(g.type(v));
  return types;
}

// The graph with every floating type replaced by `to`. Random draws stay f32 and learning rates f32 (their ops demand
// it); casts are put around them.
inline Graph retype(const Graph& g, DType to) {
  const auto change = [to](DType& t) {
    if (is_floating(t)) t = to;
  };
  Rewriter r(g);
  for (const Node& node : g.nodes) {
    Node n = node;
    if (auto* a = std::get_if<LeafAttrs>(&n.attrs)) change(a->type.dtype);
    if (auto* a = std::get_if<ConstantAttrs>(&n.attrs)) {
      change(a->type.dtype);
      if (a->data.defined()) a->data = a->data.cast(a->type.dtype);
    }
    if (auto* a = std::get_if<CastAttrs>(&n.attrs)) change(a->dtype);
    if (auto* a = std::get_if<IotaAttrs>(&n.attrs)) change(a->dtype);
    if (auto* a = std::get_if<OneHotAttrs>(&n.attrs)) change(a->dtype);
    if (auto* a = std::get_if<FusedAttrs>(&n.attrs)) a->body = std::make_shared<const Graph>(retype(*a->body, to));
    Builder b(r.dst, n.scope, n.where);
    std::vector<Value> in = r(n.inputs);
    const size_t first = n.op == Op::sgd_rows ? 3 : 2;
    const size_t scalars = n.op == Op::sgd_update || n.op == Op::sgd_rows ? 1 : n.op == Op::adam_update ? 2 : 0;
    for (size_t i = first; i < first + scalars; ++i) in[i] = b.cast(in[i], DType::f32);
    if (const auto* a = std::get_if<AttentionAttrs>(&n.attrs)) {  // masks and statistics of bf16 are f32
      Value& mask = in[static_cast<size_t>(a->mask_at())];
      if (a->mask && is_floating(b.type(mask).dtype)) mask = b.cast(mask, wide(b.type(in[0]).dtype));
      if (a->second && n.op == Op::attention_grad) in.back() = b.cast(in.back(), b.type(in[in.size() - 3]).dtype);
    }
    const bool recurrent = std::holds_alternative<RecurrentAttrs>(n.attrs);
    if (recurrent || std::holds_alternative<RecurrentLayerAttrs>(n.attrs)) {  // and so are weights
      for (Value& v : in) {
        const Type& t = b.type(v);
        if (is_floating(t.dtype) && t.shape.rank() < 3) v = b.cast(v, wide(t.dtype));
      }
    }
    std::vector<Value> out = b.add(n.op, n.attrs, in);
    if (n.op == Op::random_uniform || n.op == Op::random_normal) out[0] = b.cast(out[0], to);
    for (size_t i = 0; i < out.size(); ++i) r.replace(n.outputs[i], out[i]);
  }
  return r.finish();
}

// Floating arrays in another element type.
inline std::vector<Array> retype(const std::vector<Array>& arrays, DType to) {
  std::vector<Array> out;
  for (const Array& a : arrays) out.push_back(is_floating(a.dtype()) ? a.cast(to) : a);
  return out;
}

// Sum over all floating values of (value * fixed random weights); invalid where none is floating.
inline Value weighted_sum(Graph& g, const std::vector<Value>& values, uint64_t seed) {
  Builder b(g);
  Value total;
  for (Value v : values) {
    if (!v.valid()) continue;
    if (!is_floating(b.type(v).dtype)) continue;
    v = b.cast(v, wide(b.type(v).dtype));
    const Type t = b.type(v);
    const Array weights = random_array({t, Fill::unit}, seed++);
    const Value w = b.one(Op::constant, ConstantAttrs{t, 0, weights}, {});
    Shape all;
    for (int i = 0; i < t.shape.rank(); ++i) all.push_back(i);
    const Value part = b.reshape(b.sum(b.binary(Op::mul, v, w), all), {});
    total = total.valid() ? b.binary(Op::add, total, part) : part;
  }
  return total;
}

// The graph's floating inputs.
inline std::vector<Value> floating_inputs(const Graph& g) {
  std::vector<Value> found;
  for (Value v : g.leaves(Op::input)) {
    if (is_floating(g.type(v).dtype)) found.push_back(v);
  }
  return found;
}

inline double evaluate(Graph g, Value output, const std::vector<Array>& inputs) {
  g.outputs = {output};
  g.updates.clear();
  return interpret(passes::dead_code(g), inputs)[0].to_vector<double>()[0];
}

// Compares d(loss)/d(inputs) with central differences in f64, at up to `samples` elements per input.
inline ::testing::AssertionResult gradient_agrees(const Graph& graph, Value loss, const std::vector<Array>& inputs,
                                                  double tolerance = 1e-6, int64_t samples = 12) {
  Graph g = graph;
  const std::vector<Value> leaves = g.leaves(Op::input), wrt = floating_inputs(g);
  const std::vector<Value> gradients = grad(g, loss, wrt);
  verify(g, "grad");
  g.outputs.clear();
  for (Value v : gradients) {
    if (v.valid()) g.outputs.push_back(v);
  }
  const std::vector<Array> analytic = interpret(g, inputs);
  size_t next = 0;
  for (size_t k = 0; k < wrt.size(); ++k) {
    const bool flows = gradients[k].valid();
    const Array* a = flows ? &analytic[next++] : nullptr;
    const size_t at = static_cast<size_t>(std::find(leaves.begin(), leaves.end(), wrt[k]) - leaves.begin());
    const int64_t n = inputs[at].numel(), stride = std::max<int64_t>(1, n / samples);
    for (int64_t i = 0; i < n; i += stride) {
      const double h = 1e-5;
      std::vector<Array> moved = inputs;
      moved[at] = inputs[at].clone();
      double& x = moved[at].data<double>()[i];
      const double x0 = x;
      x = x0 + h;
      const double above = evaluate(graph, loss, moved);
      x = x0 - h;
      const double below = evaluate(graph, loss, moved);
      const double numeric = (above - below) / (2 * h), found = a ? a->data<double>()[i] : 0;
      const double scale = 1 + std::fabs(numeric) + 1e-3 * (std::fabs(above) + std::fabs(below));
      if (!(std::fabs(numeric - found) <= tolerance * scale)) {
        return ::testing::AssertionFailure() << "gradient with respect to input " << at << " at element " << i << " is "
                                             << found << (a ? "" : " (none flows)") << ", differences give " << numeric;
      }
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace freight::test
