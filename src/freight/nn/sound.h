// Looks for values that no variable of a sound network has, before they are stored or trained on.
#pragma once
#include <cstdint>

#include "freight/base/array.h"
#include "freight/trace/variable.h"

namespace freight::nn {

// How many of the values are NaN or infinite. What is not trained may have -infinity, as masks of attention do.
int64_t count_unsound(const Array& values, Variable::Role role);

}  // namespace freight::nn
