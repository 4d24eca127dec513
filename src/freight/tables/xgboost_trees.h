// Our own reader checks a saved XGBoost model before XGBoost sees its bytes: its loader trusts them, and a damaged tree
// would make it read beyond its arrays.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "freight/store/row_form.h"

namespace freight::tables {

struct TreeFacts {
  int64_t trees = 0, nodes = 0, leaves = 0, depth = 0;
  int64_t category_bytes = 0;  // of the categories of all nodes in XGBoost's memory
  std::string objective;       // "binary:logistic"
  // The initial predictions of boosting, in the units of predictions: one number, or one per group; empty if the file
  // has none.
  std::vector<float> start;
  // By column: the number of nodes that split it, the sum of their reductions of the loss, the sum of their rows'
  // weights.
  std::vector<double> splits, gain, cover;
};

struct ReadTrees {
  TreeFacts facts;
  std::vector<store::Tree> trees;  // categories have XGBoost's numbers
};

// Throws Error(checkpoint) that names `path` if the bytes are not UBJSON of trees with `columns` columns and `groups`
// outputs: if an array is short, a child does not exist or has two parents, a column is unknown, a number is not
// finite, or there are more than 512 levels.
ReadTrees read_trees(std::span<const uint8_t> bytes, const std::string& path, int64_t columns, int64_t groups);

}  // namespace freight::tables
