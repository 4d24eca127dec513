// A word of a flag as the enum whose names it is one of. Internal to passes.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "freight/base/error.h"

namespace freight {

// `names` are in the order of the enum. Throws Error(usage) that begins with `what` for another word.
template <class Enum>
Enum enum_of(const std::string& word, const std::vector<std::string>& names, const char* what) {
  const auto at = std::find(names.begin(), names.end(), word);
  if (at == names.end()) fail(ErrorKind::usage, what, "unknown value: got ", word, ", need ", join(names, ", "));
  return static_cast<Enum>(at - names.begin());
}

}  // namespace freight
