// See listing.h.
#include "freight/base/listing.h"

#include "freight/base/strings.h"

namespace freight {

std::string join_first(const std::vector<std::string>& names, size_t most) {
  if (names.size() <= most) return join(names, ", ");
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<ptrdiff_t>(most));
  return cat(join(first, ", "), " and ", names.size() - most, " more");
}

}  // namespace freight
