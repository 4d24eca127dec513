// Tests sums of leaves against trees that are walked node by node, whatever their form.
#include "freight/tables/tree_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>

#include "freight/base/array.h"

namespace freight::tables {
namespace {

constexpr int64_t kColumns = 5, kGroups = 3, kWords = 150;  // column 4 holds words

store::TreeNode leaf(float value) {
  store::TreeNode node;
  node.value = static_cast<double>(value);
  return node;
}

// A tree whose branches end at random, at `levels` at the latest.
store::Tree random_tree(std::mt19937& random, int levels, bool words) {
  store::Tree tree{.group = static_cast<int64_t>(random() % kGroups), .nodes = {}};
  const auto grow = [&](const auto& self, int level) -> int64_t {
    const auto at = tree.nodes.size();
    tree.nodes.push_back(leaf(static_cast<float>(random() % 1000) / 100 - 5));
    if (level == levels || (level > 0 && random() % 5 == 0)) return static_cast<int64_t>(at);
    store::TreeNode node = tree.nodes[at];
    node.column = static_cast<int64_t>(random() % (words ? kColumns : kColumns - 1));
    node.missing_left = random() % 2 == 0;
    node.words = node.column == kColumns - 1;
    for (int64_t w = 0; node.words && w < kWords; ++w) {
      if (random() % 3 == 0) node.levels.push_back(w);
    }
    node.left = self(self, level + 1);
    node.right = self(self, level + 1);
    tree.nodes[at] = node;
    return static_cast<int64_t>(at);
  };
  grow(grow, 0);
  return tree;
}

float leaf_by_hand(const store::Tree& tree, const float* row) {
  size_t at = 0;
  while (tree.nodes[at].left >= 0) {
    const store::TreeNode& node = tree.nodes[at];
    const float x = row[node.column];
    bool left = static_cast<double>(x) < node.value;
    if (node.words) {
      left = std::find(node.levels.begin(), node.levels.end(), static_cast<int64_t>(x)) == node.levels.end();
    }
    if (std::isnan(x)) left = node.missing_left;
    at = static_cast<size_t>(left ? node.left : node.right);
  }
  return static_cast<float>(tree.nodes[at].value);
}

// Features of which a share is missing; numbers lie on the splits, too.
std::vector<float> random_rows(std::mt19937& random, int64_t rows, int missing_of_ten) {
  std::vector<float> features;
  for (int64_t i = 0; i < rows * kColumns; ++i) {
    const bool word = i % kColumns == kColumns - 1;
    const auto value = word ? static_cast<float>(random() % kWords) : static_cast<float>(random() % 1000) / 100 - 5;
    features.push_back(static_cast<int>(random() % 10) < missing_of_ten ? std::numeric_limits<float>::quiet_NaN()
                                                                        : value);
  }
  return features;
}

TEST(TreeSums, AreThoseOfTheLeavesThatEachRowFallsInto) {
  std::mt19937 random(7);
  for (const bool words : {false, true}) {
    for (const auto& [levels, count] : {std::pair{0, 7}, {1, 7}, {3, 70}, {6, 150}, {8, 150}, {9, 7}, {14, 7}}) {
      std::vector<store::Tree> trees;
      for (int t = 0; t < count; ++t) trees.push_back(random_tree(random, t == 6 ? 2 : levels, words));
      const std::vector<float> bases = {0.5f, -1, 2};
      const TreeSums sums(trees, bases);
      for (const int missing : {0, 1, 10}) {
        for (const int64_t rows : {0, 1, 15, 16, 17, 300}) {
          SCOPED_TRACE(testing::Message() << words << " words, " << levels << " levels, " << rows << " rows, "
                                          << missing << " of ten missing");
          const std::vector<float> features = random_rows(random, rows, missing);
          std::vector<float> got(static_cast<size_t>(rows * kGroups), -7);
          sums.sum(features.data(), rows, kColumns, got.data());
          std::vector<float> want;
          for (int64_t i = 0; i < rows; ++i) {
            std::vector<float> row = bases;
            for (const store::Tree& tree : trees) {
              row[static_cast<size_t>(tree.group)] += leaf_by_hand(tree, features.data() + i * kColumns);
            }
            want.insert(want.end(), row.begin(), row.end());
          }
          ASSERT_EQ(got, want) << "the same bits: leaves are added in the same order";
        }
      }
    }
  }
}

// Features of more than 2^31 bytes: the last row alone falls to the right.
TEST(TreeSums, OfRowsBehind2To31BytesOfFeaturesAreThoseOfTheirLeaves) {
  if (!std::getenv("FREIGHT_LONG")) GTEST_SKIP() << "takes 3 GiB: FREIGHT_LONG=1 (./test --long) runs it";
  constexpr int64_t kWide = 64, kRows = (int64_t{1} << 31) / 4 / kWide + 17;
  store::TreeNode root = leaf(0.5f);
  root.column = kWide - 1;
  root.left = 1;
  root.right = 2;
  const store::Tree tree{.group = 0, .nodes = {root, leaf(1), leaf(2)}};
  const Array features(DType::f32, {kRows, kWide});
  features.data<float>()[kRows * kWide - 1] = 1;
  std::vector<float> got(kRows);
  TreeSums({tree}, {0}).sum(features.data<float>(), kRows, kWide, got.data());
  EXPECT_EQ(std::count(got.begin(), got.end(), 1.0f), kRows - 1);
  EXPECT_EQ(got.back(), 2);
}

TEST(TreeSums, ASplitAtMinusInfinityPartsWhatIsMissingFromAllNumbers) {
  store::TreeNode root = leaf(-std::numeric_limits<float>::infinity());
  root.left = 1;
  root.right = 2;
  root.missing_left = true;
  const store::Tree tree{.group = 0, .nodes = {root, leaf(1), leaf(2)}};
  const std::vector<float> features = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::max()};
  std::vector<float> got(2);
  TreeSums({tree}, {0}).sum(features.data(), 2, 1, got.data());
  EXPECT_EQ(got, (std::vector<float>{1, 2}));
}

TEST(TreeSums, InfiniteFeaturesLieBeyondAllSplits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t columns : {1, 65}) {
    for (const int splits : {1, 63, 64, 127, 128, 254, 255}) {
      std::vector<store::Tree> trees;
      for (int i = 0; i < std::max<int>(splits, static_cast<int>(columns)); ++i) {
        store::TreeNode root = leaf(static_cast<float>(i % splits));
        root.column = i % columns;
        root.left = 1;
        root.right = 2;
        trees.push_back({.group = 0, .nodes = {root, leaf(0), leaf(1)}});
      }
      const auto row = [&](float x) { return std::vector<float>(static_cast<size_t>(columns), x); };
      const auto sum = [&](const std::vector<float>& features) {
        float got = -1;
        TreeSums(trees, {0}).sum(features.data(), 1, columns, &got);
        return got;
      };
      EXPECT_EQ(sum(row(kInfinity)), static_cast<float>(trees.size())) << columns << " columns, " << splits;
      EXPECT_EQ(sum(row(-kInfinity)), 0) << columns << " columns, " << splits;
      const float last = static_cast<float>(splits - 1);
      EXPECT_EQ(sum(row(last)), static_cast<float>(trees.size())) << columns << " columns, " << splits;
    }
  }
}

TEST(TreeSums, WithoutTreesARowIsTheBase) {
  std::vector<float> got(2);
  TreeSums({}, {3}).sum(nullptr, 2, 0, got.data());
  EXPECT_EQ(got, (std::vector<float>{3, 3}));
}

}  // namespace
}  // namespace freight::tables
