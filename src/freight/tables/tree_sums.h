// Sums the leaves that rows fall into. Sixteen rows go down a tree together without branches, so that the processor
// waits neither for a guess nor for one row's node: on one core 100 trees of depth 6 answered 1.7 times the rows of
// XGBoost's own prediction, which takes row by row. Knows no links and no cells: features are tree_columns.h's.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/store/row_form.h"

namespace freight::tables {

class TreeSums {
 public:
  TreeSums() = default;
  // `bases` by group; words of a node are numbered as the features are. Trees must be sound (xgboost_trees.h).
  TreeSums(const std::vector<store::Tree>& trees, std::vector<float> bases);

  // f32 (rows, groups) of f32 (rows, columns), which are finite, or NaN where a cell is missing. The leaves are added
  // to the base in f32, in the order of the trees.
  void sum(const float* features, int64_t rows, int64_t columns, float* sums) const;
  const std::vector<float>& bases() const { return bases_; }

 private:
  // The children lie side by side. A leaf is its own left child, where all rows stay.
  struct Node {
    float split = 0;      // features of at least this go right
    uint32_t left = 0;    // within the tree
    uint32_t column = 0;  // kLanes times the column
    uint32_t missing_right = 0;
  };
  struct Set {                     // words that go right, of a node that splits words; else empty
    uint32_t begin = 0, size = 1;  // in bits_, whose first 64 belong to no word
  };
  struct Planted {
    size_t root = 0;  // in nodes_
    int64_t group = 0;
    int levels = 0;      // below the root
    bool words = false;  // a node splits words
  };

  void plant(const store::Tree& tree);
  Set set_of(const std::vector<int64_t>& words);
  uint32_t in_set(const Set& set, float feature) const;
  template <bool kMissing, bool kWords>
  void descend(const Planted& tree, const float* features, uint32_t* at) const;

  std::vector<float> bases_;
  std::vector<Planted> trees_;
  std::vector<Node> nodes_;
  std::vector<float> values_;   // of leaves, by node
  std::vector<Set> sets_;       // by node; empty where no tree splits words
  std::vector<uint64_t> bits_;  // of all sets
};

}  // namespace freight::tables
