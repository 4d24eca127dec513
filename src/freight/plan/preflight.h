// Preflight: checks whether a planned run fits the available memory, and if not, which flags would make it fit. After
// the run, compares what it took with its plan.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/base/error.h"
#include "freight/plan/floor.h"
#include "freight/plan/rates.h"
#include "freight/plan/step_plan.h"

namespace freight::plan {

// The bytes that a run may use. Without separate host memory nothing can be offloaded.
struct Memory {
  double device = 0, host = 0;
};
// The memory of a run's device, or what is free of it if `limit` is 0. A CPU's memory is both: what exceeds the limit
// counts as the host's.
Memory memory_for(const train::Planned& planned, double limit = 0);
Memory memory_of(const std::string& backend, double limit = 0);  // the memory of a backend's device

// Settings of a plan that are changed so that a run fits; the others stay. Ranks exchange it.
struct PlanChange {
  int64_t batch_size = 0;  // over all devices; 0: as it is
  int64_t grad_accum = 0;  // the same
  std::optional<Recompute> recompute = {};
  std::optional<Offload> offload = {};
  bool host_data = false;  // the training set leaves the device
  bool save_in_place = false;

  bool any() const;
  void apply(train::Config& config) const;
  std::string flags() const;  // as a user types them: "--grad-accum 4 --save-in-place"
};

struct FitCheck {
  bool fits = true;
  double needed = 0, available = 0;  // bytes of the device's memory
  PlanChange change;                 // would fit, by the least costly means; none if no known means helps
  StepPlanOptions options;           // the step plan's options with this change
  double needed_then = 0;
  std::string changes;  // how it changes the results; "" if only by rounding
  StepPlan step_plan;
};

// Tries means in the order of their cost, first those that keep the results: no copy for checkpoints; micro-batches
// (unless statistics are taken over a batch); recomputation; both; offloading (before recomputation on a device with
// its own memory; it uses recomputation, too); all of them again without the copy. Then those that change the results:
// micro-batches, a smaller batch.
FitCheck fit_within(StepPlan step_plan, const TrainingSetup& setup, const Memory& memory);
FitCheck check_fit(const train::Planned& planned, const Memory& memory);
// Error(capacity) with the needed and free bytes, the largest tensors by layer, and the command that would fit.
Error refusal(const FitCheck& fit);

// The speed of this machine in copies and computation, by its measured rates; null: by assumed figures.
DeviceSpeed speed_of(const Rates* rates);
// The fraction by which a step is slower with the means, by measured rates or by the speeds.
double slowdown(const StepPlan& before, const StepPlan& after, const Rates* rates, const DeviceSpeed& speed);
// Describes offloading: "23 copies of 310.0 MiB to host memory and back, 12 steps computed again; predicted slowdown 8
// %".
std::string offload_text(const StepPlan& before, const StepPlan& after, const Rates* rates, const DeviceSpeed& speed);

// The planned and measured figures of a completed run: bytes in addition to those resident before it, and seconds of a
// step's computation; 0: not known.
struct Outcome {
  double planned_bytes = 0, measured_bytes = 0;
  double planned_seconds = 0, measured_seconds = 0;
  Floor floor = {};  // of a step that is one plan
};
// Compares them: "memory  planned 9.6 GiB, measured 9.9 GiB (+3 %)", and the same for the time if it was planned. A
// small difference is shown in bytes: the program's own pages are a large part of a small plan.
std::vector<std::string> comparison(const Outcome& outcome);
// True if a run used so much more memory than planned that it is a bug in Freight.
bool exceeds_plan(const Outcome& outcome);

}  // namespace freight::plan
