// Convolutions by cuDNN, on a fake of it that computes what its descriptors say: extents, strides, paddings, groups,
// epilogues, engines. What it cannot tell is whether NVIDIA's library agrees.
#include <gtest/gtest.h>

#include "freight/backend/gpu/cuda/dnn.h"
#include "freight/run/plan.h"

#include "tests/cuda/fake.h"
#include "tests/ops/op_suite.h"
#include "tests/support/trained.h"

namespace freight::test {
namespace {

class CudaDnn : public OnFakeLibraries {};

std::vector<OpCase> all_convolutions() {
  std::vector<OpCase> cases;
  const auto append = [&](const std::vector<OpCase>& more) { cases.insert(cases.end(), more.begin(), more.end()); };
  for (const Op op : {Op::conv, Op::conv_grad_input, Op::conv_grad_weight}) {
    append(cases_with_gradients(op));
    append(cases_of_views(op));
    for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) append(cases_in(op, dtype));
  }
  return cases;
}

TEST_F(CudaDnn, ConvolvesAsTheOracleInAllTypesAndOnViews) {
  compare_together(all_convolutions(), "cuda:0");
  EXPECT_GT(fake().library_convolutions, 20);
}

TEST_F(CudaDnn, WhereTheLibraryHasNoEngineTheGeneratedKernelsConvolve) {
  const Told none("FAKE_CUDNN_HAS_NO_ENGINES");
  compare_together(all_convolutions(), "cuda:0");
  EXPECT_EQ(fake().library_convolutions, 0);
}

// relu(conv(x, w) + b + conv(x, v)), where asked for.
Graph graph_of(DType dtype, bool bias, bool residual, bool relu) {
  Graph g;
  Builder b(g);
  const auto input = [&](const char* name, const Shape& s) {
    return b.one(Op::input, LeafAttrs{name, {dtype, s}}, {});
  };
  ConvAttrs attrs;
  attrs.stride = attrs.dilation = {1, 1};
  attrs.pad_low = attrs.pad_high = {1, 1};
  const Value x = input("x", {2, 3, 6, 5});
  Value y = b.one(Op::conv, attrs, {x, input("w", {4, 3, 3, 3})});
  if (bias) y = b.binary(Op::add, y, b.broadcast(b.reshape(input("b", {4}), {1, 4, 1, 1}), {2, 4, 6, 5}));
  if (residual) y = b.binary(Op::add, y, b.one(Op::conv, attrs, {x, input("v", {4, 3, 3, 3})}));
  if (relu) y = b.unary(Op::relu, y);
  g.outputs = {y};
  return g;
}

TEST_F(CudaDnn, EpiloguesAreComputedWhereTheyBelong) {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (int bits = 0; bits < 8; ++bits) {
      const Graph g = graph_of(dtype, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0);
      std::vector<Array> in;
      for (Value v : g.leaves(Op::input)) in.push_back(random_array({g.type(v)}, 7 + in.size()));
      cases.push_back({cat(dtype, " epilogue ", bits), g, in, 2});
    }
  }
  compare_together(cases, "cuda:0");
}

// Engine 1 rounds f32, 2 changes its bits from run to run, 3 compiles: 4 is the first to take, with its workspace.
TEST_F(CudaDnn, EnginesAreTakenThatKeepWhatWasPromised) {
  const auto engine = [](DType dtype, bool tf32) {
    const auto plan =
        plan_for(graph_of(dtype, false, false, false), {.backend = "cuda:0", .deterministic = true, .tf32 = tf32});
    for (const PlanStep& s : plan->steps()) {
      const std::string name = s.kernel->name();
      if (starts_with(name, "cuda:cudnn:")) return cat(name, " ", s.kernel->scratch_bytes());
    }
    return print(*plan);
  };
  EXPECT_EQ(engine(DType::f32, false), "cuda:cudnn:eng4.0 4096");
  EXPECT_EQ(engine(DType::f32, true), "cuda:cudnn:eng1.0 0");
  EXPECT_EQ(engine(DType::bf16, false), "cuda:cudnn:eng1.0 0");
}

TEST_F(CudaDnn, DescriptorsGoWithThePlanThatNeedsThem) {
  const auto run = [] {
    const Graph g = graph_of(DType::f32, true, false, true);
    std::vector<Array> in;
    for (Value v : g.leaves(Op::input)) in.push_back(random_array({g.type(v)}, 7));
    run_planned("cuda:0", g, in)[0].to_vector<float>();
    clear_plan_cache();
    return fake().live_descriptions;
  };
  const int64_t after_one = run();
  EXPECT_EQ(run(), after_one);
}

TEST_F(CudaDnn, ALibraryThatDoesNotStartSaysSo) {
  const Told none("FAKE_CUDNN_DOES_NOT_START");
  const auto memory = std::make_shared<cuda::Memory>(*fake_driver(), 0);
  std::string why;
  EXPECT_EQ(cuda::Dnn::open(memory, why), nullptr);
  EXPECT_NE(why.find("libcudnn.so.9 does not start: CUDNN_STATUS_NOT_INITIALIZED (1001)"), std::string::npos) << why;
}

TEST_F(CudaDnn, ConvolutionsInOneAxisTrainAsOnTheCpu) {
  train::trains_as_on_the_cpu(
      "cuda:0", [] { return models::create("textcnn", {.vocabulary = 30, .length = 8}); }, 2, 3, 0.02);
  EXPECT_GE(fake().library_convolutions, 9);
}

TEST_F(CudaDnn, ANetWithBatchNormTrainsAsOnTheCpuWithOneLaunchPerStep) {
  train::trains_as_on_the_cpu(
      "cuda:0", [] { return models::create("convnet"); }, 2, 3, 0.02);
  EXPECT_GE(fake().library_convolutions, 9);
  EXPECT_EQ(fake().captures, 1);
  EXPECT_EQ(fake().graph_launches, 2);
}

}  // namespace
}  // namespace freight::test
