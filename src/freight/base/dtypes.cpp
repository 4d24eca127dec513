// See dtypes.h.
#include "freight/base/dtypes.h"

#include "freight/base/strings.h"

namespace freight {

std::vector<DType> DTypes::list() const {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (has(static_cast<DType>(i))) types.push_back(static_cast<DType>(i));
  }
  return types;
}

std::string to_string(DTypes types) {
  if (types == dtypes::kAll) return "all";
  struct Group {
    DTypes types;
    const char* name;
  };
  constexpr Group kGroups[] = {
      {dtypes::kFloating, "floating"}, {dtypes::kInteger, "integers"}, {dtypes::kComplex, "complex"}};
  std::vector<std::string> words;
  for (const Group& g : kGroups) {
    if (!types.has(g.types)) continue;
    words.emplace_back(g.name);
    types = types.without(g.types);
  }
  for (const DType t : types.list()) words.push_back(to_string(t));
  return join(words, ", ");
}

}  // namespace freight
