// Makes a training run fit the memory, as `freight train` does. It prepares the run and compares its plan with the
// memory; if a batch is to be chosen, or the run must be changed to fit, it changes the plan (PlanChange) and prepares
// again.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "freight/base/device_memory.h"
#include "freight/plan/preflight.h"
#include "freight/train/prepare.h"

namespace freight::plan {

struct FitOptions {
  // refuse: a run that does not fit is an Error(capacity). adapt: it is changed by the least costly sufficient means.
  // ignore: nothing is checked.
  enum class IfTooLarge { refuse, adapt, ignore } if_too_large = IfTooLarge::refuse;
  double device_memory = 0;   // bytes; 0: what is free
  bool choose_batch = false;  // the largest efficient batch, tried with one real step
};

struct FittedRun {
  train::PreparedRun run;
  Outcome outcome;                    // its planned figures
  std::optional<StepPlan> step_plan;  // its planned memory by kind; empty for a run without plans
  std::string offload;                // describes what is offloaded to host memory; "" for a run that does not offload
  // Before the run: the resident bytes of this process; for a device with its own memory, that memory and its free
  // bytes.
  int64_t resident_before = 0;
  std::shared_ptr<DeviceMemory> device = nullptr;
  size_t free_before = 0;
};

// Sets changed settings in `config` and reports each change to `say`. Throws Error(capacity) if the run does not fit
// and must not be changed, and the errors of train::prepare. For a program's own network without a spec, the memory is
// checked, but no batch can be tried.
FittedRun prepare_fitting(
    train::Config& config, const FitOptions& fit, train::PrepareOptions options = {},
    const std::function<void(const std::string&)>& say = [](const std::string&) {});

}  // namespace freight::plan
