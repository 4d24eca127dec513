// Finds the values of a forward pass that depend on one sample each, or on none: they may be computed once per sample
// and kept, or for parts of a batch. This follows from the kinds of the ops; composites are examined by their
// definitions, so that a normalization over the batch is found in every composite.
#pragma once
#include <functional>

#include "freight/ir/graph.h"

namespace freight {

// The dependence of a value on the samples of a batch of n.
enum class Dependence : uint8_t {
  constant,  // on no sample
  uniform,   // on no sample, and axis 0 has equal parts for all n
  rows,      // part i of n along axis 0 on sample i alone, whatever the other samples are
  other,     // on several samples, on what is trained, or on random numbers
};

// The dependence of each value, for a graph of n samples. `leaf` answers for its inputs and states: rows for those with
// the samples along axis 0, constant, or other for what changes between steps.
ByValue<Dependence> dependences_of(const Graph& graph, int64_t n, const std::function<Dependence(Value leaf)>& leaf);

}  // namespace freight
