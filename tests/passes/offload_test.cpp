// Offloading: what a graph computes stays the same to the bit, values are away between their readers only, and states
// in host memory come for their readers alone.
#include "freight/base/error.h"
#include "freight/run/plan.h"
#include "tests/passes/chain.h"
#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

Graph scheduled(Graph g, const Backend& device) {
  g = passes::simplify(passes::decompose(passes::dead_code(g), &device));
  return passes::schedule(device.fuses() ? passes::fuse(g, device) : g);
}

size_t peak(const Graph& g, const Backend& device) {
  const ByNode<size_t> live = passes::live_bytes(g, device);
  return *std::max_element(live.begin(), live.end());
}

TEST(Offload, RandomGraphsComputeTheSameBitsWithinRandomLimits) {
  int changed = 0, lower = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    RandomGraphOptions options;
    options.nodes = 40;
    const RandomProgram p = random_program(seed, options);
    for (const std::string& device : {std::string("ref"), std::string(fusing_backend())}) {
      SCOPED_TRACE(cat("seed ", seed, " on ", device));
      const Graph before = scheduled(p.graph, backend(device));
      std::vector<Array> states = p.states;
      const std::vector<Array> expected = interpret(before, p.inputs, states);
      const size_t whole = peak(before, backend(device));
      const Graph after = passes::offload(before, backend(device), whole * (30 + seed % 60) / 100);
      verify(after, "offload");
      changed += after.nodes.size() > before.nodes.size();
      lower += peak(after, backend(device)) < whole;
      std::vector<Array> now = p.states;
      const std::vector<Array> got = interpret(after, p.inputs, now);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(close(got[i], expected[i], 0)) << i << print(after);
      for (size_t i = 0; i < now.size(); ++i) ASSERT_TRUE(close(now[i], states[i], 0)) << i << print(after);
    }
  }
  EXPECT_GT(changed, 50);
  EXPECT_GT(lower, 50);
}

TEST(Offload, RandomGraphsRunAsPlansWithStatesInHostMemory) {
  int plans = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomGraphOptions options;
    options.nodes = 30;
    const RandomProgram p = random_program(seed, options);
    RunOptions whole{.backend = fusing_backend(), .deterministic = true};
    RunOptions within = whole;
    within.limit = {.offload = Offload::activations, .bytes = plan_for(p.graph, whole)->arena_bytes() / 2, .speed = {}};
    for (size_t i = 0; i < p.states.size(); ++i) within.host_states.push_back(static_cast<int32_t>(i));
    std::vector<Array> results, states;
    for (const RunOptions& o : {whole, within}) {
      std::vector<std::shared_ptr<Storage>> storage;
      for (const Array& s : p.states) {
        states.push_back(s.clone());
        storage.push_back(states.back().storage());
      }
      std::vector<Array> out;
      for (Value v : p.graph.outputs) out.emplace_back(p.graph.type(v).dtype, p.graph.type(v).shape);
      Executable executable(plan_for(p.graph, o), storage);
      executable.run(p.inputs, out);
      executable.run(p.inputs, out);
      results.insert(results.end(), out.begin(), out.end());
    }
    const size_t outputs = results.size() / 2, count = p.states.size();
    for (size_t i = 0; i < outputs; ++i) EXPECT_TRUE(close(results[i], results[outputs + i], 0)) << seed;
    for (size_t i = 0; i < count; ++i) EXPECT_TRUE(close(states[i], states[count + i], 0)) << seed;
    plans += count > 0;
  }
  EXPECT_GT(plans, 30);
}

TEST(Offload, ValuesLeaveAfterTheirLastForwardReaderAndComeRightBeforeTheirFirstBackwardOne) {
  const Backend& device = backend(fusing_backend());
  const Graph before = scheduled(chain(12, Optimizer::momentum), device);
  const size_t whole = peak(before, device);
  const Graph g = passes::offload(before, device, whole / 2);
  EXPECT_LE(peak(g, device), whole / 2);
  int away = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (n.op == Op::offload) {
      ++away;
      for (size_t k = i + 1; k < g.nodes.size(); ++k) {
        for (Value v : g.nodes[k].inputs) EXPECT_NE(v, n.in(0)) << "read on the device after it left";
      }
    }
    if (n.op != Op::fetch) continue;
    EXPECT_EQ(g.def(n.in(0)).op, Op::offload);
    ASSERT_LT(i + 1, g.nodes.size());
    size_t reader = i + 1;
    while (g.nodes[reader].op == Op::fetch) ++reader;
    const auto& in = g.nodes[reader].inputs;
    EXPECT_NE(std::find(in.begin(), in.end(), n.out()), in.end());
  }
  EXPECT_GT(away, 3);
  EXPECT_LT(away, 24);
}

TEST(Offload, NothingMovesWithoutALimitOrWithinIt) {
  const Backend& device = backend(fusing_backend());
  const Graph g = scheduled(chain(4, Optimizer::momentum), device);
  EXPECT_TRUE(structurally_equal(passes::offload(g, device, 0), g));
  EXPECT_TRUE(structurally_equal(passes::offload(g, device, peak(g, device)), g));
  EXPECT_TRUE(structurally_equal(passes::host_states(g, {}), g));
}

TEST(Offload, TheArenaIsWithinTheLimitAndTheHostHasAnArenaOfItsOwn) {
  const Graph g = chain(16, Optimizer::momentum);
  RunOptions options{.backend = "cpu", .deterministic = true};  // others take large workspaces
  const size_t whole = plan_for(g, options)->arena_bytes();
  for (const Offload mode : {Offload::activations, Offload::automatic}) {
    options.limit = {.offload = mode, .bytes = whole * 4 / 10, .speed = {}};
    const auto plan = plan_for(g, options);
    EXPECT_LE(plan->arena_bytes(), options.limit.bytes);
    EXPECT_GE(plan->host_bytes() + plan->arena_bytes(), mode == Offload::activations ? whole * 9 / 10 : 0);
  }
}

// Of the cheaper way: a device that computes fast beside a slow link computes again, one with a fast link copies.
TEST(Offload, AutoTakesTheCheaperWay) {
  const Backend& device = backend(fusing_backend());
  const Graph g = passes::fuse(passes::simplify(chain(12, Optimizer::momentum)), device);
  const size_t limit = peak(passes::schedule(g), device) / 2;
  const auto made = [&](const DeviceSpeed& speed) {
    return passes::remat_within(g, device, {.offload = Offload::automatic, .bytes = limit, .speed = speed});
  };
  const Graph computes = made({.transfer = 1e6, .bytes = 1e12, .flops = 1e15}),
              copies = made({.transfer = 1e12, .bytes = 1e6, .flops = 1e6});
  EXPECT_GT(computes.nodes.size(), g.nodes.size());
  EXPECT_TRUE(structurally_equal(copies, g));
  EXPECT_LE(peak(passes::schedule(computes), device), limit);
  EXPECT_LE(peak(passes::offload(passes::schedule(copies), device, limit), device), limit);
}

TEST(Offload, StatesOfTheHostAreNotReadElsewhere) {
  const Backend& device = backend(fusing_backend());
  const Graph before = scheduled(chain(3, Optimizer::momentum), device);
  const std::vector<Value> states = before.leaves(Op::state);
  std::vector<int32_t> moments;
  for (size_t i = 0; i < states.size(); ++i) {
    if (leaf_name(before, states[i])[0] == 'm') moments.push_back(static_cast<int32_t>(i));
  }
  ASSERT_EQ(moments.size(), 3u);
  const Graph g = passes::host_states(before, moments);
  verify(g, "host_states");
  int comes = 0;
  for (const Node& n : g.nodes) {
    for (Value v : n.inputs) {
      if (g.def(v).op != Op::state || leaf_name(g, v)[0] != 'm') continue;
      EXPECT_EQ(n.op, Op::fetch);
      ++comes;
    }
  }
  EXPECT_EQ(comes, 3);
  for (const Update& u : g.updates) {
    EXPECT_EQ(g.def(u.next).op == Op::offload, leaf_name(g, u.state)[0] == 'm') << leaf_name(g, u.state);
  }
}

TEST(OffloadNames, AreThoseOfTheFlag) {
  for (const std::string& word : offload_names()) {
    EXPECT_EQ(offload_names()[static_cast<size_t>(parse_offload(word))], word);
  }
  EXPECT_THROW(parse_offload("weights"), Error);
}

}  // namespace
}  // namespace freight::test
