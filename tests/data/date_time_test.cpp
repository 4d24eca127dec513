#include "freight/data/date_time.h"

#include <gtest/gtest.h>

#include <string>

namespace freight::data {
namespace {

TEST(DateTime, FormsThatTablesHaveAreRead) {
  struct Case {
    const char* cell;
    DateOrder order;
    double seconds;  // of `date -u -d ... +%s`
    int year, month, weekday, hour;
  };
  for (const Case& c : {
           Case{"1970-01-01", DateOrder::ymd, 0, 1970, 1, 3, 0},
           Case{"2026-11-26", DateOrder::ymd, 1795651200, 2026, 11, 3, 0},
           Case{" 2026/11/26 ", DateOrder::ymd, 1795651200, 2026, 11, 3, 0},
           Case{"2026-11-26T09:30", DateOrder::ymd, 1795685400, 2026, 11, 3, 9},
           Case{"2026-11-26 09:30:15.25", DateOrder::ymd, 1795685415.25, 2026, 11, 3, 9},
           Case{"2026-11-26T09:30:00Z", DateOrder::ymd, 1795685400, 2026, 11, 3, 9},
           Case{"2026-11-26T00:30:00+01:00", DateOrder::ymd, 1795649400, 2026, 11, 2, 23},
           Case{"2026-11-26T00:30:00-0230", DateOrder::ymd, 1795662000, 2026, 11, 3, 3},
           Case{"2026-12-31 21:30:15.25-02:30", DateOrder::ymd, 1798761615.25, 2027, 1, 4, 0},
           Case{"9999-12-31T23:59:59-05:00", DateOrder::ymd, 253402318799, 9999, 12, 4, 23},
           Case{"26.11.2026", DateOrder::dmy, 1795651200, 2026, 11, 3, 0},
           Case{"26.11.2026 23:05", DateOrder::dmy, 1795734300, 2026, 11, 3, 23},
           Case{"11/26/2026 12:15 AM", DateOrder::mdy, 1795652100, 2026, 11, 3, 0},
           Case{"1/5/2000 3:07:09 pm", DateOrder::mdy, 947084829, 2000, 1, 2, 15},
           Case{"1969-12-31T23:59:59", DateOrder::ymd, -1, 1969, 12, 2, 23},
           Case{"2000-02-29", DateOrder::ymd, 951782400, 2000, 2, 1, 0},
           Case{"26.11.26", DateOrder::dmy, 1795651200, 2026, 11, 3, 0},
           Case{"11/26/26", DateOrder::mdy, 1795651200, 2026, 11, 3, 0},
           Case{"26-11-26", DateOrder::ymd, 1795651200, 2026, 11, 3, 0},
           Case{"1/1/70 00:00", DateOrder::dmy, 0, 1970, 1, 3, 0},
       }) {
    SCOPED_TRACE(c.cell);
    const auto found = date_time_in(c.cell, c.order);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->seconds, c.seconds);
    EXPECT_EQ(found->year, c.year);
    EXPECT_EQ(found->month, c.month);
    EXPECT_EQ(found->weekday, c.weekday);
    EXPECT_EQ(found->hour, c.hour);
  }
}

TEST(DateTime, OtherCellsAreNoDates) {
  for (const char* cell : {"",
                           "2026",
                           "2026-11",
                           "20261126",
                           "2026-13-01",
                           "2026-02-30",
                           "1900-02-29",
                           "26-11-2026",
                           "2026-11/26",
                           "2026-11-26x",
                           "2026-11-26 ",
                           "2026-11-26 9",
                           "2026-11-26 24:00",
                           "2026-11-26 10:60",
                           "2026-11-26 10:00:61",
                           "2026-11-26 13:00 PM",
                           "2026-11-26T10:00+15:00",
                           "2026-11-26T10:00 CET",
                           "12345-11-26",
                           "-2026-11-26",
                           "2026-11-26T",
                           "10:30"}) {
    const bool blank = std::string(cell) == "2026-11-26 ";  // blanks around it are no fault
    EXPECT_EQ(date_time_in(cell, DateOrder::ymd).has_value(), blank) << cell;
  }
  EXPECT_FALSE(date_time_in("11/26/2026", DateOrder::dmy)) << "there is no month 26";
  EXPECT_FALSE(date_time_in("26/11/2026", DateOrder::mdy));
  EXPECT_FALSE(date_time_in("26.11.226", DateOrder::dmy)) << "a year has four digits or two";
}

}  // namespace
}  // namespace freight::data
