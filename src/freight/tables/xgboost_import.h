// Imports XGBoost's own files as saved models, which can then be used, served, verified and explained like those
// trained here.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "freight/store/bundle.h"

namespace freight::tables {

// True for "trees.json" and "trees.ubj".
bool names_xgboost_file(const std::string& path);

// Reads boosted trees or a forest that XGBoost saved (save_model) as JSON or UBJSON. Columns have the names in the
// file, else "f0", "f1", ...; categories have the names in the file (from XGBoost 3.1 on), else their numbers.
// `classes`: names by class number; empty: "0", "1", ... Throws Error(data) that names `path` if it is not such a file,
// and Error(usage) for an unsupported booster or objective, or a wrong number of class names.
store::Bundle import_xgboost(const std::string& path, const std::vector<std::string>& classes);

// XGBoost's JSON with null for NaN, which XGBoost up to 2 writes at nodes that split categories, and which is not JSON.
std::string without_nan(std::string_view text);

}  // namespace freight::tables
