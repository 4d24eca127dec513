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
  // `bases` by group. Categories of a node have the numbers of the features, and splits of numbers are f32. Trees must
  // have been checked (xgboost_trees.h).
  TreeSums(const std::vector<store::Tree>& trees, std::vector<float> bases);

  // Writes the sums (rows, groups) for features f32 (rows, columns), which are finite, or NaN for missing values.
  // Leaves are added to the base in the order of the trees.
  void sum(const float* features, int64_t rows, int64_t columns, float* sums) const;
  const std::vector<float>& bases() const { return bases_; }

 private:
  // The children of a node are adjacent. A leaf is its own left child, so rows stay there.
  struct Node {
    float split = 0;      // features of at least this go right
    uint32_t left = 0;    // within the tree
    uint32_t column = 0;  // kLanes times the column
    uint32_t missing_right = 0;
  };
  // The first levels of a tree, padded to a full tree in breadth-first order: a leaf replaces everything below it.
  static constexpr int kTopLevels = 3;
  struct Top {
    static constexpr size_t kNodes = (1 << kTopLevels) - 1;
    float split[kNodes] = {};            // infinite for leaves: no row goes right
    uint32_t column[kNodes] = {};        // kLanes times the column
    int32_t missing_right[kNodes] = {};  // all bits, or none
    uint32_t below[kNodes + 1] = {};     // the nodes of the next level, from left to right
  };
  struct Set {                     // the categories of a node that go right; empty for a node that splits numbers
    uint32_t begin = 0, size = 1;  // in bits_, whose first 64 belong to no category
  };
  struct Planted {
    size_t root = 0;  // in nodes_
    int64_t group = 0;
    int levels = 0;      // below the root
    bool words = false;  // a node splits categories
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
  std::vector<Set> sets_;       // by node; empty if no tree splits categories
  std::vector<uint64_t> bits_;  // the bits of all sets
};

}  // namespace freight::tables
