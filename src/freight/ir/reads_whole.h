// Operands that pointwise ops do not walk over. Fusion, the lowerings of regions and the reuse of memory ask here, so
// that none of them takes an equal shape for an element at the same place.
#pragma once
#include "freight/ir/graph.h"

namespace freight {

// Tells whether each element of a pointwise or fused node's results takes all of that operand: the key of random
// numbers. No region may make such an operand itself, and no result may lie where one does.
bool reads_whole(const Node& node, int input);

}  // namespace freight
