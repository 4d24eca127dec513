// The output of `freight train --dry-run`: memory, plan and time of a run that is not started.
#pragma once
#include <string>

#include "freight/plan/fitting.h"

namespace freight::app {

// The observer hears of the begin. `devices`: that share a batch, where the run does not know them; 0: it does.
// `config_json`: what is printed in place of memory, plan and time; "" for these.
void say_run(plan::FittedRun& run, int64_t devices, train::Observer& observer, const std::string& config_json);

}  // namespace freight::app
