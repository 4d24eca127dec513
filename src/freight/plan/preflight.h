// Preflight: does a run that was planned fit the memory there is, and if not, by which flags would it. And afterwards:
// what it took, against its plan.
#pragma once
#include <string>
#include <vector>

#include "freight/base/error.h"
#include "freight/plan/rates.h"
#include "freight/plan/step_plan.h"

namespace freight::plan {

// Bytes that a run may take. Without host memory beside the device's nothing can be offloaded.
struct Memory {
  double device = 0, host = 0;
};
// The memory of a run's device, where `limit` is 0 what is free; a processor's is both, and what is beyond the limit
// counts as the host's.
Memory memory_for(const train::Planned& planned, double limit = 0);
Memory memory_of(const std::string& backend, double limit = 0);  // the same of a backend's device

struct FitCheck {
  bool fits = true;
  double needed = 0, available = 0;  // bytes, on the device
  // This would fit, as changes of the configuration: the cheapest first tried; empty where nothing that is known helps.
  std::vector<std::string> flags;  // "--grad-accum", "4"
  StepPlanOptions options;         // the same
  double needed_then = 0;
  std::string changes;  // what of the results these flags change; empty where they stay, but for rounding
  StepPlan step_plan;
};

// Means are tried in the order of their cost, those that keep the results first: no copy for checkpoints, parts of the
// batch (but where statistics are taken over a batch), recomputation, both, offloading (on a device that has memory of
// its own before recomputation, which it takes to its aid), the same again without the copy; then what changes the
// results: parts, a smaller batch.
FitCheck fit_within(StepPlan step_plan, const TrainingSetup& setup, const Memory& memory);
FitCheck check_fit(const train::Planned& planned, const Memory& memory);
// Error(capacity): needed, free, the largest tensors by layer, and the command that would fit.
Error refusal(const FitCheck& fit);

// How fast this machine copies and computes, by its measured rates; null: by figures that are assumed.
DeviceSpeed speed_of(const Rates* rates);
// By which share a step is slower after means were taken: by measured rates, or by the speeds.
double slowdown(const StepPlan& before, const StepPlan& after, const Rates* rates, const DeviceSpeed& speed);
// "23 copies of 310.0 MiB to host memory and back, 12 steps computed again; predicted slowdown 8 %".
std::string offload_text(const StepPlan& before, const StepPlan& after, const Rates* rates, const DeviceSpeed& speed);

// A run that is over. Bytes beyond those that were resident before it; seconds of a step's computation; 0: not known.
struct Outcome {
  double planned_bytes = 0, measured_bytes = 0;
  double planned_seconds = 0, measured_seconds = 0;
};
// "memory  planned 9.6 GiB, measured 9.9 GiB (+3 %)", and the same of the time where it was planned. A difference of
// few bytes is told in bytes: the program's own pages are a large share of a small plan.
std::vector<std::string> comparison(const Outcome& outcome);
// True where a run took so much more memory than its plan that it is a defect of Freight.
bool exceeds_plan(const Outcome& outcome);

}  // namespace freight::plan
