// Recompute of activations: what a graph computes stays the same to the bit, and only what may run twice does.
#include <map>

#include "freight/run/plan.h"
#include "tests/passes/chain.h"
#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

// All passes before remat.
Graph fused(Graph g, const Backend& device) {
  g = passes::simplify(passes::decompose(passes::dead_code(g), &device));
  return device.fuses() ? passes::fuse(g, device) : g;
}

std::map<OpKind, int> kinds(const Graph& g) {
  std::map<OpKind, int> count;
  for (const Node& n : g.nodes) ++count[info(n.op).kind];
  return count;
}

// A random program with its loss as the only output; the gradients go to states, as a training step's do.
RandomProgram random_step(uint64_t seed) {
  RandomGraphOptions options;
  options.nodes = 25;
  options.gradients = false;
  RandomProgram p = random_program(seed, options);
  Graph& g = p.graph;
  const Value loss = weighted_sum(g, g.outputs, seed);
  const std::vector<Value> wrt = floating_inputs(g);
  g.outputs = {loss};
  for (Value gradient : loss.valid() ? grad(g, loss, wrt) : std::vector<Value>()) {
    if (!gradient.valid()) continue;
    const Type t = g.type(gradient);
    g.updates.push_back({g.add(Op::state, LeafAttrs{"sum", t}, {})[0], gradient});
    p.states.emplace_back(t.dtype, t.shape);
  }
  return p;
}

TEST(Remat, RandomStepsComputeTheSameBits) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const RandomProgram p = random_step(seed);
    if (!p.graph.outputs[0].valid()) continue;
    for (const std::string& device : {std::string("ref"), std::string(fusing_backend())}) {
      const Graph before = fused(p.graph, backend(device));
      std::vector<Array> states = p.states;
      const Array loss = interpret(before, p.inputs, states)[0];
      for (const Recompute mode : {Recompute::automatic, Recompute::all}) {
        SCOPED_TRACE(cat("seed ", seed, " on ", device, mode == Recompute::all ? ", all" : ", auto"));
        const Graph after = passes::remat(before, backend(device), mode);
        verify(after, "remat");
        changed += after.nodes.size() > before.nodes.size();
        ASSERT_EQ(after.updates.size(), before.updates.size());
        for (const Graph& g : {after, passes::schedule(after)}) {
          std::vector<Array> now = p.states;
          ASSERT_TRUE(close(interpret(g, p.inputs, now)[0], loss, 0)) << print(before);
          for (size_t i = 0; i < now.size(); ++i) ASSERT_TRUE(close(now[i], states[i], 0)) << i << print(before);
        }
      }
    }
  }
  EXPECT_GT(changed, 100);
}

// A library's gradient of a layer writes over what the layer kept: it must not run twice, though the norm of the
// weights' gradients, a result, stands before their use and they are large.
TEST(Remat, AGradientOfARecurrentLayerRunsOnce) {
  Graph g;
  Builder b(g);
  const auto state = [&](const Shape& s) {
    return b.one(Op::state, LeafAttrs{cat("s", g.nodes.size()), {DType::f32, s}}, {});
  };
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {2, 2, 128}}}, {});
  std::vector<Value> weights;
  Value h = x;
  for (int layer = 0; layer < 3; ++layer) {
    std::vector<Value> in{h, state({512, 128}), state({512}), state({512, 128})};
    h = b.add(Op::recurrent_layer, RecurrentLayerAttrs{}, in)[0];
    weights.insert(weights.end(), {in[1], in[3]});
  }
  const Value loss = b.reshape(b.sum(b.unary(Op::square, h), {0, 1, 2}), {});
  const std::vector<Value> gradients = grad(g, loss, weights);
  Ex norm{&b, b.constant_like(0, loss)};
  for (Value d : gradients) norm = norm + Ex{&b, b.reshape(b.sum(b.unary(Op::square, d), {0, 1}), {})};
  g.outputs = {norm.v};
  for (size_t i = 0; i < weights.size(); ++i) {
    g.updates.push_back({weights[i], (Ex{&b, weights[i]} - Ex{&b, gradients[i]} * 0.1).v});
  }
  const Graph after = passes::remat(passes::dead_code(g), backend("ref"), Recompute::all);
  int runs = 0;
  for (const Node& n : after.nodes) runs += n.op == Op::recurrent_layer_grad;
  EXPECT_EQ(runs, 3);
}

TEST(Remat, RandomStepsRunAsPlans) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const RandomProgram p = random_step(seed);
    if (!p.graph.outputs[0].valid()) continue;
    std::vector<Array> expected = p.states;
    const Array loss = interpret(p.graph, p.inputs, expected)[0];
    std::vector<Array> states;
    std::vector<std::shared_ptr<Storage>> storage;
    for (const Array& s : p.states) {
      states.push_back(s.clone());
      storage.push_back(states.back().storage());
    }
    const Array got(loss.dtype(), loss.shape());
    Executable(plan_for(p.graph, {.backend = fusing_backend(), .recompute = Recompute::all}), storage)
        .run(p.inputs, {got});
    EXPECT_TRUE(close(got, loss, 1e-9, 1e-6)) << seed;
    for (size_t i = 0; i < states.size(); ++i) EXPECT_TRUE(close(states[i], expected[i], 1e-9, 1e-6)) << seed;
  }
}

size_t peak(const Graph& g, Recompute mode) {
  return plan_for(g, {.backend = fusing_backend(), .deterministic = true, .recompute = mode})->lower_bound_bytes();
}

TEST(Remat, AutoRunsNoContractionTwiceAndAllDoes) {
  const Backend& device = backend(fusing_backend());
  const Graph g = fused(chain(12, Optimizer::sgd), device);
  const Graph cheap = passes::remat(g, device, Recompute::automatic), all = passes::remat(g, device, Recompute::all);
  EXPECT_GT(kinds(cheap)[OpKind::fused], kinds(g)[OpKind::fused]);
  EXPECT_EQ(kinds(cheap)[OpKind::contract], kinds(g)[OpKind::contract]);
  EXPECT_GT(kinds(all)[OpKind::contract], kinds(g)[OpKind::contract]);
  EXPECT_LE(kinds(all)[OpKind::contract], kinds(g)[OpKind::contract] + 12);
}

TEST(Remat, PeaksFall) {
  const Graph g = chain(16, Optimizer::sgd);
  const size_t none = peak(g, Recompute::none), cheap = peak(g, Recompute::automatic), all = peak(g, Recompute::all);
  EXPECT_LT(static_cast<double>(cheap), 0.8 * static_cast<double>(none));
  EXPECT_LT(static_cast<double>(all), 0.5 * static_cast<double>(none));
}

TEST(Remat, CopiesRunAfterTheLoss) {
  const Backend& device = backend(fusing_backend());
  const Graph g = run_pipeline(chain(12, Optimizer::sgd), device, {.recompute = Recompute::all});
  const NodeId loss = g.node_of(g.outputs[0]);
  int copies = 0;
  for (const NodeId i : g.node_ids()) {
    for (const NodeId k : IdRange<NodeId>(NodeId{0}, i)) {
      const Node &a = g.node(k), &b = g.node(i);
      if (a.op != Op::matmul || b.op != a.op || !equal(a.attrs, b.attrs) || a.inputs[1] != b.inputs[1]) continue;
      if (attrs<MatmulAttrs>(a).trans_b) continue;  // the gradient of a layer's input
      ++copies;
      EXPECT_GT(i, loss) << i.id;
    }
  }
  EXPECT_GT(copies, 2);
}

TEST(Remat, AGraphWithoutABackwardHalfStaysAsItIs) {
  const Backend& device = backend(fusing_backend());
  Graph g = chain(4, Optimizer::sgd);
  g.updates.clear();
  g = fused(g, device);
  EXPECT_TRUE(structurally_equal(passes::remat(g, device, Recompute::all), g));
}

}  // namespace
}  // namespace freight::test
