// The part of the machine's memory that this process uses, from /proc.
#pragma once
#include <cstdint>

namespace freight::plan {

struct MemoryUse {
  int64_t resident = 0, peak = 0;  // bytes of this process: now, and at most so far
  int64_t total = 0;               // bytes of the machine
};
MemoryUse memory_use();
// Counts the peak from here on, as far as the system lets a process do that: else it stays the largest of all so far.
void restart_peak();

}  // namespace freight::plan
