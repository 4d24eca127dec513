// Sends the rows of a table from rank 0 to the other ranks: both splits, with targets and weights.
#pragma once
#include "freight/job/ranks.h"
#include "freight/tables/row_learner.h"

namespace freight::tables {

// Settings and rows of a fit.
struct SharedFit {
  train::Config config;
  RowData data;  // columns, classes, both splits
};
// Rank 0 calls send_fit, the other ranks receive_fit. `config` has the settings that belong to this process.
void send_fit(job::Ranks& ranks, const train::Config& config, const RowData& data);
SharedFit receive_fit(job::Ranks& ranks, const train::Config& config);

// The borders of the ranks' shares of the rows: rank r has rows from border r to border r + 1. Groups of a ranking stay
// whole. A share is empty only if there are fewer rows, or groups, than ranks.
std::vector<int64_t> shares_of(const store::Rows& rows, int world);
// Rows [begin, end).
store::Rows rows_between(const store::Rows& rows, int64_t begin, int64_t end);

}  // namespace freight::tables
