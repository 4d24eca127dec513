// Each family of CPU kernels (backend/cpu/families.h) serves a plan: a row here per row there, so that a family whose
// conditions no step meets, or that stands behind another one in the table, is found.
#include "freight/backend/cpu/families.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "freight/backend/cpu/kernels/bf16/gemm.h"
#include "freight/backend/cpu/lapack.h"
#include "freight/base/strings.h"
#include "freight/ir/builder.h"
#include "freight/run/plan.h"
#include "tests/support/arrays.h"
#include "tests/support/run.h"

namespace freight::cpu {
namespace {

struct FamilyCase {
  const char* family;
  const char* kernel;  // how the name of its kernel begins; "": any but the reference backend's
  const char* graph;
  States states = States::change;
};

// Packing and reorder show where a weight gets another format, copy where an operand does.
const FamilyCase kCases[] = {
    {"packing", "pack", R"(graph {
      %0 = input "x" : f32[32,64]
      %1 = state "w" : f32[64,48]
      %2 = matmul(%0, %1) : f32[32,48]
      return %2 })",
     States::frozen},
    {"reorder", "dnnl:reorder", R"(graph {
      %0 = input "x" : f32[2,32,9,9]
      %1 = state "w" : f32[32,32,3,3]
      %2 = conv(%0, %1) {stride=[2,2], pad_low=[0,0], pad_high=[0,0], dilation=[1,1]} : f32[2,32,4,4]
      return %2 })"},
    {"copy", "copy", R"(graph {
      %0 = input "x" : f32[3,5]
      %1 = transpose(%0) {perm=[1,0]} : f32[5,3]
      return %1 })"},
    {"conv_chain", "chain", R"(graph {
      %0 = input "x" : f32[2,16,9,9]
      %1 = input "v" : f32[16,1,3,3]
      %2 = input "w" : f32[8,16,1,1]
      %3 = conv(%0, %1) {stride=[1,1], pad_low=[1,1], pad_high=[1,1], dilation=[1,1], groups=16} : f32[2,16,9,9]
      %4 = conv(%3, %2) {stride=[1,1], pad_low=[0,0], pad_high=[0,0], dilation=[1,1]} : f32[2,8,9,9]
      return %4 })"},
    {"tile", "tile", R"(graph {
      %0 = input "x" : f32[3,5]
      %1 = exp(%0) : f32[3,5]
      %2 = sum(%1) {axes=[1]} : f32[3,1]
      return %1, %2 })"},
    {"matmul", "", R"(graph {
      %0 = input "x" : f32[6,5]
      %1 = input "w" : f32[5,4]
      %2 = matmul(%0, %1) : f32[6,4]
      return %2 })"},
    {"matmul", "gemm", R"(graph {
      %0 = input "x" : f64[6,5]
      %1 = input "w" : f64[5,4]
      %2 = matmul(%0, %1) : f64[6,4]
      return %2 })"},
    {"conv", "", R"(graph {
      %0 = input "x" : f32[2,3,9,9]
      %1 = input "w" : f32[4,3,3,3]
      %2 = conv(%0, %1) {stride=[1,1], pad_low=[1,1], pad_high=[1,1], dilation=[1,1]} : f32[2,4,9,9]
      return %2 })"},
    {"pool", "pool", R"(graph {
      %0 = input "x" : f32[2,3,8,8]
      %1 = avg_pool(%0) {kernel=[2,2], stride=[2,2], pad_low=[0,0], pad_high=[0,0]} : f32[2,3,4,4]
      return %1 })"},
    {"index", "index", R"(graph {
      %0 = input "table" : f32[7,5]
      %1 = input "rows" : i32[3]
      %2 = gather(%0, %1) {axis=0} : f32[3,5]
      return %2 })"},
    {"concat", "concat", R"(graph {
      %0 = input "a" : f32[3,5]
      %1 = input "b" : f32[3,2]
      %2 = concat(%0, %1) {axis=1} : f32[3,7]
      return %2 })"},
    {"pad", "pad", R"(graph {
      %0 = input "x" : f32[3,5]
      %1 = pad(%0) {low=[0,1], high=[0,2], interior=[0,0]} : f32[3,8]
      return %1 })"},
    {"attention", "attention", R"(graph {
      %0 = input "q" : f32[2,3,5,8]
      %1 = input "k" : f32[2,3,5,8]
      %2 = input "v" : f32[2,3,5,8]
      %3, %4 = attention(%0, %1, %2) {scale=0.5} : f32[2,3,5,8], f32[2,3,5]
      return %3 })"},
    {"recurrent", "lstm", R"(graph {
      %0 = input "x" : f32[2,3,16]
      %1 = input "w" : f32[16,4]
      %2, %3, %4 = recurrent(%0, %1) : f32[2,3,4], f32[2,3,4], f32[2,3,16]
      return %2 })"},
    {"lu_factor", "lu", R"(graph {
      %0 = input "x" : f64[2,5,5]
      %1, %2, %3 = lu_factor(%0) {refuse_singular=true} : f64[2,5,5], i32[2,5], i32[2,5]
      return %1, %2, %3 })"},
    {"cholesky", "cholesky", R"(graph {
      %0 = input "x" : f32[5,5]
      %1 = cholesky(%0) {upper=false} : f32[5,5]
      return %1 })"},
    {"qr", "qr", R"(graph {
      %0 = input "x" : f32[5,3]
      %1, %2 = qr(%0) {complete=false} : f32[5,3], f32[3,3]
      return %1, %2 })"},
    {"solve_triangular", "triangular", R"(graph {
      %0 = input "a" : f64[5,5]
      %1 = input "b" : f64[5,3]
      %2 = solve_triangular(%0, %1) {upper=true, transposed=false, unit_diagonal=false, right=false, refuse_singular=true} : f64[5,3]
      return %2 })"},
    {"solve", "solve:lanes", R"(graph {
      %0 = input "a" : f32[40,5,5]
      %1 = input "b" : f32[40,5,3]
      %2 = solve(%0, %1) : f32[40,5,3]
      return %2 })"},
    {"spectral", "lapack:dsyevd", R"(graph {
      %0 = input "x" : f64[5,5]
      %1, %2 = eigh(%0) {upper=false} : f64[5], f64[5,5]
      return %1, %2 })"},
    {"spectral", "lapack:sgesdd", R"(graph {
      %0 = input "x" : f32[2,5,3]
      %1, %2, %3 = svd(%0) {full=false} : f32[2,5,3], f32[2,3], f32[2,3,3]
      return %1, %2, %3 })"},
};

TEST(CpuFamilies, EachRowOfTheTableServesItsPlans) {
  for (const KernelFamily& family : kFamilies) {
    SCOPED_TRACE(family.name);
    if (std::string(family.name) == "spectral" && !lapack().usable()) continue;
    int plans = 0;
    for (const FamilyCase& row : kCases) {
      if (std::string(row.family) != family.name) continue;
      ++plans;
      const auto plan = plan_for(parse(row.graph), {.deterministic = true, .frozen = row.states == States::frozen});
      bool served = false;
      for (const PlanStep& step : plan->steps()) {
        const Node& node = plan->graph().node(step.node);
        const std::string kernel = step.kernel->name();
        served = served || (family.takes_node(plan->graph(), node) && starts_with(kernel, row.kernel) &&
                            !starts_with(kernel, "ref"));
      }
      EXPECT_TRUE(served) << print(*plan);
    }
    EXPECT_GT(plans, 0) << "a row of kCases is missing";
  }
  if (!lapack().usable()) GTEST_SKIP() << "all but spectral: " << lapack().library.why;
}

TEST(CpuFamilies, WhatNoFamilyTakesRunsOnTheReferenceLoops) {
  const auto plan = plan_for(parse(R"(graph {
    %0 = input "x" : f64[2,3,9,9]
    %1 = input "w" : f64[4,3,3,3]
    %2 = conv(%0, %1) {stride=[1,1], pad_low=[1,1], pad_high=[1,1], dilation=[1,1]} : f64[2,4,9,9]
    return %2 })"),
                             {.deterministic = true});
  ASSERT_EQ(plan->steps().size(), 1u);
  EXPECT_EQ(plan->steps()[0].kernel->name(), "ref");
}

TEST(CpuFamilies, ConvolutionsOfOneChannelIntoFewStayF32ButOnAmx) {
  const bool dots = bf16_table() && !splits_f32();
  for (const auto& [channels, outputs] : {std::pair(1, 4), {2, 4}, {1, 64}}) {
    Graph g;
    const auto leaf = [&](const char* name, const Shape& shape) {
      return g.add(Op::input, LeafAttrs{name, {DType::f32, shape}}, {})[0];
    };
    const ConvAttrs a{
        .stride = {1, 1}, .pad_low = {1, 1}, .pad_high = {1, 1}, .dilation = {1, 1}, .shape = {}, .epilogue = {}};
    g.add(Op::conv, a, {leaf("x", {2, channels, 9, 9}), leaf("w", {outputs, channels, 3, 3})});
    EXPECT_EQ(backend("cpu").keeps_f32(g, g.nodes.back(), DType::bf16), dots && channels == 1 && outputs == 4);
    EXPECT_FALSE(backend("cpu").keeps_f32(g, g.nodes.back(), DType::f16));
  }
}

// The kernel walks over one batch axis of any stride.
// Upsampling picks rows of an axis of images: where pixels lie one after the other, so do the rows that are picked, and
// nothing is copied. Rows of channels are longer row by row.
TEST(CpuFamilies, RowsArePickedWhereTheyLie) {
  for (int form = 0; form < 16; ++form) {
    const int axis = form % 4;
    const bool apart = form / 4 % 2 == 1, one = form / 8 == 1;
    SCOPED_TRACE(cat("axis ", axis, apart ? ", indices of rank 2" : "", one ? ", one row" : ""));
    Graph g;
    Builder b(g);
    Shape image{5, 6, 7, 8};
    if (one) image[axis] = 1;
    const Shape given{image[0], 3, image[2], image[3]}, weight{image[1], 3, 1, 1},
        indices = apart ? Shape{3, 2} : Shape{6};
    const auto input = [&](const Shape& s, DType t) { return b.one(Op::input, LeafAttrs{"x", {t, s}}, {}); };
    const Value x = input(given, DType::f32), w = input(weight, DType::f32), at = input(indices, DType::i64);
    const Value h = b.one(Op::conv, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {}, {}}, {x, w});
    const Value picked = b.one(Op::gather, AxisAttrs{axis}, {h, at});
    const Value sums = b.one(Op::scatter_add, ScatterAttrs{axis, image[axis]}, {at, b.unary(Op::exp, picked)});
    g.outputs = {b.sum(b.unary(Op::square, sums), {0, 2, 3}), sums, picked};
    const std::vector<Array> arrays{
        test::random_array({{DType::f32, given}, test::Fill::unit}, 1),
        test::random_array({{DType::f32, weight}, test::Fill::unit}, 2),
        one ? Array::of<int64_t>({0, 0, 0, 0, 0, 0}, indices) : Array::of<int64_t>({0, 2, 2, 4, 1, 0}, indices)};
    const auto expected = test::run_planned("ref", g, arrays), got = test::run_planned("cpu", g, arrays);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(test::close(got[i], expected[i], 1e-5)) << "output " << i;
    const auto plan = plan_for(g, {.backend = "cpu", .deterministic = true});
    const auto& nodes = plan->graph().nodes;
    const auto copies = std::count_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == Op::copy; });
    if (axis >= 2) {
      EXPECT_LE(copies, 4) << print(*plan);  // of the image, the weight and two results
    }
  }
}

TEST(CpuFamilies, AnF64ProductHasBatchAxesOfAnyOrder) {
  const Graph graph = parse(R"(graph {
    %0 = input "x" : f64[2,3,4,5]
    %1 = input "w" : f64[3,2,5,6]
    %2 = transpose(%0) {perm=[1,0,2,3]} : f64[3,2,4,5]
    %3 = matmul(%2, %1) : f64[3,2,4,6]
    %4 = relu(%3) : f64[3,2,4,6]
    return %4 })");
  Array x(DType::f64, {2, 3, 4, 5}), w(DType::f64, {3, 2, 5, 6});
  for (Array* a : {&x, &w}) {
    for (int64_t i = 0; i < a->numel(); ++i) a->data<double>()[i] = std::sin(static_cast<double>(i + a->numel()));
  }
  const Array need = test::run_planned("ref", graph, {x, w})[0], got = test::run_planned("cpu", graph, {x, w})[0];
  for (int64_t i = 0; i < need.numel(); ++i) ASSERT_NEAR(got.data<double>()[i], need.data<double>()[i], 1e-14) << i;
  const auto plan = plan_for(graph, {.deterministic = true});
  EXPECT_EQ(plan->steps().back().kernel->name(), "gemm") << print(*plan);
}

}  // namespace
}  // namespace freight::cpu
