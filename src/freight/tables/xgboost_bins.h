// Rows for a fit by XGBoost, passed in batches. Either XGBoost keeps only the numbers of their bins (a
// QuantileDMatrix), so that neither its own copy of the values nor all of them as f32 are in memory next to the table;
// or the batches are on disk (its external memory), for tables larger than memory.
#pragma once
#include <string>
#include <vector>

#include "freight/store/row_model.h"
#include "freight/tables/tree_columns.h"
#include "freight/tables/xgboost_library.h"

namespace freight::tables {

struct BinningOptions {
  const std::vector<float>& weights;  // of the rows, which shift the borders of bins; empty: all equal
  std::string threads;                // of XGBoost
  int64_t cells_at_once = 1 << 21;    // of a batch
  XgboostHandle bins_of = nullptr;    // a binned matrix whose bins are used; null: the bins of these rows
};

// Sets the groups of a ranking. The rows of each group must be consecutive.
void set_groups(const Xgboost& library, const XgboostHandle& matrix, const store::Rows& rows);
// Sets the weights of all rows. XGBoost weights whole groups of a ranking: each has the weight of its first row.
void set_weights(const Xgboost& library, const XgboostHandle& matrix, const store::Rows& rows,
                 const std::vector<float>& weights);

// False for rankings whose groups have weights: XGBoost up to 3.2 gives the first row of each group the weight of the
// group before it when it makes bins of values, and bins of batches, which do not know the groups, would have other
// borders.
bool can_be_binned(const store::Rows& rows);
// Makes a matrix with labels, weights, groups and column kinds. Its bins are those of a matrix with all values,
// independent of the batches.
XgboostHandle binned_matrix(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows,
                            const BinningOptions& options);
// The first version for which trees of rows on disk are right although values are missing; up to 1.7 they are wrong.
inline constexpr XgboostVersion kOldestPages = {2, 1, 0};
// Makes the same matrix in files whose paths begin with `prefix`: XGBoost stores the values and bins of each batch
// there and reads them again at each level of a tree. XGBoost uses the files until the matrix is destroyed, and does
// not remove them.
XgboostHandle paged_matrix(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows,
                           const BinningOptions& options, const std::string& prefix);

}  // namespace freight::tables
