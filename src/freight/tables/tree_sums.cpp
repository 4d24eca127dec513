// See tree_sums.h. Shapes: rows are taken in groups of kLanes, whose features lie as (columns, kLanes).
#include "freight/tables/tree_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace freight::tables {

namespace {

constexpr int64_t kLanes = 16;                // rows that go down a tree together
constexpr int64_t kMostGroups = 8;            // of rows, that a tree is asked for in turn
constexpr int64_t kFeaturesAtHand = 4 << 10;  // of these groups: 16 KiB, beside which a tree fits in the first cache
constexpr int kLevelsUnasked = 8;             // that rows go down before it is asked whether all are at their leaves
constexpr uint32_t kWordBits = 64;
constexpr float kMostWord = 1 << 24;  // f32, in which words are numbered, counts up to there

}  // namespace

TreeSums::TreeSums(const std::vector<store::Tree>& trees, std::vector<float> bases)
    : bases_(std::move(bases)), bits_(1) {
  for (const store::Tree& tree : trees) plant(tree);
  const bool words = std::any_of(trees_.begin(), trees_.end(), [](const Planted& t) { return t.words; });
  if (!words) sets_ = {};
}

// Breadth first, so that siblings are neighbours and nodes that most rows meet lie together.
void TreeSums::plant(const store::Tree& tree) {
  Planted planted{.root = nodes_.size(), .group = tree.group, .levels = 0, .words = false};
  struct Open {
    size_t from = 0;
    int level = 0;
  };
  std::vector<Open> order = {{0, 0}};
  for (size_t i = 0; i < order.size(); ++i) {
    const store::TreeNode& from = tree.nodes[order[i].from];
    Node node;
    Set set;
    planted.levels = std::max(planted.levels, order[i].level);
    if (from.left < 0) {
      node = {.split = std::numeric_limits<float>::infinity(), .left = static_cast<uint32_t>(i)};
    } else {
      node = {.split = from.value,
              .left = static_cast<uint32_t>(order.size()),
              .column = static_cast<uint32_t>(from.column * kLanes),
              .missing_right = from.missing_left ? 0u : 1u};
      order.push_back({static_cast<size_t>(from.left), order[i].level + 1});
      order.push_back({static_cast<size_t>(from.right), order[i].level + 1});
    }
    if (from.left >= 0 && from.words) {
      planted.words = true;
      node.split = std::numeric_limits<float>::infinity();  // its set alone says what goes right
      set = set_of(from.levels);
    }
    nodes_.push_back(node);
    values_.push_back(from.left < 0 ? from.value : 0.0f);
    sets_.push_back(set);
  }
  trees_.push_back(planted);
}

TreeSums::Set TreeSums::set_of(const std::vector<int64_t>& words) {
  if (words.empty()) return {};
  const int64_t most = *std::max_element(words.begin(), words.end());
  const Set set{.begin = static_cast<uint32_t>(bits_.size()), .size = static_cast<uint32_t>(most) / kWordBits + 1};
  bits_.resize(bits_.size() + set.size);
  for (const int64_t word : words) {
    const auto w = static_cast<uint32_t>(word);
    bits_[set.begin + w / kWordBits] |= uint64_t{1} << (w % kWordBits);
  }
  return set;
}

// 1 where the word is in the set. Any feature may be asked for: those of numbers meet the empty set.
inline uint32_t TreeSums::in_set(const Set& set, float feature) const {
  const auto word = static_cast<uint32_t>(std::min(std::max(0.0f, feature), kMostWord));  // 0 of NaN
  const uint32_t at = word / kWordBits;
  const uint64_t bits = bits_[set.begin + std::min(at, set.size - 1)];
  return static_cast<uint32_t>(bits >> (word % kWordBits)) & (at < set.size ? 1u : 0u);
}

template <bool kMissing, bool kWords>
void TreeSums::descend(const Planted& tree, const float* features, uint32_t* at) const {
  const Node* const nodes = nodes_.data() + tree.root;
  const Set* const sets = kWords ? sets_.data() + tree.root : nullptr;
  uint32_t here[kLanes] = {};
  for (int level = 0; level < tree.levels;) {
    for (const int last = std::min(tree.levels, level + kLevelsUnasked); level < last; ++level) {
#pragma GCC unroll 16
      for (int64_t r = 0; r < kLanes; ++r) {
        const Node& node = nodes[here[r]];
        const float x = features[node.column + r];
        uint32_t right = x >= node.split ? 1 : 0;  // 0 of NaN
        if constexpr (kWords) right |= in_set(sets[here[r]], x);
        if constexpr (kMissing) right = x != x ? node.missing_right : right;
        here[r] = node.left + right;
      }
    }
    uint32_t moving = 0;
    for (int64_t r = 0; level < tree.levels && r < kLanes; ++r) moving |= nodes[here[r]].left ^ here[r];
    if (moving == 0) break;
  }
  std::copy_n(here, kLanes, at);
}

void TreeSums::sum(const float* features, int64_t rows, int64_t columns, float* sums) const {
  const auto k = static_cast<int64_t>(bases_.size());
  const int64_t lane_features = std::max<int64_t>(columns, 1) * kLanes;
  const int64_t most = std::clamp<int64_t>(kFeaturesAtHand / lane_features, 1, kMostGroups);
  std::vector<float> across(static_cast<size_t>(most * lane_features));  // (groups of rows, columns, kLanes)
  std::vector<char> missing(static_cast<size_t>(most));
  for (int64_t begin = 0; begin < rows; begin += most * kLanes) {
    const int64_t count = std::min(rows - begin, most * kLanes), parts = (count + kLanes - 1) / kLanes;
    for (int64_t part = 0; part < parts; ++part) {
      bool any = false;
      for (int64_t r = 0; r < kLanes; ++r) {
        // The last group is filled up with the last row.
        const float* const from = features + (begin + std::min(part * kLanes + r, count - 1)) * columns;
        float* const to = across.data() + part * lane_features + r;
        for (int64_t c = 0; c < columns; ++c) {
          any |= from[c] != from[c];
          to[c * kLanes] = from[c];
        }
      }
      missing[static_cast<size_t>(part)] = any;
    }
    for (int64_t i = 0; i < count * k; ++i) sums[begin * k + i] = bases_[static_cast<size_t>(i % k)];
    for (const Planted& tree : trees_) {
      const float* const values = values_.data() + tree.root;
      for (int64_t part = 0; part < parts; ++part) {
        const float* const from = across.data() + part * lane_features;
        uint32_t at[kLanes];
        const bool gaps = missing[static_cast<size_t>(part)] != 0;
        if (tree.words) {
          gaps ? descend<true, true>(tree, from, at) : descend<false, true>(tree, from, at);
        } else {
          gaps ? descend<true, false>(tree, from, at) : descend<false, false>(tree, from, at);
        }
        const int64_t lanes = std::min(count - part * kLanes, kLanes);
        float* const to = sums + (begin + part * kLanes) * k + tree.group;
        for (int64_t r = 0; r < lanes; ++r) to[r * k] += values[at[r]];
      }
    }
  }
}

}  // namespace freight::tables
