// Attention and recurrent layers beyond the single op: memory, padding, the gradient that training takes; and the
// gradients of many slices.
// That kernels agree with definitions is checked op by op (op_rows.h).
#include "freight/backend/backend.h"
#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/base/threads.h"
#include "freight/run/plan.h"
#include "tests/ops/op_rows.h"
#include "tests/support/files.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

using rows::f32;

std::vector<Value> inputs(Builder& b, const std::vector<Operand>& operands) {
  std::vector<Value> in;
  for (const Operand& o : operands) in.push_back(b.one(Op::input, LeafAttrs{"x", o.type}, {}));
  return in;
}
std::vector<Array> draws(const std::vector<Operand>& operands, uint64_t seed) {
  std::vector<Array> out;
  for (const Operand& o : operands) out.push_back(random_array(o, seed++));
  return out;
}

// The gradients of a weighted sum of the op's first result by its first floating operands.
Graph first_result_gradients(Op op, const Attrs& a, const std::vector<Operand>& operands, size_t most = 9) {
  Graph g;
  Builder b(g);
  const std::vector<Value> out = b.add(op, a, inputs(b, operands));
  const Value loss = weighted_sum(g, {out[0]}, 7);
  std::vector<Value> by = floating_inputs(g);
  by.resize(std::min(by.size(), most));
  g.outputs = grad(g, loss, by);
  return g;
}

TEST(Attention, MemoryDoesNotGrowWithTheSquareOfTheLength) {
  const auto arena = [](int64_t t) {
    const Operand x = f32({1, 2, t, 16});
    const Graph g = first_result_gradients(Op::attention, AttentionAttrs{.scale = 0.25, .causal = true}, {x, x, x});
    return plan_for(g, {.backend = "cpu", .deterministic = true})->arena_bytes();
  };
  const size_t small = arena(512), large = arena(4096);
  EXPECT_LE(large, 8 * small + 4096);
  EXPECT_LT(large, size_t{2} * 4096 * 4096 * 4 / 8);  // the weights alone, of both heads, are eight times that
}

TEST(Attention, ALongSequenceAgreesWithTheDefinition) {
  const Operand x = f32({1, 1, 700, 8});
  for (const bool causal : {false, true}) {
    const Graph g = first_result_gradients(Op::attention, AttentionAttrs{.scale = 0.35, .causal = causal}, {x, x, x});
    EXPECT_EQ(count(g, Op::attention_grad), 1);
    const std::vector<Array> in = draws({x, x, x}, 3);
    const std::vector<Array> want = interpret(retype(g, DType::f64), retype(in, DType::f64));
    const std::vector<Array> got = run_planned("cpu", g, in);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 2e-5)) << "input " << i;
  }
}

TEST(Attention, AMaskOfAnyFormAddsNothingToThePlannedMemory) {
  constexpr int64_t kTokens = 1024;
  const Operand x = f32({2, 2, kTokens, 16});
  const auto arena = [&](const AttentionAttrs& a, const std::vector<Operand>& in, DType type) {
    const Graph g = retype(first_result_gradients(Op::attention, a, in, 3), type);
    EXPECT_EQ(count(g, Op::attention_grad), 1);
    return plan_for(g, {.backend = "cpu", .deterministic = true})->arena_bytes();
  };
  std::vector<DType> types{DType::f32};
  if (cpu::bf16_table()) types.push_back(DType::bf16);
  for (const DType type : types) {
    const size_t without = arena({}, {x, x, x}, type);
    for (int form = 0; form < 8; ++form) {
      const bool samples = (form & 1) != 0, heads = (form & 2) != 0;
      const Shape shape{(samples ? 2 : 1) * (heads ? 2 : 1), (form & 4) != 0 ? kTokens : 1, kTokens};
      const AttentionAttrs a{.mask = true, .mask_samples = samples, .mask_heads = heads};
      EXPECT_EQ(arena(a, {x, x, x, rows::boolean(shape)}, type), without) << shape;
      if (type != DType::f32) continue;  // the mask's rounding would be a step of its own
      EXPECT_EQ(arena(a, {x, x, x, f32(shape)}, type), without) << shape;
    }
  }
}

// A window of keys around each query, some samples shorter than others, and queries that see nothing: whole blocks of
// the kernels are hidden, at the front, behind and in between.
TEST(Attention, AMaskOfALongSequenceAgreesWithTheDefinition) {
  constexpr int64_t kQueries = 400, kKeys = 330;
  const Operand q = f32({2, 2, kQueries, 8}), k = f32({2, 2, kKeys, 8}), mask = rows::boolean({2, kQueries, kKeys});
  std::vector<int> shown;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < kQueries; ++i) {
      for (int64_t j = 0; j < kKeys; ++j) {
        const bool near = std::abs(i - j) < 30 || (j / 64 == 1 && i > 300), shorter = b == 0 || j < 150;
        shown.push_back(near && shorter && i % 97 != 5);
      }
    }
  }
  for (const bool added : {false, true}) {
    for (const bool causal : {false, true}) {
      const AttentionAttrs a{.scale = 0.35, .causal = causal, .mask = true, .mask_samples = true};
      const Operand operand = added ? f32(mask.type.shape) : mask;
      std::vector<Array> in = draws({q, k, k, operand}, 3);
      if (!added) in[3] = Array::of<int>(shown, mask.type.shape).cast(DType::boolean);
      for (size_t i = 0; added && i < shown.size(); ++i) {
        if (!shown[i]) in[3].data<float>()[i] = -std::numeric_limits<float>::infinity();
      }
      for (const DType type : {DType::f32, DType::bf16}) {
        const Graph g = retype(first_result_gradients(Op::attention, a, {q, k, k, operand}, 3), type);
        EXPECT_EQ(count(g, Op::attention_grad), 1);
        const std::vector<Array> given = retype(in, type), got = run_planned("cpu", g, given);
        const std::vector<Array> want = interpret(retype(g, DType::f64), retype(given, DType::f64));
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(close(got[i], want[i], type == DType::f32 ? 2e-5 : 2e-2)) << "input " << i << " in " << type;
      }
    }
  }
}

TEST(Attention, AMaskThatIsLearnedHasTheGradientOfTheDefinition) {
  const Operand x = f32({2, 2, 70, 8}), mask = f32({2, 70, 70});
  const AttentionAttrs a{.scale = 0.35, .causal = true, .mask = true, .mask_heads = true};
  const Graph g = first_result_gradients(Op::attention, a, {x, x, x, mask});
  EXPECT_EQ(count(g, Op::attention_grad), 0);
  ASSERT_EQ(g.outputs.size(), 4u);
  EXPECT_EQ(g.type(g.outputs[3]), mask.type);
  const std::vector<Array> in = draws({x, x, x, mask}, 3);
  const std::vector<Array> want = interpret(retype(g, DType::f64), retype(in, DType::f64));
  const std::vector<Array> got = run_planned("cpu", g, in);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 2e-5)) << "input " << i;
}

TEST(Attention, KeysBehindTheLengthHaveNoInfluence) {
  const std::vector<Operand> operands{f32({2, 1, 3, 4}), f32({2, 1, 70, 4}), f32({2, 1, 70, 4}), rows::index({2}, 70)};
  Graph g;
  Builder b(g);
  g.outputs = {b.add(Op::attention, AttentionAttrs{.scale = 0.5, .lengths = true}, inputs(b, operands))[0]};
  std::vector<Array> in = draws(operands, 5);
  in[3] = Array::of<int>({66, 2}, {2});
  const Array before = run_planned("cpu", g, in)[0];
  for (size_t i : {1u, 2u}) {
    for (int64_t key = 66; key < 70; ++key) in[i].data<float>()[key * 4] += 5;            // sample 0
    for (int64_t key = 2; key < 70; ++key) in[i].data<float>()[(70 + key) * 4 + 1] += 5;  // sample 1
  }
  EXPECT_EQ(run_planned("cpu", g, in)[0].to_vector<float>(), before.to_vector<float>());
}

// Samples, steps and hidden numbers; some weights small, so that states neither fade nor grow.
std::vector<Operand> recurrent_operands(const RecurrentAttrs& a, int64_t n, int64_t t, int64_t h) {
  const int64_t gates = (a.gru ? 3 : 4) * h;
  std::vector<Operand> in{f32({n, t, gates}), f32({gates, h}, Fill::unit)};
  if (a.gru) in.push_back(f32({h}));
  if (a.lengths) in.push_back(rows::index({n}, t + 1));
  return in;
}
std::vector<Array> recurrent_draws(const std::vector<Operand>& operands, double scale) {
  std::vector<Array> in = draws(operands, 11);
  for (int64_t i = 0; i < in[1].numel(); ++i) in[1].data<float>()[i] *= static_cast<float>(scale);
  return in;
}
std::vector<RecurrentAttrs> recurrent_kinds() {
  std::vector<RecurrentAttrs> kinds;
  for (const bool gru : {false, true}) {
    for (const bool reverse : {false, true}) {
      for (const bool lengths : {false, true}) kinds.push_back({.gru = gru, .reverse = reverse, .lengths = lengths});
    }
  }
  return kinds;
}

// The rule of the states' gradient against that of differentiating the definition step by step.
TEST(Recurrent, TheGradientOpIsThatOfTheDefinition) {
  for (const RecurrentAttrs& a : recurrent_kinds()) {
    const std::vector<Operand> operands = recurrent_operands(a, 3, 5, 4);
    const std::vector<Array> in = retype(recurrent_draws(operands, 0.7), DType::f64);
    const Graph by_rule = first_result_gradients(Op::recurrent, a, operands);
    EXPECT_EQ(count(by_rule, Op::recurrent_grad), 1);
    Graph steps;
    Builder b(steps);
    Node n;
    n.op = Op::recurrent;
    n.attrs = a;
    const std::vector<Value> x = inputs(b, operands);
    const Value loss = weighted_sum(steps, {info(n.op).decompose(b, n, x)[0]}, 7);
    steps.outputs = grad(steps, loss, floating_inputs(steps));
    const std::vector<Array> got = interpret(retype(by_rule, DType::f64), in),
                             want = interpret(retype(steps, DType::f64), in);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 1e-12)) << "input " << i;
  }
}

TEST(Recurrent, ALongSequenceAgreesWithTheDefinition) {
  for (const RecurrentAttrs& a : recurrent_kinds()) {
    const std::vector<Operand> operands = recurrent_operands(a, 21, 130, 24);
    const Graph g = first_result_gradients(Op::recurrent, a, operands);
    const std::vector<Array> in = recurrent_draws(operands, 0.2);
    const std::vector<Array> want = interpret(retype(g, DType::f64), retype(in, DType::f64));
    const std::vector<Array> got = run_planned("cpu", g, in);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 1e-4)) << "input " << i;
  }
}

TEST(Recurrent, FewSamplesOfManyHiddenNumbersAgreeWithTheDefinition) {
  for (const RecurrentAttrs& a : recurrent_kinds()) {
    const std::vector<Operand> operands = recurrent_operands(a, 2, 12, 160);
    const Graph g = first_result_gradients(Op::recurrent, a, operands);
    const std::vector<Array> in = recurrent_draws(operands, 0.05);
    const std::vector<Array> want = interpret(retype(g, DType::f64), retype(in, DType::f64));
    const std::vector<Array> got = run_planned("cpu", g, in);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 1e-4)) << "input " << i;
  }
}

// Threads take samples of their own, or, of few samples, some of the hidden numbers.
TEST(Recurrent, BitsDoNotDependOnTheNumberOfThreads) {
  struct Size {
    int64_t samples, steps, width;
  };
  for (const Size size : {Size{29, 40, 20}, Size{1, 30, 128}, Size{5, 9, 192}, Size{3, 1, 128}}) {
    for (const RecurrentAttrs& a : recurrent_kinds()) {
      const std::vector<Operand> operands = recurrent_operands(a, size.samples, size.steps, size.width);
      const Graph g = first_result_gradients(Op::recurrent, a, operands);
      const std::vector<Array> in = recurrent_draws(operands, 0.2), all = run_planned("cpu", g, in);
      const ThreadLimit limit(1);
      const std::vector<Array> one = run_planned("cpu", g, in);
      for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].to_vector<float>(), all[i].to_vector<float>());
    }
  }
}

TEST(Recurrent, StepsBehindTheLastTokenKeepTheStateAndHaveNoGradient) {
  const RecurrentAttrs a{.lengths = true};
  const std::vector<Operand> operands = recurrent_operands(a, 2, 6, 3);
  std::vector<Array> in = recurrent_draws(operands, 0.5);
  in[2] = Array::of<int>({4, 0}, {2});
  Graph g;
  Builder b(g);
  g.outputs = {b.add(Op::recurrent, a, inputs(b, operands))[0]};
  const Array y = run_planned("cpu", g, in)[0];
  for (int64_t j = 0; j < 3; ++j) {
    for (int64_t t = 4; t < 6; ++t) EXPECT_EQ(y.data<float>()[t * 3 + j], y.data<float>()[3 * 3 + j]);
    for (int64_t t = 0; t < 6; ++t) EXPECT_EQ(y.data<float>()[(6 + t) * 3 + j], 0.0f);
  }
  const Array dx = run_planned("cpu", first_result_gradients(Op::recurrent, a, operands), in)[0];
  for (int64_t i = 4 * 12; i < 12 * 12; ++i) EXPECT_EQ(dx.data<float>()[i], 0.0f);
  EXPECT_NE(dx.data<float>()[3 * 12], 0.0f);
}

// Loss and gradients of a layer, as one op or as the product of its inputs and its steps.
Graph training_of_layer(const RecurrentAttrs& a, bool whole, int64_t n, int64_t t) {
  Graph g;
  Builder b(g);
  const int64_t width = 4, gates = (a.gru ? 3 : 4) * width;
  const auto state = [&](const Shape& s) { return b.one(Op::state, LeafAttrs{"w", {DType::f32, s}}, {}); };
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {n, t, 5}}}, {});
  std::vector<Value> in{x, state({gates, 5}), state({gates}), state({gates, width})};
  if (a.gru) in.push_back(state({width}));
  const std::vector<Value> wanted = in;
  if (a.lengths) in.push_back(b.one(Op::input, LeafAttrs{"counts", {DType::i32, {n}}}, {}));
  Value y;
  if (whole) {
    y = b.add(Op::recurrent_layer, RecurrentLayerAttrs{a}, in)[0];
  } else {
    const Shape shape{n, t, gates};
    const Value product = b.reshape(b.matmul(b.reshape(x, {n * t, 5}), in[1], false, true), shape);
    std::vector<Value> steps{b.binary(Op::add, product, b.broadcast_axis(in[2], 2, shape))};
    steps.insert(steps.end(), in.begin() + 3, in.end());
    y = b.add(Op::recurrent, a, steps)[0];
  }
  const Value loss = b.sum(b.unary(Op::square, y), {0, 1, 2});
  g.outputs = {loss};
  for (Value v : grad(g, loss, wanted)) g.outputs.push_back(v);
  return g;
}

// So plans of devices without a kernel for whole layers are those of the parts, in mixed precision, too.
TEST(Recurrent, AWholeLayerThatNoDeviceTakesIsItsParts) {
  for (const RecurrentAttrs& a : recurrent_kinds()) {
    for (const DType compute : {DType::f32, DType::bf16}) {
      for (const auto& [n, t] : {std::pair(3, 2), std::pair(1, 3), std::pair(2, 1), std::pair(1, 1)}) {
        const auto planned = [&](bool whole) {
          return run_pipeline(training_of_layer(a, whole, n, t), backend("cpu"), {.compute = compute});
        };
        const Graph layer = planned(true), parts = planned(false);
        EXPECT_TRUE(structurally_equal(layer, parts)) << print(layer) << print(parts);
      }
    }
  }
}

TEST(Recurrent, OperandsThatDoNotFitALayerAreNamed) {
  Graph g;
  Builder b(g);
  const auto x = [&](const Shape& s) { return b.constant(1, {DType::f32, s}); };
  const auto refused = [&](Op op, const std::vector<Value>& in, const std::vector<std::string>& parts) {
    freight::testing::expect_error(ErrorKind::usage, parts, [&] { b.add(op, RecurrentLayerAttrs{}, in); });
  };
  const std::vector<Value> good{x({2, 3, 4}), x({8, 4}), x({8}), x({8, 2})};
  std::vector<Value> in = good;
  in[1] = x({8, 5});
  refused(Op::recurrent_layer, in, {"recurrent_layer", "expected x (N, T, D), w_ih (G H, D)", "f32[8,5]"});
  in = good;
  in[3] = x({8, 3});
  refused(Op::recurrent_layer, in, {"recurrent_layer", "f32[8,3]"});
  in = good;
  for (int i = 0; i < 4; ++i) in.push_back(x({2, 3, 2}));
  refused(Op::recurrent_layer_grad, in, {"recurrent_layer_grad", "do not belong to the layer"});
}

TEST(Slices, TheGradientOfAllPartsOfATensorIsOneConcat) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {3, 40}}}, {});
  std::vector<Value> parts;
  for (int64_t i = 0; i < 40; i += 4) {
    const Value part = b.slice(x, {0, i}, {3, i + 4}, {1, 1});
    parts.push_back(b.binary(Op::mul, part, b.constant_like(static_cast<double>(i + 1), part)));
  }
  g.outputs = grad(g, weighted_sum(g, parts, 1), {x});
  const Graph simple = passes::simplify(g);
  EXPECT_EQ(count(simple, Op::pad), 0) << print(simple);
  EXPECT_EQ(count(simple, Op::concat), 1) << print(simple);
  const std::vector<Array> in{random_array(f32({3, 40}), 1)};
  EXPECT_TRUE(close(interpret(simple, in)[0], interpret(g, in)[0], 1e-6));
}

TEST(Slices, PartsWithGapsBetweenThemStayPadded) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {10}}}, {});
  std::vector<Value> parts{b.slice(x, {0}, {3}, {1}), b.slice(x, {4}, {7}, {1}), b.slice(x, {7}, {9}, {1})};
  g.outputs = grad(g, weighted_sum(g, parts, 1), {x});
  const Graph simple = passes::simplify(g);
  const std::vector<Array> in{random_array(f32({10}), 1)};
  EXPECT_TRUE(close(interpret(simple, in)[0], interpret(g, in)[0], 1e-6)) << print(simple);
  EXPECT_EQ(interpret(simple, in)[0].to_vector<float>()[3], 0.0f);
  EXPECT_EQ(count(simple, Op::pad), 2) << print(simple);
}

// As the gates of an LSTM are read, with a term that has no zeros in between.
TEST(Slices, PartsTakenInAnyOrderAreOneConcat) {
  Graph g;
  Builder b(g);
  const auto piece = [&](const std::string& name, int64_t width) {
    return b.one(Op::input, LeafAttrs{name, {DType::f32, {3, width}}}, {});
  };
  const Value whole = piece("whole", 16);
  const std::vector<Value> parts{piece("a", 4), piece("b", 4), piece("c", 4), piece("d", 4)};
  const auto padded = [&](int64_t i) {
    return b.pad(parts[static_cast<size_t>(i)], {0, 4 * i}, {0, 12 - 4 * i}, {0, 0}, 0);
  };
  Value sum = b.binary(Op::add, padded(3), padded(0));
  sum = b.binary(Op::add, whole, sum);
  sum = b.binary(Op::add, sum, padded(2));
  g.outputs = {b.binary(Op::add, padded(1), sum)};
  const Graph simple = passes::simplify(g);
  EXPECT_EQ(count(simple, Op::pad), 0) << print(simple);
  EXPECT_EQ(count(simple, Op::concat), 1) << print(simple);
  std::vector<Array> in;
  for (const Type& t : leaf_types(g, Op::input)) in.push_back(random_array({t, Fill::normal}, in.size()));
  EXPECT_TRUE(close(interpret(simple, in)[0], interpret(g, in)[0], 0));
}

TEST(Slices, PartsOfASumAreSumsOfPartsUnlessItIsReadWhole) {
  for (const bool whole : {false, true}) {
    Graph g;
    Builder b(g);
    const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {3, 3}}}, {}),
                y = b.one(Op::input, LeafAttrs{"y", {DType::f32, {3, 3}}}, {});
    const Value sum = b.binary(Op::add, b.matmul(x, y), b.matmul(y, x));
    for (int64_t i = 0; i < 3; ++i) g.outputs.push_back(b.unary(Op::tanh, b.slice(sum, {0, i}, {3, i + 1}, {1, 1})));
    if (whole) g.outputs.push_back(sum);
    const Graph simple = passes::simplify(g);
    EXPECT_EQ(count(simple, Op::add), whole ? 1 : 3) << print(simple);
    const std::vector<Array> in{random_array(f32({3, 3}), 1), random_array(f32({3, 3}), 2)};
    const std::vector<Array> got = interpret(simple, in), want = interpret(g, in);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 0)) << i;
  }
}

TEST(Slices, ABiasStaysWithItsProduct) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {3, 3}}}, {}),
              bias = b.one(Op::input, LeafAttrs{"b", {DType::f32, {1, 3}}}, {});
  const Value sum = b.binary(Op::add, b.matmul(x, x), b.one(Op::broadcast, ShapeAttrs{{3, 3}}, {bias}));
  for (int64_t i = 0; i < 3; ++i) g.outputs.push_back(b.slice(sum, {i, 0}, {i + 1, 3}, {1, 1}));
  EXPECT_EQ(count(passes::simplify(g), Op::add), 1);
}

}  // namespace
}  // namespace freight::test
