// What a plan may assume of its states: that a step changes them, or somebody between two steps; or that they are
// constants of the plan's life, so that what depends on them alone is computed once (passes/hoist.cpp).
#pragma once
#include <cstdint>

namespace freight {

enum class States : uint8_t { change, frozen };

}  // namespace freight
