// A step of a deep narrow net, for the passes that trade the memory of activations for something else.
#pragma once
#include <string>
#include <vector>

#include "freight/base/strings.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"

namespace freight::test {

enum class Optimizer : uint8_t { sgd, momentum };

// x -> matmul, tanh, sin, repeated; loss = sum; weights lose their gradients, or moments to which these are added.
inline Graph chain(int layers, Optimizer optimizer) {
  Graph g;
  Builder b(g);
  const Type square{DType::f32, {64, 64}};
  Value x = b.one(Op::input, LeafAttrs{"x", square}, {});
  std::vector<Value> weights, moments;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(b.one(Op::state, LeafAttrs{cat("w", i), square}, {}));
    x = b.unary(Op::sin, b.unary(Op::tanh, b.matmul(x, weights.back())));
  }
  if (optimizer == Optimizer::momentum) {
    for (int i = 0; i < layers; ++i) moments.push_back(b.one(Op::state, LeafAttrs{cat("m", i), square}, {}));
  }
  const Value loss = b.reshape(b.sum(x, {0, 1}), {});
  g.outputs = {loss};
  std::vector<Value> steps = grad(g, loss, weights);
  Builder more(g);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (optimizer == Optimizer::momentum) {
      steps[i] = more.binary(Op::add, moments[i], steps[i]);
      g.updates.push_back({moments[i], steps[i]});
    }
    g.updates.push_back({weights[i], more.binary(Op::sub, weights[i], steps[i])});
  }
  return g;
}

}  // namespace freight::test
