// See tree_sums.h. Rows are processed in groups of kLanes, whose features have the shape (columns, kLanes).
#include "freight/tables/tree_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace freight::tables {

namespace {

constexpr int64_t kLanes = 16;      // rows that go down a tree together
constexpr int64_t kMostGroups = 8;  // groups of rows that use a tree in turn
// Of these groups: 16 KiB, which leave room for a tree in the first-level cache.
constexpr int64_t kFeaturesAtHand = 4 << 10;
constexpr int kLevelsUnasked = 8;  // levels that rows go down before checking whether all have reached their leaves
constexpr uint32_t kWordBits = 64;
constexpr float kMostWord = 1 << 24;  // f32 represents all whole numbers up to here; categories are numbered in f32

}  // namespace

TreeSums::TreeSums(const std::vector<store::Tree>& trees, std::vector<float> bases)
    : bases_(std::move(bases)), bits_(1) {
  for (const store::Tree& tree : trees) plant(tree);
  const bool words = std::any_of(trees_.begin(), trees_.end(), [](const Planted& t) { return t.words; });
  if (!words) sets_ = {};
}

// Stores nodes breadth-first, so that siblings are adjacent, and so are the nodes that most rows pass.
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
      node = {.split = static_cast<float>(from.value),
              .left = static_cast<uint32_t>(order.size()),
              .column = static_cast<uint32_t>(from.column * kLanes),
              .missing_right = from.missing_left ? 0u : 1u};
      order.push_back({static_cast<size_t>(from.left), order[i].level + 1});
      order.push_back({static_cast<size_t>(from.right), order[i].level + 1});
    }
    if (from.left >= 0 && from.words) {
      planted.words = true;
      node.split = std::numeric_limits<float>::infinity();  // only the set decides what goes right
      set = set_of(from.levels);
    }
    nodes_.push_back(node);
    values_.push_back(from.left < 0 ? static_cast<float>(from.value) : 0.0f);
    sets_.push_back(set);
  }
  tops_.push_back(top_of(nodes_.data() + planted.root));
  trees_.push_back(planted);
}

TreeSums::Top TreeSums::top_of(const Node* nodes) {
  Top top;
  std::vector<uint32_t> level = {0};
  size_t at = 0;
  for (int i = 0; i < kTopLevels; ++i) {
    std::vector<uint32_t> next;
    for (const uint32_t n : level) {
      const Node& node = nodes[n];
      const bool leaf = node.left == n;  // a leaf is its own left child, and its split sends nothing to the right
      top.split[at] = node.split;
      top.column[at] = node.column;
      top.missing_right[at++] = node.missing_right ? -1 : 0;
      next.push_back(node.left);
      next.push_back(leaf ? n : node.left + 1);
    }
    level = std::move(next);
  }
  std::copy(level.begin(), level.end(), top.below);
  return top;
}

// The nodes that sixteen rows reach after the first levels. They are always written and read one by one, since the
// processor cannot forward several small writes to one wide read.
template <bool kMissing, class Top>
inline void pass_top(const Top& top, const float* features, uint32_t* here) {
  constexpr int64_t kPart = 4;
  using Floats = float __attribute__((vector_size(kPart * sizeof(float)), aligned(alignof(float)), may_alias));
  using Marks = int32_t __attribute__((vector_size(kPart * sizeof(int32_t))));
#pragma GCC unroll 4
  for (int64_t part = 0; part < kLanes; part += kPart) {
    const auto right = [&](size_t node) {
      const Floats x = *reinterpret_cast<const Floats*>(features + top.column[node] + part);
      Marks marks = x >= top.split[node];  // false for NaN
      if constexpr (kMissing) marks |= (x != x) & top.missing_right[node];
      return marks;
    };
    const auto pick = [](const Marks& which, const Marks& left, const Marks& other) {
      return (which & other) | (~which & left);
    };
    const Marks first = right(0), second = pick(first, right(1), right(2));
    const Marks third = pick(first, pick(second, right(3), right(4)), pick(second, right(5), right(6)));
    const Marks place = (first & 4) | (second & 2) | (third & 1);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kPart; ++r) here[part + r] = top.below[place[r]];
  }
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

// 1 if the category is in the set. It may be called for any feature: columns of numbers have the empty set.
inline uint32_t TreeSums::in_set(const Set& set, float feature) const {
  const auto word = static_cast<uint32_t>(std::min(std::max(0.0f, feature), kMostWord));  // 0 for NaN
  const uint32_t at = word / kWordBits;
  const uint64_t bits = bits_[set.begin + std::min(at, set.size - 1)];
  return static_cast<uint32_t>(bits >> (word % kWordBits)) & (at < set.size ? 1u : 0u);
}

// Adds the leaves of sixteen rows to their sums, which are `stride` apart.
template <bool kMissing, bool kWords>
void TreeSums::add(size_t number, const float* features, float* sums, int64_t stride) const {
  const Planted& tree = trees_[number];
  const Node* const nodes = nodes_.data() + tree.root;
  const Set* const sets = kWords ? sets_.data() + tree.root : nullptr;
  uint32_t here[kLanes] = {};
  int level = 0;
  if constexpr (!kWords) {
    static_assert(kTopLevels == 3, "as pass_top has it");
    pass_top<kMissing>(tops_[number], features, here);
    level = kTopLevels;
  }
  while (level < tree.levels) {
    for (const int last = std::min(tree.levels, level + kLevelsUnasked); level < last; ++level) {
#pragma GCC unroll 16
      for (int64_t r = 0; r < kLanes; ++r) {
        const Node& node = nodes[here[r]];
        const float x = features[node.column + r];
        uint32_t right = x >= node.split ? 1 : 0;  // 0 for NaN
        if constexpr (kWords) right |= in_set(sets[here[r]], x);
        if constexpr (kMissing) right = x != x ? node.missing_right : right;
        here[r] = node.left + right;
      }
    }
    uint32_t moving = 0;
    for (int64_t r = 0; level < tree.levels && r < kLanes; ++r) moving |= nodes[here[r]].left ^ here[r];
    if (moving == 0) break;
  }
  const float* const values = values_.data() + tree.root;
#pragma GCC unroll 16
  for (int64_t r = 0; r < kLanes; ++r) sums[r * stride] += values[here[r]];
}

void TreeSums::sum(const float* features, int64_t rows, int64_t columns, float* sums) const {
  const auto k = static_cast<int64_t>(bases_.size());
  const int64_t lane_features = std::max<int64_t>(columns, 1) * kLanes;
  const int64_t most = std::clamp<int64_t>(kFeaturesAtHand / lane_features, 1, kMostGroups);
  std::vector<float> across(static_cast<size_t>(most * lane_features));  // (groups of rows, columns, kLanes)
  std::vector<float> lane_sums(static_cast<size_t>(most * kLanes * k));
  std::vector<char> missing(static_cast<size_t>(most));
  for (int64_t begin = 0; begin < rows; begin += most * kLanes) {
    const int64_t count = std::min(rows - begin, most * kLanes), parts = (count + kLanes - 1) / kLanes;
    for (int64_t part = 0; part < parts; ++part) {
      bool any = false;
      for (int64_t r = 0; r < kLanes; ++r) {
        // The last group is padded with the last row.
        const float* const from = features + (begin + std::min(part * kLanes + r, count - 1)) * columns;
        float* const to = across.data() + part * lane_features + r;
        for (int64_t c = 0; c < columns; ++c) {
          any |= from[c] != from[c];
          to[c * kLanes] = from[c];
        }
      }
      missing[static_cast<size_t>(part)] = any;
    }
    for (int64_t i = 0; i < parts * kLanes * k; ++i)
      lane_sums[static_cast<size_t>(i)] = bases_[static_cast<size_t>(i % k)];
    for (size_t number = 0; number < trees_.size(); ++number) {
      const Planted& tree = trees_[number];
      for (int64_t part = 0; part < parts; ++part) {
        const float* const from = across.data() + part * lane_features;
        float* const to = lane_sums.data() + part * kLanes * k + tree.group;
        const bool gaps = missing[static_cast<size_t>(part)] != 0;
        const auto added = tree.words ? (gaps ? &TreeSums::add<true, true> : &TreeSums::add<false, true>)
                                      : (gaps ? &TreeSums::add<true, false> : &TreeSums::add<false, false>);
        (this->*added)(number, from, to, k);
      }
    }
    std::copy_n(lane_sums.data(), count * k, sums + begin * k);
  }
}

}  // namespace freight::tables
