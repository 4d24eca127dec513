// See staff_internal.h.
#include <algorithm>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/comm/process_internal.h"
#include "freight/comm/roster_internal.h"
#include "freight/comm/staff_internal.h"

namespace freight::comm {

void need_bounds(const Elastic& bounds, int processes) {
  if (bounds.least >= 1 && bounds.least <= bounds.most && bounds.most <= processes &&
      processes <= static_cast<int>(kMostMembers)) {
    return;
  }
  fail(ErrorKind::usage, "launcher", "got ", bounds.least, " to ", bounds.most, " of ", processes,
       " processes, need at least 1, no more than there are, and ", kMostMembers, " at most");
}

std::chrono::steady_clock::time_point time_of_start(int quick_ends) {
  using Clock = std::chrono::steady_clock;
  constexpr double kFirst = 0.25, kLongest = 30;  // seconds
  double pause = 0;
  for (int i = 1; i < quick_ends; ++i) pause = std::min(std::max(2 * pause, kFirst), kLongest);
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pause));
}

std::vector<int> StoppedWatch::look(const std::vector<pid_t>& processes) {
  constexpr double kBetweenLooks = 0.1;  // seconds
  constexpr int kLooks = 3;
  std::vector<int> given_up;
  if (seconds_since(looked_) < kBetweenLooks) return given_up;
  looked_ = std::chrono::steady_clock::now();
  int living = 0, stopped = 0;
  for (size_t n = 0; n < processes.size(); ++n) {
    if (processes[n] == 0) continue;
    ++living;
    looks_[n] = state_of(processes[n]) == "is stopped" ? looks_[n] + 1 : 0;
    if (looks_[n] > 0) ++stopped;
    if (looks_[n] >= kLooks) given_up.push_back(static_cast<int>(n));
  }
  if (stopped == living) given_up.clear();
  return given_up;
}

}  // namespace freight::comm
