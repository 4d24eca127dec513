// What the system says of this process's memory.
#pragma once
#include <fstream>
#include <string>

namespace freight::testing {

// Bytes that a line of /proc/self/status says: "VmSize" is what RLIMIT_AS counts, "VmData" what RLIMIT_DATA does.
inline size_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoull(line.substr(key.size() + 1)) << 10;
  }
  return 0;
}

}  // namespace freight::testing
