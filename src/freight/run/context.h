// The context of a run of a plan, which its caller passes besides inputs and outputs. It is an argument and never kept
// by a thread: plans run side by side with different contexts.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

namespace freight {

class Collectives;

// The state that random ops draw from: seed, and number of the step.
using RandomState = std::array<int64_t, 2>;

struct Context {
  // Performs the plan's all_reduce steps (run/collectives.h); null: the process is the only rank, and they copy.
  Collectives* collectives = nullptr;
  // The run draws from this and leaves the program's random state as it is; none: it draws from that, and moves it on.
  std::optional<RandomState> random = {};
  // So many runs follow each other as one piece of work where the device records; results are the last one's.
  int64_t times = 1;
};

}  // namespace freight
