// It is asked here whether a step fits a device at hand, before anything is allocated.
#pragma once
#include <string>

#include "freight/plan/step_plan.h"

namespace freight::bench {

// Why not: "needs 3.1 GiB, free are 2.0 GiB"; "" where it fits. A device with memory of its own needs the step there
// and the weights and batches on the host too, and may share the host's memory (PoCL does).
std::string lacks_memory(const plan::StepPlan& step_plan, const std::string& device);

}  // namespace freight::bench
