// Reads --devices for every command that has it: names of devices, repeated ones, all of this machine, or a number.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace freight::app {

struct DeviceList {
  std::vector<std::string> names = {};  // "cuda:0", "cpu", "cpu"
  std::optional<int64_t> count = {};    // set for a plain number, without names
};

// Parses "cuda:0,cuda:1", "cpu*4" (four times that device), "all" (devices_here) and "4". Only `all` looks for devices.
// Throws Error(usage) that names the flag.
DeviceList parse_device_list(const std::string& flag, const std::string& text);

// The usable devices of this machine: the CPU, then CUDA's, then OpenCL's.
std::vector<std::string> devices_here();

}  // namespace freight::app
