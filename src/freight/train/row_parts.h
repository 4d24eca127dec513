// Parts of rows: folds of a training part (metrics/folds.h), rows by number, and parts joined.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/train/row_learner.h"

namespace freight::train {

// The fold of each row (metrics/folds.h).
std::vector<int64_t> folds_of(const store::Rows& rows, int64_t folds, uint64_t seed);
// The rows of these numbers, in their order.
store::Rows rows_at(const store::Rows& rows, const std::vector<int64_t>& numbers);
// Arrays (N, ...) of several parts as one.
Array joined(const std::vector<Array>& parts);
// The rows of two parts of one division.
store::Rows joined(const store::Rows& first, const store::Rows& second);
// The training part alone, with fold `fold` as its held-out part. Of the other rows `share` is kept, as the folds of
// another division.
RowData with_fold_out(const RowData& data, const std::vector<int64_t>& fold_of, int64_t fold, double share = 1);
// The training part without a tenth of it, which is held out for a learner that stops by held-out rows.
RowData with_tenth_out(const RowData& data, uint64_t seed);

}  // namespace freight::train
