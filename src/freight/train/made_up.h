// Batches that no data set gave, for trials of a step.
#pragma once
#include "freight/base/array.h"
#include "freight/ir/type.h"

namespace freight::train {

// Numbers that any net takes: normal values, class and token 0.
Array made_up(const Type& type);

}  // namespace freight::train
