// How the programs of this folder measure.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>

// The shortest of `repetitions` calls: what the code takes where nobody else wants the cores.
inline double best_seconds(const std::function<void()>& run, int repetitions) {
  double best = 1e9;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}
