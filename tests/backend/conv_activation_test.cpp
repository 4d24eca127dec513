// minimum(x, c) behind a convolution, with relu before it ReLU6, silu behind depthwise and 1x1 ones, and a residual
// with relu ride in the epilogue of each kernel of the CPU backend, of bf16 ReLU6 alone, and give what they give as
// steps of the reference backend, infinities and NaN included.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string_view>

#include "freight/backend/choices.h"
#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/base/strings.h"
#include "freight/ir/builder.h"
#include "freight/run/plan.h"
#include "tests/support/arrays.h"
#include "tests/support/run.h"
#include "tests/support/simd_targets.h"

namespace freight::test {
namespace {

struct Conv {
  const char* name;
  Shape x, w;
  ConvAttrs attrs;
};

ConvAttrs conv(int64_t stride, int64_t pad, int64_t groups = 1) {
  return {{stride, stride}, {pad, pad}, {pad, pad}, {1, 1}, groups, {}, {}};
}

const std::vector<Conv>& convs() {
  static const std::vector<Conv> kAll{
      {"1x1", {2, 24, 9, 7}, {50, 24, 1, 1}, conv(1, 0)},
      {"1x1 of one pixel into many channels", {1, 1200, 1, 1}, {700, 1200, 1, 1}, conv(1, 0)},
      {"1x1 with steps", {2, 32, 9, 8}, {19, 32, 1, 1}, conv(2, 0)},
      {"winograd", {3, 32, 13, 14}, {48, 32, 3, 3}, conv(1, 1)},
      {"winograd 5x5", {2, 64, 14, 13}, {64, 64, 5, 5}, conv(1, 2)},
      {"one channel", {2, 1, 20, 21}, {6, 1, 5, 5}, conv(1, 2)},
      {"few channels", {2, 6, 14, 14}, {16, 6, 5, 5}, conv(1, 0)},
      {"the first of a network", {2, 3, 23, 20}, {32, 3, 3, 3}, conv(2, 1)},
      {"depthwise", {2, 67, 15, 16}, {67, 1, 5, 5}, conv(1, 2, 67)},
      {"depthwise 3x3 with steps", {1, 48, 11, 16}, {48, 1, 3, 3}, conv(2, 1, 48)},
      {"depthwise 7x7", {1, 96, 9, 8}, {96, 1, 7, 7}, conv(1, 3, 96)},
      {"groups", {2, 24, 8, 9}, {36, 8, 3, 3}, conv(1, 1, 3)},
  };
  return kAll;
}

enum class Activation : uint8_t { relu6, minimum, silu, residual };
constexpr const char* kNames[] = {"relu6", "minimum", "silu", "residual"};

// Behind a bias.
Graph conv_graph(const Conv& c, Activation a, DType dtype) {
  Graph g;
  Builder b(g);
  const auto leaf = [&](Op op, const char* name, const Shape& s) { return b.one(op, LeafAttrs{name, {dtype, s}}, {}); };
  const Value x = leaf(Op::input, "x", c.x);
  const Value y = b.one(Op::conv, c.attrs, {x, leaf(Op::state, "w", c.w)});
  const Value bias = leaf(Op::state, "b", {c.w[0]});
  Value z = b.binary(Op::add, y, b.broadcast_axis(bias, 1, b.shape(y)));
  if (a == Activation::silu) {
    g.outputs = {b.one(Op::silu, {}, {z})};
    return g;
  }
  if (a == Activation::residual) {
    const Value other = leaf(Op::state, "other", {c.w[0], c.w[1], 1, 1});
    z = b.binary(Op::add, z, b.one(Op::conv, conv(1, 0), {x, other}));
    g.outputs = {b.unary(Op::relu, z)};
    return g;
  }
  const double most = a == Activation::relu6 ? 6 : 0.3;  // 0.3 is no float
  if (a == Activation::relu6) z = b.unary(Op::relu, z);
  const Value limit = b.constant_like(most, z);
  g.outputs = {a == Activation::relu6 ? b.where(b.binary(Op::ge, z, limit), limit, z)
                                      : b.binary(Op::minimum, limit, z)};
  return g;
}

struct Operands {
  std::vector<Array> in, states;
};

// 1x1 convolutions of f32 are left to oneDNN with AVX2.
bool has_own_products() { return cpu::gemm_table().lanes == 16; }

// Results around -8 to 8, and one each that is infinite and NaN.
Operands operands_of(const Graph& g, const Conv& c, bool special) {
  Operands o;
  const double terms = static_cast<double>(c.w.numel() / c.w[0]);
  Array x = random_array({{DType::f32, c.x}, Fill::normal}, 5);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] *= static_cast<float>(3 / std::sqrt(terms));
  if (special) {
    x.data<float>()[0] = INFINITY;
    x.data<float>()[x.numel() / 2] = NAN;
    x.data<float>()[x.numel() - 1] = -INFINITY;
  }
  const DType dtype = g.type(g.outputs[0]).dtype;
  o.in = {x.cast(dtype)};
  for (Value v : g.leaves(Op::state))
    o.states.push_back(random_array({{DType::f32, g.type(v).shape}, Fill::normal}, 7 + o.states.size()).cast(dtype));
  return o;
}

// By the candidate of that number where kernels are chosen by measurement. Notes the names of the kernels. Of f32 the
// plan has so many pointwise `steps`.
Array run_cpu(const Graph& g, const Operands& o, bool frozen, size_t candidate, std::set<std::string>& kernels,
              int steps) {
  const ForcedChoice forced(candidate);
  RunOptions options;
  options.backend = "cpu";
  options.frozen = frozen;
  const auto plan = std::make_shared<const Plan>(g, options);
  const DType dtype = g.type(g.outputs[0]).dtype;
  int pointwise = 0;
  for (const PlanStep& step : plan->steps()) {
    const Node& n = plan->graph().node(step.node);
    pointwise += n.op == Op::fused || is_pointwise(n.op) ? 1 : 0;
    if (n.op != Op::conv) continue;
    const bool adds = attrs<ConvAttrs>(n).epilogue.residual;
    kernels.insert(cat(step.kernel->name().substr(0, 4), adds ? " and residual" : ""));
  }
  EXPECT_EQ(pointwise, steps) << print(*plan);
  std::vector<std::shared_ptr<Storage>> states;
  for (const Array& a : o.states) states.push_back(a.storage());
  Executable executable(plan, states);
  const Array y(dtype, g.type(g.outputs[0]).shape);
  executable.run(o.in, {y});
  return y;
}

void expect_as_steps(const Conv& c, Activation a, DType dtype, std::set<std::string>& kernels) {
  for (const bool special : {false, true}) {
    // Winograd's sums subtract pixels from one another, which of infinities is NaN. oneDNN's products in bf16 add a
    // second channel with weights of 0.
    if (special && (std::string_view(c.name).starts_with("winograd") || dtype == DType::bf16)) break;
    SCOPED_TRACE(cat(c.name, ", ", kNames[static_cast<int>(a)], ", ", dtype, special ? ", infinities" : ""));
    const Graph g = conv_graph(c, a, dtype);
    const Operands o = operands_of(g, c, special);
    const Array expected = run_planned("ref", g, o.in, o.states)[0];
    // silu rides where a step of several convolutions could be made.
    const bool chains = c.attrs.groups == c.w[0] || (c.w[2] == 1 && c.attrs.stride[0] == 1);
    const bool rides =
        dtype == DType::bf16 ? a == Activation::relu6 && cpu::bf16_table() != nullptr : a != Activation::silu || chains;
    const int steps = rides ? 0 : 1;
    const double tolerance = dtype == DType::bf16 ? 2e-2 : 1e-4;
    for (const bool frozen : {false, true}) {
      for (const size_t candidate : {size_t{0}, size_t{1}, size_t{2}}) {
        EXPECT_TRUE(close(run_cpu(g, o, frozen, candidate, kernels, steps), expected, tolerance, tolerance / 10))
            << (frozen ? "frozen, " : "") << "candidate " << candidate;
      }
    }
  }
}

TEST(ConvActivation, GivesWhatAStepGivesBehindEachKernel) {
  std::set<std::string> kernels;
  for (const Conv& c : convs()) {
    for (const Activation a : {Activation::relu6, Activation::minimum, Activation::silu}) {
      for (const DType dtype : {DType::f32, DType::bf16}) expect_as_steps(c, a, dtype, kernels);
    }
  }
  for (const char* name : {"dnnl", "wino", "dept", "dire"}) EXPECT_TRUE(kernels.contains(name)) << name;
  EXPECT_EQ(kernels.contains("gemm"), has_own_products());
}

// A residual rides on our own kernels for 1x1 convolutions and on Winograd's, and, where the weight is frozen, on
// oneDNN's.
TEST(ConvActivation, AddsResidualsBehindEachKernel) {
  std::set<std::string> kernels;
  for (const Conv& c : convs()) {
    const bool winograd = std::string_view(c.name) == "winograd";
    if (winograd || (has_own_products() && c.w[2] == 1 && c.attrs.stride[0] == 1))
      expect_as_steps(c, Activation::residual, DType::f32, kernels);
  }
  for (const char* name : {"dnnl and residual", "wino and residual"}) EXPECT_TRUE(kernels.contains(name)) << name;
  EXPECT_EQ(kernels.contains("gemm and residual"), has_own_products());
}

TEST(ConvActivation, GivesWhatAStepGivesWithEachInstructionSet) {
  std::set<std::string> kernels;
  for_each_simd_target([&] {
    for (const Conv& c : convs()) expect_as_steps(c, Activation::relu6, DType::f32, kernels);
  });
}

}  // namespace
}  // namespace freight::test
