// Who is slow: a sentence for the terminal, from what ranks waited for each other.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "freight/comm/comm.h"

namespace freight::comm {

// "rank 3 waits 41.0 ms of each 90.0 ms step for rank 1", where rank 3 waits longer by a fifth of a step than rank 1
// does itself, else "". `shares` (world * world): the part of its time that each rank waits for each other one. `work`:
// what each rank has to do of a step, where some have more than others. They are waited for without being slow: so much
// of a wait is not counted. Empty: all have the same.
std::string longest_wait(const std::vector<double>& shares, int world, double step_seconds,
                         const std::vector<double>& work = {});

class WaitReport {
 public:
  explicit WaitReport(const Comm& comm);  // begins now
  // The longest wait since the last call, or the beginning (longest_wait()). Called by all ranks with the same number
  // of steps; all get the same text. It is a collective.
  std::string since_last(Comm& comm, int64_t steps, const std::vector<double>& work = {});

 private:
  std::vector<double> waited_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace freight::comm
