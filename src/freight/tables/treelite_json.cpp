// See treelite_json.h. The document is read as it streams by: each node is taken out of it at its end, since a forest
// of scikit-learn's has millions and a document of them would take gigabytes.
#include "freight/tables/treelite_json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/io/memory_need.h"

namespace freight::tables {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMostTreeliteCategory = 1 << 24;  // f32, in which columns lie, counts up to there
constexpr int kDepthOfNodes = 4;                    // trees, a tree, its nodes, a node
constexpr size_t kBytesOfHead = 4096;

// A node as the file has it.
struct ReadNode {
  store::TreeNode node;
  std::vector<double> leaf;
  double cover = 0, gain = 0;
};

double number_or_zero(const Json& node, const char* key) {
  const auto at = node.find(key);
  return at == node.end() ? 0 : at->get<double>();
}

class TreeliteReader {
 public:
  explicit TreeliteReader(const std::string& path) : path_(path) {}

  OtherForest read(std::string_view text) {
    const auto taken = [this](int depth, Json::parse_event_t event, Json& part) {
      if (depth > kDepthOfNodes + 2) wrong("it is nested too deep");
      if (depth != kDepthOfNodes || event != Json::parse_event_t::object_end || !part.contains("node_id")) return true;
      if (trees_.empty() || closed_) trees_.emplace_back();
      closed_ = false;
      if (part["node_id"].get<int64_t>() != static_cast<int64_t>(trees_.back().size())) {
        wrong("tree ", trees_.size() - 1, ": its nodes are not numbered from 0 on");
      }
      trees_.back().push_back(node_of(part));
      return false;
    };
    const Json head = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& part) {
      if (depth == kDepthOfNodes - 2 && event == Json::parse_event_t::object_end) closed_ = true;
      return taken(depth, event, part);
    });
    if (!head.is_object()) wrong("it is no object");
    read_head(head);
    for (size_t t = 0; t < trees_.size(); ++t) add_tree(t);
    name_columns();
    check_forest(out_, path_, ErrorKind::data);
    return std::move(out_);
  }

 private:
  template <class... T>
  [[noreturn]] void wrong(const T&... what) const {
    fail(ErrorKind::data, path_, "is no sound model of Treelite's: ", what...);
  }
  template <class... T>
  [[noreturn]] void refuse(const T&... what) const {
    fail(ErrorKind::usage, path_, what...);
  }

  ReadNode node_of(const Json& from) const {
    ReadNode out;
    out.cover = number_or_zero(from, from.contains("sum_hess") ? "sum_hess" : "data_count");
    out.gain = number_or_zero(from, "gain");
    if (const auto leaf = from.find("leaf_value"); leaf != from.end()) {
      out.leaf = leaf->is_array() ? leaf->get<std::vector<double>>() : std::vector<double>{leaf->get<double>()};
      return out;
    }
    store::TreeNode& node = out.node;
    node.left = from.at("left_child").get<int64_t>();
    node.right = from.at("right_child").get<int64_t>();
    if (node.left < 0 || node.right < 0) wrong("a node has the child ", std::min(node.left, node.right));
    node.column = from.at("split_feature_id").get<int64_t>();
    node.missing_left = from.at("default_left").get<bool>();
    node.words = from.at("node_type") == "categorical_test_node";
    if (node.words) {
      node.levels = from.at("category_list").get<std::vector<int64_t>>();
      if (from.at("category_list_right_child").get<bool>()) return out;
      std::swap(node.left, node.right);
      node.missing_left = !node.missing_left;
      return out;
    }
    node.value = from.at("threshold").get<double>();
    const auto& compared = from.at("comparison_op").get_ref<const std::string&>();
    if (compared == "<=") {
      node.value = std::nextafter(node.value, std::numeric_limits<double>::infinity());
    } else if (compared != "<") {
      refuse("a node compares by ", excerpt(compared), ", which is not taken: need <= or <");
    }
    return out;
  }

  void read_head(const Json& head) {
    out_.maker = "Treelite";
    if (head.at("threshold_type") != "float64") {
      refuse("its thresholds are f32, which is not taken: trees of XGBoost are read from the file of its save_model");
    }
    const auto columns = head.at("num_feature").get<int64_t>();
    check_imported_columns(columns, path_);
    if (head.at("num_target") != 1) refuse("it tells several targets, which is not taken");
    const auto said = head.at("num_class").get<std::vector<int64_t>>();
    if (said.size() != 1 || said[0] < 1 || said[0] > kMostImportedWords) wrong("num_class is no number of classes");
    told_ = said[0];
    out_.averaged = head.at("average_tree_output").get<bool>();
    class_of_tree_ = head.at("class_id").get<std::vector<int64_t>>();
    if (trees_.empty() || class_of_tree_.size() != trees_.size()) {
      wrong("got ", trees_.size(), " trees and classes of ", class_of_tree_.size());
    }
    read_answers(head);
    auto bases = head.at("base_scores").get<std::vector<double>>();
    if (static_cast<int64_t>(bases.size()) != told_) wrong("base_scores: got ", bases.size(), ", need ", told_);
    if (second_alone_) bases.erase(bases.begin());
    for (double& b : bases) b *= slope_;
    out_.bases = std::move(bases);
    out_.columns.resize(static_cast<size_t>(columns));
    out_.categories.resize(static_cast<size_t>(columns));
    out_.zero_missing.resize(static_cast<size_t>(columns));
  }

  // The classes and the function of the sums.
  void read_answers(const Json& head) {
    const auto task = head.at("task_type").get<std::string>(), made = head.at("postprocessor").get<std::string>();
    out_.objective = excerpt(made);
    const bool values = task == "kRegressor" || task == "kLearningToRank";
    out_.ranks = task == "kLearningToRank";
    if (values && made == "identity") {
      out_.link = store::RowLink::identity;
    } else if (values && made == "exponential") {
      out_.link = store::RowLink::exponential;
    } else if (task == "kBinaryClf" && made == "sigmoid") {
      out_.link = store::RowLink::logistic;
      out_.classes = 2;
      slope_ = head.at("sigmoid_alpha").get<double>();
      if (!std::isfinite(slope_) || slope_ <= 0) wrong("sigmoid_alpha: got ", slope_);
    } else if (task == "kMultiClf" && told_ > 2 && made == "softmax") {
      out_.link = store::RowLink::softmax;
      out_.classes = told_;
    } else if (task == "kMultiClf" && told_ > 1 && made == "identity_multiclass" && out_.averaged) {
      out_.link = store::RowLink::probability;
      out_.classes = told_;
      second_alone_ = told_ == 2;
    } else {
      refuse(
          "its answers are those of ", excerpt(task), " by ", excerpt(made),
          ", which is not taken: need values by identity or exponential, two classes by sigmoid, more by softmax, or "
          "means of probabilities");
    }
    if (out_.classes <= 2 && !second_alone_ && told_ != 1) wrong("num_class: got ", told_, ", need 1");
  }

  // A tree of two leaves may tell a million classes, and have a million categories in each copy.
  void need_copies(const std::vector<ReadNode>& nodes) {
    double bytes = 0;
    for (const ReadNode& n : nodes) {
      bytes +=
          sizeof(store::TreeNode) + 2 * sizeof(double) + static_cast<double>(n.node.levels.size()) * sizeof(int64_t);
    }
    copied_bytes_ += bytes * static_cast<double>(told_);
    io::need_memory(copied_bytes_, path_, "its trees, one for each class,");
  }

  // A tree whose leaves tell all classes becomes one for each; of two classes one for the second alone.
  void add_tree(size_t number) {
    const std::vector<ReadNode>& nodes = trees_[number];
    const int64_t of = class_of_tree_[number];
    if (of < -1 || of >= told_) wrong("tree ", number, " is for class ", of, " of ", told_);
    const bool all = of == -1 && told_ > 1;
    if (all) need_copies(nodes);
    for (int64_t k = all && second_alone_ ? 1 : 0; k < (all ? told_ : 1); ++k) {
      GrownTree grown;
      grown.tree.group = second_alone_ ? 0 : all ? k : std::max<int64_t>(of, 0);
      for (const ReadNode& from : nodes) {
        store::TreeNode node = from.node;
        if (node.left < 0) {
          if (static_cast<int64_t>(from.leaf.size()) != (all ? told_ : 1)) {
            wrong("tree ", number, ": a leaf has ", from.leaf.size(), " values");
          }
          node.value = from.leaf[static_cast<size_t>(k)] * slope_;
          if (out_.averaged) node.value /= static_cast<double>(trees_.size());
        } else if (node.column < 0 || node.column >= out_.width()) {
          wrong("tree ", number, " reads column ", node.column, " of ", out_.width());
        }
        if (second_alone_ && !all) wrong("tree ", number, " does not tell both classes");
        grown.tree.nodes.push_back(std::move(node));
        grown.cover.push_back(from.cover);
        grown.gain.push_back(from.gain);
      }
      out_.trees.push_back(std::move(grown));
    }
  }

  // Treelite knows no names: "f0", "f1", ..., and words are the numbers of categories that a split has.
  void name_columns() {
    std::map<int64_t, std::map<int32_t, std::string>> words;
    for (const GrownTree& grown : out_.trees) {
      for (const store::TreeNode& node : grown.tree.nodes) {
        for (const int64_t category : node.levels) {
          if (category < 0 || category >= kMostTreeliteCategory) wrong("the number of a category is ", category);
          words[node.column].emplace(static_cast<int32_t>(category), cat(category));
        }
      }
    }
    size_t count = 0;
    for (const auto& [column, names] : words) count += names.size();
    check_imported_words(static_cast<int64_t>(count), path_);
    for (int64_t c = 0; c < out_.width(); ++c) out_.columns[static_cast<size_t>(c)].name = cat("f", c);
    for (const auto& [column, names] : words) set_words(out_, column, names);
  }

  const std::string& path_;
  OtherForest out_;
  std::vector<std::vector<ReadNode>> trees_;
  bool closed_ = true;  // the last of trees_ has ended
  std::vector<int64_t> class_of_tree_;
  int64_t told_ = 1;           // numbers that the trees tell
  bool second_alone_ = false;  // of two classes' probabilities that of the second is summed
  double slope_ = 1;           // of the sigmoid
  double copied_bytes_ = 0;    // of trees that tell all classes
};

}  // namespace

bool begins_as_treelite(std::string_view text) {
  return text.substr(0, kBytesOfHead).find("\"threshold_type\"") != std::string_view::npos;
}

OtherForest read_treelite(std::string_view text, const std::string& path) {
  try {
    return TreeliteReader(path).read(text);
  } catch (const Json::exception& e) {
    fail(ErrorKind::data, path, "is no sound model of Treelite's: ", io::json_fault(e));
  }
}

}  // namespace freight::tables
