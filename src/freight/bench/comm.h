// Times of an all-reduce over the processes of a job, by the number of bytes, and the line a + b * bytes by which plans
// for several devices predict them. W ranks.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "freight/bench/output.h"
#include "freight/comm/comm.h"
#include "freight/plan/parallel.h"

namespace freight::bench {

struct CommFigure {
  int64_t bytes = 0;
  double median = 0, least = 0;  // seconds of an all-reduce of f32, on the slowest rank
  int64_t runs = 0;              // number of timed runs
};

// The cost of an all-reduce: start + per_byte * bytes seconds.
struct CommCost {
  double start = 0, per_byte = 0;
  double worst = 0;  // the largest deviation of a measured median from the line, as a fraction of that median
};

struct CommTimes {
  int world = 1;
  int hosts = 1;                    // number of hosts with ranks
  std::vector<CommFigure> figures;  // ascending
  CommCost cost = {};
  // The factors by which sums and computing slow each other down; empty for one rank.
  std::optional<plan::BesideCompute> beside = {};
};

// The bus bandwidth as nccl-tests define it, which does not depend on W: 2 (W - 1) / W * bytes / seconds per rank; 0
// for one rank, which moves nothing.
double bus_rate(int world, const CommFigure& figure);

// All ranks call it with the same arguments and get the same figures. Each size (bytes, a multiple of 4) is checked
// once against the exact sum, and then timed for `seconds`. Throws Error(verification) for a wrong sum.
CommTimes time_all_reduce(comm::Comm& comm, const std::vector<int64_t>& sizes, double seconds);

// Measures how much computing and sums of these sizes slow each other down, for about `seconds` each: rank 0 computes
// alone, all ranks compute, and all compute while sums are made. `alone` is the cost of the sums by themselves. All
// ranks call it with the same arguments and get rank 0's figures.
plan::BesideCompute time_beside_compute(comm::Comm& comm, const CommCost& alone, const std::vector<int64_t>& sizes,
                                        double seconds);

// The line with the least sum of squared relative deviations, with neither term below 0. For a single figure it is that
// figure's rate.
CommCost fit_cost(const std::vector<CommFigure>& figures);

Listing figures_of(const std::vector<CommTimes>& all);
// A sentence for each number of ranks with its fitted line.
std::vector<std::string> findings(const std::vector<CommTimes>& all);
// `transport`: the name of the transport, "shared memory".
std::string to_json(const std::string& machine, const std::string& transport, const std::vector<CommTimes>& all);
// Reads the times in a text from to_json(). Throws Error(data) that names `source`.
std::vector<CommTimes> read_comm_times(const std::string& text, const std::string& source);

}  // namespace freight::bench
