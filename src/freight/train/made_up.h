// Synthetic batches for trial steps.
#pragma once
#include "freight/base/array.h"
#include "freight/ir/type.h"

namespace freight::train {

// Values that every network accepts: normally distributed numbers, class 0, token 0.
Array made_up(const Type& type);

}  // namespace freight::train
