// What rides on convolutions in training in f16: the moments of their channels, and the normalization before them. On
// the fake cuDNN, which has engines for it where the real one of 9.19 was seen to have them
// (tests/gpu/fused_plans_test.cpp).
#include <gtest/gtest.h>

#include "freight/ir/fused_pattern.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"

#include "tests/cuda/fake.h"
#include "tests/ops/op_suite.h"
#include "tests/support/trained.h"

namespace freight::test {
namespace {

class CudaDnnFused : public OnFakeLibraries {};

// Steps whose kernel's name contains `text`.
int steps_with(const Plan& plan, const std::string& text) {
  int count = 0;
  for (const PlanStep& s : plan.steps()) count += s.kernel->name().find(text) != std::string::npos;
  return count;
}

struct Layer {
  Shape x, w;
  int64_t stride = 1;
};
// conv(x, w) and its moments.
OpCase moments_of(const Layer& layer, DType dtype, double mean = 0) {
  Graph g;
  Builder b(g);
  const auto input = [&](const char* name, const Shape& s) {
    return b.one(Op::input, LeafAttrs{name, {dtype, s}}, {});
  };
  ConvAttrs attrs;
  attrs.stride = Shape::filled(layer.x.rank() - 2, layer.stride);
  attrs.dilation = Shape::filled(layer.x.rank() - 2, 1);
  for (int i = 2; i < layer.w.rank(); ++i) attrs.pad_low.push_back(layer.w[i] / 2);
  attrs.pad_high = attrs.pad_low;
  const Value y = b.one(Op::conv, attrs, {input("x", layer.x), input("w", layer.w)});
  g.outputs = {y};
  for (Value v : b.add(Op::moments, NoAttrs{}, {y})) g.outputs.push_back(v);
  std::vector<Array> in;
  for (Value v : g.leaves(Op::input)) {
    in.push_back(random_array({g.type(v)}, 7 + in.size()));
    if (mean == 0 || in.size() != 2) continue;
    Array shifted = in.back().cast(DType::f32);
    for (int64_t i = 0; i < shifted.numel(); ++i) shifted.data<float>()[i] += static_cast<float>(mean);
    in.back() = shifted.cast(dtype);
  }
  return {cat(dtype, " ", layer.x, " ", layer.w, " / ", layer.stride), g, in, 4};
}

const std::vector<Layer> kLayers = {{{2, 8, 7, 5}, {8, 8, 3, 3}},
                                    {{3, 16, 6, 5}, {24, 16, 1, 1}, 2},
                                    {{1, 8, 9, 9}, {16, 8, 5, 5}, 2},
                                    {{5, 8, 1, 1}, {8, 8, 1, 1}},
                                    {{2, 8, 11}, {16, 8, 3}}};

std::vector<OpCase> cases_of(DType dtype) {
  std::vector<OpCase> cases;
  for (const Layer& layer : kLayers) cases.push_back(moments_of(layer, dtype));
  return cases;
}
int fused_in(const std::vector<OpCase>& cases) {
  int fused = 0;
  for (const OpCase& c : cases) {
    fused += steps_with(*plan_for(c.graph, {.backend = "cuda:0", .deterministic = true}), ":moments:");
  }
  return fused;
}

TEST_F(CudaDnnFused, AConvolutionInF16AndTheMomentsOfItsChannelsAreOneStep) {
  const std::vector<OpCase> cases = cases_of(DType::f16);
  EXPECT_EQ(fused_in(cases), static_cast<int>(kLayers.size()));
  compare_together(cases, "cuda:0");
}

std::vector<Array> results_of(const std::shared_ptr<const Plan>& plan, const OpCase& c) {
  Executable executable(plan, {});
  std::vector<Array> results;
  for (Value v : c.graph.outputs) results.emplace_back(c.graph.type(v).dtype, c.graph.type(v).shape);
  executable.run(c.inputs, results);
  return results;
}

// Measured, the plain convolution with a generated kernel behind it may be chosen: here, since the engine fails.
TEST_F(CudaDnnFused, MomentsByAKernelBehindTheConvolutionAreTheSame) {
  const Told refuses("FAKE_CUDNN_REFUSES_FUSIONS");
  for (const double mean : {0.0, 3.0}) {
    const OpCase c = moments_of({{2, 8, 6, 5}, {8, 8, 3, 3}}, DType::f16, mean);
    const auto plan = plan_for(c.graph, {.backend = "cuda:0"});
    check_results(c, results_of(plan, c), "cuda:0");
    EXPECT_EQ(steps_with(*plan, ":moments:"), 0) << print(*plan);
    int steps = 0;
    for (const Node& n : plan->graph().nodes) steps += n.op == Op::fused && product_in(n);
    EXPECT_EQ(steps, 1) << print(*plan);
  }
}

TEST_F(CudaDnnFused, WhereTheLibraryHasNoSuchEngineMomentsAreComputedAsBefore) {
  std::vector<OpCase> cases = cases_of(DType::f32), narrow = cases_of(DType::bf16);
  cases.insert(cases.end(), narrow.begin(), narrow.end());
  cases.push_back(moments_of({{2, 3, 7, 5}, {8, 3, 3, 3}}, DType::f16));  // cuDNN wants eights of channels
  cases.push_back(moments_of({{2, 8, 7, 5}, {4, 8, 3, 3}}, DType::f16));
  EXPECT_EQ(fused_in(cases), 0);
  compare_together(cases, "cuda:0");
}

enum class Kept { no, yes };
// z = relu(x scale + shift) in f16, its convolution with moments, and the gradient of the filter; perhaps z itself.
OpCase normed(const Layer& layer, Kept kept) {
  OpCase c = moments_of(layer, DType::f16);
  const ConvAttrs attrs = freight::attrs<ConvAttrs>(c.graph.def(c.graph.outputs[0]));
  const Shape y_shape = c.graph.type(c.graph.outputs[0]).shape;
  Graph g;
  Builder b(g);
  const auto input = [&](const char* name, DType dtype, const Shape& s) {
    return b.one(Op::input, LeafAttrs{name, {dtype, s}}, {});
  };
  const Value x = input("x", DType::f16, layer.x), w = input("w", DType::f16, layer.w);
  const auto of_channels = [&](const char* name) {
    return b.broadcast_axis(input(name, DType::f32, {layer.x[1]}), 1, layer.x);
  };
  const Ex scaled = Ex{&b, b.cast(x, DType::f32)} * Ex{&b, of_channels("scale")};
  const Value z = b.unary(Op::relu, b.cast((scaled + Ex{&b, of_channels("shift")}).v, DType::f16));
  const Value y = b.one(Op::conv, attrs, {z, w});
  g.outputs = {y};
  for (Value v : b.add(Op::moments, NoAttrs{}, {y})) g.outputs.push_back(v);
  ConvAttrs gradient = attrs;
  gradient.shape = layer.w;
  g.outputs.push_back(b.one(Op::conv_grad_weight, gradient, {z, input("dy", DType::f16, y_shape)}));
  if (kept == Kept::yes) g.outputs.push_back(z);
  std::vector<Array> in;
  for (Value v : g.leaves(Op::input)) in.push_back(random_array({g.type(v)}, 3 + in.size()));
  return {cat("normed ", layer.x, " ", layer.w, " / ", layer.stride), g, in, 8};
}

TEST_F(CudaDnnFused, ConvolutionsAndGradientsOfFiltersNormalizeWhatTheyRead) {
  std::vector<OpCase> cases;
  for (const Layer& layer : kLayers) {
    cases.push_back(normed(layer, Kept::no));
    const auto plan = plan_for(cases.back().graph, {.backend = "cuda:0", .deterministic = true});
    EXPECT_EQ(steps_with(*plan, ":normed:"), 2) << print(*plan);
    EXPECT_EQ(steps_with(*plan, ":normed:moments:"), 1);
  }
  compare_together(cases, "cuda:0");
}

TEST_F(CudaDnnFused, ChannelsThatAreScaledAlikeMayBeShiftedOtherwise) {
  const OpCase one = normed(kLayers[0], Kept::no);
  Graph g = one.graph;
  std::vector<Array> in = one.inputs;
  Builder b(g);
  const std::vector<Value> leaves = g.leaves(Op::input);
  const auto named = [&](const char* name) {
    return *std::find_if(leaves.begin(), leaves.end(), [&](Value v) { return leaf_name(g, v) == name; });
  };
  const Value scale = named("scale"), w = named("w");
  const Value x = g.outputs[0];  // the next layer: a region of its own
  const Shape shape = g.type(x).shape;
  const Value shift = b.one(Op::input, LeafAttrs{"other", g.type(named("shift"))}, {});
  const auto spread = [&](Value v) { return Ex{&b, b.broadcast_axis(v, 1, shape)}; };
  const Value z =
      b.unary(Op::relu, b.cast((Ex{&b, b.cast(x, DType::f32)} * spread(scale) + spread(shift)).v, DType::f16));
  const Value y = b.one(Op::conv, attrs<ConvAttrs>(g.def(g.outputs[0])), {z, w});
  g.outputs.push_back(y);
  for (Value v : b.add(Op::moments, NoAttrs{}, {y})) g.outputs.push_back(v);
  in.push_back(random_array({g.type(shift)}, 77));
  const OpCase both{"two shifts", g, in, 8};
  const auto plan = plan_for(g, {.backend = "cuda:0", .deterministic = true});
  EXPECT_EQ(steps_with(*plan, ":normed:"), 3) << print(*plan);
  check_results(both, results_of(plan, both), "cuda:0");
}

TEST_F(CudaDnnFused, WhatSomebodyElseReadsIsStoredAndNormalizedOnce) {
  const OpCase c = normed(kLayers[0], Kept::yes);
  EXPECT_EQ(steps_with(*plan_for(c.graph, {.backend = "cuda:0", .deterministic = true}), ":normed:"), 0);
  compare_together({c}, "cuda:0");
}

TEST_F(CudaDnnFused, NormalizedByAKernelBeforeTheConvolutionChannelsAreTheSame) {
  const Told refuses("FAKE_CUDNN_REFUSES_FUSIONS");
  const OpCase c = normed({{2, 8, 6, 7}, {16, 8, 3, 3}, 2}, Kept::no);
  const auto plan = plan_for(c.graph, {.backend = "cuda:0"});
  check_results(c, results_of(plan, c), "cuda:0");
  EXPECT_EQ(steps_with(*plan, "normed:"), 0) << print(*plan);
}

struct Net {
  const char* name;
  models::Options options;
  double lr;
  int normed;        // convolutions that read normalized channels which nobody else reads
  bool activations;  // are what the arena is large for
};
class NetsInF16 : public CudaDnnFused, public ::testing::WithParamInterface<Net> {};

TEST_P(NetsInF16, TrainAsWithoutFusionsWithOneLaunchPerStepAndLessMemory) {
  const auto run = [](const char* backend, DType type) {
    seed(3);
    return train::trained(backend, models::create(GetParam().name, GetParam().options), 2, 3, GetParam().lr, {}, type);
  };
  const train::TrainedNet got = run("cuda:0", DType::f16);
  EXPECT_EQ(fake().captures, 1);
  EXPECT_EQ(fake().graph_launches, 2);
  int convolutions = 0;  // of eights of channels
  for (const Node& n : got.plan->graph().nodes) {
    const Node* product = product_in(n);
    convolutions += (product ? product : &n)->op == Op::conv && got.plan->graph().type(n.in(0)).shape[1] % 8 == 0;
  }
  EXPECT_EQ(steps_with(*got.plan, "moments:"), convolutions);
  EXPECT_EQ(steps_with(*got.plan, "normed:"), 2 * GetParam().normed);
  const train::TrainedNet exact = run("cpu", DType::f32);
  EXPECT_NEAR(got.losses[0], exact.losses[0], 1e-2 * (1 + exact.losses[0]));
  const Told none("FAKE_CUDNN_HAS_NO_FUSIONS");
  clear_plan_cache();
  const train::TrainedNet apart = run("cuda:0", DType::f16);
  EXPECT_EQ(steps_with(*apart.plan, "moments:"), 0);
  if (GetParam().activations) {
    EXPECT_LT(got.plan->arena_bytes(), apart.plan->arena_bytes());
  }
  for (size_t i = 0; i < apart.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], apart.losses[i], 1e-2 * (1 + apart.losses[i])) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, NetsInF16,
                         ::testing::Values(Net{"resnet20", {}, 0.02, 9, true},
                                           Net{"googlenet", {.classes = 10, .size = {32, 32}}, 0.02, 19, false}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace freight::test
