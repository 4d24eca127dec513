// See duration.h.
#include "freight/base/duration.h"

#include <charconv>
#include <cmath>

#include "freight/base/error.h"

namespace freight {

double parse_seconds(const std::string& flag, const std::string& text) {
  const auto refuse = [&] {
    fail(ErrorKind::usage, flag, "expected a time above 0 like 60s, 90m, 1h30m, 8h or 2d, got '", text, "'");
  };
  double seconds = 0;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    double number = 0;
    const auto r = std::from_chars(at, end, number);
    if (r.ec != std::errc() || r.ptr == end) refuse();
    const char unit = *r.ptr;
    const double each = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : unit == 'd' ? 86400 : 0;
    if (each == 0 || !(number >= 0) || !std::isfinite(number)) refuse();
    seconds += number * each;
    at = r.ptr + 1;
  }
  if (!(seconds > 0)) refuse();
  return seconds;
}

}  // namespace freight
