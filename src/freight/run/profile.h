// Measures a plan step by step; the table that `freight profile` prints.
#pragma once
#include <string>
#include <vector>

#include "freight/run/executable.h"

namespace freight {

struct StepProfile {
  std::string description;  // "conv1 conv f32[...] ... -> ..."
  std::string scope, op, kernel;
  double ms = 0;  // median over the repetitions
  double flops = 0, bytes = 0;
  double gflops_per_s = 0, gbytes_per_s = 0;
  double share = 0;  // of the summed medians
};

struct Profile {
  std::vector<StepProfile> steps;  // of a replay
  double total_ms = 0;             // median of whole replays, without timers between the steps
  double steps_ms = 0;             // sum of the steps' medians
  size_t arena_bytes = 0, lower_bound_bytes = 0;
  size_t kept_bytes = 0, once_steps = 0;  // of frozen states: what was computed from them at the first run
  PlanCacheStats cache;
};

// Runs `executable` repeatedly for about `seconds` (at least `min_runs` times each way). States are updated as usual.
Profile profile(Executable& executable, const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                double seconds = 1.0, int min_runs = 5);

}  // namespace freight
