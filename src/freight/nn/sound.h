// Counts values that no variable of a valid network has, before they are saved or trained on.
#pragma once
#include <cstdint>

#include "freight/base/array.h"
#include "freight/trace/variable.h"

namespace freight::nn {

// How many of the values are NaN or infinite. What is not trained may have -infinity, as masks of attention do.
int64_t count_invalid(const Array& values, Variable::Role role);

}  // namespace freight::nn
