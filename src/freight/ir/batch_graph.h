// Graphs as text with sizes of the batch's size N: 8N+1. Such a text is a graph for each N; otherwise it is that of
// docs/graph-text.md.
#pragma once
#include <cstdint>
#include <string>

#include "freight/ir/graph.h"

namespace freight {

// The graph for a batch of N samples. Throws as parse() does.
Graph parse_for_batch(const std::string& text, const std::string& source, int64_t batch);

}  // namespace freight
