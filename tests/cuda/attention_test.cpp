// Attention in 16 bits by cuDNN, on a fake of it that computes the graphs it is given node by node. What it cannot tell
// is whether NVIDIA's engines know these graphs (tests/gpu/attention_plans_test.cpp), and what they compute.
#include <gtest/gtest.h>

#include "freight/backend/gpu/cuda/dnn.h"
#include "freight/run/plan.h"

#include "tests/cuda/fake.h"
#include "tests/ops/op_suite.h"
#include "tests/support/trained.h"

namespace freight::test {
namespace {

class CudaAttention : public OnFakeLibraries {};

enum class From { tensors, one_product };  // q, k and v: of their own, or parts of rows that a layer made

// y, lse, and with `dy` as another input dq, dk and dv.
OpCase attention_case(DType dtype, const Shape& q, int64_t keys, const AttentionAttrs& a, From from = From::tensors) {
  Graph g;
  Builder b(g);
  const auto input = [&](const Shape& s, DType t) { return b.one(Op::input, LeafAttrs{"x", {t, s}}, {}); };
  std::vector<Value> in;
  if (from == From::one_product) {
    const Value rows = input({q[0], q[2], 3 * q[1] * q[3]}, dtype);
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t width = q[1] * q[3];
      const Value part = b.slice(rows, {0, 0, i * width}, {q[0], q[2], (i + 1) * width}, {1, 1, 1});
      in.push_back(b.transpose(b.reshape(part, {q[0], q[2], q[1], q[3]}), {0, 2, 1, 3}));
    }
  } else {
    for (const Shape& s : {q, Shape{q[0], q[1], keys, q[3]}, Shape{q[0], q[1], keys, q[3]}})
      in.push_back(input(s, dtype));
  }
  if (a.lengths) in.push_back(input({q[0]}, DType::i32));
  const std::vector<Value> y = b.add(Op::attention, a, in);
  in.insert(in.end(), {y[0], y[1], input(q, dtype)});
  g.outputs = {y[0], y[1]};
  for (Value v : b.add(Op::attention_grad, a, in)) g.outputs.push_back(v);
  std::vector<Array> arrays;
  for (Value v : g.leaves(Op::input))
    arrays.push_back(random_array({g.type(v), Fill::normal, keys + 1}, 5 + arrays.size()));
  return {cat(dtype, " ", q, " keys ", keys, a.causal ? " causal" : ""), g, arrays, 4};
}

std::vector<OpCase> cases_that_the_library_takes() {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool causal : {false, true}) {
      const AttentionAttrs a{.scale = 0.3, .causal = causal};
      cases.push_back(attention_case(dtype, {2, 3, 17, 8}, 17, a));
      cases.push_back(attention_case(dtype, {1, 2, 5, 16}, 9, a));
      cases.push_back(attention_case(dtype, {1, 1, 1, 24}, 7, a));
      cases.push_back(attention_case(dtype, {1, 1, 3, 128}, 2, a));
      cases.push_back(attention_case(dtype, {2, 2, 6, 16}, 6, a, From::one_product));
    }
  }
  return cases;
}

TEST_F(CudaAttention, AndItsGradientAreThoseOfTheOracleByTheLibrary) {
  const std::vector<OpCase> cases = cases_that_the_library_takes();
  compare_together(cases, "cuda:0");
  EXPECT_GE(fake().library_attentions, static_cast<int64_t>(2 * cases.size()));
}

TEST_F(CudaAttention, WhereTheLibraryHasNoEngineTheGeneratedKernelsCompute) {
  const Told none("FAKE_CUDNN_HAS_NO_ENGINES");
  compare_together(cases_that_the_library_takes(), "cuda:0");
  EXPECT_EQ(fake().library_attentions, 0);
}

TEST_F(CudaAttention, OfOtherWidthsTypesAndWithLengthsIsTheGeneratedKernels) {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    cases.push_back(attention_case(dtype, {1, 2, 5, 12}, 5, {.scale = 0.3}));
    cases.push_back(attention_case(dtype, {1, 2, 5, 16}, 5, {.scale = 0.3, .lengths = true}));
  }
  cases.push_back(attention_case(DType::f32, {1, 2, 5, 16}, 5, {.scale = 0.3}));
  compare_together(cases, "cuda:0");
  EXPECT_EQ(fake().library_attentions, 0);
}

// Engine 2 changes its bits from run to run, 4 needs too much workspace; all compile.
TEST_F(CudaAttention, EnginesAreTakenThatKeepWhatWasPromised) {
  const OpCase c = attention_case(DType::bf16, {2, 3, 17, 8}, 17, {.scale = 0.3, .causal = true});
  const auto plan = plan_for(c.graph, {.backend = "cuda:0", .deterministic = true});
  std::vector<std::string> taken;
  for (const PlanStep& s : plan->steps()) {
    const std::string name = s.kernel->name();
    if (starts_with(name, "cuda:cudnn:")) taken.push_back(cat(name, " ", s.kernel->scratch_bytes()));
  }
  EXPECT_EQ(join(taken, ", "), "cuda:cudnn:eng1.0 4096, cuda:cudnn:eng1.0 4096");
  StepSpec spec;
  spec.graph = &c.graph;
  for (const Node& n : c.graph.nodes) spec.node = n.op == Op::attention ? &n : spec.node;
  for (Value v : spec.node->inputs) spec.in.push_back({c.graph.type(v), Layout::row_major(c.graph.type(v).shape)});
  for (Value v : spec.node->outputs) spec.out.push_back({c.graph.type(v), Layout::row_major(c.graph.type(v).shape)});
  std::string engines;
  for (const cuda::DnnPlan& p : cuda::DnnPlanner(std::string("{}")).plans(spec, size_t{1} << 30, 8))
    engines += cat(p.engine, " ");
  EXPECT_EQ(engines, "1 3 5 ");
}

TEST_F(CudaAttention, DescriptorsGoWithThePlanThatNeedsThem) {
  const auto run = [] {
    const OpCase c = attention_case(DType::f16, {1, 2, 5, 8}, 5, {.scale = 0.3, .causal = true});
    run_planned("cuda:0", c.graph, c.inputs);
    clear_plan_cache();
    return fake().live_descriptions;
  };
  const int64_t after_one = run();
  EXPECT_EQ(run(), after_one);
}

models::Model transformer() {
  models::Options o;
  o.vocabulary = 30, o.length = 12, o.layers = 2, o.width = 128;
  return models::create("gpt_char", o);
}

class CudaTransformer : public CudaAttention, public ::testing::WithParamInterface<DType> {};

// Beside rounding to 16 bits in other places, of weights and of scores' gradients, the same numbers.
TEST_P(CudaTransformer, TrainsIn16BitsAsOnTheCpuWithAttentionByTheLibrary) {
  constexpr int kSteps = 3;
  const DType compute = GetParam();
  const auto run = [](const char* backend, DType type) {
    seed(3);
    return train::trained(backend, transformer(), 2, kSteps, 0.02, {}, type);
  };
  const train::TrainedNet expected = run("cpu", DType::f32), got = run("cuda:0", compute);
  EXPECT_EQ(fake().library_attentions, kSteps * 2 * 2);  // layers, forward and backward
  EXPECT_EQ(fake().captures, 1);
  int narrow = 0;
  for (const Node& n : got.plan->graph().nodes) {
    if (n.op != Op::attention && n.op != Op::attention_grad) continue;
    for (Value v : n.inputs) narrow += got.plan->graph().type(v).dtype == compute;
  }
  EXPECT_EQ(narrow, 2 * (3 + 5));                               // q k v; q k v y dy
  const double allowed = compute == DType::bf16 ? 4e-3 : 5e-4;  // 8 and 11 bits of mantissa
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], allowed * expected.losses[i]) << "step " << i;
  }
  for (size_t i = 0; i < expected.weights; ++i) {
    const auto &g = got.states[i].second, &e = expected.states[i].second;
    double error = 0, size = 0;
    for (size_t k = 0; k < g.size(); ++k) {
      error += (g[k] - e[k]) * (g[k] - e[k]);
      size += e[k] * e[k];
    }
    EXPECT_LE(std::sqrt(error), allowed * std::sqrt(size) + 1e-3) << got.states[i].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaTransformer, ::testing::Values(DType::bf16, DType::f16),
                         [](const auto& instance) { return std::string(cat(instance.param)); });

}  // namespace
}  // namespace freight::test
