// Where tensors lie and operations run. A tensor and a variable have a device from the moment they are made: that of
// the thread's innermost DeviceScope, else that of the process ($FREIGHT_DEVICE, "cpu" where it is not set). Operations
// run where their operands lie; numbers, constants and host arrays follow the other operands, and two devices in one
// operation are an error. Programs may use several devices, interleaved and from any number of threads.
#pragma once
#include <string>

namespace freight {

// While it lives, what this thread makes lies on `device`: "cpu", "ref", "opencl:0", "cuda:1"; "auto" is the process's.
// Throws Error(device) for an unknown name and a device that is not there.
class DeviceScope {
 public:
  explicit DeviceScope(const std::string& device);  // until the end of the scope
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const std::string* before_;
};

// The device of what this thread makes now.
const std::string& current_device();

namespace trace {
// The one copy of a device's name: devices are compared by address.
using Device = const std::string*;
// "auto" and "" are the process's, "opencl" and "opencl:00" are "opencl:0". Throws Error(device) for what is no
// device's name, and for a device that is not there.
Device device_named(const std::string& name);
Device thread_device();
}  // namespace trace

}  // namespace freight
