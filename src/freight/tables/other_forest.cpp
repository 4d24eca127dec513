// See other_forest.h.
#include "freight/tables/other_forest.h"

#include <algorithm>
#include <cmath>

#include "freight/base/strings.h"

namespace freight::tables {

namespace {

constexpr int64_t kMostLevelsOfOthers = 512;        // as of XGBoost's trees: functions that walk them call themselves
constexpr int32_t kMostCategoryOfOthers = 1 << 24;  // f32, in which columns lie, counts up to there
constexpr int64_t kMostBytesOfSets = int64_t{256} << 20;  // of the categories of all nodes, as bits up to the largest

class ForestCheck {
 public:
  ForestCheck(const OtherForest& forest, const std::string& path, ErrorKind kind)
      : forest_(forest), path_(path), kind_(kind) {}

  void run() {
    const auto width = static_cast<size_t>(forest_.width());
    if (width == 0) wrong("they take no columns");
    if (forest_.categories.size() != width || forest_.zero_missing.size() != width) wrong("the columns do not fit");
    const int64_t groups = forest_.classes > 2 ? forest_.classes : 1;
    if (forest_.groups() != groups) wrong("got ", forest_.groups(), " sums, need ", groups);
    for (const double b : forest_.bases) {
      if (!std::isfinite(b)) wrong("answers begin with a number that is not finite");
    }
    for (size_t c = 0; c < width; ++c) {
      if (forest_.categories[c].size() != forest_.columns[c].levels.size()) wrong("categories do not fit the words");
      for (const int32_t category : forest_.categories[c]) need_category(category);
    }
    for (tree_ = 0; tree_ < forest_.trees.size(); ++tree_) check(forest_.trees[tree_]);
  }

 private:
  template <class... T>
  [[noreturn]] void wrong(const T&... what) const {
    fail(kind_, path_, "the trees are damaged: ", what...);
  }
  template <class... T>
  [[noreturn]] void wrong_tree(const T&... what) const {
    wrong("tree ", tree_, ": ", what...);
  }
  void need_category(int64_t category) const {
    if (category < 0 || category >= kMostCategoryOfOthers) wrong("the number of a category is ", category);
  }

  void check(const GrownTree& grown) {
    const std::vector<store::TreeNode>& nodes = grown.tree.nodes;
    if (nodes.empty()) wrong_tree("it has no nodes");
    if (grown.tree.group < 0 || grown.tree.group >= forest_.groups()) {
      wrong_tree("it adds to sum ", grown.tree.group, " of ", forest_.groups());
    }
    if (grown.cover.size() != nodes.size() || grown.gain.size() != nodes.size()) wrong_tree("it tells too few covers");
    std::vector<int64_t> depth(nodes.size(), -1), open = {0};
    depth[0] = 0;
    while (!open.empty()) {
      const auto at = static_cast<size_t>(open.back());
      open.pop_back();
      const store::TreeNode& node = nodes[at];
      if (depth[at] > kMostLevelsOfOthers) wrong_tree("it has more than ", kMostLevelsOfOthers, " levels");
      if (!std::isfinite(grown.cover[at]) || !std::isfinite(grown.gain[at])) {
        wrong_tree("the cover or gain of node ", at, " is not finite");
      }
      if (node.left < 0 && node.right < 0) {
        if (!std::isfinite(node.value)) wrong_tree("leaf ", at, " is not finite");
        continue;
      }
      check_split(node, at);
      for (const int64_t child : {node.left, node.right}) {
        if (child < 0 || child >= static_cast<int64_t>(nodes.size()) || depth[static_cast<size_t>(child)] != -1) {
          wrong_tree("node ", at, " has the child ", child);
        }
        depth[static_cast<size_t>(child)] = depth[at] + 1;
        open.push_back(child);
      }
    }
    // Nobody has looked through the others, and who counts splits meets all.
    const auto alone = std::find(depth.begin(), depth.end(), -1) - depth.begin();
    if (alone < static_cast<std::ptrdiff_t>(nodes.size())) wrong_tree("none leads to node ", alone);
  }

  void check_split(const store::TreeNode& node, size_t at) {
    if (node.column < 0 || node.column >= forest_.width()) {
      wrong_tree("it reads column ", node.column, " of ", forest_.width());
    }
    if (node.words != forest_.columns[static_cast<size_t>(node.column)].words) {
      wrong_tree("node ", at, " splits ", node.words ? "words" : "numbers", " of a column of the other");
    }
    if (!node.words && !std::isfinite(node.value)) wrong_tree("node ", at, " splits numbers at none that is finite");
    int64_t most = -1;
    for (const int64_t category : node.levels) {
      need_category(category);
      most = std::max(most, category);
    }
    set_bytes_ += most / 8 + 8;
    if (set_bytes_ > kMostBytesOfSets) wrong("the numbers of its categories are too large");
  }

  const OtherForest& forest_;
  const std::string& path_;
  ErrorKind kind_;
  size_t tree_ = 0;
  int64_t set_bytes_ = 0;
};

}  // namespace

void check_imported_columns(int64_t columns, const std::string& path) {
  if (columns >= 1 && columns <= kMostImportedColumns) return;
  fail(ErrorKind::data, path, "its trees take ", columns, " columns, need 1 to ", kMostImportedColumns);
}

void check_imported_words(int64_t words, const std::string& path) {
  if (words <= kMostImportedWords) return;
  fail(ErrorKind::data, path, "its columns of words have ", words, " categories, need at most ", kMostImportedWords);
}

void set_words(OtherForest& forest, int64_t column, const std::map<int32_t, std::string>& names) {
  const auto c = static_cast<size_t>(column);
  std::map<std::string, int32_t> sorted;
  for (const auto& [category, name] : names) sorted.emplace(name, category);
  forest.columns[c].words = true;
  for (const auto& [name, category] : sorted) {
    forest.columns[c].levels.push_back(name);
    forest.categories[c].push_back(category);
  }
}

void check_forest(const OtherForest& forest, const std::string& path, ErrorKind kind) {
  ForestCheck(forest, path, kind).run();
}

Array split_range(const std::vector<const store::Tree*>& trees, int64_t columns) {
  Array rows(DType::f64, {2, columns});
  std::vector<bool> seen(static_cast<size_t>(columns));
  for (const store::Tree* tree : trees) {
    for (const store::TreeNode& node : tree->nodes) {
      if (node.left < 0 || node.words || !std::isfinite(node.value)) continue;
      double* const at = rows.data<double>() + node.column;
      const bool first = !seen[static_cast<size_t>(node.column)];
      at[0] = first ? node.value - 1 : std::min(at[0], node.value - 1);
      at[columns] = first ? node.value + 1 : std::max(at[columns], node.value + 1);
      seen[static_cast<size_t>(node.column)] = true;
    }
  }
  return rows;
}

std::vector<std::string> names_of_classes(int64_t classes, const std::vector<std::string>& names) {
  if (!names.empty() && static_cast<int64_t>(names.size()) != classes) {
    fail(ErrorKind::usage, "--class-names", "got ", names.size(), " names, the trees tell ", classes, " classes");
  }
  if (!names.empty()) return names;
  std::vector<std::string> numbers;
  for (int64_t k = 0; k < classes; ++k) numbers.push_back(cat(k));
  return numbers;
}

}  // namespace freight::tables
