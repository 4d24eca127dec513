// What a plan may do to live in a device's memory that is smaller than it would like; what is done: offload.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace freight {

enum class Offload : uint8_t {
  none,
  activations,  // as many to host memory as the arena's limit asks for
  optimizer,    // the state of the optimizer: there all the time
  all,          // optimizer, and activations as in automatic
  automatic,    // each activation is kept, computed again or offloaded, whatever costs least
};

// "none", "activations", "optimizer", "all", "auto".
const std::vector<std::string>& offload_names();
// Throws Error(usage) for another word.
Offload parse_offload(const std::string& word);

// Figures of a device by which copying is held against computing again, per second.
struct DeviceSpeed {
  double transfer = 6e9;  // bytes, to host memory or from it
  double bytes = 2e10;    // of the device's memory, read or written
  double flops = 2e11;
  bool beside = false;  // copies to the host and from it run beside the kernels
  friend bool operator==(const DeviceSpeed&, const DeviceSpeed&) = default;
};

struct ArenaLimit {
  Offload offload = Offload::none;
  size_t bytes = 0;  // that the plan's arena may have; 0: any number
  DeviceSpeed speed = {};
  friend bool operator==(const ArenaLimit&, const ArenaLimit&) = default;
};

}  // namespace freight
