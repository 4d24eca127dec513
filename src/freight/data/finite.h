// Samples in memory whose numbers are not finite: found before anything is computed from them, so that no figure of an
// evaluation and no weight rests on them.
#pragma once
#include "freight/data/dataset.h"

namespace freight::data {

// Looks at every floating number and target of a set in memory (images in files and integers cannot be at fault).
// Throws Error(data) that names the first sample and its place, or leaves such samples out and tells `bad` of each;
// true where any was left out. Throws Error(data) where none is left. Statistics are the caller's to compute anew.
bool leave_out_nonfinite(Dataset& set, const BadSamples& bad);

}  // namespace freight::data
