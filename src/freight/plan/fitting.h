// How a training run comes to fit the memory, as `freight train` does it. It is prepared and held against the memory
// there is; where a batch is to be chosen, or means are known and wanted, it is prepared again with other settings.
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
  // refuse: a run that does not fit is an Error(capacity). adapt: it is changed by the cheapest sufficient means.
  // ignore: nobody looks.
  enum class IfTooLarge { refuse, adapt, ignore } if_too_large = IfTooLarge::refuse;
  double device_memory = 0;   // bytes; 0: what is free
  bool choose_batch = false;  // the largest that is good, tried with one real step
};

struct FittedRun {
  train::PreparedRun run;
  Outcome outcome;                    // what is planned of it
  std::optional<StepPlan> step_plan;  // the same by kind; nothing of a run without plans
  std::string offload;                // what goes to host memory; "" for a run that does not offload
  // Before the run: bytes of this process; of a device with memory of its own that memory, and what was free of it.
  int64_t resident_before = 0;
  std::shared_ptr<DeviceMemory> device = nullptr;
  size_t free_before = 0;
};

// `config` takes the settings that are changed, `say` hears of each change. Throws Error(capacity) where the run does
// not fit and nothing is to be changed, and what train::prepare throws. A net of the program's own that nobody declared
// can be held against the memory, but no batch can be tried with it.
FittedRun prepare_fitting(
    train::Config& config, const FitOptions& fit, train::PrepareOptions options = {},
    const std::function<void(const std::string&)>& say = [](const std::string&) {});

}  // namespace freight::plan
