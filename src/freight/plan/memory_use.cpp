// See memory_use.h. The peak is VmHWM rather than getrusage's maximum, which a process inherits from the one that
// started it.
#include "freight/plan/memory_use.h"

#include <unistd.h>

#include <fstream>
#include <limits>
#include <string>

namespace freight::plan {

MemoryUse memory_use() {
  MemoryUse use;
  use.total = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key; status.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    int64_t* const field = key == "VmRSS:" ? &use.resident : key == "VmHWM:" ? &use.peak : nullptr;
    int64_t kib = 0;
    if (field && status >> kib) *field = kib * 1024;
  }
  return use;
}

// Writing 5 resets the peak to what is resident now (proc(5), clear_refs).
void restart_peak() { std::ofstream("/proc/self/clear_refs") << "5\n"; }

}  // namespace freight::plan
