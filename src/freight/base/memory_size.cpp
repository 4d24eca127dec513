// See memory_size.h.
#include "freight/base/memory_size.h"

#include <cmath>

#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"

namespace freight {

double memory_size(const std::string& flag, const std::string& text) {
  if (text.empty()) return 0;
  std::string_view rest = text;
  const double number = take_number<double>(rest).value_or(-1);
  std::string unit = lower(rest);
  while (!unit.empty() && unit[0] == ' ') unit.erase(0, 1);
  if (std::isfinite(number) && number >= 0) {
    if (unit.empty()) return number * 0x1p30;
    double factor = 1;
    for (const char* name : {"b", "kib", "mib", "gib", "tib"}) {
      if (unit == name) return number * factor;
      factor *= 1024;
    }
  }
  refuse_text(flag, "a size of memory like 4GiB, 512MiB or, in GiB, 4", text);
}

}  // namespace freight
