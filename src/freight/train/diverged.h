// Finds where a step first went wrong: runs the traced graph on one batch and names the first node, in the order of the
// program, whose result is not finite.
#pragma once
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/data/feed.h"
#include "freight/ir/graph.h"
#include "freight/nn/module.h"
#include "freight/run/executable.h"

namespace freight::train {

// "conv2 (conv, model.cpp:12): 37 of 4,096 elements are NaN or infinite"; "" where all results are finite.
// `inputs` and `states` in the order of the graph's leaves; the states are not changed. `options` as the step was
// planned.
std::string first_nonfinite(const Graph& graph, const std::vector<Array>& inputs, const std::vector<Array>& states,
                            const RunOptions& options);

// "fc1.weight: 37 of 4,096 elements are NaN or infinite" of the first of these variables of which that is so, or "".
std::string first_nonfinite(const std::vector<nn::NamedVariable>& variables);

// "the input of sample 3 of the made feed: 1 of 4 elements are NaN or infinite" of the first sample of the feed's last
// batch of which that is so; targets are asked for where all inputs are finite; "" where all are.
std::string first_nonfinite(const data::Feed& feed, const data::FeedBatch& batch);

}  // namespace freight::train
