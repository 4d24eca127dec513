// Finds the cause of a NaN or infinite loss: runs the traced graph on one batch and names the first node, in program
// order, whose result is not finite.
#pragma once
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/data/feed.h"
#include "freight/ir/graph.h"
#include "freight/nn/module.h"
#include "freight/run/executable.h"

namespace freight::train {

// "conv2 (conv, model.cpp:12): 37 of 4,096 elements are NaN or infinite"; "" if all results are finite. `inputs` and
// `states` are in the order of the graph's leaves; states are not changed. `options` are those of the step's plan.
std::string first_nonfinite(const Graph& graph, const std::vector<Array>& inputs, const std::vector<Array>& states,
                            const RunOptions& options);

// "fc1.weight: 37 of 4,096 elements are NaN or infinite" for the first such variable; "" if there is none.
std::string first_nonfinite(const std::vector<nn::NamedVariable>& variables);

// "the input of sample 3 of the made feed: 1 of 4 elements are NaN or infinite" for the first such sample of the feed's
// last batch. Targets are checked if all inputs are finite; "" if targets are finite, too.
std::string first_nonfinite(const data::Feed& feed, const data::FeedBatch& batch);

}  // namespace freight::train
