// See class_names.h.
#include "freight/data/class_names.h"

#include <map>

#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/data/unicode.h"

namespace freight::data {

std::string class_hint(const std::string& name, const std::vector<std::string>& classes) {
  for (const std::string& other : classes) {
    if (other != name && composed(other) == composed(name)) {
      return cat("; ", other,
                 " there looks the same and differs only in Unicode form (one has composed accents, NFC, "
                 "the other decomposed ones, NFD): rename one of them");
    }
  }
  return did_you_mean(name, classes);
}

std::string class_forms_note(const std::vector<std::string>& classes) {
  std::map<std::string, std::string> seen;
  for (const std::string& name : classes) {
    const auto [at, fresh] = seen.emplace(composed(name), name);
    if (!fresh && at->second != name) {
      return cat("there are two classes ", name,
                 ", whose names differ only in Unicode form (NFC and NFD): rename one "
                 "of them if they are one");
    }
  }
  return "";
}

}  // namespace freight::data
