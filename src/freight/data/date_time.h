// Dates and times in tables: ISO 8601 ("2026-11-26T09:30:00+01:00", also with a space instead of the T), and year,
// month and day in other orders. Years may have two digits; names of months are not read.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace freight::data {

// The order of year, month and day: 2026-11-26, 26.11.2026, 11/26/2026.
enum class DateOrder { ymd, dmy, mdy };

// A date and a time of day, of a time with a zone in UTC.
struct DateTime {
  int64_t days = 0;    // since 1 January 1970
  int year = 0;        // 0 to 9999
  int month = 0;       // 1 to 12
  int weekday = 0;     // 0 (Monday) to 6
  int hour = 0;        // 0 to 23
  double seconds = 0;  // since 1970 in UTC; a cell without a time zone counts as UTC
};

// Parses a whole cell, ignoring surrounding spaces; empty if it is not a date, or not a valid one (30 February).
// After the date a time may follow: hours and minutes, seconds with a fraction, AM or PM, a zone (Z, +01:00, +0100).
std::optional<DateTime> date_time_in(std::string_view cell, DateOrder order);

// A time as a number of seconds since 1970 in UTC, and the digits of its fraction of a second: what date_time_in reads
// from its text. Empty for a year outside 0 to 9999.
std::optional<DateTime> date_time_at(int64_t seconds, std::string_view fraction = {});

}  // namespace freight::data
