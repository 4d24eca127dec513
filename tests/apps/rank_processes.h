// Tests that kill ranks of a command find them by this.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "freight/base/strings.h"
#include "run_command.h"

namespace freight::test {

// The process of a rank that this one started; 0: there is none.
inline int process_of(int parent, int rank) {
  for (const auto& e : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(e.path().filename().c_str());
    if (pid < 1) continue;
    const std::string at = "/proc/" + std::to_string(pid);
    const std::string status = read_file(at + "/status"), environment = read_file(at + "/environ");
    if (status.find(cat("\nPPid:\t", parent, "\n")) == std::string::npos) continue;
    if (environment.find(cat("FREIGHT_RANK=", rank, '\0')) != std::string::npos) return pid;
  }
  return 0;
}

inline bool waited_for(const std::string& file) {
  for (int i = 0; i < 30'000 && !std::filesystem::exists(file); ++i) usleep(1000);
  return std::filesystem::exists(file);
}

// The same of a rank that comes yet.
inline int awaited_process(int parent, int rank) {
  int pid = 0;
  for (int i = 0; i < 3000 && pid == 0; ++i, usleep(10'000)) pid = process_of(parent, rank);
  return pid;
}

}  // namespace freight::test
