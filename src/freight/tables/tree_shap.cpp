// See tree_shap.h.
#include "freight/tables/tree_shap.h"

#include <algorithm>
#include <cmath>

namespace freight::tables {

namespace {

// A column on the way to a node: the share of rows that come past its splits when it is not known, whether this row
// does, and the weight of all subsets of the path with as many columns as stand before it.
struct Step {
  int64_t column = -1;
  double zero = 0, one = 0, weight = 0;
};

void extend(Step* path, int64_t length, const Step& step) {
  path[length] = step;
  path[length].weight = length == 0 ? 1 : 0;
  const auto of = static_cast<double>(length + 1);
  for (int64_t i = length - 1; i >= 0; --i) {
    path[i + 1].weight += step.one * path[i].weight * static_cast<double>(i + 1) / of;
    path[i].weight = step.zero * path[i].weight * static_cast<double>(length - i) / of;
  }
}

// Takes step `at` of a path whose last step is `last` out again.
void unwind(Step* path, int64_t last, int64_t at) {
  const double one = path[at].one, zero = path[at].zero, of = static_cast<double>(last + 1);
  double next = path[last].weight;
  for (int64_t i = last - 1; i >= 0; --i) {
    if (one != 0) {
      const double kept = path[i].weight;
      path[i].weight = next * of / (static_cast<double>(i + 1) * one);
      next = kept - path[i].weight * zero * static_cast<double>(last - i) / of;
    } else {
      path[i].weight = path[i].weight * of / (zero * static_cast<double>(last - i));
    }
  }
  for (int64_t i = at; i < last; ++i) {
    path[i].column = path[i + 1].column;
    path[i].zero = path[i + 1].zero;
    path[i].one = path[i + 1].one;
  }
}

// The sum of the weights that the path would have without step `at`.
double sum_without(const Step* path, int64_t last, int64_t at) {
  const double one = path[at].one, zero = path[at].zero, of = static_cast<double>(last + 1);
  double next = path[last].weight, sum = 0;
  for (int64_t i = last - 1; i >= 0; --i) {
    if (one != 0) {
      const double weight = next * of / (static_cast<double>(i + 1) * one);
      sum += weight;
      next = path[i].weight - weight * zero * static_cast<double>(last - i) / of;
    } else {
      sum += path[i].weight * of / (zero * static_cast<double>(last - i));
    }
  }
  return sum;
}

bool goes_left(const store::TreeNode& node, float feature) {
  if (std::isnan(feature)) return node.missing_left;
  if (!node.words) return feature < static_cast<float>(node.value);
  return !std::binary_search(node.levels.begin(), node.levels.end(), static_cast<int64_t>(feature));
}

class ShapWalk {
 public:
  ShapWalk(const store::Tree& tree, const std::vector<double>& cover, const float* features, double* to)
      : tree_(tree), cover_(cover), features_(features), to_(to) {}

  // `parent` has `length` steps; the path to this node lies behind it.
  void go(size_t at, const Step* parent, int64_t length, const Step& step) {
    Step* const path = const_cast<Step*>(parent) + length;
    std::copy_n(parent, length, path);
    extend(path, length, step);
    const store::TreeNode& node = tree_.nodes[at];
    if (node.left < 0) {
      for (int64_t i = 1; i <= length; ++i) {
        to_[path[i].column] += sum_without(path, length, i) * (path[i].one - path[i].zero) * node.value;
      }
      return;
    }
    const bool left = goes_left(node, features_[node.column]);
    double zero = 1, one = 1;  // of this column, where it was split above already
    int64_t steps = length + 1;
    for (int64_t i = 1; i <= length; ++i) {
      if (path[i].column != node.column) continue;
      zero = path[i].zero;
      one = path[i].one;
      unwind(path, length, i);
      --steps;
      break;
    }
    const auto hot = static_cast<size_t>(left ? node.left : node.right),
               cold = static_cast<size_t>(left ? node.right : node.left);
    const double all = cover_[hot] + cover_[cold];
    go(hot, path, steps, {.column = node.column, .zero = zero * cover_[hot] / all, .one = one});
    go(cold, path, steps, {.column = node.column, .zero = zero * cover_[cold] / all, .one = 0});
  }

 private:
  const store::Tree& tree_;
  const std::vector<double>& cover_;
  const float* features_;
  double* to_;
};

}  // namespace

TreeShap::TreeShap(std::vector<store::Tree> trees, std::vector<std::vector<double>> covers)
    : trees_(std::move(trees)), covers_(std::move(covers)) {
  for (size_t t = 0; t < trees_.size(); ++t) {
    struct Open {
      size_t node = 0;
      double share = 1;
      int64_t level = 0;
    };
    double mean = 0;
    int64_t levels = 0;
    std::vector<Open> open = {{}};
    while (!open.empty()) {
      const Open o = open.back();
      open.pop_back();
      store::TreeNode& node = trees_[t].nodes[o.node];
      levels = std::max(levels, o.level);
      if (node.left < 0) {
        mean += o.share * node.value;
        continue;
      }
      std::sort(node.levels.begin(), node.levels.end());
      const auto left = static_cast<size_t>(node.left), right = static_cast<size_t>(node.right);
      const double all = covers_[t][left] + covers_[t][right];
      open.push_back({left, o.share * covers_[t][left] / all, o.level + 1});
      open.push_back({right, o.share * covers_[t][right] / all, o.level + 1});
    }
    means_.push_back(mean);
    levels_.push_back(levels);
  }
}

void TreeShap::add(const float* features, int64_t columns, double* to) const {
  const int64_t most = levels_.empty() ? 0 : *std::max_element(levels_.begin(), levels_.end());
  std::vector<Step> room(static_cast<size_t>((most + 2) * (most + 3) / 2 + 1));  // the paths to a leaf and its parents
  for (size_t t = 0; t < trees_.size(); ++t) {
    double* const sums = to + trees_[t].group * (columns + 1);
    sums[columns] += means_[t];
    ShapWalk(trees_[t], covers_[t], features, sums).go(0, room.data(), 0, {.column = -1, .zero = 1, .one = 1});
  }
}

}  // namespace freight::tables
