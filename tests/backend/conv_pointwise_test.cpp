// Convolutions whose filters see one pixel, with steps and without, and their gradients give what the loops of the
// reference give, whatever the channels and the pixels.
#include <gtest/gtest.h>

#include <random>

#include "freight/base/strings.h"
#include "freight/run/plan.h"
#include "tests/backend/grad_weight.h"

namespace freight::test {
namespace {

Graph graph_of(Op op, DType dtype, const Shape& x, int64_t outputs, int64_t stride, int64_t dilation = 1) {
  Shape w{outputs, x[1]}, y{x[0], outputs};
  ConvAttrs a{{}, {}, {}, {}, 1, {}, {}};
  for (int i = 2; i < x.rank(); ++i) {
    w.push_back(1);
    y.push_back((x[i] - 1) / stride + 1);
    a.stride.push_back(stride);
    a.pad_low.push_back(0);
    a.pad_high.push_back(0);
    a.dilation.push_back(dilation);
  }
  if (op == Op::conv_grad_weight) return grad_weight_graph(dtype, x, w, y, a);
  if (op == Op::conv_grad_input) a.shape = x;
  Graph g;
  Builder b(g);
  const auto in = [&](const Shape& s) { return b.one(Op::input, LeafAttrs{"x", {dtype, s}}, {}); };
  const Value first = in(op == Op::conv ? x : y), second = in(w);
  g.outputs = {b.one(op, a, {first, second})};
  return g;
}

void expect_as_reference(DType dtype, const Shape& x, int64_t outputs, int64_t stride, int64_t dilation = 1) {
  for (const Op op : {Op::conv, Op::conv_grad_input, Op::conv_grad_weight}) {
    SCOPED_TRACE(cat(name(op), " ", dtype, x, " to ", outputs, " stride ", stride, " dilation ", dilation));
    expect_graph_as_reference(graph_of(op, dtype, x, outputs, stride, dilation), dtype);
  }
}

// oneDNN's kernel for bf16 instructions is wrong for images of 30 pixels.
TEST(ConvPointwise, GivesTheReferencesResultsForImagesOfAnyNumberOfPixels) {
  for (const Shape& x : {Shape{2, 38, 5, 24}, {1, 6, 180}, {1, 16, 10, 18}, {3, 3, 6, 10}, {2, 64, 15, 20}}) {
    for (const int64_t outputs : {1, 5, 27}) {
      for (const int64_t stride : {1, 2, 3}) expect_as_reference(DType::bf16, x, outputs, stride, outputs == 5 ? 2 : 1);
    }
  }
}

TEST(ConvPointwise, GivesTheReferencesResultsOfRandomShapes) {
  std::mt19937 random(3);
  const auto draw = [&](int64_t from, int64_t to) { return from + static_cast<int64_t>(random() % (to - from + 1)); };
  for (int i = 0; i < 150; ++i) {
    const int64_t stride = draw(1, 3), outputs = draw(1, i % 2 == 0 ? 40 : 9);
    Shape x{draw(1, 3), draw(1, i % 2 == 0 ? 40 : 9)};
    const int64_t most = i % 5 == 0 ? 60 : 6;
    x.push_back(draw(1, most) * stride);
    if (i % 5 != 0) x.push_back(draw(1, most) * stride);
    expect_as_reference(i % 3 == 0 ? DType::bf16 : DType::f32, x, outputs, stride);
  }
}

// It wrote beyond its memory there, which damages results now and then.
TEST(ConvPointwise, LeavesTheGradientOfWeightsOfFewChannelsWithStepsToOwnKernels) {
  for (const auto& [channels, own] : {std::pair{1, true}, {5, true}, {24, true}, {32, false}}) {
    const Graph g = graph_of(Op::conv_grad_weight, DType::f32, {1, channels, 12, 12}, 5, 2);
    const auto plan = plan_for(g, {.backend = "cpu"});
    bool taps = false;
    for (const PlanStep& step : plan->steps()) taps = taps || step.kernel->name() == "taps";
    EXPECT_EQ(taps, own) << channels;
  }
}

}  // namespace
}  // namespace freight::test
