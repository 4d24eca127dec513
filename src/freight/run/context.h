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
  // Performs the plan's all_reduce steps (run/collectives.h); null: they copy, and the caller adds over ranks later.
  Collectives* collectives = nullptr;
  // The random state that the run draws from, instead of the program's; empty: draws from that and advances it.
  std::optional<RandomState> random = {};
  // The number of consecutive runs, which a device that records enqueues as one. Outputs are those of the last.
  int64_t times = 1;
};

}  // namespace freight
