// Times that passed, by the clock that never goes back.
#pragma once
#include <chrono>

namespace freight {

inline double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace freight
