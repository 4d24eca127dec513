// See date_time.h.
#include "freight/data/date_time.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "freight/base/parse_number.h"
#include "freight/data/columns.h"

namespace freight::data {

namespace {

constexpr int kMinutesOfHour = 60, kHoursOfHalfDay = 12;
constexpr double kSecondsOfMinute = 60, kSecondsOfDay = 86400;

// Reads a cell from its start; each function takes what it finds, or nothing.
class DateCursor {
 public:
  explicit DateCursor(std::string_view text) : text_(text) {}
  bool at_end() const { return text_.empty(); }
  bool take(char c) {
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  // In small letters, whatever the cell has.
  bool take_word(std::string_view word) {
    if (text_.size() < word.size()) return false;
    const bool same = std::equal(word.begin(), word.end(), text_.begin(), [](char want, char got) {
      return want == (got >= 'A' && got <= 'Z' ? got + 32 : got);
    });
    if (same) text_.remove_prefix(word.size());
    return same;
  }
  // A number of so many digits.
  std::optional<int> number(size_t least, size_t most) {
    size_t digits = 0;
    while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') ++digits;
    if (digits < least || digits > most) return std::nullopt;
    const int value = parse_number<int>(text_.substr(0, digits)).value_or(0);
    text_.remove_prefix(digits);
    return value;
  }
  // ".250": the part of a second.
  double fraction() {
    double value = 0, place = 0.1;
    while (!text_.empty() && text_[0] >= '0' && text_[0] <= '9') {
      value += place * (text_[0] - '0');
      place /= 10;
      text_.remove_prefix(1);
    }
    return value;
  }

 private:
  std::string_view text_;
};

// A year of two digits, as POSIX reads it: 69 to 99 are of the last century.
std::optional<int> full_year(std::optional<int> digits) {
  constexpr int kFirstOfLastCentury = 69;
  return digits ? std::optional(*digits + (*digits < kFirstOfLastCentury ? 2000 : 1900)) : std::nullopt;
}

std::optional<std::chrono::year_month_day> date_at(DateCursor& at, DateOrder order) {
  std::array<int, 3> numbers{};
  char separator = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool year = order == DateOrder::ymd ? i == 0 : i == 2;
    auto n = year ? at.number(4, 4) : at.number(1, 2);
    if (year && !n) n = full_year(at.number(2, 2));
    if (!n) return std::nullopt;
    numbers[i] = *n;
    if (i == 2) break;
    if (i == 0) separator = at.take('-') ? '-' : at.take('/') ? '/' : at.take('.') ? '.' : '\0';
    if (separator == 0 || (i == 1 && !at.take(separator))) return std::nullopt;
  }
  const auto [first, second, third] = numbers;
  const int year = order == DateOrder::ymd ? first : third;
  const int month = order == DateOrder::mdy ? first : second;
  const int day = order == DateOrder::ymd ? third : order == DateOrder::dmy ? first : second;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  return date.ok() ? std::optional(date) : std::nullopt;
}

struct TimeOfDay {
  int hour = 0, minute = 0;
  double second = 0;
  int zone = 0;  // minutes east of UTC
};

// Minutes east of UTC; 0 where no zone is written.
std::optional<int> zone_at(DateCursor& at) {
  at.take(' ');
  if (at.at_end() || at.take_word("z") || at.take_word("utc")) return 0;
  const int sign = at.take('+') ? 1 : at.take('-') ? -1 : 0;
  if (sign == 0) return std::nullopt;
  const auto both = at.number(4, 4);
  const auto hours = both ? *both / 100 : at.number(2, 2);
  if (!hours) return std::nullopt;
  int minutes = both ? *both % 100 : 0;
  if (!both && at.take(':')) {
    const auto more = at.number(2, 2);
    if (!more) return std::nullopt;
    minutes = *more;
  }
  constexpr int kMostHours = 14;
  if (*hours > kMostHours || minutes >= kMinutesOfHour) return std::nullopt;
  return sign * (*hours * kMinutesOfHour + minutes);
}

std::optional<TimeOfDay> time_at(DateCursor& at) {
  TimeOfDay time;
  const auto hour = at.number(1, 2);
  if (!hour || !at.take(':')) return std::nullopt;
  const auto minute = at.number(2, 2);
  if (!minute) return std::nullopt;
  if (at.take(':')) {
    const auto second = at.number(2, 2);
    if (!second) return std::nullopt;
    time.second = *second + (at.take('.') || at.take(',') ? at.fraction() : 0);
  }
  time.hour = *hour;
  time.minute = *minute;
  at.take(' ');
  const bool am = at.take_word("am"), pm = !am && at.take_word("pm");
  if (am || pm) {
    if (time.hour < 1 || time.hour > kHoursOfHalfDay) return std::nullopt;
    time.hour = time.hour % kHoursOfHalfDay + (pm ? kHoursOfHalfDay : 0);
  }
  // A second of 60 is one that is inserted now and then.
  if (time.hour >= 2 * kHoursOfHalfDay || time.minute >= kMinutesOfHour || time.second > kSecondsOfMinute) {
    return std::nullopt;
  }
  const auto zone = zone_at(at);
  if (!zone) return std::nullopt;
  time.zone = *zone;
  return time;
}

DateTime joined(const std::chrono::year_month_day& date, const TimeOfDay& time) {
  const std::chrono::sys_days days(date);
  DateTime out{.days = days.time_since_epoch().count(),
               .year = static_cast<int>(date.year()),
               .month = static_cast<int>(static_cast<unsigned>(date.month())),
               .weekday = static_cast<int>(std::chrono::weekday(days).iso_encoding()) - 1,
               .hour = time.hour};
  out.seconds = static_cast<double>(out.days) * kSecondsOfDay + time.second +
                kSecondsOfMinute * (time.hour * kMinutesOfHour + time.minute - time.zone);
  return out;
}

// Times of a zone are UTC, as those of Parquet and of frames are, whose zones are names. At the ends of what years can
// be they stay as written.
DateTime in_utc(const std::chrono::year_month_day& date, TimeOfDay time) {
  const int minutes = time.hour * kMinutesOfHour + time.minute - time.zone;
  constexpr int kMinutesOfDay = 2 * kHoursOfHalfDay * kMinutesOfHour;
  const int days = minutes < 0 ? -1 : minutes / kMinutesOfDay, rest = minutes - days * kMinutesOfDay;
  const std::chrono::year_month_day moved(std::chrono::sys_days(date) + std::chrono::days(days));
  constexpr int kMostYears = 9999;
  if (moved.year() < std::chrono::year(0) || moved.year() > std::chrono::year(kMostYears)) return joined(date, time);
  time.hour = rest / kMinutesOfHour;
  time.minute = rest % kMinutesOfHour;
  time.zone = 0;
  return joined(moved, time);
}

}  // namespace

std::optional<DateTime> date_time_in(std::string_view cell, DateOrder order) {
  DateCursor at(trimmed(cell));
  const auto date = date_at(at, order);
  if (!date) return std::nullopt;
  TimeOfDay time;
  if (!at.at_end()) {
    if (!at.take_word("t") && !at.take(' ')) return std::nullopt;
    const auto found = time_at(at);
    if (!found || !at.at_end()) return std::nullopt;
    time = *found;
  }
  return time.zone == 0 ? joined(*date, time) : in_utc(*date, time);
}

std::optional<DateTime> date_time_at(int64_t seconds, std::string_view fraction) {
  constexpr auto kSeconds = static_cast<int64_t>(kSecondsOfDay), kMinute = static_cast<int64_t>(kSecondsOfMinute);
  constexpr int64_t kFirst = -719528 * kSeconds, kEnd = 2932897 * kSeconds;  // the years 0 and 10000
  if (seconds < kFirst || seconds >= kEnd) return std::nullopt;
  const int64_t rest = (seconds % kSeconds + kSeconds) % kSeconds;
  const std::chrono::sys_days days{std::chrono::days((seconds - rest) / kSeconds)};
  TimeOfDay time{.hour = static_cast<int>(rest / (kMinutesOfHour * kMinute)),
                 .minute = static_cast<int>(rest / kMinute % kMinutesOfHour),
                 .second = static_cast<double>(rest % kMinute)};
  if (!fraction.empty()) time.second += DateCursor(fraction).fraction();
  return joined(std::chrono::year_month_day(days), time);
}

}  // namespace freight::data
