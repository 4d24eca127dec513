// The part of the machine's memory that this process uses, from /proc.
#pragma once
#include <cstdint>

namespace freight::plan {

struct MemoryUse {
  int64_t resident = 0, peak = 0;  // bytes of this process: now, and at most so far
  int64_t total = 0;               // bytes of the machine
};
MemoryUse memory_use();

}  // namespace freight::plan
