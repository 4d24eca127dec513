// Predicts the time and memory of fitting trees to a table, on this machine and on the catalog's GPUs. Trees have no
// step plan: times grow with rows, columns, levels and trees, from a rate that is measured here or was published.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/plan/estimate.h"

namespace freight::plan {

struct TreeWork {
  double rows = 0, columns = 0;  // `columns`: the features
  double trees = 0;              // over all rounds and classes
  double levels = 0;             // of a tree, at most

  double cells() const { return rows * columns; }
  double tree_levels() const { return trees * levels; }
};

// The rate of a CPU: seconds per value of the table on each level of a tree.
struct TreeRate {
  double seconds_of_cell = 0;
  Range spread = {1, 1};  // factors below and above it
  std::string from;       // "12 rounds of 80,000 rows, measured"
};

// `bytes`: memory, including the table. step_seconds are those of one of `rounds` rounds.
Estimate trees_here(const TreeWork& work, double rounds, double bytes, const TreeRate& rate);
// The estimate on a GPU of the catalog; without times if XGBoost does not run on it.
Estimate trees_on(const Device& device, const Catalog& catalog, const TreeWork& work, double rounds);

// The answer to whether a GPU is worth it.
struct GpuWorth {
  // The number of rows from which a GPU is faster than this machine; 0: never, since its time per value is as long.
  double rows_here = 0;
  double seconds_here = 0, seconds_on_gpu = 0;  // of the run: here, and on the fastest GPU of the catalog that fits
  std::string gpu;                              // "": none fits
  enum class Outcome { pays, even, loses } outcome = Outcome::loses;
};
GpuWorth worth_of_gpu(const TreeWork& work, const TreeRate& rate, const Estimate& here,
                      const std::vector<Estimate>& devices);
// A sentence on the number of rows from which GPUs are faster than 32 cores, as published.
const char* published_crossing();

}  // namespace freight::plan
