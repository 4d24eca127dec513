// Rank 0's checks of the ranks that join.
#include <gtest/gtest.h>

#include "freight/comm/joined_ranks_internal.h"

namespace freight::test {
namespace {

comm::RankIdentity rank(int number) {
  return {.rank = number,
          .world = 4,
          .version = "1.2.0",
          .layout_size = 1000,
          .process = "process " + std::to_string(10 + number)};
}

TEST(JoinedRanks, NameTheDifferenceThatKeepsARankOut) {
  comm::JoinedRanks joined(rank(0));
  EXPECT_EQ(joined.add(rank(2)), "");
  struct Row {
    comm::RankIdentity joining = rank(1);
    const char* why;
  };
  Row rows[] = {
      {.why = "rank 1 (process 11) runs Freight 1.3.0, rank 0 (process 10) runs 1.2.0: expected the same program for "
              "all ranks"},
      {.why = "rank 1 (process 11) was started with 5 ranks, rank 0 (process 10) with 4"},
      {.why = "rank 1 (process 11) runs another build of Freight 1.2.0 than rank 0 (process 10): expected the same "
              "program for all ranks"},
      {.why = "expected ranks from 0 to 3, got rank 4 (process 11)"},
      {.why = "expected ranks from 0 to 3, got rank -1 (process 11)"},
      {.why = "two processes claim to be rank 2: process 12 and process 11"},
      {.why = "two processes claim to be rank 0: process 10 and process 11"},
  };
  rows[0].joining.version = "1.3.0";
  rows[1].joining.world = 5;
  rows[1].joining.layout_size = 1250;  // which follows from the world
  rows[2].joining.layout_size = 1001;
  rows[3].joining.rank = 4;
  rows[4].joining.rank = -1;
  rows[5].joining.rank = 2;
  rows[6].joining.rank = 0;
  for (const Row& row : rows) EXPECT_EQ(joined.add(row.joining), row.why);
  EXPECT_EQ(joined.missing(3), "ranks 1, 3 did not respond within 3 s") << "none of these has joined";
}

TEST(JoinedRanks, AreCompleteWhenEachHasJoined) {
  comm::JoinedRanks joined(rank(0));
  for (int r = 1; r < 4; ++r) {
    EXPECT_FALSE(joined.complete());
    EXPECT_EQ(joined.add(rank(r)), "");
  }
  EXPECT_TRUE(joined.complete());
}

TEST(JoinedRanks, NameSixteenThatAreMissing) {
  comm::RankIdentity zero = rank(0);
  zero.world = 20;
  EXPECT_EQ(comm::JoinedRanks(zero).missing(1),
            "ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 3 others did not respond within 1 s");
}

}  // namespace
}  // namespace freight::test
