// How `freight train` comes to a run that fits the memory. It is prepared and held against the memory there is; where a
// batch is to be chosen, or --fit auto knows means, it is prepared again with other flags.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "freight/base/device_memory.h"
#include "freight/plan/preflight.h"
#include "freight/train/prepare.h"

namespace freight::app {

struct FitFlags {
  std::string fit = "refuse";
  std::string device_memory;  // "4GiB"; "": what is free
  bool choose_batch = false;
};

struct FittedRun {
  train::PreparedRun run;
  plan::Outcome outcome;  // what is planned of it
  std::string offload;    // what goes to host memory; "" for a run that does not offload
  // Before the run: bytes of this process; of a device with memory of its own that memory, and what was free of it.
  int64_t resident_before = 0;
  std::shared_ptr<DeviceMemory> device = nullptr;
  size_t free_before = 0;
};

// `config` takes the flags that are changed, `say` hears of each change. Throws Error(capacity) where the run does not
// fit and nothing is to be changed, and what train::prepare throws.
FittedRun prepare_fitting(train::Config& config, const FitFlags& flags, train::PrepareOptions options,
                          const std::function<void(const std::string&)>& say);

}  // namespace freight::app
