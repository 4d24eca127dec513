// A depthwise convolution and the 1x1 ones around it run as one step of the CPU backend and give what the three give as
// steps of the reference backend.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/ir/builder.h"
#include "freight/ir/fused_pattern.h"
#include "freight/run/plan.h"
#include "tests/support/arrays.h"
#include "tests/support/run.h"
#include "tests/support/simd_targets.h"

namespace freight::test {
namespace {

struct Block {
  const char* name;
  int64_t n, in, hidden, out, h, w;  // in, out: 0 without the first or the last convolution
  int64_t kernel = 3, stride = 1, pad = 1;
  bool residual = false, bias = true;
  int64_t squeeze = 0;  // channels of a squeeze-excitation before the last convolution; 0: none
};

const std::vector<Block>& blocks() {
  static const std::vector<Block> kAll{
      {"an inverted block", 2, 24, 96, 24, 14, 13, 3, 1, 1, true},
      {"more rows than are kept", 1, 16, 256, 24, 61, 43},
      {"more rows than are kept, with steps", 3, 16, 256, 24, 61, 43, 3, 2, 1},
      {"channels that fill no vector", 3, 5, 67, 19, 23, 20, 3, 1, 1},
      {"5x5 with steps", 1, 24, 144, 40, 29, 30, 5, 2, 2},
      {"7x7", 2, 12, 48, 12, 17, 15, 7, 1, 3, true},
      {"without padding", 2, 12, 48, 12, 9, 11, 3, 1, 0},
      {"padding beyond the filter", 1, 12, 48, 12, 4, 5, 3, 1, 4},
      {"without the first one", 2, 0, 32, 16, 25, 24},
      {"without the last one", 2, 16, 96, 0, 25, 24, 3, 2, 1},
      {"without the last one, few rows", 1, 160, 960, 0, 7, 7, 5, 1, 2},
      {"few rows", 1, 160, 960, 160, 7, 7, 3, 1, 1, true},
      {"few rows of several images", 3, 96, 576, 160, 14, 14, 3, 2, 1},
      {"one pixel", 1, 32, 64, 32, 1, 1},
      {"without biases", 2, 16, 64, 24, 12, 12, 3, 1, 1, false, false},
      {"squeeze-excitation", 2, 24, 144, 24, 14, 13, 5, 1, 2, true, true, 6},
      {"squeeze-excitation of an image", 1, 16, 256, 24, 61, 43, 3, 2, 1, false, true, 17},
      {"squeeze-excitation of few rows", 1, 96, 576, 96, 7, 7, 5, 1, 2, true, true, 24},
      {"squeeze-excitation without the first one", 3, 0, 67, 16, 9, 8, 3, 1, 1, false, true, 33},
      {"squeeze-excitation without biases", 3, 16, 64, 24, 12, 12, 3, 1, 1, false, false, 4},
  };
  return kAll;
}

enum class Activation : uint8_t { none, relu, relu6, silu };

class BlockGraph {
 public:
  BlockGraph(const Block& k, Activation activation) : b_(g), activation_(activation), bias_(k.bias) {
    const Value x = leaf(Op::input, {k.n, k.in > 0 ? k.in : k.hidden, k.h, k.w});
    Value y = x;
    if (k.in > 0) y = activated(conv(y, {k.hidden, k.in, 1, 1}, 1, 0, 1));
    y = activated(conv(y, {k.hidden, 1, k.kernel, k.kernel}, k.stride, k.pad, k.hidden));
    if (k.squeeze > 0) y = excited(y, k.squeeze);
    if (k.out > 0) y = conv(y, {k.out, k.hidden, 1, 1}, 1, 0, 1);
    if (k.residual) y = b_.binary(Op::add, y, b_.unary(Op::neg, x));
    g.outputs = {y};
  }
  Graph g;

 private:
  Value leaf(Op op, const Shape& s) { return b_.one(op, LeafAttrs{"", {DType::f32, s}}, {}); }
  Value conv(Value x, const Shape& w, int64_t stride, int64_t pad, int64_t groups) {
    const Value y = b_.one(Op::conv, ConvAttrs{{stride, stride}, {pad, pad}, {pad, pad}, {1, 1}, groups, {}, {}},
                           {x, leaf(Op::state, w)});
    if (!bias_) return y;
    return b_.binary(Op::add, y, b_.broadcast_axis(leaf(Op::state, {w[0]}), 1, b_.shape(y)));
  }
  Value excited(Value x, int64_t squeeze) {
    const Shape shape = b_.shape(x);
    const int64_t channels = shape[1];
    const Value sums = b_.sum(x, {2, 3});
    const double share = 1.0 / static_cast<double>(shape[2] * shape[3]);
    const Value mean = b_.binary(Op::mul, sums, b_.constant_like(share, sums));
    const Value small = activated(conv(mean, {squeeze, channels, 1, 1}, 1, 0, 1));
    const Value gate = b_.unary(Op::sigmoid, conv(small, {channels, squeeze, 1, 1}, 1, 0, 1));
    return b_.binary(Op::mul, b_.broadcast(gate, b_.shape(x)), x);
  }
  Value activated(Value x) {
    if (activation_ == Activation::none) return x;
    if (activation_ == Activation::silu) return b_.one(Op::silu, {}, {x});
    const Value r = b_.unary(Op::relu, x);
    return activation_ == Activation::relu ? r : b_.binary(Op::minimum, r, b_.constant_like(0.75, r));
  }

  Builder b_;
  Activation activation_;
  bool bias_;
};

struct Operands {
  std::vector<Array> in, states;
};

Operands operands_of(const Graph& g, bool special) {
  Operands o;
  for (Value v : g.leaves(Op::input)) o.in.push_back(random_array({g.type(v), Fill::normal}, 5));
  if (special) {
    Array& x = o.in[0];
    x.data<float>()[0] = INFINITY;
    x.data<float>()[x.numel() / 2] = NAN;
    x.data<float>()[x.numel() - 1] = -INFINITY;
  }
  for (Value v : g.leaves(Op::state)) {
    Array w = random_array({g.type(v), Fill::normal}, 7 + o.states.size());
    const float scale = 1 / std::sqrt(static_cast<float>(w.numel() / w.shape()[0]));
    for (int64_t i = 0; i < w.numel(); ++i) w.data<float>()[i] *= scale;
    o.states.push_back(w);
  }
  return o;
}

Array run_cpu(const Graph& g, const Operands& o, bool frozen) {
  RunOptions options;
  options.backend = "cpu";
  options.frozen = frozen;
  options.deterministic = true;
  const auto plan = std::make_shared<const Plan>(g, options);
  int chains = 0;
  for (const PlanStep& step : plan->steps()) {
    const Node& n = plan->graph().node(step.node);
    EXPECT_NE(n.op, Op::conv) << print(*plan);
    if (n.op == Op::fused && attrs<FusedAttrs>(n).pattern == FusedKind::conv_chain) ++chains;
  }
  EXPECT_EQ(chains, 1) << print(*plan);
  std::vector<std::shared_ptr<Storage>> states;
  for (const Array& a : o.states) states.push_back(a.storage());
  Executable executable(plan, states);
  const Array y(DType::f32, g.type(g.outputs[0]).shape);
  executable.run(o.in, {y});
  return y;
}

void expect_as_steps(const Block& k, Activation activation) {
  const Graph g = BlockGraph(k, activation).g;
  for (const bool special : {false, true}) {
    SCOPED_TRACE(cat(k.name, ", activation ", static_cast<int>(activation), special ? ", with infinities" : ""));
    const Operands o = operands_of(g, special);
    const Array expected = run_planned("ref", g, o.in, o.states)[0];
    for (const bool frozen : {false, true}) EXPECT_TRUE(close(run_cpu(g, o, frozen), expected, 1e-4, 1e-5)) << frozen;
  }
}

TEST(ConvChain, GivesWhatItsConvolutionsGive) {
  for (const Block& k : blocks()) {
    for (const Activation a : {Activation::none, Activation::relu, Activation::relu6, Activation::silu})
      expect_as_steps(k, a);
  }
}

TEST(ConvChain, GivesWhatItsConvolutionsGiveWithEachInstructionSet) {
  for_each_simd_target([&] {
    for (const Block& k : blocks()) {
      expect_as_steps(k, Activation::relu6);
      expect_as_steps(k, Activation::silu);
    }
  });
}

TEST(ConvChain, HasTheSameBitsForAnyNumberOfThreads) {
  for (const Block& k : blocks()) {
    SCOPED_TRACE(k.name);
    const Graph g = BlockGraph(k, Activation::silu).g;
    const Operands o = operands_of(g, false);
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      const ThreadLimit limit(threads);
      const std::vector<float> got = run_cpu(g, o, true).to_vector<float>();
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << threads << " threads";
    }
  }
}

int64_t chains(const Graph& g) {
  return std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) {
    return n.op == Op::fused && attrs<FusedAttrs>(n).pattern == FusedKind::conv_chain;
  });
}

// conv(depthwise(conv(x))), and what else is read.
TEST(ConvChain, WhatIsReadElsewhereStaysAStep) {
  for (const int also : {0, 1, 2, 3}) {
    Graph g;
    Builder b(g);
    const auto leaf = [&](const Shape& s) { return b.one(Op::input, LeafAttrs{"", {DType::f32, s}}, {}); };
    const auto conv = [&](Value x, const Shape& w, int64_t groups) {
      return b.one(Op::conv, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, groups, {}, {}}, {x, leaf(w)});
    };
    const Value x = leaf({1, 16, 9, 9}), y = conv(x, {32, 16, 1, 1}, 1), z = conv(y, {32, 1, 3, 3}, 32),
                last = conv(z, {16, 32, 1, 1}, 1);
    g.outputs = {last};
    if (also != 0) g.outputs.push_back(b.unary(Op::exp, also == 1 ? y : also == 2 ? z : last));
    const Graph after = backend("cpu").fuse_patterns(g);
    verify(after);
    EXPECT_TRUE(structurally_equal(parse(print(after)), after)) << print(after);
    EXPECT_EQ(chains(after), 1) << print(after);
    const auto of_chain =
        std::find_if(after.nodes.begin(), after.nodes.end(), [](const Node& n) { return n.op == Op::fused; });
    EXPECT_EQ(chain_of(*attrs<FusedAttrs>(*of_chain).body).convs.size(), also == 1 || also == 2 ? 2 : 3)
        << print(after);
  }
}

}  // namespace
}  // namespace freight::test
