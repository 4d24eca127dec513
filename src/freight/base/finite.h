// Looks for numbers that are NaN or infinite, at the rate of the memory where there are none.
#pragma once
#include <cstdint>
#include <span>

#include "freight/base/array.h"

namespace freight {

int64_t count_nonfinite(std::span<const float> values);
// Of numbers of any type; integers are all finite.
int64_t count_nonfinite(const Array& array);
// The place of the first one; -1 where there is none.
int64_t find_nonfinite(std::span<const float> values);

}  // namespace freight
