// The optimizer's states are dealt out over ranks. Runs by several processes: tests/apps/shard_optimizer_test.cpp.
#include "freight/job/state_shares.h"

#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/optim/optimizer.h"
#include "freight/trace/variable.h"

namespace freight::job {
namespace {

TEST(StateShares, TheLargestGoToWhomHasLeast) {
  EXPECT_EQ(state_deal({1, 8, 3, 4, 2}, 2).owner, (std::vector<int>{0, 0, 1, 1, 1}));
  EXPECT_EQ(largest_share({1, 8, 3, 4, 2}, 2), 9u);
  EXPECT_EQ(largest_share({1, 8, 3, 4, 2}, 1), 18u);
  EXPECT_EQ(largest_share({1, 8, 3, 4, 2}, 64), 8u);                                   // a tensor stays whole
  EXPECT_EQ(state_deal({1, 8, 3, 4, 2}, 3).owner, (std::vector<int>{1, 0, 2, 1, 2}));  // 8, 5, 5
}

TEST(StateShares, AreOfTheBytesOfEachParametersStates) {
  const Variable w("w", {DType::f32, {4, 8}}, {}, Variable::Role::parameter);
  const Variable b("b", {DType::f32, {8}}, {}, Variable::Role::parameter);
  EXPECT_EQ(state_bytes(optim::AdamW(std::vector<Variable>{w, b})), (std::vector<size_t>{256, 64}));
  EXPECT_EQ(state_bytes(optim::SGD(std::vector<Variable>{w, b})), (std::vector<size_t>{0, 0}));
}

TEST(StateShares, AnOptimizerThatKeepsAPartLeavesTheRestAlone) {
  const Variable w("w", {DType::f32, {2}}, {.a = 1}, Variable::Role::parameter);
  const Variable b("b", {DType::f32, {2}}, {.a = 1}, Variable::Role::parameter);
  optim::AdamW adam(std::vector<Variable>{w, b}, {.lr = 0.1});
  EXPECT_THROW(adam.keep_states_of({true}), Error);
  adam.keep_states_of({false, true});
  EXPECT_EQ(adam.states().size(), 3u);  // step, m.b, v.b
  EXPECT_EQ(adam.whole_states().size(), 5u);
  adam.apply({Tensor(Array::of<float>({1, 1}, {2})), Tensor(Array::of<float>({1, 1}, {2}))});
  EXPECT_EQ(w.array().to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_NEAR(b.array().to_vector<float>()[0], 0.9, 1e-6);
}

}  // namespace
}  // namespace freight::job
