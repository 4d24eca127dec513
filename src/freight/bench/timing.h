// Times of whole steps on a device, and what the device itself reaches: the roofs that steps are held against.
#pragma once
#include <string>
#include <vector>

#include "freight/base/dtype.h"
#include "freight/bench/workload.h"

namespace freight::bench {

struct Timed {
  double median = 0, least = 0;  // seconds per step
  int64_t runs = 0;              // steps that were timed
};
// Runs steps for about `seconds` after warming up, but `least_runs` of them at least. On a device that shares the
// host's memory both kinds of batches are the same.
Timed time_steps(const Workload& workload, double seconds, Batches batches, int64_t least_runs = 3);

// The median seconds of each step of the plan, with a timer around each: of a device that works behind the host, with a
// wait after each. Steps that run once are 0.
std::vector<double> time_plan_steps(const Workload& workload, double seconds, int64_t least_runs = 2);

// The best that was measured on a device at this hour, not data sheets.
struct Roofs {
  double flops = 0;   // per second, of a large matrix product
  double bytes = 0;   // per second read and written, of a pass over arrays beyond every cache
  double launch = 0;  // seconds of a step that computes next to nothing
};
// About 3 x `seconds`. `compute`: the type of the products. Random operands.
Roofs measure_roofs(const std::string& device, DType compute, double seconds);

}  // namespace freight::bench
