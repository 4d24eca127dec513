// Words of flags as options; see options.h.
#include "freight/passes/options.h"

#include <algorithm>

#include "freight/base/usage.h"

namespace freight {

namespace {
// `names` are in the order of the enum.
template <class Enum>
Enum enum_of(const std::string& word, const std::vector<std::string>& names, const char* what) {
  const auto at = std::find(names.begin(), names.end(), word);
  need_name(what, word, names);
  return static_cast<Enum>(at - names.begin());
}
}  // namespace

const std::vector<std::string>& recompute_names() {
  static const std::vector<std::string> kNames{"none", "auto", "all"};
  return kNames;
}
const std::vector<std::string>& offload_names() {
  static const std::vector<std::string> kNames{"none", "activations", "optimizer", "all", "auto"};
  return kNames;
}

const std::string& to_string(Recompute recompute) { return recompute_names()[static_cast<size_t>(recompute)]; }
const std::string& to_string(Offload offload) { return offload_names()[static_cast<size_t>(offload)]; }

Recompute parse_recompute(const std::string& word) { return enum_of<Recompute>(word, recompute_names(), "recompute"); }
Offload parse_offload(const std::string& word) { return enum_of<Offload>(word, offload_names(), "offload"); }

}  // namespace freight
