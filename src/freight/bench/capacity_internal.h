// Checks whether a step fits a device, before anything is allocated.
#pragma once
#include <string>

#include "freight/plan/step_plan.h"

namespace freight::bench {

// The reason why it does not fit: "needs 3.1 GiB, free are 2.0 GiB"; "" if it does. A device with its own memory needs
// the step there, and weights and batches on the host, too; it may also share the host's memory, as PoCL does.
std::string lacks_memory(const plan::StepPlan& step_plan, const std::string& device);

}  // namespace freight::bench
