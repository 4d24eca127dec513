// Finding the processes of a run on several devices, for tests that end them.
#pragma once
#include <unistd.h>

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
