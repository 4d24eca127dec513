// The output of `freight train --dry-run`: memory, plan and time of a run that is not started.
#pragma once
#include <string>

#include "freight/plan/fitting.h"

namespace freight::app {

// Reports the start to the observer. `devices`: the number that shares a batch, if the run does not know it; 0: it
// does. `config_json`: printed instead of memory, plan and time, unless it is "".
void say_run(plan::FittedRun& run, int64_t devices, train::Observer& observer, const std::string& config_json);

}  // namespace freight::app
