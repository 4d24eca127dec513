// Times of whole steps on a device, and the limits of the device itself: the roofs with which steps are compared.
#pragma once
#include <string>
#include <vector>

#include "freight/base/dtype.h"
#include "freight/bench/workload.h"

namespace freight::bench {

struct Timed {
  double median = 0, least = 0;  // seconds per step
  int64_t runs = 0;              // number of timed steps
};
// Runs steps for about `seconds` after warm-up, and at least `least_runs` of them. On a device that shares the host's
// memory both kinds of batches are the same.
Timed time_steps(const Workload& workload, double seconds, Batches batches, int64_t least_runs = 3);

// The seconds that 99 of 100 steps do not exceed, each timed alone for about `seconds`, as requests to a server are.
double slow_step(const Workload& workload, double seconds);

// The median seconds of each plan step, with a timer around each. A device that works asynchronously is awaited after
// each step. Steps that run only once are 0.
std::vector<double> time_plan_steps(const Workload& workload, double seconds, int64_t least_runs = 2);

// The best that was measured on a device just now, not data sheet values.
struct Roofs {
  double flops = 0;   // per second, of a large matmul
  double bytes = 0;   // read and written per second, of a pass over arrays larger than all caches
  double launch = 0;  // seconds of a step that computes next to nothing
};
// Takes about 3 x `seconds`. `compute`: the type of the matmuls. Operands are random.
Roofs measure_roofs(const std::string& device, DType compute, double seconds);

}  // namespace freight::bench
