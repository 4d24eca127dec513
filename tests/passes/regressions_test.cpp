// Faults of passes and plans that were found once, each as the smallest graph that shows it.
#include <set>

#include "freight/run/plan.h"
#include "tests/support/graphs.h"
#include "tests/support/rounding_casts.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

const Type kSquare{DType::f32, {3, 3}};

Value input(Builder& b, const Type& t) { return b.one(Op::input, LeafAttrs{"x", t}, {}); }

std::vector<Array> arrays(const Graph& g, Op kind) {
  std::vector<Array> out;
  for (const Type& t : leaf_types(g, kind)) out.push_back(random_array({t, Fill::normal}, out.size()));
  return out;
}

TEST(Fuse, TwoMatmulsThatFeedOneSumAreBothComputed) {
  Graph g;
  Builder b(g);
  const Value x = input(b, kSquare), y = input(b, kSquare);
  g.outputs = {b.binary(Op::add, b.matmul(x, y), b.matmul(y, x))};
  const std::vector<Array> in = arrays(g, Op::input);
  EXPECT_TRUE(close(run_planned(fusing_backend(), g, in)[0], interpret(g, in)[0], 1e-6));
}

// Such a graph comes from a text alone.
TEST(Fuse, AProductThatHasAnEpilogueKeepsIt) {
  Graph g;
  Builder b(g);
  const Value x = input(b, kSquare), y = input(b, kSquare), bias = input(b, {DType::f32, {3}});
  const MatmulAttrs with_bias{.epilogue = {.bias = true}};
  g.outputs = {b.unary(Op::relu, b.one(Op::matmul, with_bias, {x, y, bias}))};
  const std::vector<Array> in = arrays(g, Op::input);
  EXPECT_TRUE(close(run_planned("cpu", g, in)[0], interpret(g, in)[0], 1e-6));
}

TEST(Fuse, ManyReadersOfOneTensorAreSeveralRegions) {
  Graph g;
  Builder b(g);
  const Ex x{&b, input(b, kSquare)};
  for (int i = 0; i < 300; ++i) g.outputs.push_back((x * (i + 2.0)).v);
  const std::vector<Array> in = arrays(g, Op::input);
  const std::vector<Array> got = run_planned("cpu", g, in), want = interpret(g, in);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 1e-6)) << i;
}

// The key was made inside the region of two numbers, written over by integers drawn from it, or read as if its two
// elements lay together.
TEST(Fuse, AsManyRandomNumbersAsAKeyHasAreDrawnFromTheWholeKey) {
  const Type key{DType::i64, {2}};
  const auto draw = [](Builder& b, Value k, int64_t count) {
    return Ex{&b, b.one(Op::random_uniform, RandomAttrs{{count}, 1}, {k})};
  };
  Graph made;
  {
    Builder b(made);
    const Value k = input(b, key);
    made.outputs = {(draw(b, b.binary(Op::add, k, k), 2) * -1.0).v};
  }
  Graph over;
  {
    Builder b(over);
    const Value k = input(b, key), twice = b.binary(Op::add, k, k);
    over.outputs = {b.unary(Op::neg, b.cast((draw(b, twice, 2) * 1000.0).v, DType::i64))};
  }
  Graph strided;
  {
    Builder b(strided);
    const Value k = input(b, {DType::i64, {4}});
    strided.outputs = {draw(b, b.slice(k, {0}, {4}, {2}), 3).v};
  }
  Graph spread;
  {
    Builder b(spread);
    const Value k = input(b, {DType::i64, {1}});
    spread.outputs = {(draw(b, b.broadcast(k, {2}), 3) * -1.0).v};
  }
  for (const Graph& g : {made, over, strided, spread}) {
    const Shape shape = leaf_types(g, Op::input)[0].shape;
    const std::vector<int64_t> elements{3, 9, 5, 7};
    const Array k = Array::of<int64_t>({elements.begin(), elements.begin() + shape[0]}, shape);
    const Array want = interpret(g, {k})[0];
    for (const std::string& name : computing_backends()) {
      EXPECT_TRUE(close(run_planned(name, g, {k})[0], want, 1e-6)) << name << "\n" << print(g);
    }
  }
}

TEST(Memory, NoResultLiesOverTheKeyThatItIsDrawnFrom) {
  Graph body;
  Builder inside(body);
  const Value leaf = input(inside, {DType::i64, {2}});
  const Value u = inside.one(Op::random_uniform, RandomAttrs{{2}, 1}, {leaf});
  body.outputs = {inside.cast(u, DType::i64)};
  Graph g;
  Builder b(g);
  const Value k = input(b, {DType::i64, {2}});
  g.outputs = {b.one(Op::fused, FusedAttrs{std::make_shared<const Graph>(body)}, {k})};
  const Node& n = g.def(g.outputs[0]);
  for (const std::string& name : computing_backends()) {
    // The reference kernels, also behind the fusing backend, read all operands before they write.
    EXPECT_TRUE(name == fusing_backend() || !backend(name).in_place(g, n, 0, 0)) << name;
  }
}

// The smaller result lay over the operand that the larger one's program read afterwards.
TEST(Memory, NoResultOfARegionLiesOverAnOperandThatAnotherShapeReads) {
  const Graph g = parse(R"(graph {
    %0 = input "x" : f64[3,1]
    %1 = input "scale" : f64[1,1]
    %2 = matmul(%0, %0) {trans_a=true} : f64[1,1]
    %3 = mul(%2, %1) : f64[1,1]
    %4 = broadcast(%3) {shape=[3,1]} : f64[3,1]
    %5 = sum(%4) {axes=[0,1]} : f64[1,1]
    %6 = mul(%4, %4) : f64[3,1]
    %7 = matmul(%0, %3) : f64[3,1]
    return %5, %7, %6
  })");
  const std::vector<Array> in = arrays(g, Op::input);
  std::vector<Array> none;
  const std::vector<Array> expected = interpret(g, in, none);
  for (const std::string& name : computing_backends()) {
    const std::vector<Array> got = run_planned(name, g, in);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], expected[i], 1e-12)) << name << ", result " << i;
  }
}

TEST(Schedule, AStateReplacedByAnInputKeepsTheSignature) {
  Graph g;
  Builder b(g);
  const Value s = b.one(Op::state, LeafAttrs{"s", kSquare}, {}), x = input(b, kSquare);
  g.outputs = {b.unary(Op::tanh, s)};
  g.updates = {{s, x}};
  const Graph scheduled = passes::schedule(g);
  EXPECT_EQ(scheduled.leaves(Op::input).size(), 1u);
  const std::vector<Array> in = arrays(g, Op::input);
  const std::vector<Array> states = {random_array({kSquare, Fill::normal}, 9)};
  std::vector<Array> expected_states = states;
  const Array expected = interpret(g, in, expected_states)[0];
  EXPECT_TRUE(close(run_planned("ref", g, in, states)[0], expected, 1e-6));
  EXPECT_TRUE(close(states[0], in[0], 0));
}

TEST(Memory, ResultsThatNobodyReadsDoNotTakeTheMemoryOfOneThatIsRead) {
  Graph body;
  const Value in = Builder(body).one(Op::input, LeafAttrs{"", kSquare}, {});
  for (const Op op : {Op::exp, Op::square, Op::neg}) body.outputs.push_back(Builder(body).unary(op, in));
  Graph g;
  Builder b(g);
  const Value y = b.unary(Op::tanh, input(b, kSquare));
  const std::vector<Value> made = b.add(Op::fused, FusedAttrs{std::make_shared<const Graph>(body)}, {y});
  g.outputs = {b.unary(Op::sin, made[1])};
  const auto plan = plan_for(g, {.backend = fusing_backend(), .deterministic = true});
  const Graph& planned = plan->graph();
  int checked = 0;
  for (const Node& n : planned.nodes) {
    if (n.outputs.size() != 3) continue;
    std::set<size_t> places;
    for (Value v : n.outputs) places.insert(plan->memory().buffers[v].offset);
    EXPECT_EQ(places.size(), 3u);
    ++checked;
  }
  EXPECT_EQ(checked, 1);
}

TEST(Simplify, FoldedConstantsAreRoundedToTheirTypeFirst) {
  Graph g;
  Builder b(g);
  const Value tenth = b.constant(0.1, {DType::f32, {}});
  g.outputs = {b.cast(tenth, DType::f64)};
  EXPECT_EQ(run_planned("ref", g, {})[0].to_vector<double>()[0], static_cast<double>(0.1f));
}

// The graph of one result in text, simplified.
Graph simplified(Builder& b, Value result) {
  b.graph().outputs = {result};
  return passes::simplify(b.graph());
}

TEST(Simplify, PartsOfAWidenedValueAreTakenBeforeItIsWidened) {
  Graph sliced, reshaped;
  Builder a(sliced), b(reshaped);
  const auto narrow = [](Builder& to) { return to.one(Op::input, LeafAttrs{"x", {DType::bf16, {4, 8}}}, {}); };
  const Graph part = simplified(a, a.slice(a.cast(narrow(a), DType::f32), {0, 2}, {4, 4}, {1, 1}));
  const Graph whole = simplified(b, b.reshape(b.reshape(b.cast(narrow(b), DType::f32), {2, 16}), {32}));
  for (const Graph* g : {&part, &whole}) {
    ASSERT_EQ(g->nodes.size(), 3u);  // input, view, cast
    EXPECT_EQ(info(g->nodes[1].op).kind, OpKind::view);
    EXPECT_EQ(g->nodes[2].op, Op::cast);
    EXPECT_EQ(g->type(g->outputs[0]).dtype, DType::f32);
  }
}

TEST(Simplify, AWidenedValueIsSpreadAndTransposedAfterwards) {
  Graph spread, turned;
  Builder a(spread), b(turned);
  const Value x = a.one(Op::input, LeafAttrs{"x", {DType::bf16, {1, 8}}}, {});
  const Graph wide = simplified(a, a.broadcast(a.cast(x, DType::f32), {4, 8}));
  EXPECT_EQ(wide.nodes[1].op, Op::cast);
  const Value y = b.one(Op::input, LeafAttrs{"y", {DType::bf16, {4, 8}}}, {});
  const Value w = b.one(Op::input, LeafAttrs{"w", {DType::f32, {4, 4}}}, {});
  const Graph product = simplified(b, b.matmul(b.transpose(b.cast(y, DType::f32), {1, 0}), w));
  EXPECT_TRUE(attrs<MatmulAttrs>(product.nodes.back()).trans_a);
}

TEST(Simplify, TheCentersOfBatchStatisticsTakeNoWideCopyOfANarrowInput) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::bf16, {4, 8, 16, 16}}}, {});
  const Value s = b.one(Op::input, LeafAttrs{"s", {DType::f32, {8}}}, {});
  g.outputs = b.add(Op::batch_norm, NormAttrs{.eps = 1e-5}, {x, s, s});
  const auto plan = plan_for(g, {.backend = fusing_backend(), .deterministic = true});
  for (const Node& n : plan->graph().nodes) {
    for (Value v : n.outputs) {
      EXPECT_FALSE(plan->graph().type(v) == (Type{DType::f32, {4, 8, 16, 16}})) << name(n.op);
    }
  }
}

// A value that was cast to bf16 and back kept the bits of its f32 inside a region, and a number those of its f64.
TEST(Fuse, CastsTo16BitsRoundInsideOfRegions) {
  for (const DType low : {DType::bf16, DType::f16}) {
    for (const std::string& device : computing_backends()) {
      for (const RoundingCase& c : rounding_cases(low)) check_rounding(c, low, device);
    }
    check_rounding(rounding_of_f64(low), low, "cpu");
    const RoundingCase whole = rounding_cases(low)[1];
    EXPECT_EQ(plan_for(whole.graph, {.backend = "cpu", .deterministic = true})->steps().size(), 1u) << whole.what;
  }
}

}  // namespace
}  // namespace freight::test
