// The part of the machine's memory that this process uses, from /proc.
#pragma once
#include <cstdint>

namespace freight::plan {

struct MemoryUse {
  int64_t resident = 0, peak = 0;  // bytes of this process: now, and the maximum so far
  int64_t total = 0;               // bytes of the machine
};
MemoryUse memory_use();
// Measures the peak from here on, if the system lets a process reset it; otherwise it stays the maximum so far.
void restart_peak();

}  // namespace freight::plan
