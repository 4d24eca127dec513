// Lists of names in messages.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace freight {

// The first `most` names: "a, b and 3 more"; all if there are no more.
std::string join_first(const std::vector<std::string>& names, size_t most);

}  // namespace freight
