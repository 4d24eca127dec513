// Formats numbers in the tables of bench/.
#pragma once
#include <cmath>
#include <string>

#include "freight/base/strings.h"

namespace freight::bench {

// A number with three significant digits: "1,234", "12.3", "0.123"; "-" for 0, which means not known.
inline std::string number(double v) {
  if (v == 0) return "-";
  if (v >= 999.5) return with_commas(std::llround(v));
  const int digits = v > 0 ? 2 - static_cast<int>(std::floor(std::log10(v))) : 0;
  return fixed(v, digits < 0 ? 0 : digits > 6 ? 6 : digits);
}
inline std::string milliseconds(double seconds) { return number(seconds * 1e3); }
inline std::string percent_of(double share) { return share > 0 ? fixed(100 * share, share < 0.1 ? 1 : 0) + " %" : "-"; }

}  // namespace freight::bench
