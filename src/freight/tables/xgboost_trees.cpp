// See xgboost_trees.h.
#include "freight/tables/xgboost_trees.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/tables/ubjson_check.h"

namespace freight::tables {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMostCategories = 1 << 24;  // columns are f32, which represents all whole numbers up to here
// XGBoost traverses trees recursively, and explains predictions with memory quadratic in their depth. --max-depth goes
// up to 30.
constexpr int64_t kMostLevels = 512;
// The limit for all nodes together: XGBoost stores the categories of a node as bits up to the largest one.
constexpr int64_t kMostCategoryBytes = int64_t{256} << 20;

constexpr char kDamaged[] = "the saved trees are damaged";

[[noreturn]] void damaged_trees(const std::string& path, const std::string& what) {
  fail(ErrorKind::checkpoint, path, kDamaged, ": ", what);
}

Json document_of(std::span<const uint8_t> bytes, const std::string& path) {
  return io::parse_ubjson(bytes, cat(path, ": ", kDamaged), ErrorKind::checkpoint);
}

// A parameter of XGBoost, which it writes as a text.
int64_t whole_number(const Json& text, const char* name, const std::string& path) {
  const auto& s = text.get_ref<const std::string&>();
  const std::optional<int64_t> value = parse_number<int64_t>(s);
  if (!value) damaged_trees(path, cat(name, ": got ", excerpt(s)));
  return *value;
}

// Parses "5E-1", and "[5E-1]" or "[5E-1,2E-1]" from 3.0 on.
std::vector<float> numbers_of_start(const Json& model) {
  const auto at = model.find("base_score");
  if (at == model.end() || !at->is_string()) return {};
  std::string text = at->get<std::string>();
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  std::vector<float> numbers;
  for (const std::string& part : split(text, ',')) {
    const std::optional<float> value = parse_number<float>(part);
    if (!value || !std::isfinite(*value)) return {};
    numbers.push_back(*value);
  }
  return numbers;
}

class TreeReader {
 public:
  TreeReader(const Json& tree, std::string path, int64_t number, int64_t columns)
      : tree_(tree), path_(std::move(path)), number_(number), columns_(columns) {
    const Json& parameters = tree.at("tree_param");
    nodes_ = whole_number(parameters.at("num_nodes"), "num_nodes", path_);
    if (nodes_ < 1 || nodes_ > std::numeric_limits<int32_t>::max()) wrong("it has no nodes");
    if (const auto width = parameters.find("size_leaf_vector"); width != parameters.end()) {
      if (whole_number(*width, "size_leaf_vector", path_) > 1) wrong("its leaves are vectors");
    }
  }

  void read(TreeFacts& facts) const {
    const Json &left = array("left_children"), &right = array("right_children"), &column = array("split_indices");
    const Json &at = array("split_conditions"), &kind = array("split_type");
    const Json &gain = array("loss_changes"), &cover = array("sum_hessian");
    const Json& parent = array("parents");
    array("default_left"), array("base_weights");
    // XGBoost reads the parent of every node but the first one, even of nodes that are not reachable.
    for (size_t node = 1; node < parent.size(); ++node) {
      const auto of = parent[node].get<int64_t>();
      if (of < 0 || of >= nodes_) wrong(cat("node ", node, " has the parent ", of));
    }
    check_categories(facts);
    std::vector<int64_t> depth(static_cast<size_t>(nodes_), -1), open = {0};
    depth[0] = 0;
    int64_t seen = 0;
    while (!open.empty()) {
      const auto node = static_cast<size_t>(open.back());
      open.pop_back();
      ++seen;
      facts.depth = std::max(facts.depth, depth[node]);
      if (depth[node] > kMostLevels) wrong(cat("it has more than ", kMostLevels, " levels"));
      const bool words = kind[node].get<int64_t>() != 0;
      const auto number = at[node].get<double>();  // the value of a leaf, or the split point
      const int64_t children[] = {left[node].get<int64_t>(), right[node].get<int64_t>()};
      if (children[0] == -1 && children[1] == -1) {
        if (!std::isfinite(number)) wrong(cat("leaf ", node, " is NaN or infinite"));
        ++facts.leaves;
        continue;
      }
      // CUDA separates missing values from all numbers by minus infinity.
      if (!words && std::isnan(number)) wrong(cat("node ", node, " splits numbers at none"));
      const auto from = column[node].get<int64_t>();
      if (from < 0 || from >= columns_) wrong(cat("it reads column ", from, " of ", columns_));
      if (words && !std::binary_search(of_words_.begin(), of_words_.end(), static_cast<int64_t>(node))) {
        wrong(cat("node ", node, " has no categories"));
      }
      facts.splits[static_cast<size_t>(from)] += 1;
      facts.gain[static_cast<size_t>(from)] += gain[node].get<double>();
      facts.cover[static_cast<size_t>(from)] += cover[node].get<double>();
      for (const int64_t child : children) {
        if (child < 0 || child >= nodes_ || depth[static_cast<size_t>(child)] != -1) {
          wrong(cat("node ", node, " has the child ", child));
        }
        depth[static_cast<size_t>(child)] = depth[node] + 1;
        open.push_back(child);
      }
    }
    facts.nodes += seen;
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const { damaged_trees(path_, cat("tree ", number_, ": ", what)); }

  const Json& array(const char* name) const {
    const Json& values = tree_.at(name);
    if (!values.is_array() || values.size() != static_cast<size_t>(nodes_)) {
      wrong(cat(name, ": expected ", nodes_, ", got ", values.size(), " values"));
    }
    return values;
  }

  // Each node that splits categories has a segment of one list.
  void check_categories(TreeFacts& facts) const {
    const auto numbers = [&](const char* name) { return tree_.at(name).get<std::vector<int64_t>>(); };
    of_words_ = numbers("categories_nodes");
    const std::vector<int64_t> all = numbers("categories"), begin = numbers("categories_segments"),
                               size = numbers("categories_sizes");
    const auto count = static_cast<int64_t>(all.size());
    int64_t named = 0;  // overlapping segments could take any amount of memory
    bool right = begin.size() == of_words_.size() && size.size() == of_words_.size() &&
                 std::is_sorted(of_words_.begin(), of_words_.end());
    for (size_t i = 0; right && i < begin.size(); ++i) {
      right = begin[i] >= 0 && size[i] > 0 && begin[i] <= count && size[i] <= count - begin[i] && of_words_[i] >= 0 &&
              of_words_[i] < nodes_;
      named += size[i];
    }
    right = right && named <= count &&
            std::all_of(all.begin(), all.end(), [](int64_t c) { return c >= 0 && c < kMostCategories; });
    if (!right) wrong("its categories do not fit its nodes");
    for (size_t i = 0; i < begin.size(); ++i) {
      const auto from = all.begin() + begin[i];
      facts.category_bytes += *std::max_element(from, from + size[i]) / 8 + 4;
    }
    if (facts.category_bytes > kMostCategoryBytes) wrong("the numbers of its categories are too large");
  }

  const Json& tree_;
  std::string path_;
  int64_t number_, columns_, nodes_ = 0;
  mutable std::vector<int64_t> of_words_;  // nodes that split categories
};

// For each node: whether it is reachable from the first one. The others are left over from pruning, and were not
// checked.
std::vector<bool> reached(const Json& left, const Json& right) {
  std::vector<bool> seen(left.size());
  std::vector<size_t> open = {0};
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    seen[node] = true;
    if (left[node].get<int64_t>() < 0) continue;
    open.push_back(left[node].get<size_t>());
    open.push_back(right[node].get<size_t>());
  }
  return seen;
}

// The nodes of checked trees; unreachable ones become leaves of 0.
std::vector<store::Tree> nodes_of(const Json& model) {
  std::vector<store::Tree> all;
  for (const Json& tree : model.at("trees")) {
    store::Tree out{.group = model.at("tree_info")[all.size()].get<int64_t>(), .nodes = {}};
    const Json &left = tree.at("left_children"), &right = tree.at("right_children"), &column = tree.at("split_indices"),
               &at = tree.at("split_conditions"), &kind = tree.at("split_type"), &missing = tree.at("default_left");
    const std::vector<bool> used = reached(left, right);
    for (size_t i = 0; i < left.size(); ++i) {
      if (!used[i]) {
        out.nodes.emplace_back();
        continue;
      }
      out.nodes.push_back({.left = left[i].get<int64_t>(),
                           .right = right[i].get<int64_t>(),
                           .column = column[i].get<int64_t>(),
                           .value = static_cast<double>(at[i].get<float>()),
                           .missing_left = missing[i].get<int64_t>() != 0,
                           .words = kind[i].get<int64_t>() != 0,
                           .levels = {}});
    }
    const auto numbers = [&](const char* name) { return tree.at(name).get<std::vector<int64_t>>(); };
    const std::vector<int64_t> nodes = numbers("categories_nodes"), categories = numbers("categories"),
                               begin = numbers("categories_segments"), size = numbers("categories_sizes");
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!used[static_cast<size_t>(nodes[i])]) continue;
      const auto from = categories.begin() + begin[i];
      out.nodes[static_cast<size_t>(nodes[i])].levels.assign(from, from + size[i]);
    }
    all.push_back(std::move(out));
  }
  return all;
}

}  // namespace

ReadTrees read_trees(std::span<const uint8_t> bytes, const std::string& path, int64_t columns, int64_t groups) {
  ReadTrees out;
  TreeFacts& facts = out.facts;
  facts.splits = facts.gain = facts.cover = std::vector<double>(static_cast<size_t>(columns));
  if (const std::string fault = ubjson_fault(bytes); !fault.empty()) damaged_trees(path, fault);
  try {
    const Json document = document_of(bytes, path);
    const Json &learner = document.at("learner"), &shape = learner.at("learner_model_param");
    const int64_t takes = whole_number(shape.at("num_feature"), "num_feature", path);
    if (takes != columns) damaged_trees(path, cat("they expect ", takes, " columns, the model has ", columns));
    const int64_t gives = std::max<int64_t>(whole_number(shape.at("num_class"), "num_class", path), 1);
    if (gives != groups) damaged_trees(path, cat("they predict ", gives, " numbers, the model ", groups));
    if (const auto targets = shape.find("num_target"); targets != shape.end()) {
      if (whole_number(*targets, "num_target", path) > 1 || targets->get_ref<const std::string&>().starts_with('-')) {
        damaged_trees(path, "they predict several targets");
      }
    }
    facts.objective = learner.at("objective").at("name").get<std::string>();
    facts.start = numbers_of_start(shape);
    const Json& booster = learner.at("gradient_booster");
    if (booster.at("name") != "gbtree") damaged_trees(path, cat("unknown booster ", booster.at("name").dump()));
    const Json& model = booster.at("model");
    const Json &trees = model.at("trees"), &group = model.at("tree_info");
    facts.trees = static_cast<int64_t>(trees.size());
    const int64_t said = whole_number(model.at("gbtree_model_param").at("num_trees"), "num_trees", path);
    if (!trees.is_array() || trees.size() != group.size() || said != facts.trees) {
      damaged_trees(path, cat("expected ", said, ", got ", trees.size(), " trees"));
    }
    for (size_t i = 0; i < trees.size(); ++i) {
      const auto of = group[i].get<int64_t>();
      if (of < 0 || of >= groups) damaged_trees(path, cat("tree ", i, " is for class ", of, " of ", groups));
      TreeReader(trees[i], path, static_cast<int64_t>(i), columns).read(facts);
    }
    if (const auto borders = model.find("iteration_indptr"); borders != model.end()) {  // from 2.0 on
      const auto at = borders->get<std::vector<int64_t>>();
      if (!std::is_sorted(at.begin(), at.end()) || (!at.empty() && (at.front() != 0 || at.back() != facts.trees))) {
        damaged_trees(path, "its rounds do not fit its trees");
      }
    }
    out.trees = nodes_of(model);
  } catch (const Json::exception& e) {
    damaged_trees(path, io::json_fault(e));
  }
  return out;
}

}  // namespace freight::tables
