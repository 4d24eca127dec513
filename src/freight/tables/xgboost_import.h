// Imports XGBoost's own files as saved models, which can then be used, served, verified and explained like those
// trained here.
#pragma once
#include <string>
#include <vector>

#include "freight/store/bundle.h"

namespace freight::tables {

// True for "trees.json" and "trees.ubj".
bool names_xgboost_file(const std::string& path);

// A stored model of boosted trees or a forest that XGBoost saved (save_model) as JSON or UBJSON. Columns have the names
// of the file, else "f0", "f1", ...; a column of categories has words: those that the file names (from XGBoost 3.1 on),
// else the categories' numbers. `classes`: names by class number; empty: "0", "1", ... Throws Error(data) that names
// `path` where it is no such file, Error(usage) for a booster or an objective that is not taken, and for another number
// of classes.
store::Bundle import_xgboost(const std::string& path, const std::vector<std::string>& classes);

}  // namespace freight::tables
