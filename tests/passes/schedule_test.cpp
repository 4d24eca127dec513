// The order of a graph: what must come before what, and how much memory is alive in it.
#include <algorithm>
#include <map>

#include "freight/passes/passes.h"
#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

// For each node the nodes that it needs, itself included.
ByNode<ByNode<bool>> ancestors(const Graph& g) {
  ByNode<ByNode<bool>> needs(g, ByNode<bool>(g));
  for (const NodeId i : g.node_ids()) {
    needs[i][i] = true;
    for (Value v : g.node(i).inputs) {
      for (const NodeId k : g.node_ids()) needs[i][k] = needs[i][k] || needs[g.node_of(v)][k];
    }
  }
  return needs;
}

// The readers of a state or of a view of it that come behind the node that makes its next value and could have come
// before it.
int late_readers(const Graph& g) {
  const ByNode<ByNode<bool>> needs = ancestors(g);
  const ByValue<Value> root = passes::memory_roots(g);
  int late = 0;
  for (const Update& u : g.updates) {
    const NodeId writer = g.node_of(u.next);
    if (info(g.node(writer).op).kind == OpKind::leaf) continue;
    for (const NodeId i : g.node_ids()) {
      const auto& in = g.node(i).inputs;
      const bool reads = std::any_of(in.begin(), in.end(), [&](Value v) { return root[v] == u.state; });
      late += i > writer && reads && !needs[i][writer];
    }
  }
  return late;
}

size_t peak_of(const Graph& g, const Backend& device) {
  const ByNode<size_t> live = passes::live_bytes(g, device);
  return *std::max_element(live.begin(), live.end());
}

// A training step: the loss is the output, and each weight is updated by its gradient; the updates stand at the end.
Graph random_training(uint64_t seed) {
  RandomGraphOptions options;
  options.nodes = 40;
  options.gradients = false;
  Graph g = random_program(seed, options).graph;
  const std::vector<Value> states = g.leaves(Op::state);
  const Value loss = weighted_sum(g, g.outputs, seed);
  if (!loss.valid()) return g;
  g.outputs = {loss};
  g.updates.clear();
  const std::vector<Value> gradients = grad(g, loss, states);
  Builder b(g);
  for (size_t i = 0; i < states.size(); ++i) {
    if (!gradients[i].valid()) continue;
    g.updates.push_back({states[i], (Ex{&b, states[i]} - Ex{&b, gradients[i]} * 0.1).v});
  }
  return passes::simplify(passes::decompose(passes::dead_code(g), nullptr));
}

// The same program in a random order, leaves first.
Graph shuffled(const Graph& g, uint64_t seed) {
  PhiloxStream random(seed, 3, 9);
  ByNode<size_t> missing(g);
  ByNode<std::vector<NodeId>> readers(g);
  std::vector<NodeId> ready;
  Rewriter r(g);
  const auto place = [&](NodeId i) {
    r.copy(g.node(i));
    for (const NodeId k : readers[i]) {
      if (--missing[k] == 0) ready.push_back(k);
    }
  };
  for (const NodeId i : g.node_ids()) {
    for (Value v : g.node(i).inputs) readers[g.node_of(v)].push_back(i);
    missing[i] = g.node(i).inputs.size();
  }
  for (const NodeId i : g.node_ids()) {
    if (g.node(i).inputs.empty()) place(i);
  }
  while (!ready.empty()) {
    const auto at = ready.begin() + random.below(static_cast<uint32_t>(ready.size()));
    const NodeId i = *at;
    ready.erase(at);
    place(i);
  }
  return r.finish();
}

std::map<std::string, int> ops_by_scope(const Graph& g) {
  std::map<std::string, int> ops;
  for (const Node& n : g.nodes) ++ops[cat(name(n.op), " ", n.scope)];
  return ops;
}
std::vector<std::string> leaf_names(const Graph& g, Op kind) {
  std::vector<std::string> names;
  for (Value v : g.leaves(kind)) names.push_back(leaf_name(g, v));
  return names;
}

TEST(Schedule, IsAnOrderOfTheSameNodesWithStatesReadBeforeTheyAreOverwritten) {
  int late_before = 0;
  for (uint64_t seed = 7000; seed < 7150; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    RandomGraphOptions options;
    options.nodes = 30;
    const Graph program = random_program(seed, options).graph, training = random_training(seed);
    for (const Graph& g : {program, training, shuffled(program, seed), shuffled(training, seed)}) {
      const Graph after = passes::schedule(g);
      verify(after, "schedule");  // operands before their readers
      EXPECT_EQ(ops_by_scope(after), ops_by_scope(g));
      EXPECT_EQ(leaf_names(after, Op::input), leaf_names(g, Op::input));
      EXPECT_EQ(leaf_names(after, Op::state), leaf_names(g, Op::state));
      late_before += late_readers(g);
      ASSERT_EQ(late_readers(after), 0) << print(after);
    }
  }
  EXPECT_GT(late_before, 20);
}

// The order is a heuristic: a step that frees as much as it takes runs at once, though its result may then wait for
// long. So a single graph may get a higher peak; all of them together do not.
TEST(Schedule, LowersThePeaksOfTrainingSteps) {
  const Backend& device = backend(fusing_backend());
  size_t given = 0, now = 0, shuffled_given = 0, shuffled_now = 0;
  for (uint64_t seed = 7500; seed < 7700; ++seed) {
    const Graph g = random_training(seed), mixed = shuffled(g, seed);
    given += peak_of(g, device);
    now += peak_of(passes::schedule(g), device);
    shuffled_given += peak_of(mixed, device);
    shuffled_now += peak_of(passes::schedule(mixed), device);
  }
  EXPECT_LT(now, given);
  EXPECT_LT(shuffled_now, shuffled_given);
}

// A chain whose results are each summed over ranks, of which the program makes the sums at its end.
TEST(Schedule, MakesASumOverRanksAsSoonAsItsOperandIsThereUnlessAnotherNodeReadsIt) {
  const Type t{DType::f32, {64}};
  for (const bool read : {false, true}) {
    Graph g;
    Builder b(g);
    Value x = b.one(Op::input, LeafAttrs{"x", t}, {});
    std::vector<Value> states, parts;
    for (const char* name : {"s0", "s1", "s2"}) {
      states.push_back(b.one(Op::state, LeafAttrs{name, t}, {}));
      parts.push_back(x = b.unary(Op::tanh, x));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      g.updates.push_back({states[i], b.one(Op::all_reduce, PieceAttrs{}, {parts[i]})});
    }
    g.outputs = {b.unary(Op::exp, read ? g.updates[0].next : x)};
    const Graph after = passes::schedule(g);
    verify(after, "schedule");
    std::vector<Op> ops;
    for (const Node& n : after.nodes) {
      if (!n.inputs.empty()) ops.push_back(n.op);
    }
    const Op s = Op::all_reduce, c = Op::tanh;
    const std::vector<Op> at_once = {c, s, c, s, c, s, Op::exp}, first_read = {c, c, s, c, s, s, Op::exp};
    EXPECT_EQ(ops, read ? first_read : at_once) << print(after);
  }
}

TEST(Schedule, KeepsTheOrderOfAProgramThatLeavesNothingToGain) {
  const Type t{DType::f32, {64}};
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", t}, {}), y = b.one(Op::input, LeafAttrs{"y", t}, {});
  // Each of the first two takes memory; the sum frees it.
  const Value p = b.unary(Op::exp, x), q = b.unary(Op::tanh, y);
  g.outputs = {b.unary(Op::sin, b.binary(Op::add, p, q))};
  EXPECT_TRUE(structurally_equal(passes::schedule(g), g)) << print(passes::schedule(g));
  EXPECT_TRUE(structurally_equal(passes::schedule(passes::schedule(g)), passes::schedule(g)));
}

// Positions of the nodes of these ops in the scheduled graph.
std::vector<size_t> positions(const Graph& g, const std::vector<Op>& ops) {
  std::vector<size_t> at;
  for (const Op op : ops) {
    const auto found = std::find_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.op == op; });
    at.push_back(static_cast<size_t>(found - g.nodes.begin()));
  }
  return at;
}

TEST(Schedule, AValueDiesWhereItsOnlyReaderCanRunAtOnce) {
  const Type large{DType::f32, {1024}};
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", large}, {});
  const Value p = b.unary(Op::exp, x), q = b.unary(Op::tanh, x);     // two large values,
  const Value first = b.sum(p, {0}), second = b.reduce_max(q, {0});  // of each of which a number is wanted
  g.outputs = {b.binary(Op::add, first, second)};
  const auto at = positions(passes::schedule(g), {Op::exp, Op::sum, Op::tanh, Op::reduce_max});
  EXPECT_TRUE(std::is_sorted(at.begin(), at.end())) << print(passes::schedule(g));
  EXPECT_LT(peak_of(passes::schedule(g), backend("ref")), peak_of(g, backend("ref")));
}

TEST(Schedule, ReadersOfAViewOfAStateComeBeforeItIsOverwritten) {
  const Type t{DType::f32, {4, 4}};
  Graph g;
  Builder b(g);
  const Value s = b.one(Op::state, LeafAttrs{"s", t}, {}), x = b.one(Op::input, LeafAttrs{"x", t}, {});
  const Value next = b.binary(Op::add, s, x);
  const Value view = b.reshape(b.transpose(s, {1, 0}), {16});
  g.outputs = {b.unary(Op::tanh, view)};
  g.updates = {{s, next}};
  EXPECT_EQ(late_readers(g), 3);  // two views, and the reader of the second
  const Graph after = passes::schedule(g);
  EXPECT_EQ(late_readers(after), 0);
  const auto at = positions(after, {Op::tanh, Op::add});
  EXPECT_LT(at[0], at[1]) << print(after);
}

// Nobody can come first here: the order stays, and memory copies one of them at the end.
TEST(Schedule, StatesThatChangePlacesAreNoCycle) {
  const Type t{DType::f32, {8}};
  Graph g;
  Builder b(g);
  const Value s = b.one(Op::state, LeafAttrs{"s", t}, {}), u = b.one(Op::state, LeafAttrs{"u", t}, {});
  const Value from_u = b.unary(Op::tanh, u), from_s = b.unary(Op::exp, s);
  g.updates = {{s, from_u}, {u, from_s}};
  const Graph after = passes::schedule(g);
  verify(after);
  EXPECT_EQ(after.nodes.size(), g.nodes.size());
  EXPECT_EQ(after.updates.size(), 2u);
}

}  // namespace
}  // namespace freight::test
