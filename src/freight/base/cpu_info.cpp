// See cpu_info.h.
#include "freight/base/cpu_info.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <tuple>

#include "freight/base/parse_number.h"
#include "freight/base/strings.h"

namespace freight {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string trimmed(const std::string& text) {
  const size_t a = text.find_first_not_of(" \t"), b = text.find_last_not_of(" \t");
  return a == std::string::npos ? "" : text.substr(a, b - a + 1);
}

// "512K", "32768K", "2M" or plain bytes; 0 when it is no number ("max").
int64_t parse_size(const std::string& text) {
  std::string_view unit = text;
  const int64_t n = take_number<int64_t>(unit).value_or(0);
  if (unit.starts_with('K')) return n << 10;
  if (unit.starts_with('M')) return n << 20;
  return n;
}

void read_cpuinfo(CpuInfo& info) {
  static constexpr const char* kSets[] = {"sse4_2",   "avx",      "avx2",        "fma",         "avx_vnni",
                                          "avx512f",  "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                                          "amx_bf16", "amx_int8", "amx_fp16",    "asimd",       "bf16",
                                          "sve",      "sve2"};
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  std::set<std::string> flags;
  while (std::getline(in, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) {
      if (!flags.empty()) break;  // the first processor is enough
      continue;
    }
    const std::string key = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (key == "model name") info.model = value;
    if (key == "flags" || key == "Features") {
      for (const std::string& f : split(value, ' ')) flags.insert(f);
    }
  }
  for (const char* s : kSets) {
    if (flags.count(s)) info.instructions.emplace_back(s);
  }
}

void read_caches(CpuInfo& info) {
  for (int i = 0; i < 8; ++i) {
    const std::string at = cat("/sys/devices/system/cpu/cpu0/cache/index", i, "/");
    const std::string level = first_line(at + "level"), type = first_line(at + "type");
    if (level.empty()) return;
    if (type == "Instruction") continue;
    const int64_t bytes = parse_size(first_line(at + "size"));
    if (level == "1") info.l1_bytes = bytes;
    if (level == "2") info.l2_bytes = bytes;
    if (level == "3") info.l3_bytes = bytes;
  }
}

// Pages of files in a control group's memory, which the system gives back where others need the room: a table that was
// read, or lies in files, does not make the memory less.
int64_t cached_files(const std::string& stat_path) {
  std::ifstream in(stat_path);
  std::string key;
  int64_t value = 0, own = 0, with_those_below = 0;  // version 1 has both
  while (in >> key >> value) {
    if (key == "inactive_file" || key == "active_file") own += value;
    if (key == "total_inactive_file" || key == "total_active_file") with_those_below += value;
  }
  return std::max(own, with_those_below);
}

// A limit of this process's addresses (ulimit -v), of which some are taken.
void limit_memory_of_process(CpuInfo& info) {
  rlimit most{};
  if (::getrlimit(RLIMIT_AS, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return;
  const auto limit = static_cast<int64_t>(std::min<rlim_t>(most.rlim_cur, INT64_MAX));
  if (limit >= info.memory_bytes) return;
  std::ifstream in("/proc/self/statm");
  int64_t pages = 0;
  in >> pages;
  const int64_t left = limit - pages * ::sysconf(_SC_PAGESIZE);
  info.memory_bytes = limit;
  info.memory_available_bytes = std::clamp<int64_t>(left, 0, info.memory_available_bytes);
}

void read_memory(CpuInfo& info) {
  std::ifstream in("/proc/meminfo");
  std::string line;
  while (std::getline(in, line)) {
    if (starts_with(line, "MemTotal:")) info.memory_bytes = parse_size(trimmed(line.substr(9))) << 10;
    if (starts_with(line, "MemAvailable:")) info.memory_available_bytes = parse_size(trimmed(line.substr(13))) << 10;
  }
  // A container's limit (control groups version 2, then 1).
  for (const auto& [folder, limit_name, used_name] :
       {std::tuple{"/sys/fs/cgroup/", "memory.max", "memory.current"},
        std::tuple{"/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes"}}) {
    const int64_t limit = parse_size(first_line(cat(folder, limit_name)));
    const int64_t used = parse_size(first_line(cat(folder, used_name))) - cached_files(cat(folder, "memory.stat"));
    if (limit > 0 && limit < info.memory_bytes) {
      info.memory_bytes = limit;
      info.memory_available_bytes = std::min(info.memory_available_bytes, std::clamp<int64_t>(limit - used, 0, limit));
    }
  }
  limit_memory_of_process(info);
}

}  // namespace

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> own;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return own;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) own.push_back(i);
  }
  return own;
}

CpuInfo cpu_info() {
  static const CpuInfo kProcessor = [] {  // some fifty files, which do not change
    CpuInfo info;
    info.model = "unknown";
    read_cpuinfo(info);
    read_caches(info);
    return info;
  }();
  CpuInfo info = kProcessor;
  read_memory(info);
  info.cores = std::max(1, static_cast<int>(allowed_processors().size()));
  return info;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] ? name.data() : "unknown";
}

}  // namespace freight
