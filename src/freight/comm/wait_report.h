// Finds a slow rank from the times that ranks waited for each other, and describes it in a sentence for the terminal.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "freight/comm/comm.h"

namespace freight::comm {

// "rank 3 waits 41.0 ms of each 90.0 ms step for rank 1", if rank 3 waits longer than rank 1 does itself, by a fifth of
// a step; otherwise "". `shares` (world * world) are the fractions of its time that each rank waits for each other one.
// `work` is each rank's part of the work, if these differ: a rank with more work is awaited without being slow, so that
// part of the wait does not count. Empty: all have the same.
std::string longest_wait(const std::vector<double>& shares, int world, double step_seconds,
                         const std::vector<double>& work = {});

class WaitReport {
 public:
  explicit WaitReport(const Comm& comm);  // measures from now on
  // The longest wait since the last call, or since the constructor (longest_wait()). It is a collective: all ranks call
  // it with the same number of steps and get the same text.
  std::string since_last(Comm& comm, int64_t steps, const std::vector<double>& work = {});

 private:
  std::vector<double> waited_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace freight::comm
