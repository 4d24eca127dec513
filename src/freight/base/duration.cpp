// See duration.h.
#include "freight/base/duration.h"

#include <cmath>

#include "freight/base/parse_number.h"
#include "freight/base/usage.h"

namespace freight {

double parse_seconds(const std::string& flag, const std::string& text) {
  const auto refuse = [&] { refuse_text(flag, "a time above 0 like 60s, 90m, 1h30m, 8h or 2d", text); };
  double seconds = 0;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(1)) {
    const double number = take_number<double>(rest).value_or(-1);
    if (rest.empty()) refuse();
    const char unit = rest[0];
    const double each = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : unit == 'd' ? 86400 : 0;
    if (each == 0 || !(number >= 0) || !std::isfinite(number)) refuse();
    seconds += number * each;
  }
  if (!(seconds > 0)) refuse();
  return seconds;
}

}  // namespace freight
