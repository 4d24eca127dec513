// Rows of a table go from rank 0 to the others: those of both parts, with what is told and what they weigh.
#pragma once
#include "freight/job/ranks.h"
#include "freight/tables/row_learner.h"

namespace freight::tables {

// Settings and rows of a fit.
struct SharedFit {
  train::Config config;
  RowData data;  // columns, classes, both parts
};
// Rank 0's, on all. `config` says what is this process's own.
void send_fit(job::Ranks& ranks, const train::Config& config, const RowData& data);
SharedFit receive_fit(job::Ranks& ranks, const train::Config& config);

// Borders of the ranks' shares of rows, world + 1 of them: rank r has those from the r-th to the next. Groups of a
// ranking stay whole. A share is empty only where there are fewer rows, or groups, than ranks.
std::vector<int64_t> shares_of(const store::Rows& rows, int world);
// The rows from `begin` to `end`.
store::Rows rows_between(const store::Rows& rows, int64_t begin, int64_t end);

}  // namespace freight::tables
