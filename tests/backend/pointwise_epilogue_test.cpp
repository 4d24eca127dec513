// Functions of one number behind matmuls and convolutions (relu6, silu, hardswish, gelu, ...) run in the epilogue of
// each kernel of the CPU backend, and give what they give as steps of the reference backend, infinities and NaN
// included.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <string_view>

#include "freight/backend/choices.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/ir/builder.h"
#include "freight/run/plan.h"
#include "tests/support/arrays.h"
#include "tests/support/run.h"
#include "tests/support/simd_targets.h"

namespace freight::test {
namespace {

using Activation = std::function<Value(Builder&, Value)>;
struct NamedActivation {
  const char* name;
  Activation make;
};

Value relu6(Builder& b, Value x) {
  const Value r = b.unary(Op::relu, x), six = b.constant_like(6, x);
  return b.where(b.binary(Op::ge, r, six), six, r);
}
Value hardsigmoid(Builder& b, Value x) {
  return b.binary(Op::mul, relu6(b, b.binary(Op::add, x, b.constant_like(3, x))), b.constant_like(1.0 / 6, x));
}

const std::vector<NamedActivation>& activations() {
  static const std::vector<NamedActivation> kAll{
      {"relu6", relu6},
      {"silu", [](Builder& b, Value x) { return b.binary(Op::mul, x, b.unary(Op::sigmoid, x)); }},
      {"hardswish", [](Builder& b, Value x) { return b.binary(Op::mul, x, hardsigmoid(b, x)); }},
      {"leaky relu",
       [](Builder& b, Value x) {
         const Value small = b.binary(Op::mul, x, b.constant_like(0.01, x));
         return b.where(b.binary(Op::gt, x, b.constant_like(0, x)), x, small);
       }},
      {"gelu",
       [](Builder& b, Value x) {
         const Value half = b.binary(Op::mul, x, b.constant_like(0.5, x));
         const Value erf = b.unary(Op::erf, b.binary(Op::mul, x, b.constant_like(std::sqrt(0.5), x)));
         return b.binary(Op::mul, half, b.binary(Op::add, erf, b.constant_like(1, x)));
       }},
      {"tanh", [](Builder& b, Value x) { return b.unary(Op::tanh, x); }},
      {"a sigmoid of f32",  // as in mixed precision
       [](Builder& b, Value x) { return b.cast(b.unary(Op::sigmoid, b.cast(x, DType::f32)), b.type(x).dtype); }},
  };
  return kAll;
}

// A product with bias, of an image or of matrices.
struct Product {
  const char* name;
  Shape x, w;
  ConvAttrs conv = {};
  bool trans_b = false;
};

ConvAttrs conv(int64_t stride, int64_t pad, int64_t groups = 1) {
  return {{stride, stride}, {pad, pad}, {pad, pad}, {1, 1}, groups, {}, {}};
}

const std::vector<Product>& products() {
  static const std::vector<Product> kAll{
      {.name = "matmul", .x = {37, 45}, .w = {45, 67}},
      {.name = "rows of a layer", .x = {130, 64}, .w = {96, 64}, .trans_b = true},
      {.name = "few rows by a matrix beyond the cache", .x = {3, 1200}, .w = {700, 1200}, .trans_b = true},
      {.name = "batched matmul", .x = {3, 19, 40}, .w = {3, 40, 33}},
      {.name = "long sums", .x = {20, 1000}, .w = {1000, 40}},
      {.name = "1x1", .x = {2, 24, 9, 7}, .w = {50, 24, 1, 1}, .conv = conv(1, 0)},
      {.name = "1x1 with steps", .x = {2, 32, 9, 8}, .w = {19, 32, 1, 1}, .conv = conv(2, 0)},
      {.name = "winograd", .x = {3, 32, 13, 14}, .w = {48, 32, 3, 3}, .conv = conv(1, 1)},
      {.name = "winograd 5x5", .x = {2, 64, 14, 13}, .w = {64, 64, 5, 5}, .conv = conv(1, 2)},
      {.name = "one channel", .x = {2, 1, 20, 21}, .w = {6, 1, 5, 5}, .conv = conv(1, 2)},
      {.name = "few channels", .x = {2, 6, 14, 14}, .w = {16, 6, 5, 5}, .conv = conv(1, 0)},
      {.name = "the first of a network", .x = {2, 3, 23, 20}, .w = {32, 3, 3, 3}, .conv = conv(2, 1)},
      {.name = "depthwise", .x = {2, 67, 15, 16}, .w = {67, 1, 5, 5}, .conv = conv(1, 2, 67)},
      {.name = "depthwise 3x3 with steps", .x = {1, 48, 11, 16}, .w = {48, 1, 3, 3}, .conv = conv(2, 1, 48)},
      {.name = "depthwise 7x7", .x = {1, 96, 9, 8}, .w = {96, 1, 7, 7}, .conv = conv(1, 3, 96)},
      {.name = "groups", .x = {2, 24, 8, 9}, .w = {36, 8, 3, 3}, .conv = conv(1, 1, 3)},
  };
  return kAll;
}

Graph product_graph(const Product& p, const Activation& activation, DType dtype) {
  Graph g;
  Builder b(g);
  const bool image = p.conv.stride.rank() > 0;
  const auto leaf = [&](Op op, const char* name, const Shape& s) { return b.one(op, LeafAttrs{name, {dtype, s}}, {}); };
  const Value x = leaf(Op::input, "x", p.x), w = leaf(Op::state, "w", p.w);
  const Value y = image ? b.one(Op::conv, p.conv, {x, w}) : b.matmul(x, w, false, p.trans_b);
  const int channel = image ? 1 : p.x.rank() - 1;
  const Value bias = leaf(Op::state, "b", {b.shape(y)[channel]});
  g.outputs = {activation(b, b.binary(Op::add, y, b.broadcast_axis(bias, channel, b.shape(y))))};
  return g;
}

struct Operands {
  std::vector<Array> in, states;
};

// Results around -8 to 8, and one each that is infinite and NaN.
Operands operands_of(const Graph& g, const Product& p, bool special) {
  Operands o;
  const double terms = static_cast<double>(p.conv.stride.rank() > 0 ? p.w.numel() / p.w[0] : p.x.back());
  Array x = random_array({{DType::f32, p.x}, Fill::normal}, 5);
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

// By the candidate of that number where kernels are chosen by measurement. Notes the names of the products' kernels.
Array run_cpu(const Graph& g, const Operands& o, bool frozen, size_t candidate, std::set<std::string>& kernels) {
  const ForcedChoice forced(candidate);
  RunOptions options;
  options.backend = "cpu";
  options.frozen = frozen;
  const auto plan = std::make_shared<const Plan>(g, options);
  int found = 0;
  for (const PlanStep& step : plan->steps()) {
    const Node& n = plan->graph().node(step.node);
    EXPECT_NE(n.op, Op::fused) << print(*plan);
    EXPECT_FALSE(is_pointwise(n.op)) << print(*plan);
    if (n.op != Op::matmul && n.op != Op::conv) continue;
    ++found;
    EXPECT_NE(graph_of(n.attrs), nullptr) << print(*plan);
    kernels.insert(step.kernel->name().substr(0, 4));
  }
  EXPECT_EQ(found, 1) << print(*plan);
  std::vector<std::shared_ptr<Storage>> states;
  for (const Array& a : o.states) states.push_back(a.storage());
  Executable executable(plan, states);
  const Type& type = g.type(g.outputs[0]);
  const Array y(type.dtype, type.shape);
  executable.run(o.in, {y});
  return y;
}

void expect_as_steps(const Product& p, const NamedActivation& a, DType dtype, std::set<std::string>& kernels) {
  for (const bool special : {false, true}) {
    // Winograd's sums subtract pixels from one another, which of infinities is NaN. oneDNN's products in bf16 add a
    // second channel with weights of 0.
    if (special && std::string_view(p.name).starts_with("winograd")) break;
    if (special && dtype == DType::bf16 && p.x[1] == 1) break;
    SCOPED_TRACE(cat(p.name, ", ", a.name, ", ", dtype, special ? ", with infinities" : ""));
    const Graph g = product_graph(p, a.make, dtype);
    const Operands o = operands_of(g, p, special);
    const Array expected = run_planned("ref", g, o.in, o.states)[0];
    for (const bool frozen : {false, true}) {
      for (const size_t candidate : {size_t{0}, size_t{1}, size_t{2}}) {
        const Array got = run_cpu(g, o, frozen, candidate, kernels);
        EXPECT_TRUE(close(got, expected, dtype == DType::bf16 ? 2e-2 : 1e-4, dtype == DType::bf16 ? 2e-2 : 1e-5))
            << (frozen ? "frozen, " : "") << "candidate " << candidate;
      }
    }
  }
}

TEST(PointwiseEpilogue, GivesWhatStepsGiveBehindEachKernel) {
  std::set<std::string> kernels;
  for (const Product& p : products()) {
    for (const NamedActivation& a : activations()) {
      for (const DType dtype : {DType::f32, DType::bf16}) expect_as_steps(p, a, dtype, kernels);
    }
  }
  for (const char* name : {"gemm", "dnnl", "wino", "dept", "dire"}) EXPECT_TRUE(kernels.contains(name)) << name;
}

TEST(PointwiseEpilogue, GivesWhatStepsGiveWithEachInstructionSet) {
  std::set<std::string> kernels;
  for_each_simd_target([&] {
    for (const Product& p : products()) expect_as_steps(p, activations()[1], DType::f32, kernels);
  });
}

TEST(PointwiseEpilogue, HasTheSameBitsForAnyNumberOfThreads) {
  for (const Product& p : products()) {
    SCOPED_TRACE(p.name);
    const Graph g = product_graph(p, activations()[1].make, DType::f32);
    const Operands o = operands_of(g, p, false);
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      const ThreadLimit limit(threads);
      const std::vector<float> got = run_planned("cpu", g, o.in, o.states)[0].to_vector<float>();
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace freight::test
