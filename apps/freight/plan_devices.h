// `freight plan --devices cpu,opencl:0`: whether it pays to share a batch between different devices. Training steps are
// measured, on each device alone and on all together. Without names --devices is a number, and the times are predicted.
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
// `args`: of the command, which is started again for each device. Returns the exit code.
int plan_devices(const PlanInput& in, const DevicesRequest& request, const Args& args);

}  // namespace freight::app
