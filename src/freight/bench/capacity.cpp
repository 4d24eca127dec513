// See capacity_internal.h.

#include "freight/backend/backend.h"
#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/base/cpu_info.h"
#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/bench/capacity_internal.h"

namespace freight::bench {

namespace {

constexpr double kShare = 0.9;  // of the free memory; the rest is for libraries and the process itself

// The bytes of an OpenCL device; 0: not known, or another kind of device.
double opencl_memory(const std::string& name) {
  if (!starts_with(name, "opencl")) return 0;
  const uint64_t index = name.size() > 7 ? parse_number<uint64_t>(name.substr(7)).value_or(0) : 0;
  const OpenClDevices all = opencl_devices();
  return index < all.devices.size() ? static_cast<double>(all.devices[index].memory_bytes) : 0;
}

}  // namespace

std::string lacks_memory(const plan::StepPlan& d, const std::string& device) {
  const auto total = static_cast<double>(d.total());
  const auto lacks = [&](double needed, double has, const char* where) {
    return has > 0 && needed > kShare * has ? cat("needs ", human_bytes(needed), where, ", free: ", human_bytes(has))
                                            : std::string();
  };
  const bool apart = backend(device).memory() != nullptr;
  const double host = apart ? static_cast<double>(d.part(plan::Part::weights) + d.part(plan::Part::optimizer) +
                                                  d.part(plan::Part::staging))
                            : 0;
  const std::string there = lacks(total, opencl_memory(device), " on the device");
  if (!there.empty()) return there;
  return lacks(total + host, static_cast<double>(cpu_info().memory_available_bytes), "");
}

}  // namespace freight::bench
