// --resume of `freight train`: from what a run resumes, and which flags cannot be combined with it.
#pragma once
#include <functional>

#include "freight/train/checkpoint.h"
#include "freight/train/config.h"
#include "options.h"

namespace freight::app {

// Finds what --resume names; `fresh` becomes the configuration of that run, or the recipe if there is none yet. `apply`
// sets the flags on top of a configuration.
train::Found found_to_resume(const train::Config& probe, const data::Source& source, train::Config& fresh,
                             const std::function<void(train::Config&)>& apply);

// Throws Error(usage) for a flag that only a new run can use, since a resumed run would ignore it. With `auto` it is
// allowed, for the case that there is nothing to resume.
void check_resume(const train::Config& config, const train::Found& found, const Options& o);

}  // namespace freight::app
