// See lists.h.
#include "lists.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"

namespace freight::app {

std::vector<std::string> parse_list(const std::string& flag, const std::string& text) {
  std::vector<std::string> all;
  for (std::string part : split(text, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    if (part.empty()) fail(ErrorKind::usage, flag, "has an empty part: got '", excerpt(text), "'");
    if (all.size() == kMostListed) {
      fail(ErrorKind::usage, flag, "has more than ", kMostListed, " parts: got '", excerpt(text), "'");
    }
    if (std::find(all.begin(), all.end(), part) != all.end()) {
      refuse_twice(flag, "entries", part);
    }
    all.push_back(part);
  }
  return all;
}

std::vector<int64_t> parse_counts(const std::string& flag, const std::string& text) {
  std::vector<int64_t> all;
  for (const std::string& part : parse_list(flag, text)) {
    const int64_t n = parse_number<int64_t>(part).value_or(0);
    if (n < 1 || n > kMostCount || (!all.empty() && n <= all.back())) {
      refuse_text(flag, cat("whole numbers from 1 to ", kMostCount, " in ascending order, like 1,2,4,8"), text);
    }
    all.push_back(n);
  }
  return all;
}

}  // namespace freight::app
