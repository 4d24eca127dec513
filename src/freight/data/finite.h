// Samples in memory are looked at before anything is computed from them: numbers that are not finite would spoil every
// figure and weight, and columns or labels that never change teach nothing.
#pragma once
#include <string>
#include <vector>

#include "freight/data/dataset.h"

namespace freight::data {

// Looks at every floating number and target of a set in memory (images in files and integers cannot be at fault).
// Throws Error(data) that names the first sample and its place, or leaves such samples out and tells `bad` of each;
// true where any was left out. Throws Error(data) where none is left. Statistics are the caller's to compute anew.
bool leave_out_nonfinite(Dataset& set, const BadSamples& bad);

// One line for each thing about samples to learn from that leaves nothing to learn: a single class, targets or columns
// that never change. Empty where there is none.
std::vector<std::string> nothing_to_learn(const Dataset& set);

}  // namespace freight::data
