// Rows for a fit by XGBoost, handed over in batches: it keeps the numbers of their bins alone (a QuantileDMatrix), so
// that neither its own copy of the cells nor all of them as f32 stand beside the table; or the batches lie on the disk
// (its external memory), for tables larger than the memory.
#pragma once
#include <string>
#include <vector>

#include "freight/store/row_model.h"
#include "freight/tables/tree_columns.h"
#include "freight/tables/xgboost_library.h"

namespace freight::tables {

struct BinsAsked {
  const std::vector<float>& weights;  // of the rows, which move the bins' borders; empty: all alike
  std::string threads;                // of XGBoost
  int64_t cells_at_once = 1 << 21;    // of a batch
  XgboostHandle like = nullptr;       // a binned matrix, whose borders the bins have; null: those of these rows
};

// Says which rows of a ranking belong together. Those of each group must follow each other.
void set_groups(const Xgboost& library, const XgboostHandle& matrix, const store::Rows& rows);
// Sets the weights of all rows. XGBoost weighs the groups of a ranking as wholes: each as its first row.
void set_weights(const Xgboost& library, const XgboostHandle& matrix, const store::Rows& rows,
                 const std::vector<float>& weights);

// False of rankings whose groups have weights: XGBoost up to 3.2 weighs the first row of each group as the group before
// it where it makes bins of cells, and bins of batches, which do not know the groups, would have other borders.
bool can_be_binned(const store::Rows& rows);
// Labels, weights, groups and the columns' kinds are set. Bins are those of a matrix that holds all cells, whatever the
// batches.
XgboostHandle binned_matrix(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows,
                            const BinsAsked& asked);
// Up to 1.7 (and not in 2.1) trees of rows in files are wrong where cells are missing.
inline constexpr XgboostVersion kOldestPages = {2, 1, 0};
// The same rows in files whose paths begin with `prefix`, where XGBoost keeps the cells and bins of each batch and
// reads them again at each level of a tree. The files are its own until the matrix is gone, and not removed.
XgboostHandle paged_matrix(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows,
                           const BinsAsked& asked, const std::string& prefix);

}  // namespace freight::tables
