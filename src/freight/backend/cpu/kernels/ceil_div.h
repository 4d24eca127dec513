// How many blocks of b hold a things.
#pragma once
#include <cstdint>

namespace freight::cpu {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace freight::cpu
