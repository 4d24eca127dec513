// The times at which a training step of several ranks computes and sums, which `freight report` draws of a run.
#pragma once
#include <cstdint>
#include <vector>

namespace freight::job {

// One sum over all ranks, in seconds since the step's beginning.
struct SumTime {
  double begin = 0, end = 0, bytes = 0;  // bytes: of the gradients
};

// The times of one step.
struct StepTimeline {
  int64_t ranks = 1;               // that take part
  double samples = 0;              // of all ranks
  double computed = 0;             // seconds until this rank's shards are computed
  double step = 0;                 // seconds until the weights are updated
  std::vector<SumTime> sums = {};  // of gradients, in order; beside the last shard where they begin before `computed`
};

}  // namespace freight::job
