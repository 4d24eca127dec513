#include "freight/tables/division.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace freight::tables {
namespace {

TEST(Division, GroupsStayTogetherAndTheShareIsNear) {
  std::vector<int64_t> groups;
  for (int64_t i = 0; i < 1000; ++i) groups.push_back(i * i % 97 % 40);
  std::set<std::vector<bool>> seen;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const std::vector<bool> held = hold_out_groups(groups, 0.2, seed);
    std::vector<int> sides(40);
    for (size_t i = 0; i < groups.size(); ++i) sides[static_cast<size_t>(groups[i])] |= held[i] ? 2 : 1;
    EXPECT_EQ(std::count(sides.begin(), sides.end(), 3), 0) << "a group on both sides";
    EXPECT_NEAR(static_cast<double>(std::count(held.begin(), held.end(), true)), 200, 40);
    EXPECT_EQ(hold_out_groups(groups, 0.2, seed), held);
    seen.insert(held);
  }
  EXPECT_EQ(seen.size(), 5u);
}

TEST(Division, EitherSideHasAGroup) {
  const std::vector<bool> two = hold_out_groups({0, 0, 0, 1, 1, 1}, 0.01, 3);
  EXPECT_EQ(std::count(two.begin(), two.end(), true), 3);
  const std::vector<bool> one = hold_out_groups({0, 0, 0}, 0.5, 3);
  EXPECT_EQ(std::count(one.begin(), one.end(), true), 0);
  EXPECT_TRUE(hold_out_groups({}, 0.5, 3).empty());
}

TEST(Division, TheLastRowsAreHeldOutByTheirTime) {
  EXPECT_EQ(hold_out_last({5, 1, 4, 2, 3}, 0.4), (std::vector<bool>{true, false, true, false, false}));
  EXPECT_EQ(hold_out_last({1, 2, 2, 2, 3}, 0.4), (std::vector<bool>{false, true, true, true, true}))
      << "rows of one time stand on one side";
  EXPECT_EQ(hold_out_last({1, 1, 1, 2}, 0.5), (std::vector<bool>{false, false, false, true})) << "some stay";
  EXPECT_EQ(hold_out_last({1, 1}, 0.5), (std::vector<bool>{false, false}));
  EXPECT_EQ(hold_out_last({1, 2}, 0), (std::vector<bool>{false, false}));
}

}  // namespace
}  // namespace freight::tables
