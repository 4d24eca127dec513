// A forward pass whose samples do not depend on each other may be computed for one part of the batch after another. The
// results between the steps are then small enough for the caches. Plans of frozen weights are made so (run/plan.cpp).
#pragma once
#include <cstdint>
#include <vector>

#include "freight/ir/graph.h"

namespace freight::passes {

struct BatchParts {
  int64_t count = 1;         // of parts, which are equal
  Graph graph;               // of one part; with the same leaves and outputs in the same order
  std::vector<bool> inputs;  // which of the inputs have samples; the others are the same for all parts
};

// The parts of a traced graph's batch if it gains by them: count is 1 where the samples depend on each other, the batch
// fits the caches, or the weights are more than what a part moves. `cache_bytes`: of the largest cache, 0 for none.
BatchParts batch_parts(const Graph& traced, size_t cache_bytes);

}  // namespace freight::passes
