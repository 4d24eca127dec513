// Choice between implementations of a step by measurement on the device when a plan is made. What was found is kept
// under the cache directory, by device and driver, so that a second process plans at once and alike.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/base/device_memory.h"

namespace freight::gpu {

class Choices {
 public:
  // `driver`: "opencl", the folder under the cache directory. `identity`: of device, driver and libraries.
  Choices(const std::string& driver, const std::string& identity);
  // The one of `candidates` that is fastest on zeros; they compute the same, and one that throws is passed over. `step`
  // names it for the next time.
  size_t fastest(const std::string& step, const StepSpec& spec, DeviceMemory& memory,
                 const std::vector<Kernel*>& candidates);

 private:
  std::string driver_;
  std::mutex mutex_;
  std::string path_;
  std::map<std::string, std::string> found_;  // name of the candidate by step
};

}  // namespace freight::gpu
