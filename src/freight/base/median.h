// The median of measured values.
#pragma once
#include <algorithm>
#include <vector>

namespace freight {

// The upper one of the two in the middle of an even number; 0 of none.
inline double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace freight
