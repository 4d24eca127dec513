#include "freight/tables/time_split.h"

#include <gtest/gtest.h>

namespace freight::tables {
namespace {

TEST(TimeSplit, TheLastRowsAreHeldOutByTheirTime) {
  EXPECT_EQ(hold_out_last({5, 1, 4, 2, 3}, 0.4), (std::vector<bool>{true, false, true, false, false}));
  EXPECT_EQ(hold_out_last({1, 2, 2, 2, 3}, 0.4), (std::vector<bool>{false, true, true, true, true}))
      << "rows of one time stand on one side";
  EXPECT_EQ(hold_out_last({1, 1, 1, 2}, 0.5), (std::vector<bool>{false, false, false, true})) << "some stay";
  EXPECT_EQ(hold_out_last({1, 1}, 0.5), (std::vector<bool>{false, false}));
  EXPECT_EQ(hold_out_last({1, 2}, 0), (std::vector<bool>{false, false}));
}

}  // namespace
}  // namespace freight::tables
