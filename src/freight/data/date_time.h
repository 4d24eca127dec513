// Dates and times as tables write them: ISO 8601 ("2026-11-26T09:30:00+01:00", also with a blank for the T), and year,
// month and day in the orders of other countries. Years may have two digits; names of months are not read.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace freight::data {

// In which order the first three numbers stand: 2026-11-26, 26.11.2026, 11/26/2026.
enum class DateOrder { ymd, dmy, mdy };

// A day of the calendar and a time of it.
struct DateTime {
  int64_t days = 0;    // since 1 January 1970, by the date as it is written
  int year = 0;        // 0 to 9999
  int month = 0;       // 1 to 12
  int weekday = 0;     // 0 (Monday) to 6
  int hour = 0;        // 0 to 23, as it is written
  double seconds = 0;  // since 1970 in UTC; a cell without a zone is taken to be in UTC
};

// A whole cell, with blanks around it or without; empty where it is no date, or none of the calendar (30 February).
// After the date a time may follow: hours and minutes, seconds with a fraction, AM or PM, a zone (Z, +01:00, +0100).
std::optional<DateTime> date_time_in(std::string_view cell, DateOrder order);

}  // namespace freight::data
