// What a network's configuration says of evaluations becomes part of its run (net_evaluation.cpp).
#pragma once
#include "freight/train/prepared_internal.h"

namespace freight::train {

// Settles metric, class weights, threshold and what evaluations keep, of a run with data and model, before its step is
// planned. Throws Error: usage or data that names the flag which does not fit.
void settle_evaluation(NetRun& run);

}  // namespace freight::train
