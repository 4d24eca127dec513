// Faults of passes and plans that were found once, each as the smallest graph that shows it.
#include <set>

#include "freight/run/plan.h"
#include "tests/support/graphs.h"
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

TEST(Fuse, ManyReadersOfOneTensorAreSeveralRegions) {
  Graph g;
  Builder b(g);
  const Ex x{&b, input(b, kSquare)};
  for (int i = 0; i < 300; ++i) g.outputs.push_back((x * (i + 2.0)).v);
  const std::vector<Array> in = arrays(g, Op::input);
  const std::vector<Array> got = run_planned("cpu", g, in), want = interpret(g, in);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 1e-6)) << i;
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
    for (Value v : n.outputs) places.insert(plan->memory().buffers[v.index()].offset);
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

}  // namespace
}  // namespace freight::test
