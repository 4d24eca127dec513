// The times of computing and all-reduce in a training step of several ranks, which `freight report` draws.
#pragma once
#include <cstdint>
#include <vector>

namespace freight::job {

// One sum over all ranks, in seconds since the step's beginning.
struct SumTime {
  double begin = 0, end = 0, bytes = 0;  // bytes of gradients
};

// The times of one step.
struct StepTimeline {
  int64_t ranks = 1;               // the number of ranks
  double samples = 0;              // samples of all ranks
  double computed = 0;             // seconds until this rank's shards are computed
  double step = 0;                 // seconds until the weights are updated
  std::vector<SumTime> sums = {};  // in order; those that begin before `computed` overlap with the last shard
};

}  // namespace freight::job
