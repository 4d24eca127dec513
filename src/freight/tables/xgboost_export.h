// Trees as XGBoost's own file, for programs that know the table but not Freight's encoding of it.
#pragma once
#include <string>
#include <vector>

#include "freight/tables/tree_columns.h"
#include "freight/tables/xgboost_library.h"

namespace freight::tables {

// The trees in XGBoost's `format`, "json" or "ubj", with the names of the columns unless XGBoost refuses one of them
// as a feature's name. The number of a category is its index in the column's levels: a level with too few training rows
// for a category of its own takes, at every split, the branch of missing values.
std::string exported_trees(const Xgboost& library, void* booster, const TreeColumns& columns,
                           const std::vector<std::string>& names, const std::string& format);

}  // namespace freight::tables
