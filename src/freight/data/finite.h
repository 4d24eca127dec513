// Checks samples in memory before training: NaN and infinity would make every metric and weight NaN, and nothing can be
// learned from constant columns or labels.
#pragma once
#include <string>
#include <vector>

#include "freight/data/dataset.h"

namespace freight::data {

// Checks every floating input and target of a dataset in memory. Throws Error(data) that names the first bad sample and
// element, or skips such samples and reports each to `bad`, and then returns true if any was skipped; the caller must
// recompute statistics. Throws Error(data) if no sample is left.
bool leave_out_nonfinite(Dataset& set, const BadSamples& bad);

// A line for each reason why nothing can be learned from training samples: a single class, constant targets, constant
// columns. Empty if there are none.
std::vector<std::string> nothing_to_learn(const Dataset& set);

}  // namespace freight::data
