// An activation and its gradient as a tile program: by the definition and the rule that the op table has for it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>

#include "freight/backend/cpu/kernels/tile.h"
#include "freight/ir/builder.h"
#include "freight/ir/op.h"
#include "freight/ir/vjp.h"

namespace freight::testing {

using cpu::TileFunction;
using cpu::TileProgram;
using cpu::TileValue;

// The program on x, g -> y = op(x), dx = its gradient for g, of n f32 each.
inline TileProgram activation_program(Op op, const Attrs& attributes, int64_t n) {
  Graph graph;
  Builder b(graph);
  const Type type{DType::f32, {n}};
  const Value x = b.one(Op::input, LeafAttrs{"x", type}, {}), g = b.one(Op::input, LeafAttrs{"g", type}, {});
  const Value y = b.one(op, attributes, {x});
  const Node node = graph.def(y);
  const Value defined = info(op).decompose(b, node, {x})[0];
  VjpContext context(b, node, {g}, {true});
  info(op).vjp(context);
  TileProgram p;
  p.space = {n};
  std::map<int32_t, int> made;
  for (const Node& d : graph.nodes) {
    double number = 0;
    const auto in = [&](size_t i) { return i < d.inputs.size() ? made.at(d.inputs[i].id) : -1; };
    if (d.op == op) continue;
    made[d.out().id] = d.op == Op::input                     ? p.input(d.out() == x ? 0 : 1, DType::f32, {1})
                       : splat_value(graph, d.out(), number) ? p.constant(number, DType::f32)
                                                             : p.apply(d.op, DType::f32, in(0), in(1));
  }
  const auto store = [&](Value v, int operand) {
    p.stores.push_back({.value = made.at(v.id), .dtype = DType::f32, .operand = operand, .strides = {1}});
  };
  store(defined, 2);
  store(context.gradients()[0], 3);
  return p;
}

inline int count_of(const TileProgram& p, TileFunction f) {
  return static_cast<int>(std::count_if(p.values.begin(), p.values.end(), [&](const TileValue& v) {
    return v.kind == TileValue::Kind::function && v.function == f;
  }));
}

}  // namespace freight::testing
