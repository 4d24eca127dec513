// Who is slow: a sentence for the terminal, from what ranks waited for each other.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "freight/comm/comm.h"

namespace freight::comm {

class WaitReport {
 public:
  explicit WaitReport(const Comm& comm);  // begins now
  // "rank 3 waits 41 ms of each 90 ms step for rank 1": the longest wait since the last call, or the beginning, where
  // it is a tenth of a step or more, else "". Called by all ranks with the same number of steps, 1 or more; all get the
  // same text. It is a collective.
  std::string since_last(Comm& comm, int64_t steps);

 private:
  std::vector<double> waited_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace freight::comm
