// Subsets of rows: the folds of a training set (metrics/folds.h), rows by index, and concatenation.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/tables/row_learner.h"

namespace freight::tables {

// The fold of each row (metrics/folds.h).
std::vector<int64_t> folds_of(const store::Rows& rows, int64_t folds, uint64_t seed);
// The rows with these indices, in that order.
store::Rows rows_at(const store::Rows& rows, const std::vector<int64_t>& numbers);
// Concatenates arrays (N, ...).
Array joined(const std::vector<Array>& parts);
// Concatenates the rows of two splits of one table.
store::Rows joined(const store::Rows& first, const store::Rows& second);
// The training set only, with fold `fold` held out. Of the other rows a fraction `share` is kept, chosen like folds of
// another division.
RowData with_fold_out(const RowData& data, const std::vector<int64_t>& fold_of, int64_t fold, double share = 1);
// The training set without a tenth of it, which is held out for a learner with early stopping.
RowData with_tenth_out(const RowData& data, uint64_t seed);

}  // namespace freight::tables
