// See lightgbm_text.h. How its trees decide is that of include/LightGBM/tree.h (NumericalDecision,
// CategoricalDecision).
#include "freight/tables/lightgbm_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::tables {

namespace {

using Json = nlohmann::json;
using Block = std::map<std::string_view, std::string_view>;  // the lines KEY=VALUE of a part of the file

enum class Lacking { none = 0, zero = 1, nan = 2 };  // what counts as missing: the missing type of a node
struct Decision {
  explicit Decision(int bits)
      : words((bits & 1) != 0), default_left((bits & 2) != 0), lacking(static_cast<Lacking>((bits >> 2) & 3)) {}
  bool words, default_left;
  Lacking lacking;
};

class LightgbmReader {
 public:
  LightgbmReader(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  OtherForest read() {
    if (next() != "tree") wrong("it does not begin with the line tree");
    read_head();
    while (line_.starts_with("Tree=")) read_tree();
    if (line_ != "end of trees") wrong("it ends within its trees: need the line end of trees");
    if (out_.trees.empty()) wrong("it has no trees");
    const auto count = static_cast<int64_t>(out_.trees.size());
    if (count % out_.groups() != 0) wrong("got ", count, " trees, which are no rounds of ", out_.groups());
    if (out_.averaged) {
      for (GrownTree& grown : out_.trees) {
        for (store::TreeNode& node : grown.tree.nodes) {
          if (node.left < 0) node.value /= static_cast<double>(count / out_.groups());
        }
      }
    }
    name_words();
    check_forest(out_, path_, ErrorKind::data);
    settle_zeros();
    return std::move(out_);
  }

 private:
  template <class... T>
  [[noreturn]] void wrong(const T&... what) const {
    fail(ErrorKind::data, path_, "is no sound model of LightGBM's: ", what...);
  }

  // The next line, which stays in line_; empty at the end.
  std::string_view next() {
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    return line_;
  }
  // The lines up to the next tree or the end of trees, at which line_ then is.
  Block block() {
    Block lines;
    while (!rest_.empty() && !next().starts_with("Tree=") && line_ != "end of trees") {
      const size_t at = std::min(line_.find('='), line_.size());
      const auto value = at < line_.size() ? line_.substr(at + 1) : std::string_view();
      if (!line_.empty() && !lines.emplace(line_.substr(0, at), value).second) {
        wrong(where_, "the line ", excerpt(std::string(line_.substr(0, at))), " stands there twice");
      }
    }
    return lines;
  }
  std::string_view value(const Block& lines, std::string_view key) const {
    const auto at = lines.find(key);
    if (at == lines.end()) wrong(where_, "the line ", key, "= is missing");
    return at->second;
  }

  template <class T>
  T number(std::string_view text, std::string_view key) const {
    T v{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || end != text.data() + text.size()) {
      wrong(where_, key, ": got ", excerpt(std::string(text)), ", need a number");
    }
    return v;
  }
  template <class T>
  std::vector<T> list(std::string_view text, std::string_view key, int64_t count) const {
    std::vector<T> all;
    while (!text.empty()) {
      const size_t end = std::min(text.find(' '), text.size());
      if (end > 0) all.push_back(number<T>(text.substr(0, end), key));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (static_cast<int64_t>(all.size()) != count) {
      wrong(where_, key, ": got ", all.size(), " numbers, need ", count);
    }
    return all;
  }
  template <class T>
  std::vector<T> list(const Block& lines, std::string_view key, int64_t count) const {
    return list<T>(value(lines, key), key, count);
  }
  // Zeros where older versions did not write it.
  std::vector<double> list_or_zeros(const Block& lines, std::string_view key, int64_t count) const {
    if (lines.find(key) == lines.end()) return std::vector<double>(static_cast<size_t>(count));
    return list<double>(lines, key, count);
  }

  void read_head() {
    const Block head = block();
    out_.maker = "LightGBM";
    out_.averaged = head.find("average_output") != head.end();
    const auto classes = number<int64_t>(value(head, "num_class"), "num_class");
    groups_ = number<int64_t>(value(head, "num_tree_per_iteration"), "num_tree_per_iteration");
    const auto width = number<int64_t>(value(head, "max_feature_idx"), "max_feature_idx");
    if (width < 0 || width >= kMostImportedColumns) {
      wrong("max_feature_idx: got ", width, ", need 0 to ", kMostImportedColumns - 1);
    }
    if (groups_ < 1 || groups_ > static_cast<int64_t>(rest_.size())) wrong("num_tree_per_iteration: got ", groups_);
    const auto objective = head.find("objective");
    read_objective(objective == head.end() ? "" : std::string(objective->second), classes);
    std::set<std::string_view> names;
    for (const std::string_view name : parts(value(head, "feature_names"))) {
      if (!names.insert(name).second) wrong("feature_names: ", excerpt(std::string(name)), " stands there twice");
      out_.columns.push_back({.name = std::string(name)});
    }
    if (out_.width() != width + 1) wrong("feature_names: got ", out_.width(), " names, need ", width + 1);
    out_.categories.resize(out_.columns.size());
    out_.zero_missing.resize(out_.columns.size());
    listed_.resize(out_.columns.size());
    of_words_.resize(out_.columns.size());
    if (const auto infos = head.find("feature_infos"); infos != head.end()) read_infos(infos->second);
  }

  static std::vector<std::string_view> parts(std::string_view text) {
    std::vector<std::string_view> all;
    while (!text.empty()) {
      const size_t end = std::min(text.find(' '), text.size());
      if (end > 0) all.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return all;
  }

  // "[-1.5:3]" of numbers, "none" of a column that never changes, "-1:0:2" of categories.
  void read_infos(std::string_view text) {
    const std::vector<std::string_view> infos = parts(text);
    if (infos.size() != out_.columns.size()) {
      wrong("feature_infos: got ", infos.size(), ", need ", out_.columns.size());
    }
    for (size_t c = 0; c < infos.size(); ++c) {
      std::string_view info = infos[c];
      if (info == "none") continue;
      if (info.starts_with('[') && info.ends_with(']')) {
        info = info.substr(1, info.size() - 2);
        const size_t colon = std::min(info.find(':'), info.size());
        const auto least = number<double>(info.substr(0, colon), "feature_infos");
        const auto most = number<double>(info.substr(std::min(colon + 1, info.size())), "feature_infos");
        if (std::isfinite(least) && std::isfinite(most)) out_.columns[c].range = store::ValueRange{least, most};
        continue;
      }
      of_words_[c] = true;
      while (!info.empty()) {
        const size_t end = std::min(info.find(':'), info.size());
        const auto category = number<int32_t>(info.substr(0, end), "feature_infos");
        if (category >= 0) listed_[c].insert(category);
        info.remove_prefix(std::min(end + 1, info.size()));
      }
    }
  }

  void read_objective(const std::string& text, int64_t classes) {
    const std::vector<std::string> words = text.empty() ? std::vector<std::string>{"custom"} : split(text, ' ');
    const std::string& name = words[0];
    out_.objective = excerpt(name);
    const auto refuse = [&](const std::string& why) {
      fail(ErrorKind::usage, path_, "LightGBM's objective ", out_.objective, " is not taken", why);
    };
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].starts_with("sigmoid:")) slope_ = number<double>(std::string_view(words[i]).substr(8), "objective");
      if (words[i] == "sqrt") refuse(" with a square root of the target (reg_sqrt)");
    }
    if (!std::isfinite(slope_) || slope_ <= 0) wrong("objective: got a sigmoid of ", slope_);
    static const std::set<std::string> kValues = {"regression", "regression_l1", "huber", "fair",
                                                  "quantile",   "mape",          "custom"};
    if (name == "binary") {
      out_.classes = 2;
      out_.link = store::RowLink::logistic;
    } else if (name == "multiclass") {
      if (classes < 2 || classes != groups_) wrong("num_class: got ", classes, ", with ", groups_, " trees in a round");
      out_.classes = classes;
      out_.link = store::RowLink::softmax;
      if (classes == 2) refuse(" for two classes: need binary");
    } else if (name == "poisson" || name == "gamma" || name == "tweedie") {
      out_.link = store::RowLink::exponential;
    } else if (name == "lambdarank" || name == "rank_xendcg") {
      out_.ranks = true;
    } else if (kValues.find(name) == kValues.end()) {
      refuse(
          ": need binary, multiclass, poisson, gamma, tweedie, lambdarank, rank_xendcg, regression or another of "
          "values");
    }
    if (name != "multiclass" && (classes != 1 || groups_ != 1)) {
      wrong("objective: ", out_.objective, " with ", classes, " classes and ", groups_, " trees in a round");
    }
    if (name != "binary") slope_ = 1;
    out_.bases.assign(static_cast<size_t>(groups_), 0.0);
  }

  void read_tree() {
    const auto number_of = static_cast<int64_t>(out_.trees.size());
    where_ = cat("tree ", number_of, ": ");
    if (line_ != cat("Tree=", number_of)) wrong(where_, "got the line ", excerpt(std::string(line_)));
    const Block lines = block();
    const auto leaves = number<int64_t>(value(lines, "num_leaves"), "num_leaves");
    if (leaves < 1 || leaves > static_cast<int64_t>(value(lines, "leaf_value").size())) {
      wrong(where_, "num_leaves: got ", leaves);
    }
    const auto linear = lines.find("is_linear");
    if (linear != lines.end() && linear->second != "0") {
      fail(ErrorKind::usage, path_, "its trees have linear models in their leaves (linear_tree), which are not taken");
    }
    const int64_t inner = leaves - 1;
    GrownTree grown;
    grown.tree.group = number_of % groups_;
    grown.tree.nodes.resize(static_cast<size_t>(inner + leaves));
    grown.gain = list_or_zeros(lines, "split_gain", inner);
    grown.gain.resize(grown.tree.nodes.size());
    grown.cover = list_or_zeros(lines, "internal_count", inner);
    const std::vector<double> counts =
        inner > 0 ? list_or_zeros(lines, "leaf_count", leaves) : std::vector<double>{1.0};  // which is not written
    grown.cover.insert(grown.cover.end(), counts.begin(), counts.end());
    const std::vector<double> values = list<double>(lines, "leaf_value", leaves);
    for (int64_t i = 0; i < leaves; ++i) {
      grown.tree.nodes[static_cast<size_t>(inner + i)].value = values[static_cast<size_t>(i)] * slope_;
    }
    if (inner > 0) read_splits(lines, inner, grown.tree.nodes);
    out_.trees.push_back(std::move(grown));
    where_.clear();
  }

  void read_splits(const Block& lines, int64_t inner, std::vector<store::TreeNode>& nodes) {
    const auto columns = list<int64_t>(lines, "split_feature", inner), left = list<int64_t>(lines, "left_child", inner),
               right = list<int64_t>(lines, "right_child", inner);
    const auto thresholds = list<double>(lines, "threshold", inner);
    const auto kinds = list<int>(lines, "decision_type", inner);
    read_sets(lines);
    const auto place = [&](int64_t child) { return child >= 0 ? child : inner + ~child; };  // leaves are -1, -2, ...
    for (size_t i = 0; i < static_cast<size_t>(inner); ++i) {
      const Decision kind(kinds[i]);
      store::TreeNode& node = nodes[i];
      node.column = columns[i];
      if (node.column < 0 || node.column >= out_.width()) {
        wrong(where_, "split_feature: got ", node.column, " of ", out_.width(), " columns");
      }
      if ((left[i] >= 0 && left[i] >= inner) || (right[i] >= 0 && right[i] >= inner) || left[i] < -inner - 1 ||
          right[i] < -inner - 1) {
        wrong(where_, "node ", i, " has a child that is none");
      }
      node.words = kind.words;
      if (kind.words) {
        split_words(node, thresholds[i], place(left[i]), place(right[i]));
        continue;
      }
      node.left = place(left[i]);
      node.right = place(right[i]);
      // Numbers that are at most the threshold go left: those below the next number.
      node.value = std::nextafter(thresholds[i], std::numeric_limits<double>::infinity());
      const bool zero_left = 0.0 < node.value;
      node.missing_left = kind.lacking == Lacking::none ? zero_left : kind.default_left;
      auto& zero = out_.zero_missing[static_cast<size_t>(node.column)];
      if (kind.lacking == Lacking::zero) zero = 1;
      if (kind.lacking == Lacking::nan && zero_left != kind.default_left) {
        parts_zero_from_missing_.insert(node.column);
      }
    }
  }

  // The sets of categories of this tree's nodes, as bits of 32 each.
  void read_sets(const Block& lines) {
    set_ends_.clear();
    set_bits_.clear();
    const auto sets = number<int64_t>(value(lines, "num_cat"), "num_cat");
    if (sets == 0) return;
    const std::string_view words = value(lines, "cat_threshold");
    if (sets < 0 || sets > static_cast<int64_t>(words.size())) wrong(where_, "num_cat: got ", sets);
    set_ends_ = list<int64_t>(lines, "cat_boundaries", sets + 1);
    if (set_ends_[0] != 0 || !std::is_sorted(set_ends_.begin(), set_ends_.end()) ||
        set_ends_.back() > static_cast<int64_t>(words.size())) {
      wrong(where_, "cat_boundaries do not rise from 0");
    }
    set_bits_ = list<uint32_t>(words, "cat_threshold", set_ends_.back());
    used_.assign(static_cast<size_t>(sets), false);
  }

  // Categories of the set go left there, all others and missing cells right: our right is their left.
  void split_words(store::TreeNode& node, double threshold, int64_t their_left, int64_t their_right) {
    const bool there = threshold >= 0 && threshold < static_cast<double>(used_.size());
    const size_t set = there ? static_cast<size_t>(threshold) : 0;
    if (set_ends_.empty() || !there || static_cast<double>(set) != threshold || used_[set]) {
      wrong(where_, "threshold: got the set ", threshold, " of categories");
    }
    used_[set] = true;
    node.left = their_right;
    node.right = their_left;
    node.missing_left = true;
    const auto column = static_cast<size_t>(node.column);
    of_words_[column] = true;
    for (int64_t w = set_ends_[set]; w < set_ends_[set + 1]; ++w) {
      for (int bit = 0; bit < 32; ++bit) {
        if ((set_bits_[static_cast<size_t>(w)] >> bit & 1) == 0) continue;
        const int64_t category = (w - set_ends_[set]) * 32 + bit;
        node.levels.push_back(category);
        listed_[column].insert(static_cast<int32_t>(category));
      }
    }
  }

  // Columns of words get the names that pandas had for their categories, where the file tells them, else their numbers.
  void name_words() {
    std::vector<std::vector<std::string>> names;
    while (!rest_.empty()) {
      constexpr std::string_view kPandas = "pandas_categorical:";
      if (next().starts_with(kPandas)) names = pandas_names(line_.substr(kPandas.size()));
    }
    size_t count = 0;
    for (const std::set<int32_t>& of_column : listed_) count += of_column.size();
    check_imported_words(static_cast<int64_t>(count), path_);
    if (static_cast<int64_t>(names.size()) != std::count(of_words_.begin(), of_words_.end(), true)) names.clear();
    size_t next_names = 0;
    for (size_t c = 0; c < of_words_.size(); ++c) {
      if (!of_words_[c]) continue;
      std::map<int32_t, std::string> words;
      const std::vector<std::string> none;
      const std::vector<std::string>& said = names.empty() ? none : names[next_names++];
      for (const int32_t category : listed_[c]) {
        const auto k = static_cast<size_t>(category);
        words[category] = k < said.size() ? said[k] : cat(category);
      }
      set_words(out_, static_cast<int64_t>(c), words);
    }
  }

  std::vector<std::vector<std::string>> pandas_names(std::string_view text) const {
    std::vector<std::vector<std::string>> all;
    const std::optional<Json> lists = io::try_parse_json<Json>(text);
    if (!lists || !lists->is_array()) return all;  // "null"
    for (const Json& list : *lists) {
      if (!list.is_array()) wrong("pandas_categorical: got no lists of categories");
      std::set<std::string> different;
      all.emplace_back();
      for (const Json& name : list) {
        all.back().push_back(name.is_string() ? name.get<std::string>() : name.dump());
        different.insert(all.back().back());
      }
      if (different.size() != list.size()) all.back().clear();
    }
    return all;
  }

  // 0 counts as missing in a column wherever it does in one node, so that in all others it must go where a missing cell
  // goes.
  void settle_zeros() const {
    for (const int64_t column : parts_zero_from_missing_) {
      const auto c = static_cast<size_t>(column);
      if (out_.zero_missing[c] == 0) continue;
      fail(ErrorKind::usage, path_, "in the column ", excerpt(out_.columns[c].name),
           " some of its trees count 0 as missing and others do not, which is not taken");
    }
  }

  std::string_view rest_, line_;
  const std::string& path_;
  std::string where_;  // "tree 3: "
  OtherForest out_;
  int64_t groups_ = 1;
  double slope_ = 1;                           // of the sigmoid
  std::vector<std::set<int32_t>> listed_;      // categories, by column
  std::vector<bool> of_words_;                 // by column
  std::set<int64_t> parts_zero_from_missing_;  // columns
  std::vector<int64_t> set_ends_;              // in set_bits_
  std::vector<uint32_t> set_bits_;
  std::vector<bool> used_;  // by set: a node has it
};

}  // namespace

bool begins_as_lightgbm(std::string_view bytes) {
  return bytes.starts_with("tree\nversion=v") || bytes.starts_with("tree\r\nversion=v");
}

OtherForest read_lightgbm(std::string_view text, const std::string& path) { return LightgbmReader(text, path).read(); }

}  // namespace freight::tables
