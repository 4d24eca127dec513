// Sums the leaves that rows fall into. Sixteen rows go down a tree together without branches, so that the processor
// neither predicts branches nor waits for one row's node. The first levels of a tree are evaluated for all rows at
// once. This file knows no links and no cells: features are made by tree_columns.h.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/store/row_form.h"

namespace freight::tables {

// Leaves are added in f32, as XGBoost adds them.
class TreeSums {
 public:
  TreeSums() = default;
  // `bases` by group; words of a node are numbered as the features are, and splits of numbers are f32. Trees must be
  // sound (xgboost_trees.h).
  TreeSums(const std::vector<store::Tree>& trees, std::vector<float> bases);

  // Sums (rows, groups) of f32 (rows, columns), which are finite, or NaN where a cell is missing. The leaves are added
  // to the base in the order of the trees.
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
  // The first levels of a tree as if they were full, breadth first: a leaf stands for all that would be below it.
  static constexpr int kTopLevels = 3;
  struct Top {
    static constexpr size_t kNodes = (1 << kTopLevels) - 1;
    float split[kNodes] = {};            // infinite of leaves: nothing goes right
    uint32_t column[kNodes] = {};        // kLanes times the column
    int32_t missing_right[kNodes] = {};  // all bits, or none
    uint32_t below[kNodes + 1] = {};     // the nodes of the next level, from left to right
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
  static Top top_of(const Node* nodes);
  Set set_of(const std::vector<int64_t>& words);
  uint32_t in_set(const Set& set, float feature) const;
  template <bool kMissing, bool kWords>
  void add(size_t tree, const float* features, float* sums, int64_t stride) const;

  std::vector<float> bases_;
  std::vector<Planted> trees_;
  std::vector<Top> tops_;  // by tree
  std::vector<Node> nodes_;
  std::vector<float> values_;   // of leaves, by node
  std::vector<Set> sets_;       // by node; empty where no tree splits words
  std::vector<uint64_t> bits_;  // of all sets
};

}  // namespace freight::tables
