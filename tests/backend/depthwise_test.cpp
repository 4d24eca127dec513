// Depthwise convolutions and their gradients (kernels/depthwise.h, depthwise_conv.h) are what the loops of the
// reference give, in f32 and bf16, for each instruction set; gradients of weights have the same bits for any number of
// threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "freight/backend/choices.h"
#include "freight/backend/cpu/kernels/simd_tables.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/run/plan.h"
#include "tests/backend/grad_weight.h"

namespace freight::test {
namespace {

struct DepthwiseCase {
  int64_t n, c, h, w, kh, kw, stride_h, stride_w, low, high;
};

struct DepthwiseShapes {
  Shape x, w, y;
  ConvAttrs attributes;
  explicit DepthwiseShapes(const DepthwiseCase& p) : x{p.n, p.c, p.h, p.w}, w{p.c, 1, p.kh, p.kw} {
    const auto extent = [&](int64_t size, int64_t kernel, int64_t stride) {
      return (size + p.low + p.high - kernel) / stride + 1;
    };
    y = {p.n, p.c, extent(p.h, p.kh, p.stride_h), extent(p.w, p.kw, p.stride_w)};
    attributes = {{p.stride_h, p.stride_w}, {p.low, p.low}, {p.high, p.high}, {1, 1}, p.c, {}, {}};
  }
};

Graph grad_weight_of(const DepthwiseCase& p, DType dtype) {
  const DepthwiseShapes s(p);
  return grad_weight_graph(dtype, s.x, s.w, s.y, s.attributes);
}

// With bias and relu, or the gradient of the image.
Graph conv_of(const DepthwiseCase& p, DType dtype, Op op) {
  DepthwiseShapes s(p);
  Graph g;
  Builder b(g);
  const auto leaf = [&](Op kind, const Shape& shape) { return b.one(kind, LeafAttrs{"x", {dtype, shape}}, {}); };
  const bool forward = op == Op::conv;
  std::vector<Value> inputs{leaf(Op::input, forward ? s.x : s.y), leaf(Op::state, s.w)};
  if (forward) {
    inputs.push_back(leaf(Op::input, {p.c}));
    s.attributes.epilogue = {.bias = true, .relu = true};
  } else {
    s.attributes.shape = s.x;
  }
  g.outputs = {b.one(op, s.attributes, inputs)};
  return g;
}

// Where an f32 weight is frozen, kernels are chosen by measurement, of which the first candidate is the rule's.
Array run_frozen(const Graph& g, const std::vector<Array>& inputs, const Array& weight, bool own_kernel) {
  const ForcedChoice forced(g.type(g.leaves(Op::state)[0]).shape.back() == 3 ? 1 : 0);
  RunOptions options;
  options.backend = "cpu";
  options.frozen = true;
  const auto plan = std::make_shared<const Plan>(g, options);
  const auto is_own = [](const PlanStep& step) { return step.kernel->name() == "depthwise"; };
  EXPECT_EQ(std::any_of(plan->steps().begin(), plan->steps().end(), is_own), own_kernel) << print(*plan);
  Executable executable(plan, {weight.storage()});
  const Type& type = g.type(g.outputs[0]);
  const Array y(type.dtype, type.shape);
  executable.run(inputs, {y});
  return y;
}

void expect_as_reference(const DepthwiseCase& p, DType dtype, Op op = Op::conv_grad_weight) {
  SCOPED_TRACE(cat(name(op), " ", dtype, " ", p.n, " x ", p.c, " of ", p.h, " x ", p.w, ", kernel ", p.kh, " x ", p.kw,
                   " stride ", p.stride_h, " ", p.stride_w, " padding ", p.low, " ", p.high));
  if (op == Op::conv_grad_weight) return expect_graph_as_reference(grad_weight_of(p, dtype), dtype);
  const Graph g = conv_of(p, dtype, op);
  const std::vector<Array> in = normal_inputs(g);
  const Array weight = random_array({g.type(g.leaves(Op::state)[0]), Fill::normal}, 3);
  const bool stride_one = p.stride_h == 1 && p.stride_w == 1;
  const bool convolves = dtype == DType::f32 || backend("cpu").why_unsupported(dtype).empty();  // else: plain loops
  const bool own_kernel = !convolves       ? false
                          : op == Op::conv ? (p.kw > 3 || dtype == DType::f32) && (p.kw < 7 || p.stride_w == 1)
                                           : p.kw > 3 && stride_one;
  const Array expected = run_planned("ref", g, in, {weight})[0];
  EXPECT_TRUE(close(run_frozen(g, in, weight, own_kernel), expected, dtype == DType::bf16 ? 1e-2 : 1e-4));
}

TEST(Depthwise, GivesTheReferencesGradientsOfWeights) {
  const DepthwiseCase kCases[] = {
      {2, 96, 14, 15, 7, 7, 1, 1, 3, 3}, {3, 67, 13, 12, 5, 5, 2, 2, 2, 2}, {5, 8, 9, 30, 3, 5, 2, 1, 1, 1},
      {1, 130, 3, 2, 7, 7, 1, 1, 3, 3},  {2, 33, 11, 8, 1, 5, 1, 1, 0, 2},  {70, 2, 5, 5, 5, 5, 3, 4, 4, 0},
  };
  for (const std::string& target : cpu::simd_targets()) {
    SCOPED_TRACE(target);
    const cpu::ForcedSimdTarget forced(target);
    for (const DepthwiseCase& p : kCases) {
      for (const DType dtype : {DType::f32, DType::bf16}) expect_as_reference(p, dtype);
    }
  }
}

TEST(Depthwise, GivesTheReferencesGradientsOfWeightsOfRandomShapes) {
  std::mt19937 random(29);
  const auto draw = [&](int64_t from, int64_t to) { return from + static_cast<int64_t>(random() % (to - from + 1)); };
  for (int i = 0; i < 60; ++i) {
    const int64_t kh = draw(1, 7), kw = 3 + 2 * draw(1, 2);
    expect_as_reference({.n = draw(1, 5),
                         .c = draw(2, 150),
                         .h = draw(kh, 20),
                         .w = draw(kw, 20),
                         .kh = kh,
                         .kw = kw,
                         .stride_h = draw(1, 3),
                         .stride_w = draw(1, 3),
                         .low = draw(0, 4),
                         .high = draw(0, 4)},
                        i % 2 == 0 ? DType::f32 : DType::bf16);
  }
}

TEST(Depthwise, GivesTheReferencesResultsAndGradientsOfImages) {
  const DepthwiseCase kCases[] = {
      {2, 96, 14, 15, 7, 7, 1, 1, 3, 3}, {3, 67, 13, 12, 5, 5, 2, 2, 2, 2},  {5, 16, 9, 30, 3, 5, 2, 1, 1, 1},
      {1, 130, 3, 2, 7, 7, 1, 1, 3, 3},  {2, 33, 11, 8, 1, 3, 1, 1, 0, 2},   {9, 17, 5, 5, 5, 5, 3, 2, 4, 0},
      {1, 32, 16, 16, 3, 3, 1, 1, 1, 1}, {2, 144, 15, 15, 3, 3, 2, 2, 1, 1}, {1, 289, 7, 7, 3, 3, 1, 1, 5, 6},
  };
  for (const std::string& target : cpu::simd_targets()) {
    SCOPED_TRACE(target);
    const cpu::ForcedSimdTarget forced(target);
    for (const DepthwiseCase& p : kCases) {
      for (const Op op : {Op::conv, Op::conv_grad_input}) {
        for (const DType dtype : {DType::f32, DType::bf16}) expect_as_reference(p, dtype, op);
      }
    }
  }
}

TEST(Depthwise, GivesTheReferencesResultsOfRandomShapes) {
  std::mt19937 random(31);
  const auto draw = [&](int64_t from, int64_t to) { return from + static_cast<int64_t>(random() % (to - from + 1)); };
  for (int i = 0; i < 60; ++i) {
    const int64_t kh = draw(1, 7), kw = 1 + 2 * draw(1, 3);
    expect_as_reference({.n = draw(1, 5),
                         .c = draw(16, 150),
                         .h = draw(kh, 20),
                         .w = draw(kw, 20),
                         .kh = kh,
                         .kw = kw,
                         .stride_h = draw(1, 3),
                         .stride_w = draw(1, 2),
                         .low = draw(0, 4),
                         .high = draw(0, 4)},
                        i % 2 == 0 ? DType::f32 : DType::bf16, i % 3 == 0 ? Op::conv_grad_input : Op::conv);
  }
}

TEST(Depthwise, HasTheSameBitsForAnyNumberOfThreads) {
  const Graph g = grad_weight_of({9, 70, 14, 14, 5, 5, 1, 1, 2, 2}, DType::f32);
  const std::vector<Array> in = normal_inputs(g);
  const Array all = run_planned("cpu", g, in)[0];
  const ThreadLimit alone(1);
  const Array one = run_planned("cpu", g, in)[0];
  ASSERT_EQ(all.bytes(), one.bytes());
  EXPECT_EQ(std::memcmp(all.raw(), one.raw(), all.bytes()), 0);
}

}  // namespace
}  // namespace freight::test
