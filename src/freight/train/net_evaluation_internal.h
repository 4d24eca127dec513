// Applies the evaluation settings of a network's configuration to its run (net_evaluation.cpp).
#pragma once
#include "freight/train/prepared_internal.h"

namespace freight::train {

// Sets the metric, class weights, threshold and kept predictions of a run that has data and model, before its step is
// planned. Throws Error, usage or data, that names the flag that does not fit.
void settle_evaluation(NetRun& run);

}  // namespace freight::train
