// LightGBM's own file (save_model, `model.txt`): text, a line for each list of a tree. Versions v2 to v4 of it, which
// every LightGBM since 2.0 reads and writes.
#pragma once
#include <string>
#include <string_view>

#include "freight/tables/other_forest.h"

namespace freight::tables {

// True of bytes that begin as such a file does.
bool begins_as_lightgbm(std::string_view bytes);

// Throws Error(data) that begins with `path` and names the tree and its line where the text is damaged; Error(usage)
// for what is not taken: linear trees, the objectives multiclassova and cross_entropy, a square root of the target.
OtherForest read_lightgbm(std::string_view text, const std::string& path);

}  // namespace freight::tables
