// Rows for a fit by XGBoost, handed over in batches: it keeps the numbers of their bins alone (a QuantileDMatrix), so
// that neither its own copy of the cells nor all of them as f32 stand beside the table.
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
};

// Labels and the columns' kinds are set. Bins are those of a matrix that holds all cells, whatever the batches.
XgboostHandle binned_matrix(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows,
                            const BinsAsked& asked);

}  // namespace freight::tables
