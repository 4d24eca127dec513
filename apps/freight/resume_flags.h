// --resume of `freight train`: what a run goes on from, and which flags do not go with it.
#pragma once
#include <functional>

#include "freight/train/checkpoint.h"
#include "freight/train/config.h"
#include "options.h"

namespace freight::app {

// Reads what --resume means; `fresh` becomes what the run was made with, or the recipe where there is none yet.
// `apply` sets the flags on top of a configuration.
train::Found found_to_resume(const train::Config& probe, train::Config& fresh,
                             const std::function<void(train::Config&)>& apply);

// Throws Error(usage) for a flag that is for new runs alone beside one that goes on: it would be passed over. With
// `auto` it is for the case that there is nothing to go on from.
void check_resume(const train::Config& config, const train::Found& found, const Options& o);

}  // namespace freight::app
