// fold and the steps that run once: what moves into a frozen weight, what stays, and that nothing goes stale.
#include <gtest/gtest.h>

#include "freight/backend/ref/interpret.h"
#include "freight/base/philox.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"
#include "freight/run/plan.h"
#include "tests/support/arrays.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace freight::test {
using passes::fold;

namespace {

// A convolution with what follows it; every state is a vector of the 4 channels but the weight.
struct Net {
  Graph g;
  Builder b{g};
  Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {2, 3, 5, 5}}}, {});
  Value w = b.one(Op::state, LeafAttrs{"w", {DType::f32, {4, 3, 3, 3}}}, {});
  Value y = b.one(Op::conv, ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {}, {}}, {x, w});
  Value vector(const char* name) { return b.one(Op::state, LeafAttrs{name, {DType::f32, {4}}}, {}); }
  Value spread(Value v) { return b.broadcast_axis(v, 1, b.shape(y)); }
  void batch_norm() {
    y = b.one(Op::batch_norm_inference, NormAttrs{},
              {y, vector("scale"), vector("shift"), vector("mean"), vector("variance")});
  }
};

// Runs a graph on the fusing backend with states of positive numbers, frozen or not.
std::vector<Array> run(const Graph& g, bool frozen) {
  std::vector<std::shared_ptr<Storage>> states;
  std::vector<Array> inputs, outputs;
  uint64_t seed = 1;
  const auto positive = [&](Value v) {
    Array a(g.type(v).dtype, g.type(v).shape);
    PhiloxStream rng(7, seed++, 1);
    for (int64_t i = 0; i < a.numel(); ++i) a.data<float>()[i] = 0.5f + rng.uniform();
    return a;
  };
  for (Value v : g.leaves(Op::state)) states.push_back(positive(v).storage());
  for (Value v : g.leaves(Op::input)) inputs.push_back(positive(v));
  for (Value v : g.outputs) outputs.emplace_back(g.type(v).dtype, g.type(v).shape);
  Executable step(plan_for(g, {.backend = fusing_backend(), .deterministic = true, .frozen = frozen}), states);
  for (int i = 0; i < 2; ++i) step.run(inputs, outputs);
  return outputs;
}

void expect_equal_frozen(const Graph& g) {
  const std::vector<Array> a = run(g, false), b = run(g, true);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(close(a[i], b[i], 1e-5, 1e-3)) << print(g);
}

TEST(Fold, BatchNormOfEvaluationBecomesWeightAndBias) {
  Net n;
  n.batch_norm();
  n.g.outputs = {n.b.unary(Op::relu, n.y)};
  const Graph after = run_pipeline(n.g, backend(fusing_backend()), {.states = States::frozen});
  ASSERT_EQ(count(after, Op::conv), 1) << print(after);
  const Node& conv = after.def(after.outputs[0]);
  EXPECT_EQ(conv.op, Op::conv) << print(after);
  EXPECT_TRUE(attrs<ConvAttrs>(conv).epilogue.bias && attrs<ConvAttrs>(conv).epilogue.relu);
  expect_equal_frozen(n.g);
}

// A recurrent layer's product behind an embedding, with a bias of (1, 1, columns).
struct RowsNet {
  Graph g;
  Builder b{g};
  RowsNet(int64_t words, int64_t samples) {
    const auto state = [&](const char* name, const Shape& s) {
      return b.one(Op::state, LeafAttrs{name, {DType::f32, s}}, {});
    };
    const Value index = b.one(Op::input, LeafAttrs{"x", {DType::i32, {samples, 3}}}, {});
    b.set_location("words", "words.cpp:1");
    const Value rows = b.one(Op::embedding, EmbeddingAttrs{}, {index, state("table", {words, 4})});
    b.set_location("layer", "layer.cpp:1");
    const Value y = b.matmul(b.reshape(rows, {3 * samples, 4}), state("w", {5, 4}), false, true);
    const Value bias = b.broadcast(b.reshape(state("bias", {5}), {1, 1, 5}), {samples, 3, 5});
    g.outputs = {b.unary(Op::tanh, b.binary(Op::add, b.reshape(y, {samples, 3, 5}), bias))};
  }
};

TEST(Fold, ProductsOfLookedUpRowsAreMadeOfTheTableOnce) {
  const RowsNet n(7, 2);
  const Graph after = fold(n.g);
  const Node& tanh = after.def(after.outputs[0]);
  const Node& view = after.def(tanh.in(0));
  const Node& rows = view.op == Op::reshape ? after.def(view.in(0)) : view;
  ASSERT_EQ(rows.op, Op::embedding) << print(after);
  EXPECT_EQ(rows.scope, "words");  // where an index may be refused
  EXPECT_TRUE(passes::frozen_values(after, States::frozen)[rows.in(1)]) << print(after);
  std::vector<Array> states{random_array({{DType::f32, {7, 4}}, Fill::unit, 5}, 1),
                            random_array({{DType::f32, {5, 4}}, Fill::unit, 5}, 2),
                            random_array({{DType::f32, {5}}, Fill::unit, 5}, 3)};
  const std::vector<Array> in{random_array({{DType::i32, {2, 3}}, Fill::index, 7}, 4)};
  EXPECT_TRUE(close(interpret(after, in, states)[0], interpret(n.g, in, states)[0], 1e-6));
}

TEST(Fold, ProductsOfALargeTableOrOfFewOfItsRowsStay) {
  for (const RowsNet& n : {RowsNet(4 << 20, 1 << 20) /* 80 MiB of products */, RowsNet(49, 2)}) {
    const Graph after = fold(n.g);
    const Node& tanh = after.def(after.outputs[0]);
    EXPECT_EQ(after.def(tanh.in(0)).op, Op::add) << print(after);
  }
}

TEST(Fold, ScalesAndShiftsInARowAreAllAbsorbed) {
  Net n;
  n.y = n.b.binary(Op::add, n.spread(n.vector("bias")), n.y);
  n.y = n.b.binary(Op::mul, n.y, n.spread(n.vector("a")));
  n.batch_norm();
  n.y = n.b.binary(Op::mul, n.spread(n.vector("c")), n.y);
  n.g.outputs = {n.y};
  const Graph after = run_pipeline(n.g, backend(fusing_backend()), {.states = States::frozen});
  EXPECT_EQ(after.def(after.outputs[0]).op, Op::conv) << print(after);
  expect_equal_frozen(n.g);
}

TEST(Fold, AMatmulTakesItTooWhicheverWayItsWeightLies) {
  for (const bool transposed : {false, true}) {
    Graph g;
    Builder b(g);
    const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {3, 6}}}, {});
    const Value w = b.one(Op::state, LeafAttrs{"w", {DType::f32, transposed ? Shape{4, 6} : Shape{6, 4}}}, {});
    const Value s = b.one(Op::state, LeafAttrs{"s", {DType::f32, {4}}}, {});
    const Value y = b.matmul(x, w, false, transposed);
    g.outputs = {b.binary(Op::mul, y, b.broadcast_axis(s, 1, {3, 4}))};
    EXPECT_EQ(count(fold(g), Op::mul), 1);
    EXPECT_EQ(fold(g).def(fold(g).outputs[0]).op, Op::matmul) << print(fold(g));
    expect_equal_frozen(g);
  }
}

TEST(Fold, WhatIsReadTwiceOrIsNoVectorStays) {
  Net n;
  const Value conv = n.y;
  n.batch_norm();
  n.g.outputs = {n.y, n.b.unary(Op::relu, conv)};  // the convolution's own result is wanted as well
  EXPECT_EQ(count(fold(n.g), Op::batch_norm_inference), 1);
  expect_equal_frozen(n.g);
  Net m;
  const Value thin = m.b.one(Op::state, LeafAttrs{"s", {DType::f32, {1, 1, 1, 5}}}, {});
  m.g.outputs = {m.b.binary(Op::mul, m.y, m.b.broadcast(thin, m.b.shape(m.y)))};
  EXPECT_EQ(fold(m.g).def(fold(m.g).outputs[0]).op, Op::mul);
  expect_equal_frozen(m.g);
}

TEST(Fold, AStateThatTheStepUpdatesIsNotFrozen) {
  Net n;
  const Value s = n.vector("s");
  n.g.outputs = {n.b.binary(Op::mul, n.y, n.spread(s))};
  n.g.updates = {{s, n.b.binary(Op::add, s, s)}};
  EXPECT_EQ(fold(n.g).def(fold(n.g).outputs[0]).op, Op::mul);
  expect_equal_frozen(n.g);
}

// y = relu(x (w + w)): w + w runs once.
struct Doubled {
  Graph g;
  Array w{DType::f32, {4}}, x{DType::f32, {4}}, y{DType::f32, {4}};
  Doubled() {
    Builder b(g);
    const Value in = b.one(Op::input, LeafAttrs{"x", {DType::f32, {4}}}, {});
    const Value s = b.one(Op::state, LeafAttrs{"w", {DType::f32, {4}}}, {});
    g.outputs = {b.unary(Op::relu, b.binary(Op::mul, in, b.binary(Op::add, s, s)))};
    std::fill_n(x.data<float>(), 4, 1.0f);
    std::fill_n(w.data<float>(), 4, 1.0f);
  }
};

class Once : public testing::TestWithParam<std::string> {};

TEST_P(Once, WhatDependsOnFrozenStatesAloneRunsOnceAndAgainWhenTold) {
  Doubled d;
  const auto plan = plan_for(d.g, {.backend = GetParam(), .deterministic = true, .frozen = true});
  EXPECT_EQ(plan->once_steps(), 1u) << print(*plan);
  EXPECT_GT(plan->kept_bytes(), 0u);
  EXPECT_NE(print(*plan).find("0 once "), std::string::npos) << print(*plan);
  Executable step(plan, {d.w.storage()});
  step.run({d.x}, {d.y});
  EXPECT_EQ(d.y.data<float>()[3], 2);
  std::fill_n(d.w.data<float>(), 4, 5.0f);
  step.run({d.x}, {d.y});
  EXPECT_EQ(d.y.data<float>()[3], 2) << "the state was declared frozen";
  step.thaw();
  step.run({d.x}, {d.y});
  EXPECT_EQ(d.y.data<float>()[3], 10);
  const std::vector<double> seconds = step.run_timed({d.x}, {d.y});
  ASSERT_EQ(seconds.size(), plan->steps().size());
  EXPECT_EQ(seconds[0], 0);
}

TEST_P(Once, ThePlanOfChangingStatesIsAnother) {
  Doubled d;
  const auto plan = plan_for(d.g, {.backend = GetParam(), .deterministic = true});
  EXPECT_EQ(plan->once_steps(), 0u);
  EXPECT_EQ(plan->kept_bytes(), 0u);
}

// An output has the caller's memory, another at each call.
TEST_P(Once, AnOutputThatDependsOnStatesAloneIsWrittenAtEveryRun) {
  Graph g;
  Builder b(g);
  const Value s = b.one(Op::state, LeafAttrs{"w", {DType::f32, {4}}}, {});
  g.outputs = {b.binary(Op::add, s, s), s};
  Array w(DType::f32, {4});
  std::fill_n(w.data<float>(), 4, 3.0f);
  Executable step(plan_for(g, {.backend = GetParam(), .deterministic = true, .frozen = true}), {w.storage()});
  for (int i = 0; i < 2; ++i) {
    Array sum(DType::f32, {4}), same(DType::f32, {4});
    step.run({}, {sum, same});
    EXPECT_EQ(sum.data<float>()[2], 6);
    EXPECT_EQ(same.data<float>()[2], 3);
  }
}

// Random programs, some states of which are updated: frozen plans compute what the others do, call after call.
TEST_P(Once, RandomProgramsComputeTheSameFrozen) {
  for (uint64_t seed = 1; seed < 25; ++seed) {
    const RandomProgram p = smooth_program_f32(8000 + seed);
    std::vector<std::vector<Array>> results;
    for (const bool frozen : {false, true}) {
      std::vector<Array> states, outputs;
      std::vector<std::shared_ptr<Storage>> storages;
      for (const Array& s : p.states) states.push_back(s.clone());
      for (const Array& s : states) storages.push_back(s.storage());
      for (Value v : p.graph.outputs) outputs.emplace_back(p.graph.type(v).dtype, p.graph.type(v).shape);
      Executable step(plan_for(p.graph, {.backend = GetParam(), .deterministic = true, .frozen = frozen}), storages);
      for (int call = 0; call < 3; ++call) step.run(p.inputs, outputs);
      outputs.insert(outputs.end(), states.begin(), states.end());
      results.push_back(outputs);
    }
    for (size_t i = 0; i < results[0].size(); ++i)
      EXPECT_TRUE(close(results[0][i], results[1][i], 2e-3, 1e-2)) << "seed " << 8000 + seed << "\n" << print(p.graph);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Once, testing::ValuesIn(computing_backends()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace freight::test
