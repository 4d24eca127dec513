// Ranks of a run: how shards are dealt, and who is slow. Runs by several processes: tests/apps/ranks_test.cpp.
#include "freight/train/ranks.h"

#include <gtest/gtest.h>

#include <vector>

namespace freight::train {
namespace {

TEST(Deal, GivesShardsInOrderAndAsEvenlyAsPossible) {
  const auto counts = [](int64_t shards, int world) {
    std::vector<int64_t> all;
    int64_t next = 0;
    for (int r = 0; r < world; ++r) {
      const Deal d{shards, r, world};
      EXPECT_EQ(d.first(), next);
      EXPECT_LE(d.count(), d.most());
      next += d.count();
      all.push_back(d.count());
    }
    EXPECT_EQ(next, shards);
    return all;
  };
  EXPECT_EQ(counts(8, 3), (std::vector<int64_t>{3, 3, 2}));
  EXPECT_EQ(counts(8, 4), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(counts(5, 5), (std::vector<int64_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(counts(7, 2), (std::vector<int64_t>{4, 3}));
}

TEST(Deal, KnowsWhereSumsOfRanksMeetInTheTreeOverShards) {
  EXPECT_TRUE((Deal{8, 0, 2}.aligned()));
  EXPECT_TRUE((Deal{12, 0, 3}.aligned()));  // of four each
  EXPECT_FALSE((Deal{6, 0, 2}.aligned()));  // (0 + 1) + (2 + 3), then 4 + 5: not three and three
  EXPECT_FALSE((Deal{8, 0, 3}.aligned()));
}

TEST(Wish, GoesThroughNumbersThatAreAdded) {
  double a[kWishNumbers], b[kWishNumbers];
  put({.interrupts = 1, .lr = 0.25}, a);
  put({.terminations = 2, .stop = 1, .meeting = 3}, b);
  for (size_t i = 0; i < kWishNumbers; ++i) a[i] += b[i];
  const Wish both = wish_of(a);
  EXPECT_EQ(both.interrupts, 1);
  EXPECT_EQ(both.terminations, 2);
  EXPECT_EQ(both.stop, 1);
  EXPECT_EQ(both.meeting, 3);
  EXPECT_EQ(both.lr, 0.25);
  EXPECT_TRUE(both.any_stop());
}

}  // namespace
}  // namespace freight::train
