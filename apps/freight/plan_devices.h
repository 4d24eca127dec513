// `freight plan --devices cpu,opencl:0`: says whether devices that are not alike are worth sharing a batch. Steps of
// the net are measured, on each device alone and on all at once; without names --devices is a count, and predicted.
#pragma once
#include <string>
#include <vector>

#include "command.h"
#include "plan_options.h"

namespace freight::app {

struct DevicesRequest {
  std::vector<std::string> names;
  bool json = false;
};
// `args`: of the command, which is started again as a process for each device. Returns the exit code.
int plan_devices(const PlanInput& in, const DevicesRequest& request, const Args& args);

}  // namespace freight::app
