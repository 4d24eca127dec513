// Times of sums over the processes of a job, by the number of bytes, and the line a + b * bytes that a plan of several
// devices predicts them by. W ranks.
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
  double median = 0, least = 0;  // seconds of an all-reduce of f32, of the slowest rank
  int64_t runs = 0;              // that were timed
};

// Seconds of an all-reduce = start + per_byte * bytes.
struct CommCost {
  double start = 0, per_byte = 0;
  double worst = 0;  // the largest deviation of a measured median from the line, as a share of that median
};

struct CommTimes {
  int world = 1;
  int hosts = 1;                    // that the ranks were on
  std::vector<CommFigure> figures;  // rising
  CommCost cost = {};
  std::optional<plan::BesideCompute> beside = {};  // what sums and computing cost each other; null of one rank
};

// Bytes per second that each rank moves over the bus, whatever W: 2 (W - 1) / W * bytes / seconds, as nccl-tests count;
// 0 for one rank, which moves nothing.
double bus_rate(int world, const CommFigure& figure);

// Called by all ranks with the same arguments; all get the same figures. Each size (bytes, a multiple of 4) is checked
// once against the exact sum, and then timed for `seconds`. Throws Error(verification) for a wrong sum.
CommTimes time_all_reduce(comm::Comm& comm, const std::vector<int64_t>& sizes, double seconds);

// Measures for about `seconds` each what computing and sums of these sizes, whose cost alone is given, cost each other:
// rank 0 computes alone, all ranks compute, and all compute while sums are made beside. Called by all ranks with the
// same arguments; all get rank 0's figures.
plan::BesideCompute time_beside_compute(comm::Comm& comm, const CommCost& alone, const std::vector<int64_t>& sizes,
                                        double seconds);

// The line that leaves the least sum of squared relative deviations, with neither term below 0. Of one figure it is
// that figure's rate alone.
CommCost fit_cost(const std::vector<CommFigure>& figures);

Listing figures_of(const std::vector<CommTimes>& all);
// A sentence per number of ranks: the fitted line.
std::vector<std::string> findings(const std::vector<CommTimes>& all);
// `transport`: what moved the data, "shared memory".
std::string to_json(const std::string& machine, const std::string& transport, const std::vector<CommTimes>& all);
// The times in a text of to_json(). Throws Error(data) that names `source`.
std::vector<CommTimes> read_comm_times(const std::string& text, const std::string& source);

}  // namespace freight::bench
