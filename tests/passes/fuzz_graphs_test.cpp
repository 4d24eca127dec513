// Random graphs with fixed seeds through every pass and through whole plans: the results, and the states afterwards,
// must equal those of interpreting the original graph node by node. A failure prints the seed; FREIGHT_DUMP shows the
// passes.
#include <set>
#include <string>

#include "freight/base/error.h"
#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

struct Results {
  std::vector<Array> outputs, states;
};

Results interpreted(const Graph& g, const RandomProgram& p) {
  Results r;
  r.states = p.states;
  r.outputs = interpret(g, p.inputs, r.states);
  return r;
}

testing::AssertionResult equal(const Results& got, const Results& expected, double tolerance) {
  const double floor = tolerance > 0.01 ? 1 : tolerance > 1e-6 ? 1e-2 : 1e-6;  // differences of numbers around 10
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    const auto same = close(got.outputs[i], expected.outputs[i], tolerance, floor);
    if (!same) return testing::AssertionFailure() << "output " << i << ": " << same.message();
  }
  for (size_t i = 0; i < expected.states.size(); ++i) {
    const auto same = close(got.states[i], expected.states[i], tolerance, floor);
    if (!same) return testing::AssertionFailure() << "state " << i << ": " << same.message();
  }
  return testing::AssertionSuccess();
}

int nodes_of(int seed) { return 5 + seed * 7 % 50; }

// Each pass in turn, verified, keeps what the graph computes.
void check_passes(const RandomProgram& p, const Backend& device, double tolerance) {
  const Results expected = interpreted(p.graph, p);
  Graph g = p.graph;
  const auto pass = [&](const char* name, auto&& f) {
    g = f(g);
    verify(g, name);
    EXPECT_TRUE(equal(interpreted(g, p), expected, tolerance)) << "after " << name;
    const Graph back = parse(print(g));
    EXPECT_TRUE(structurally_equal(g, back)) << "text form after " << name;
  };
  pass("dead_code", [](const Graph& x) { return passes::dead_code(x); });
  pass("decompose", [&](const Graph& x) { return passes::decompose(x, &device); });
  pass("simplify", [](const Graph& x) { return passes::simplify(x); });
  pass("simplify again", [](const Graph& x) { return passes::simplify(x); });
  pass("fuse", [&](const Graph& x) { return passes::fuse(x, device); });
  pass("schedule", [](const Graph& x) { return passes::schedule(x); });
}

// Through a plan, three calls in a row: states go on from call to call.
void check_plan(const std::string& device, const RandomProgram& p, double tolerance) {
  Results expected, got;
  expected.states = p.states;
  for (const Array& s : p.states) got.states.push_back(s.clone());
  for (int call = 0; call < 3; ++call) {
    expected.outputs = interpret(p.graph, p.inputs, expected.states);
    got.outputs = run_planned(device, p.graph, p.inputs, got.states);
    ASSERT_TRUE(equal(got, expected, tolerance)) << "call " << call << " on " << device;
  }
}

class Fuzz : public testing::TestWithParam<int> {};

TEST_P(Fuzz, PassesKeepWhatAGraphComputes) {
  for (int k = 0; k < 10; ++k) {
    const int seed = GetParam() * 10 + k;
    SCOPED_TRACE(cat("seed ", seed));
    RandomGraphOptions options;
    options.nodes = nodes_of(seed);
    options.gradients = seed % 3 != 0;
    const RandomProgram p = random_program(static_cast<uint64_t>(seed), options);
    verify(p.graph, "the generator");
    try {
      check_passes(p, backend(fusing_backend()), 1e-9);
      check_plan("ref", p, 1e-9);
      check_plan(fusing_backend(), p, 1e-9);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
    if (HasFailure()) {
      std::printf("%s", print(p.graph).c_str());
      return;
    }
  }
}

TEST_P(Fuzz, GradientsAgreeWithDifferences) {
  const int seed = 300000 + GetParam();
  RandomGraphOptions options;
  options.nodes = nodes_of(seed);
  options.discontinuous = options.states = options.gradients = false;
  RandomProgram p = random_program(static_cast<uint64_t>(seed), options);
  const Value loss = weighted_sum(p.graph, p.graph.outputs, 1);
  EXPECT_TRUE(gradient_agrees(p.graph, loss, p.inputs, 1e-5, 4)) << print(p.graph);
}

// On the fast backends: without ops that turn rounding into different results.
void check_backends(int seed, RandomGraphOptions options, double tolerance) {
  SCOPED_TRACE(cat("seed ", seed));
  options.discontinuous = false;
  const RandomProgram p = random_program(static_cast<uint64_t>(seed), options);
  try {
    for (const std::string& device : computing_backends()) {
      if (device != "ref") check_plan(device, p, tolerance);
    }
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
  if (testing::Test::HasFailure()) std::printf("%s", print(p.graph).c_str());
}

TEST_P(Fuzz, BackendsAgreeInF32) {
  for (int k = 0; k < 4 && !HasFailure(); ++k) {  // few: a fast backend takes long to prepare
    const int seed = 1000 + GetParam() * 10 + k;
    RandomGraphOptions options;
    options.nodes = nodes_of(seed);
    options.dtype = DType::f32;
    options.gradients = seed % 2 != 0;
    check_backends(seed, options, 2e-3);
  }
}

TEST_P(Fuzz, BackendsAgreeOnLargerShapes) {
  const int seed = 100000 + GetParam();
  RandomGraphOptions options;
  options.nodes = 12;
  options.dtype = DType::f32;
  options.extents = {1, 9, 33, 70};
  options.gradients = seed % 2 != 0;
  check_backends(seed, options, 5e-3);
}

TEST_P(Fuzz, BackendsAgreeInBf16) {
  const int seed = 200000 + GetParam();
  RandomGraphOptions options;
  options.nodes = 7;
  options.dtype = DType::bf16;
  options.gradients = false;
  check_backends(seed, options, 0.04);
}

// Passes go by the kind of pointwise ops, so that most of these are enough, and a new one need not be drawn.
TEST(FuzzGenerator, ReachesAllOpsButTheseAndMostPointwiseOnes) {
  const std::set<std::string> without = {// Passes make them.
                                         "copy", "offload", "fetch", "moments", "fused",
                                         // Programs of several processes have it.
                                         "all_reduce",
                                         // They read a key, which programs of f64 do not have.
                                         "random_uniform", "random_normal", "dropout",
                                         // Their operands must fit each other: they have tests of their own.
                                         "batch_norm_inference", "attention", "attention_grad", "sgd_rows"};
  std::vector<int> seen(kOpCount);
  for (int seed = 0; seed < 200; ++seed) {
    RandomGraphOptions options;
    options.nodes = 40;
    for (const Node& n : random_program(static_cast<uint64_t>(seed), options).graph.nodes) {
      ++seen[static_cast<size_t>(n.op)];
    }
  }
  std::set<std::string> missing;
  int pointwise = 0;
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& op = info(static_cast<Op>(i));
    const bool drawn = seen[static_cast<size_t>(i)] > 0;
    // Factorizations need matrices that are far from singular, which random graphs do not make.
    if (op.kind == OpKind::linalg || op.op == Op::lstsq || op.op == Op::solve) continue;
    if (op.kind == OpKind::unary || op.kind == OpKind::binary || op.kind == OpKind::ternary) {
      pointwise += drawn;
    } else if (!drawn) {
      missing.insert(op.name);
    }
  }
  EXPECT_EQ(missing, without) << "an op that passes treat in a way of its own is drawn by tests/support/random_graph.h";
  EXPECT_GE(pointwise, 30);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Fuzz, testing::Range(0, 40));

}  // namespace
}  // namespace freight::test
