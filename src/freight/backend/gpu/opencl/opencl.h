// The OpenCL driver's face: the devices of this machine and a backend for each, "opencl:0", "opencl:1", ... The OpenCL
// library is loaded when one is asked for; a machine without it loses nothing else.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "freight/backend/backend.h"

namespace freight {

struct OpenClDevice {
  std::string model, platform, version, driver;
  int64_t compute_units = 0;
  int64_t memory_bytes = 0;
  bool f64 = false;
};

struct OpenClDevices {
  std::vector<OpenClDevice> devices;
  std::string why_none;  // where there are none
};
// All devices of all platforms, in the order of their numbers. Allocates nothing on them.
OpenClDevices opencl_devices();

// The backend for one of them. Throws Error(device) where there is no such device.
std::unique_ptr<Backend> make_opencl_backend(int index);

}  // namespace freight
