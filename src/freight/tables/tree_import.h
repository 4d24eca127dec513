// Files of trees that other programs wrote as stored models: XGBoost's (xgboost_import.h), LightGBM's text
// (lightgbm_text.h), Treelite's JSON of scikit-learn's forests (treelite_json.h).
#pragma once
#include <string>
#include <vector>

#include "freight/store/bundle.h"

namespace freight::tables {

// True of "trees.json", "trees.ubj" and "model.txt", and of any other file that begins as LightGBM's does.
bool names_trees(const std::string& path);

// The stored model of such a file. `classes`: names by class number; empty: "0", "1", ... Throws as the readers do.
store::Bundle import_trees(const std::string& path, const std::vector<std::string>& classes);

}  // namespace freight::tables
