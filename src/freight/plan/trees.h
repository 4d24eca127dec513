// Predicts what fitting trees to a table takes, on this machine and on the catalogue's GPUs. Trees have no
// plan of steps: times grow with rows, columns, levels and trees, from a rate that is measured here or was published.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/plan/estimate.h"

namespace freight::plan {

struct TreeWork {
  double rows = 0, columns = 0;  // that are learnt from
  double trees = 0;              // of all rounds and classes
  double levels = 0;             // of a tree, at most

  double cells() const { return rows * columns; }
  double tree_levels() const { return trees * levels; }
};

// A processor's times: seconds for a cell on each level of a tree.
struct TreeRate {
  double seconds_of_cell = 0;
  Range spread = {1, 1};  // factors about it
  std::string from;       // "12 rounds of 80,000 rows, measured"
};

// `bytes`: of memory, the table included. step_seconds are those of a round of `rounds`.
Estimate trees_here(const TreeWork& work, double rounds, double bytes, const TreeRate& rate);
// On a GPU of the catalogue; without times for one that XGBoost does not run on.
Estimate trees_on(const Device& device, const Catalog& catalog, const TreeWork& work, double rounds);

// Says whether a GPU is worth it.
struct GpuWorth {
  // From so many rows on a GPU is faster than this machine; 0: never, since its cells take as long.
  double rows_here = 0;
  double seconds_here = 0, seconds_on_gpu = 0;  // of the run: here, and on the fastest of the catalogue's that fit
  std::string gpu;                              // empty: none fits
  enum class Outcome { pays, even, loses } outcome = Outcome::loses;
};
GpuWorth worth_of_gpu(const TreeWork& work, const TreeRate& rate, const Estimate& here,
                      const std::vector<Estimate>& devices);
// A sentence for people on the rows from which on GPUs are faster than 32 cores, as published.
const char* published_crossing();

}  // namespace freight::plan
