// What the steps of a plan do: how long ago their memory was used, and the run along which they work.
#include "freight/plan/work.h"

#include <gtest/gtest.h>

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
