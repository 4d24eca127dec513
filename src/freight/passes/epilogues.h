// The first half of the fuse pass (fuse.cpp): what a matmul or convolution does to its result before it is stored.
#pragma once
#include "freight/ir/graph.h"

namespace freight {
class Backend;
}

namespace freight::passes {

// Moves bias, residual, relu and functions of one number into the matmul or convolution that feeds them, as far as the
// backend takes them.
Graph fuse_epilogues(const Graph& graph, const Backend& backend);

// True where n reads or makes a value without arithmetic (computes() in base/dtype.h). Ops that move or compare
// such values, or convert them, are steps of their own.
bool carries(const Graph& g, const Node& n);

}  // namespace freight::passes
