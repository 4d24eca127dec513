// Finds the processes of a run on several devices and its checkpoints, for tests that end processes at a known moment.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "freight/base/strings.h"
#include "run_command.h"

namespace freight::test {

// The ranks that a process started and that live: process numbers by rank.
inline std::map<int, int> ranks_of(int parent) {
  std::map<int, int> all;
  for (const auto& e : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(e.path().filename().c_str());
    if (pid < 1) continue;
    const std::string at = "/proc/" + std::to_string(pid);
    const std::string status = read_file(at + "/status"), environment = read_file(at + "/environ");
    if (status.find(cat("\nPPid:\t", parent, "\n")) == std::string::npos) continue;
    const std::string name(1, '\0');
    const size_t rank = environment.find(name + "FREIGHT_RANK=");
    if (rank != std::string::npos) all[std::atoi(environment.c_str() + rank + sizeof("FREIGHT_RANK="))] = pid;
  }
  return all;
}

// 0 where there is none.
inline int process_of(int parent, int rank) {
  const std::map<int, int> all = ranks_of(parent);
  const auto it = all.find(rank);
  return it == all.end() ? 0 : it->second;
}

// Waits for the process of a rank; 0 where the command ended without it.
inline int awaited_process(Running& running, int rank) {
  int pid = 0;
  running.wait_until([&] { return (pid = process_of(running.pid(), rank)) != 0; });
  return pid;
}

// False for a process that has ended, also where nothing has waited for it yet.
inline bool lives(int process) {
  const std::string status = read_file("/proc/" + std::to_string(process) + "/stat");
  return !status.empty() && status.find(") Z ") == std::string::npos;
}

// The processor time of a process so far, which measures its progress on an idle and on a loaded machine.
inline double processor_seconds(int process) {
  const std::string status = read_file("/proc/" + std::to_string(process) + "/stat");
  long user = 0, system = 0;
  const size_t name_end = status.rfind(") ");
  if (name_end == std::string::npos) return 0;
  std::sscanf(status.c_str() + name_end, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %ld", &user, &system);
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// The step of the newest complete checkpoint of a run; 0 without one. Tests wait for a checkpoint at or after a step,
// since a run deletes its older ones.
inline int64_t newest_step(const std::string& run) {
  int64_t newest = 0;
  std::error_code none_yet;
  for (const auto& e : std::filesystem::directory_iterator(run + "/checkpoints", none_yet)) {
    const std::string name = e.path().filename();
    if (name.rfind("step-", 0) == 0) newest = std::max<int64_t>(newest, std::atoll(name.c_str() + 5));
  }
  return newest;
}

inline bool waited_for_step(Running& running, const std::string& run, int64_t step) {
  return running.wait_until([&] { return newest_step(run) >= step; });
}

}  // namespace freight::test
