// Sums the leaves that rows fall into without walking: where the processor has AVX-512 with permutations of bytes, 64
// trees are asked for one row at a time. A feature becomes one byte, its place among the splits of its column, so that
// a row lies in one register; one permutation and one comparison answer the same node of 64 trees, and bits pick the
// answers on each tree's way. tree_sums.h decides when it is used; the sums are the same to the bit.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "freight/store/row_form.h"

namespace freight::tables {

class BinnedTrees {
 public:
  static constexpr int kMostLevels = 8;  // all nodes are asked, so that each further level doubles the work

  BinnedTrees() = default;
  // Holds the trees where use() tells so: where the processor can, no tree splits words or is deeper than kMostLevels,
  // and the splits of all columns fit in 64 bytes.
  explicit BinnedTrees(const std::vector<store::Tree>& trees);
  bool use() const { return !blocks_.empty(); }

  // Adds to sums (rows, groups), in the order of the trees, the leaves of f32 (rows, columns): numbers, or NaN where a
  // cell is missing. Needs use().
  void add(const float* features, int64_t rows, int64_t columns, float* sums, int64_t groups) const;

 private:
  static constexpr size_t kTrees = 64;  // of a block: bits of a word
  static constexpr size_t kMostSplits = 254;

  // Some splits of a column, which become one byte of a row: how many of them are at most its feature.
  struct Column {
    int64_t from = 0;            // among the features
    float first = 0;             // split
    size_t begin = 0, each = 1;  // in splits_: 64 times `each`, filled up with infinity
  };
  // The same node of 64 trees. A row's byte above `bin` goes right; a leaf sends nothing there.
  struct alignas(64) Nodes {
    Nodes() { std::fill(std::begin(bin), std::end(bin), uint8_t{255}); }
    uint8_t byte[kTrees] = {};  // of a row; 64 more: of the row in which missing cells go right
    uint8_t bin[kTrees];
  };
  struct Block {
    int levels = 0;                // of the deepest tree: all are filled up to it
    size_t nodes = 0, leaves = 0;  // in nodes_, breadth first; in leaves_ (trees, leaves_each())
    std::vector<int64_t> groups;   // by tree
    size_t asked() const { return (size_t{1} << levels) - 1; }
    size_t leaves_each() const { return std::max<size_t>(asked() + 1, 64); }
  };
  struct Work;

  bool lay_columns(const std::vector<store::Tree>& trees);
  std::pair<uint8_t, uint8_t> question(const store::TreeNode& node) const;
  void plant(const store::Tree& tree, size_t t, Block& block);
  void bin(const float* features, int64_t rows, int64_t columns, int64_t part, Work& work) const;
  void add_block(const Block& block, int64_t part, Work& work, float* sums) const;

  std::vector<Column> columns_;  // bytes of a row, by `from` and `first`
  std::vector<float> splits_;
  std::vector<float> pivots_;  // (columns, 64): the last of every `each` splits
  std::vector<Block> blocks_;
  std::vector<Nodes> nodes_;
  std::vector<float> leaves_;
};

}  // namespace freight::tables
