// Fusion: what is merged into which region, and that the result is unchanged (interpreted on the reference backend).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "freight/backend/ref/interpret.h"
#include "freight/ir/builder.h"
#include "freight/ir/fused_pattern.h"
#include "freight/passes/passes.h"
#include "tests/support/fusing_backend.h"
#include "tests/support/graphs.h"

namespace freight {
namespace {

using test::count;
using test::random_array;

// What a backend that allows every fusion gets to see.
Graph fused(const Graph& g) { return run_pipeline(g, test::FusingBackend()); }

// Matmuls, alone or with a region in one step (ir/fused_pattern.h).
int64_t products(const Graph& g) {
  return std::count_if(g.nodes.begin(), g.nodes.end(),
                       [](const Node& n) { return n.op == Op::matmul || product_in(n) != nullptr; });
}

Value leaf(Builder& b, Op op, const char* name, const Type& type) { return b.one(op, LeafAttrs{name, type}, {}); }

// Classes are 0 to 4.
Array drawn(const Type& t, uint64_t seed) {
  return random_array({t, is_floating(t.dtype) ? test::Fill::unit : test::Fill::index, 5}, seed);
}

// Outputs and states of both graphs agree.
void expect_equal_results(const Graph& before, const Graph& after) {
  std::vector<Array> in, s1, s2;
  uint64_t stream = 0;
  for (Value v : before.leaves(Op::input)) in.push_back(drawn(before.type(v), ++stream));
  for (Value v : before.leaves(Op::state)) {
    s1.push_back(drawn(before.type(v), ++stream));
    s2.push_back(s1.back().clone());
  }
  std::vector<Array> a = interpret(before, in, s1), b = interpret(after, in, s2);
  a.insert(a.end(), s1.begin(), s1.end());
  b.insert(b.end(), s2.begin(), s2.end());
  ASSERT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    const auto x = a[k].to_vector<double>(), y = b[k].to_vector<double>();
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], y[i], 1e-5 * (1 + std::abs(x[i]))) << "result " << k << " at " << i;
  }
}

// A two-layer classifier's training step with momentum.
Graph training_step() {
  Graph g;
  Builder b(g);
  const Value x = leaf(b, Op::input, "x", {DType::f32, {8, 12}}), labels = leaf(b, Op::input, "y", {DType::i64, {8}});
  const Value lr = leaf(b, Op::input, "lr", {DType::f32, {}});
  std::vector<Value> params, moments;
  const Shape shapes[] = {{16, 12}, {16}, {5, 16}, {5}};
  for (const Shape& s : shapes) params.push_back(leaf(b, Op::state, "p", {DType::f32, s}));
  for (const Shape& s : shapes) moments.push_back(leaf(b, Op::state, "m", {DType::f32, s}));
  const Ex h{&b, b.matmul(x, params[0], false, true)};
  const Ex a = apply(Op::relu, h + Ex{&b, b.broadcast_axis(params[1], 1, h.shape())});
  const Ex z{&b, b.matmul(a.v, params[2], false, true)};
  const Ex logits = z + Ex{&b, b.broadcast_axis(params[3], 1, z.shape())};
  const Value losses = b.one(Op::cross_entropy, CrossEntropyAttrs{0.1}, {logits.v, labels});
  const Ex loss = Ex{&b, b.sum(losses, {0})} * (1.0 / 8);
  const auto d = grad(g, loss.v, params);
  for (size_t i = 0; i < params.size(); ++i) {
    const auto next = b.add(Op::sgd_update, SgdAttrs{0.9, 0, 1e-4, false}, {params[i], d[i], lr, moments[i]});
    g.updates.push_back({params[i], next[0]});
    g.updates.push_back({moments[i], next[1]});
  }
  g.outputs = {loss.v};
  return g;
}

TEST(Fuse, TrainingStepKeepsItsMeaningAndShrinks) {
  const Graph before = training_step();
  const Graph after = fused(before);
  verify(after);
  expect_equal_results(before, after);
  EXPECT_EQ(products(after), 5);  // 2 forward, 2 dW, 1 dX
  EXPECT_EQ(count(after, Op::relu), 0);
  EXPECT_EQ(count(after, Op::exp), 0);
  for (const Node& n : after.nodes) EXPECT_FALSE(is_pointwise(n.op) && n.op != Op::iota) << name(n.op);
  // Loss and its gradient, mask with bias gradient, loss mean, one per update (a bias update may join its gradient).
  EXPECT_LE(count(after, Op::fused), 9) << print(after);
}

TEST(Fuse, BiasAndReluRideOnTheContraction) {
  const Graph after = fused(training_step());
  bool found = false;
  for (const Node& n : after.nodes) {
    if (n.op != Op::matmul) continue;
    const Epilogue& e = attrs<MatmulAttrs>(n).epilogue;
    found = found || (e.bias && e.relu);
  }
  EXPECT_TRUE(found);
}

TEST(Fuse, AMinimumWithANumberRidesOnTheContraction) {
  Graph g;
  Builder b(g);
  const Value x = leaf(b, Op::input, "x", {DType::f32, {4, 8}}), w = leaf(b, Op::input, "w", {DType::f32, {8, 5}}),
              other = leaf(b, Op::input, "o", {DType::f32, {4, 5}});
  const auto product = [&](double by) { return Ex{&b, b.matmul((Ex{&b, x} * by).v, w)}; };
  const auto least = [&](Ex y, double c) { return apply(Op::minimum, y, c); };
  g.outputs = {least(apply(Op::relu, product(1)), 1).v,           // both
               apply(Op::relu, least(product(2), 1)).v,           // relu comes first in an epilogue: the minimum alone
               least(least(product(3), 1), 0.5).v,                // the first of them
               least(product(4), INFINITY).v,                     // none
               least(product(5), NAN).v,                          // none
               apply(Op::minimum, product(6), Ex{&b, other}).v};  // none
  const Graph after = fused(g);
  verify(after);
  EXPECT_TRUE(structurally_equal(parse(print(after)), after)) << print(after);
  std::vector<double> bounds;
  for (const Node& n : after.nodes) {
    if (n.op == Op::matmul) bounds.push_back(attrs<MatmulAttrs>(n).epilogue.most);
  }
  EXPECT_EQ(bounds, (std::vector<double>{1, 1, 1, INFINITY, INFINITY, INFINITY})) << print(after);
  g.outputs[4] = g.outputs[3];  // NaN equals nothing
  expect_equal_results(g, fused(g));
}

TEST(Fuse, BiasOfALayerOverTokensRidesOnItsProduct) {
  Graph g;
  Builder b(g);
  const Value x = leaf(b, Op::input, "x", {DType::f32, {2, 3, 8}}), w = leaf(b, Op::input, "w", {DType::f32, {5, 8}});
  const Value bias = leaf(b, Op::input, "b", {DType::f32, {5}}),
              more = leaf(b, Op::input, "r", {DType::f32, {2, 3, 5}});
  const Ex y{&b, b.reshape(b.matmul(b.reshape(x, {6, 8}), w, false, true), {2, 3, 5})};
  const Ex z = y + Ex{&b, b.broadcast_axis(bias, 2, y.shape())};
  // A second reader keeps the sum apart; a residual of three axes is none of the product's.
  g.outputs = {z.v, (z + apply(Op::exp, Ex{&b, more})).v};
  const Graph after = fused(g);
  verify(after);
  expect_equal_results(g, after);
  for (const Node& n : after.nodes) {
    if (n.op != Op::matmul) continue;
    EXPECT_TRUE(attrs<MatmulAttrs>(n).epilogue.bias);
    EXPECT_FALSE(attrs<MatmulAttrs>(n).epilogue.residual);
  }
  EXPECT_EQ(count(after, Op::fused) + count(after, Op::add), 1) << print(after);
}

TEST(Fuse, SoftmaxIsOneRegion) {
  Graph g;
  Builder b(g);
  const Value x = leaf(b, Op::input, "x", {DType::f32, {6, 33}});
  g.outputs = {b.one(Op::softmax, AxisAttrs{1}, {x})};
  const Graph after = fused(g);
  EXPECT_EQ(count(after, Op::fused), 1);
  expect_equal_results(g, after);
}

TEST(Fuse, ColumnSumsAreNotReadInsideTheirRegion) {
  Graph g;
  Builder b(g);
  const Value x = leaf(b, Op::input, "x", {DType::f32, {64, 8}});
  g.outputs = {b.one(Op::softmax, AxisAttrs{0}, {x})};
  const Graph after = fused(g);
  EXPECT_GE(count(after, Op::fused), 2);
  expect_equal_results(g, after);
}

// x (1024, 8) -> linear -> gelu -> linear -> sum; the hidden layer has `width` units.
Graph gelu_step(int64_t width) {
  Graph g;
  Builder b(g);
  const Value x = leaf(b, Op::input, "x", {DType::f32, {1024, 8}});
  const Value w1 = leaf(b, Op::input, "w1", {DType::f32, {8, width}});
  const Value w2 = leaf(b, Op::input, "w2", {DType::f32, {width, 4}});
  const Value hidden = b.one(Op::gelu, GeluAttrs{}, {b.matmul(x, w1, false, false)});
  const Ex z{&b, b.matmul(hidden, w2, false, false)};
  const Value loss = b.sum((z * z).v, {0, 1});
  g.outputs = grad(g, loss, {w1, w2});
  g.outputs.push_back(loss);
  return g;
}

int large_results(const Graph& g, int64_t width) {
  int n = 0;
  for (const Node& node : g.nodes) {
    for (Value v : node.outputs) n += node.op == Op::fused && g.type(v).shape == Shape{1024, width};
  }
  return n;
}

TEST(DuplicateCheap, TheGradientOfGeluReadsItsInputOnly) {
  const Graph before = gelu_step(512);
  const Graph after = fused(before);
  verify(after);
  EXPECT_EQ(large_results(after, 512), 2) << print(after);  // gelu(h) and dh; three factors of dh were stored before
  expect_equal_results(before, after);
}

TEST(DuplicateCheap, ResultsThatStayInACacheAreStored) {
  const Graph after = fused(gelu_step(64));
  EXPECT_GT(large_results(after, 64), 2);
}

// h = x w1 of (1024, 1024); y = relu(h * s + r) or, without r, relu(h * s); the gradients of a loss behind another
// layer.
Graph scaled_relu_step(bool residual) {
  Graph g;
  Builder b(g);
  const Shape wide{1024, 1024};
  const Value x = leaf(b, Op::input, "x", {DType::f32, {1024, 8}});
  const Value w1 = leaf(b, Op::input, "w1", {DType::f32, {8, 1024}});
  const Value s = leaf(b, Op::input, "s", {DType::f32, {1024}}), r = leaf(b, Op::input, "r", {DType::f32, wide});
  const Value w2 = leaf(b, Op::input, "w2", {DType::f32, {1024, 4}});
  const Ex scaled = Ex{&b, b.matmul(x, w1, false, false)} * Ex{&b, b.broadcast_axis(s, 1, wide)};
  const Ex y = apply(Op::relu, residual ? scaled + Ex{&b, r} : scaled);
  const Ex z{&b, b.matmul(y.v, w2, false, false)};
  const Value loss = b.sum((z * z).v, {0, 1});
  g.outputs = grad(g, loss, {w1, s, w2});
  return g;
}

int masks(const Graph& g) {
  int n = 0;
  for (const Node& node : g.nodes) {
    for (Value v : node.outputs) n += g.type(v).dtype == DType::boolean && node.op == Op::fused;
  }
  return n;
}

TEST(DuplicateCheap, AMaskIsStoredWhereItsReadersWouldReadMoreWithoutIt) {
  const Graph before = scaled_relu_step(true), after = fused(before);
  verify(after);
  EXPECT_EQ(masks(after), 1) << print(after);  // or the backward half reads r too, four bytes for one
  expect_equal_results(before, after);
  const Graph without = fused(scaled_relu_step(false));
  EXPECT_EQ(masks(without), 0) << print(without);  // of what is read anyway
}

TEST(Fuse, NeverMakesACycleThroughAnUnfusedNode) {
  // u = exp(x); m = u @ w; y = u + m: u and y share a shape, but the matmul lies between them.
  Graph g;
  Builder b(g);
  const Value x = leaf(b, Op::input, "x", {DType::f32, {4, 4}}), w = leaf(b, Op::input, "w", {DType::f32, {4, 4}});
  const Ex u = apply(Op::exp, {&b, x});
  const Ex m{&b, b.matmul(u.v, w)};
  g.outputs = {(u + apply(Op::tanh, m)).v, (u * 2.0).v};
  const Graph after = fused(g);
  verify(after);
  expect_equal_results(g, after);
}

// Two numbers have the shape of their key, so that what makes the key looks like a producer of their elements; one
// number has the shape of what a key is reduced to; and a value that regions repeat lies in no memory.
TEST(Fuse, TheKeyOfRandomNumbersIsNeverMadeInsideARegion) {
  const auto doubled = [](Builder& b, Value k) { return b.binary(Op::add, k, k); };
  const auto spread = [](Builder& b, Value k) { return b.broadcast(b.sum(k, {0}), {2}); };
  const auto counted = [](Builder& b, Value) { return b.one(Op::iota, IotaAttrs{{2}, 0, DType::i64}, {}); };
  for (const std::function<Value(Builder&, Value)>& key_of :
       {std::function<Value(Builder&, Value)>(doubled), std::function<Value(Builder&, Value)>(spread),
        std::function<Value(Builder&, Value)>(counted)}) {
    for (const int64_t count : {1, 2, 3}) {
      Graph g;
      Builder b(g);
      const Value k = leaf(b, Op::input, "k", {DType::i64, {2}}), key = key_of(b, k);
      const Ex u{&b, b.one(Op::random_uniform, RandomAttrs{{count}, 1}, {key})};
      g.outputs = {(u * 2.0).v, b.sum(key, {0}), b.binary(Op::mul, key, k)};
      const Graph after = fused(g);
      verify(after);
      expect_equal_results(g, after);
      for (const Node& n : after.nodes) {
        if (n.op != Op::fused) continue;
        const Graph& body = *attrs<FusedAttrs>(n).body;
        for (const Node& inner : body.nodes) {
          if (inner.op != Op::random_uniform) continue;
          EXPECT_EQ(body.def(inner.in(0)).op, Op::input) << print(after);
        }
      }
    }
  }
}

TEST(Schedule, UpdatesFollowTheirGradientsAtOnce) {
  const Graph after = fused(training_step());
  // The first update is made before the last matmul of the backward pass.
  NodeId first_update{INT32_MAX}, last_matmul;
  for (const Update& u : after.updates) first_update = std::min(first_update, after.node_of(u.next));
  for (const NodeId i : after.node_ids()) {
    if (after.node(i).op == Op::matmul) last_matmul = i;
  }
  EXPECT_LT(first_update, last_matmul);
}

}  // namespace
}  // namespace freight
