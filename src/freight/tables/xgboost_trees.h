// A stored model of XGBoost's is looked through by a reader of our own before XGBoost sees its bytes: its loader
// believes them, and a damaged tree would have it read beyond its arrays.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "freight/store/row_form.h"

namespace freight::tables {

struct TreeFacts {
  int64_t trees = 0, nodes = 0, leaves = 0, depth = 0;
  int64_t category_bytes = 0;  // that XGBoost takes for the categories of all nodes
  std::string objective;       // "binary:logistic"
  // The values that boosting began with, in the units of the answers: one number, or one by group; empty where it is
  // not reported.
  std::vector<float> start;
  // By column: how many nodes split it, the sum of what they took off the loss, the sum of the rows' weights there.
  std::vector<double> splits, gain, cover;
};

struct ReadTrees {
  TreeFacts facts;
  std::vector<store::Tree> trees;  // words are numbered as XGBoost's categories
};

// Throws Error(checkpoint) that names `path` where the bytes are not the UBJSON form of trees that take `columns`
// columns and give `groups` numbers: an array that is short, a child that is none or has two parents, an unknown
// column, a number that is not finite, more than 512 levels.
ReadTrees read_trees(std::span<const uint8_t> bytes, const std::string& path, int64_t columns, int64_t groups);

}  // namespace freight::tables
