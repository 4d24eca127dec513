// What the steps of a plan do: how long ago their memory was used, and the run along which they work.
#include "freight/plan/work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "freight/base/strings.h"
#include "freight/bench/workload.h"
#include "freight/ir/builder.h"
#include "freight/run/plan.h"

#include "tests/support/fusing_backend.h"

namespace freight::plan {
namespace {

std::vector<Work> work_of_step(const std::string& model, const std::string& backend) {
  const bench::Workload w(models::create(model), {.batch = 8, .compile = {.backend = backend, .deterministic = true}});
  return work_of(w.plan());
}

TEST(WorkOf, MemoryIsNearRightAfterItsUseAndFarHalfAStepLater) {
  const std::vector<Work> all = work_of_step("mlp_wide", "cpu");
  double moved = 0;
  for (const Work& w : all) moved += w.bytes;
  const Work *loss = nullptr, *update = nullptr;
  for (const Work& w : all) {
    EXPECT_GT(w.distance, 0) << w.kind;
    EXPECT_LE(w.distance, 2 * moved) << w.kind;  // a replay, and the value itself
    if (w.kind == "reduce" && !w.backward) loss = &w;
    if (w.kind == "update" && w.bytes > 10e6) update = &w;
  }
  ASSERT_TRUE(loss && update);
  EXPECT_LT(loss->distance, 0.01 * moved);           // reads what the step before it made
  EXPECT_GT(update->distance, 20 * loss->distance);  // a gradient just made, weights read in the forward half
}

TEST(WorkOf, PoolsWorkAlongChannels) {
  int pools = 0;
  for (const Work& w : work_of_step("lenet", "cpu")) {
    if (w.kind != "pool") continue;
    EXPECT_TRUE(w.n == 6 || w.n == 16) << w.n;
    ++pools;
  }
  EXPECT_EQ(pools, 4);
}

TEST(WorkOf, StepsWithoutOperandsHaveNoRun) {
  bool generates = false;
  for (const Work& w : work_of_step("lenet", "ref")) generates |= w.kind == "map" && w.n == 0;
  EXPECT_TRUE(generates);
}

TEST(WorkOf, RecurrentLayersAreAProductPerTimeStep) {
  int layers = 0;
  for (const Work& w : work_of_step("lstm_text", "cpu")) {
    if (w.kind != "recurrent" && w.kind != "recurrent_grad") {
      EXPECT_EQ(w.launches, 1) << w.kind;
      continue;
    }
    EXPECT_EQ(w.m, 8);  // samples
    EXPECT_EQ(w.n, 4 * 128);
    EXPECT_EQ(w.k, 128);
    EXPECT_EQ(w.launches, 200);
    EXPECT_EQ(w.backward, w.kind == "recurrent_grad");
    ++layers;
  }
  EXPECT_EQ(layers, 2);
}

// FLOPs of two matrices of 6 x 6, or of one step of 6 x 6 x 4 each; of 40 where only many are solved by one step.
TEST(WorkOf, FactorizationsAreProductsAtAShareOfTheirRate) {
  struct Row {
    const char* graph;
    const char* kind;
    double flops, n;
    const char* read = "%2";
    int64_t matrices = 2;
  };
  constexpr double kCube = 2 * 6 * 6 * 6;
  const Row rows[] = {
      {"%2, %3, %4 = lu_factor(%0) {refuse_singular=true} : f64[2,6,6], i32[2,6], i32[2,6]", "lu_factor", kCube * 2 / 3,
       6},
      {"%2 = cholesky(%0) {upper=false} : f64[2,6,6]", "cholesky", kCube / 3, 6},
      {"%2, %3 = qr(%0) {complete=false} : f64[2,6,6], f64[2,6,6]", "qr", kCube * 8 / 3, 6},
      {"%2 = solve_triangular(%0, %1) {upper=false, transposed=false, unit_diagonal=false, right=false, "
       "refuse_singular=false} : f64[2,6,4]",
       "solve_triangular", kCube * 4 / 6, 4},
      {"%2, %3 = eigh(%0) {upper=false} : f64[2,6], f64[2,6,6]", "eigh", kCube * 9, 6, "%3"},
      {"%2, %3 = eigh(%0) {upper=false} : f64[2,6], f64[2,6,6]", "eigh", kCube * 4 / 3, 6},
      {"%2, %3, %4 = svd(%0) {full=false} : f64[2,6,6], f64[2,6], f64[2,6,6]", "svd", kCube * 22, 6},
      {"%2, %3, %4 = svd(%0) {full=false} : f64[2,6,6], f64[2,6], f64[2,6,6]", "svd", kCube * 8 / 3, 6, "%3"},
      {"%2, %3, %4, %5 = eig(%0) : f64[2,6], f64[2,6], f64[2,6,6], f64[2,6,6]", "eig", kCube * 25, 6, "%5"},
      {"%2, %3, %4, %5 = eig(%0) : f64[2,6], f64[2,6], f64[2,6,6], f64[2,6,6]", "eig", kCube * 10, 6, "%3"},
      {"%2 = solve(%0, %1) : f64[40,6,4]", "solve", 20 * (kCube * 2 / 3 + kCube * 2 * 4 / 6), 6, "%2", 40},
  };
  for (const Row& row : rows) {
    const Graph g = parse(cat("graph {\n %0 = input \"x\" : f64[", row.matrices, ",6,6]\n %1 = input \"b\" : f64[",
                              row.matrices, ",6,4]\n ", row.graph, "\n return ", row.read, " }"));
    const std::vector<Work> all = work_of(*plan_for(g, {.backend = "cpu", .deterministic = true}));
    const auto w = std::find_if(all.begin(), all.end(), [&](const Work& each) { return each.kind == row.kind; });
    ASSERT_NE(w, all.end()) << row.kind;
    EXPECT_DOUBLE_EQ(w->flops, row.flops) << row.kind;
    EXPECT_EQ(w->dtype, DType::f64);
    EXPECT_TRUE(w->product());
    EXPECT_EQ(w->m, row.matrices * 6) << row.kind;
    EXPECT_EQ(w->n, row.n) << row.kind;
    EXPECT_EQ(w->k, 6) << row.kind;
    EXPECT_LT(w->share, 1) << row.kind;
    EXPECT_GT(w->share, 0) << row.kind;
  }
}

// A product and the sums beside it in one step (Backend::join) is a product.
TEST(WorkOf, ProductsThatAreJoinedAreProducts) {
  Graph g;
  Builder b(g);
  const auto input = [&](const Shape& s) { return b.one(Op::input, LeafAttrs{"x", {DType::f32, s}}, {}); };
  const Value x = input({6, 9});
  g.outputs = {b.sum(x, {0}), b.matmul(input({6, 17}), x, true, false)};
  const auto plan = plan_for(g, {.backend = test::fusing_backend(), .deterministic = true});
  int products = 0;
  for (const Work& w : work_of(*plan)) {
    if (w.kind != "matmul") continue;
    EXPECT_EQ(w.m, 17);
    EXPECT_EQ(w.n, 9);
    EXPECT_EQ(w.k, 6);
    ++products;
  }
  EXPECT_EQ(products, 1);
}

}  // namespace
}  // namespace freight::plan
