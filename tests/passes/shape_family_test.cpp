// Shapes whose graphs are derived from others': each must equal what the passes make of it, to the last letter.
#include <atomic>
#include <thread>

#include "freight/backend/backend.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/optim/optim.h"
#include "freight/passes/passes.h"
#include "freight/passes/shape_family.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"
#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

using passes::shape_families;

// A training step of a net for a batch of `n`, or of sequences of `n` tokens.
struct Step {
  const char* name;
  Graph (*of)(int64_t n);
  int64_t least_derived;  // of the shapes below
};

Graph training_step(nn::Module& net, const Type& x, const Type& y) {
  optim::AdamW opt(net.parameters(), {.lr = 0.01, .weight_decay = 0.1, .clip_grad_norm = 1});
  auto step = compile([&](const Tensor& in, const Tensor& labels) {
    Tensor loss = cross_entropy(net(in), labels, {.label_smoothing = 0.1});
    opt.step(loss);
    return loss;
  });
  return step.graph(x, y);
}

Graph mlp(int64_t n) {
  nn::Sequential net(nn::Linear(20, 16), nn::ReLU(), nn::Dropout(0.2), nn::LayerNorm(16), nn::Linear(16, 6));
  return training_step(net, {DType::f32, {n, 20}}, {DType::i64, {n}});
}

Graph lstm(int64_t n) {
  nn::Sequential net(nn::LSTM(8, 16, {.last = true}), nn::Linear(16, 5));
  return training_step(net, {DType::f32, {4, n, 8}}, {DType::i64, {4}});
}

Graph transformer(int64_t n) {
  nn::Sequential net(nn::Embedding(40, 16), nn::TransformerBlock(16, 2), nn::Linear(16, 40));
  optim::SGD opt(net.parameters(), {.lr = 0.1});
  auto step = compile([&](const Tensor& in, const Tensor& labels) {
    Tensor loss = cross_entropy(reshape(net(in), {-1, 40}), reshape(labels, {-1}));
    opt.step(loss);
    return loss;
  });
  const Type tokens{DType::i64, {3, n}};
  return step.graph(tokens, tokens);
}

// Parts that begin and end where n says.
Graph slices(int64_t n) {
  Variable w("w", ones({4, 6}));
  auto step = compile([&](const Tensor& x) {
    const Tensor a = slice(x, 0, 1, n), b = slice(x, 0, 0, n - 1);  // (n - 1, 4)
    return grad(sum(matmul(a * b, w) + matmul(b, w)), {w})[0] * (1.0 / static_cast<double>(n - 1));
  });
  return step.graph(Type{DType::f32, {n, 4}});
}

std::vector<int64_t> shapes() {
  std::vector<int64_t> order;
  for (int64_t i = 1; i <= 40; ++i) order.push_back(i * 17 % 41);
  return order;
}

class DerivedShapes : public ::testing::TestWithParam<Step> {
 protected:
  DerivedShapes() { shape_families().clear(); }
  ~DerivedShapes() override { shape_families().clear(); }
};

// Without families: what the passes make of the graph alone.
Graph by_passes(const Graph& g, const PipelineOptions& options) {
  shape_families().clear();
  return run_pipeline(g, backend("cpu"), options);
}

TEST_P(DerivedShapes, AreWhatThePassesMakeOfThem) {
  const Step& s = GetParam();
  for (const PipelineOptions& options :
       {PipelineOptions{}, PipelineOptions{.compute = DType::bf16}, PipelineOptions{.recompute = Recompute::all}}) {
    std::vector<Graph> sources;
    std::vector<std::string> expected;
    for (const int64_t n : shapes()) {
      if (n < 2) continue;
      sources.push_back(s.of(n));
      expected.push_back(print(by_passes(sources.back(), options)));
    }
    shape_families().clear();
    for (size_t i = 0; i < sources.size(); ++i) {
      EXPECT_EQ(print(run_pipeline(sources[i], backend("cpu"), options)), expected[i]) << s.name << " shape " << i;
    }
    EXPECT_GE(shape_families().stats().derived, s.least_derived) << s.name;
    EXPECT_GE(shape_families().stats().lowered, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, DerivedShapes,
                         ::testing::Values(Step{"mlp", mlp, 20}, Step{"lstm", lstm, 10},
                                           Step{"transformer", transformer, 15}, Step{"slices", slices, 10}),
                         [](const auto& step) { return std::string(step.param.name); });

class ShapeFamiliesTest : public ::testing::Test {
 protected:
  ShapeFamiliesTest() { clear_plan_cache(); }
  ~ShapeFamiliesTest() override { clear_plan_cache(); }
};

// relu(x w), and a sum over rows times 1/n.
Graph product(int64_t n) {
  Graph g = parse(cat("graph {\n  %0 = input \"x\" : f32[", n, ",8]\n  %1 = state \"w\" : f32[8,12]\n",
                      "  %2 = matmul(%0, %1) : f32[", n, ",12]\n  %3 = relu(%2) : f32[", n, ",12]\n",
                      "  %4 = sum(%3) {axes=[0]} : f32[1,12]\n  %5 = constant {value=2} : f32[1,12]\n",
                      "  %6 = mul(%4, %5) : f32[1,12]\n  return %6\n}\n"));
  attrs<ConstantAttrs>(g.nodes[5]).value = 1.0 / static_cast<double>(n);
  return g;
}

TEST_F(ShapeFamiliesTest, ASizeThatEqualsAnotherGoesThroughThePasses) {
  for (const int64_t n : {20, 5, 10}) run_pipeline(product(n), backend("cpu"));
  EXPECT_EQ(shape_families().stats().lowered, 3);
  run_pipeline(product(7), backend("cpu"));
  EXPECT_EQ(shape_families().stats().derived, 1);
  for (const int64_t n : {8, 12}) run_pipeline(product(n), backend("cpu"));
  EXPECT_EQ(shape_families().stats().derived, 1);  // x is square, then as long as the result is wide
  EXPECT_EQ(shape_families().stats().lowered, 5);
}

TEST_F(ShapeFamiliesTest, AShapeBeyondThoseThatWereSeenGoesThroughThePassesAndWidensTheFamily) {
  for (const int64_t n : {20, 5, 10}) run_pipeline(product(n), backend("cpu"));
  run_pipeline(product(31), backend("cpu"));
  EXPECT_EQ(shape_families().stats().lowered, 4);
  run_pipeline(product(30), backend("cpu"));
  EXPECT_EQ(shape_families().stats().derived, 1);
}

TEST_F(ShapeFamiliesTest, ANumberThatIsNoFormulaOfTheShapeIsNeverDerived) {
  std::vector<Graph> sources;
  std::vector<std::string> expected;
  for (const int64_t n : {20, 5, 10, 7, 11, 13}) {
    sources.push_back(product(n));
    attrs<ConstantAttrs>(sources.back().nodes[5]).value = 0.25 + static_cast<double>(n % 3);
    expected.push_back(print(by_passes(sources.back(), {})));
  }
  shape_families().clear();
  for (size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(print(run_pipeline(sources[i], backend("cpu"))), expected[i]);
  }
  EXPECT_EQ(shape_families().stats().derived, 0);
}

// Half of the rows, rounded up: even numbers of rows look like a line.
TEST_F(ShapeFamiliesTest, AnExtentThatIsRoundedIsNeverDerived) {
  const auto halves = [](int64_t n) {
    const int64_t half = (n + 1) / 2;
    return parse(cat("graph {\n  %0 = input \"x\" : f32[", n, ",8]\n  %1 = slice(%0) {start=[0,0], limit=[", n,
                     ",8], step=[2,1]} : f32[", half, ",8]\n  %2 = exp(%1) : f32[", half, ",8]\n  return %2\n}\n"));
  };
  for (const int64_t n : {20, 4, 10, 6, 7, 13}) {
    const Graph g = run_pipeline(halves(n), backend("cpu"));
    EXPECT_EQ(g.type(g.outputs[0]).shape[0], (n + 1) / 2);
  }
  EXPECT_EQ(shape_families().stats().derived, 0);
}

TEST_F(ShapeFamiliesTest, ConvolutionsDecideByExtentsAndAreNeverDerived) {
  nn::Sequential net(nn::Conv2d(1, 2, 3), nn::Flatten(), nn::Linear(72, 5));
  for (const int64_t n : {20, 7, 11, 9, 10}) {
    run_pipeline(training_step(net, {DType::f32, {n, 1, 8, 8}}, {DType::i64, {n}}), backend("cpu"));
  }
  EXPECT_EQ(shape_families().stats().derived, 0);
}

TEST_F(ShapeFamiliesTest, ThreadsThatAskAtOnceGetWhatThePassesMake) {
  std::vector<Graph> sources;
  std::vector<std::string> expected;
  for (int64_t n = 13; n < 45; ++n) {
    sources.push_back(product(n));
    expected.push_back(print(by_passes(sources.back(), {})));
  }
  shape_families().clear();
  std::atomic<int> wrong = 0;
  const auto work = [&](size_t first) {
    for (size_t i = 0; i < 3 * sources.size(); ++i) {
      const size_t at = (first + i * 7) % sources.size();
      wrong += print(run_pipeline(sources[at], backend("cpu"))) != expected[at];
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) threads.emplace_back(work, t * 5);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(shape_families().stats().derived, 60);
}

// The texts of plans say layouts and addresses as well; results are equal to the bit.
TEST_F(ShapeFamiliesTest, PlansOfDerivedShapesComputeTheSameBits) {
  const auto losses = [](bool forget) {
    std::vector<double> all;
    std::string texts;
    seed(5);
    nn::Sequential net(nn::Linear(20, 16), nn::ReLU(), nn::Linear(16, 6));
    optim::SGD opt(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    auto step = compile(
        [&](const Tensor& x, const Tensor& y) {
          Tensor loss = cross_entropy(net(x), y);
          opt.step(loss);
          return loss;
        },
        {.deterministic = true});
    for (const int64_t n : shapes()) {
      if (forget) shape_families().clear();
      const Array x = ones({n, 20}).array(), y = zeros({n}, DType::i64).array();
      all.push_back(step(x, y).item<double>());
      texts += print(*step.plan(x, y));
    }
    return std::pair(all, texts);
  };
  const auto derived = losses(false);
  EXPECT_GT(shape_families().stats().derived, 20);
  clear_plan_cache();
  EXPECT_EQ(derived, losses(true));
}

}  // namespace
}  // namespace freight::test
