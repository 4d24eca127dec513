// See base/listing.h.
#include "freight/base/listing.h"

#include <gtest/gtest.h>

namespace freight {
namespace {

TEST(JoinFirst, NamesTheFirstAndCountsTheRest) {
  EXPECT_EQ(join_first({}, 2), "");
  EXPECT_EQ(join_first({"a", "b"}, 2), "a, b");
  EXPECT_EQ(join_first({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

}  // namespace
}  // namespace freight
