// Numbers out of text: what is one, and what is not.
#include "freight/base/parse_number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace freight::test {
namespace {

TEST(ParseNumber, ReadsTheWholeTextOrNothing) {
  EXPECT_EQ(parse_number<int>("12"), 12);
  EXPECT_EQ(parse_number<int>("-3"), -3);
  EXPECT_EQ(parse_number<int64_t>("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parse_number<double>("1.5e-3"), 1.5e-3);
  EXPECT_EQ(parse_number<float>("0.1"), 0.1f);
  EXPECT_EQ(parse_number<double>("inf"), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(parse_number<double>("nan").value()));
  for (const char* none : {"", " 1", "1 ", "+1", "1x", "x", "-", "0x10", "1,5"}) {
    EXPECT_EQ(parse_number<int64_t>(none), std::nullopt) << none;
    EXPECT_EQ(parse_number<double>(none), std::nullopt) << none;
  }
  EXPECT_EQ(parse_number<int>("1.5"), std::nullopt);
  EXPECT_EQ(parse_number<uint64_t>("-1"), std::nullopt);
}

TEST(ParseNumber, ANumberBeyondTheRangeOfItsTypeIsNone) {
  EXPECT_EQ(parse_number<int>("2147483648"), std::nullopt);
  EXPECT_EQ(parse_number<int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1e999"), std::nullopt);
  EXPECT_EQ(parse_number<float>("1e39"), std::nullopt);
}

TEST(ParseNumber, TakesANumberFromTheBeginning) {
  std::string_view text = "90m30";
  EXPECT_EQ(take_number<int64_t>(text), 90);
  EXPECT_EQ(text, "m30");
  EXPECT_EQ(take_number<int64_t>(text), std::nullopt);
  EXPECT_EQ(text, "m30");
  std::string_view part = std::string_view("1234").substr(0, 2);  // reads no further than the view
  EXPECT_EQ(take_number<int>(part), 12);
  EXPECT_TRUE(part.empty());
}

TEST(ParseNumber, ReadsHexadecimalDigits) {
  EXPECT_EQ(parse_hex("ff"), 255u);
  EXPECT_EQ(parse_hex("FFFFFFFFFFFFFFFF"), std::numeric_limits<uint64_t>::max());
  for (const char* none : {"", "0x1", "g", "-1", "10000000000000000"}) EXPECT_EQ(parse_hex(none), std::nullopt) << none;
}

}  // namespace
}  // namespace freight::test
