// Reads --devices for every command that has it: names of devices, repeated ones, all of this machine, or a count.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace freight::app {

struct DeviceList {
  std::vector<std::string> names = {};  // "cuda:0", "cpu", "cpu"
  std::optional<int64_t> count = {};    // of a bare number, which names none
};

// "cuda:0,cuda:1", "cpu*4" (four times that one), "all" (devices_here) or "4". Looks for no device but for `all`.
// Throws Error(usage) naming the flag.
DeviceList parse_device_list(const std::string& flag, const std::string& text);

// The devices of this machine that can be used: the CPU, then CUDA's, then OpenCL's.
std::vector<std::string> devices_here();

}  // namespace freight::app
