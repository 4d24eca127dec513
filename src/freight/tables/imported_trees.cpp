// See imported_trees.h.
#include "freight/tables/imported_trees.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "freight/base/cpu_share.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::tables {

namespace {

using Json = nlohmann::json;

constexpr const char* kForest = "trees";                   // the entry of metadata
constexpr const char* kForestBases = "trees.bases";        // f64 (groups)
constexpr const char* kForestSizes = "trees.sizes";        // i64 (trees, 3): nodes, categories of all, group
constexpr const char* kForestChildren = "trees.children";  // i32 (nodes, 3): left, right, column; -1, -1, 0 of leaves
constexpr const char* kForestNumbers = "trees.numbers";    // f64 (nodes, 3): value, cover, gain
constexpr const char* kForestFlags = "trees.flags";        // i32 (nodes, 2): bits, categories that go right
constexpr const char* kForestCategories = "trees.categories";      // i32 (of all nodes)
constexpr const char* kForestWords = "trees.categories_of_words";  // i32 (words of all columns)
constexpr const char* kForestZeros = "trees.zero_missing";         // u8 (columns)
constexpr int32_t kMissingLeftBit = 1, kWordsBit = 2;
constexpr double kZeroReach = 1e-35f;  // numbers so near to 0 are 0 to LightGBM (kZeroThreshold), as f32 has it
constexpr int64_t kRowsOfChunk = 512;  // that a thread answers: their features stay in the second cache
constexpr int64_t kRowsShapAtOnce = 16;
constexpr double kMostMovedOfRange = 1e-3;  // that f32 may move the splits of a column by
const std::vector<std::pair<store::RowLink, const char*>> kLinkNames = {{store::RowLink::identity, "identity"},
                                                                        {store::RowLink::exponential, "exponential"},
                                                                        {store::RowLink::logistic, "logistic"},
                                                                        {store::RowLink::softmax, "softmax"},
                                                                        {store::RowLink::probability, "probability"}};

bool all_covered(const OtherForest& forest) {
  return std::all_of(forest.trees.begin(), forest.trees.end(), [](const GrownTree& t) {
    return std::all_of(t.cover.begin(), t.cover.end(), [](double c) { return c > 0; });
  });
}

}  // namespace

ImportedTrees::ImportedTrees(OtherForest forest) : forest_(std::move(forest)) {
  splits_.resize(forest_.columns.size());
  for (const GrownTree& grown : forest_.trees) {
    for (const store::TreeNode& node : grown.tree.nodes) {
      if (node.left >= 0 && !node.words) splits_[static_cast<size_t>(node.column)].push_back(node.value);
    }
  }
  for (std::vector<double>& of_column : splits_) {
    std::sort(of_column.begin(), of_column.end());
    of_column.erase(std::unique(of_column.begin(), of_column.end()), of_column.end());
  }
  std::vector<store::Tree> trees = ranked_trees();
  sums_ = LeafSums<double>(trees, forest_.bases);
  covered_ = all_covered(forest_);
  if (!covered_) return;
  std::vector<std::vector<double>> covers;
  for (const GrownTree& grown : forest_.trees) covers.push_back(grown.cover);
  shap_ = TreeShap(std::move(trees), std::move(covers));
}

std::vector<store::Tree> ImportedTrees::ranked_trees() const {
  std::vector<store::Tree> all;
  for (const GrownTree& grown : forest_.trees) {
    store::Tree tree = grown.tree;
    for (store::TreeNode& node : tree.nodes) {
      if (node.left < 0 || node.words) continue;
      const std::vector<double>& splits = splits_[static_cast<size_t>(node.column)];
      node.value = static_cast<double>(std::upper_bound(splits.begin(), splits.end(), node.value) - splits.begin());
    }
    all.push_back(std::move(tree));
  }
  return all;
}

std::vector<float> ImportedTrees::ranks_of(const Array& rows, int64_t begin, int64_t count) const {
  constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
  const int64_t width = forest_.width();
  const double* const from = rows.data<double>() + begin * width;
  std::vector<float> out(static_cast<size_t>(count * width));
  for (int64_t c = 0; c < width; ++c) {
    const auto column = static_cast<size_t>(c);
    const std::vector<double>& splits = splits_[column];
    const std::vector<int32_t>& categories = forest_.categories[column];
    const bool words = forest_.columns[column].words, zero = forest_.zero_missing[column] != 0;
    for (int64_t i = 0; i < count; ++i) {
      const double v = from[i * width + c];
      float& to = out[static_cast<size_t>(i * width + c)];
      if (words) {
        const bool known = v >= 0 && v < static_cast<double>(categories.size());  // false of NaN
        to = known ? static_cast<float>(categories[static_cast<size_t>(v)]) : kMissing;
      } else if (std::isnan(v) || (zero && std::fabs(v) <= kZeroReach)) {
        to = kMissing;
      } else {
        // A search without branches: a guess at where a number lies would be wrong half of the time.
        const double* at = splits.data();
        size_t left = splits.size();
        while (left > 1) {
          const size_t half = left / 2;
          at += at[half - 1] <= v ? half : 0;
          left -= half;
        }
        to = static_cast<float>(at - splits.data() + (left == 1 && *at <= v ? 1 : 0));
      }
    }
  }
  return out;
}

Array ImportedTrees::run(const Array& rows) const {
  const int64_t n = rows.shape()[0], k = outputs(), groups = forest_.groups();
  CpuShare::touch();
  Array out(DType::f32, {n, k});
  parallel_for((n + kRowsOfChunk - 1) / kRowsOfChunk, [&](int64_t chunk) {
    const int64_t begin = chunk * kRowsOfChunk, count = std::min(n - begin, kRowsOfChunk);
    const std::vector<float> features = ranks_of(rows, begin, count);
    std::vector<double> sums(static_cast<size_t>(count * groups));
    sums_.sum(features.data(), count, forest_.width(), sums.data());
    for (int64_t i = 0; i < count; ++i) {
      const double* const row = sums.data() + i * groups;
      const std::vector<double> answer = store::answer_of(forest_.link, {row, row + groups});
      float* const to = out.data<float>() + (begin + i) * k;
      for (int64_t j = 0; j < k; ++j) to[j] = static_cast<float>(answer[static_cast<size_t>(j)]);
    }
  });
  return out;
}

Array ImportedTrees::contributions(const Array& rows) const {
  if (!covered_) return RowModel::contributions(rows);
  const int64_t n = rows.shape()[0], width = forest_.width(), groups = forest_.groups();
  CpuShare::touch();
  Array out(DType::f64, {n, groups, width + 1});
  parallel_for((n + kRowsShapAtOnce - 1) / kRowsShapAtOnce, [&](int64_t chunk) {
    const int64_t begin = chunk * kRowsShapAtOnce, count = std::min(n - begin, kRowsShapAtOnce);
    const std::vector<float> features = ranks_of(rows, begin, count);
    for (int64_t i = 0; i < count; ++i) {
      double* const to = out.data<double>() + (begin + i) * groups * (width + 1);
      std::fill_n(to, groups * (width + 1), 0.0);
      for (int64_t g = 0; g < groups; ++g) to[g * (width + 1) + width] = forest_.bases[static_cast<size_t>(g)];
      shap_.add(features.data() + i * width, width, to);
    }
  });
  return out;
}

int64_t ImportedTrees::parameters() const {
  int64_t nodes = 0;
  for (const GrownTree& grown : forest_.trees) nodes += static_cast<int64_t>(grown.tree.nodes.size());
  return nodes;
}

std::vector<store::Importance> ImportedTrees::importance() const {
  std::vector<double> gain(forest_.columns.size()), cover = gain, splits = gain;
  for (const GrownTree& grown : forest_.trees) {
    for (size_t i = 0; i < grown.tree.nodes.size(); ++i) {
      const store::TreeNode& node = grown.tree.nodes[i];
      if (node.left < 0) continue;
      const auto c = static_cast<size_t>(node.column);
      gain[c] += grown.gain[i];
      cover[c] += grown.cover[i];
      splits[c] += 1;
    }
  }
  for (size_t c = 0; c < splits.size(); ++c) {
    gain[c] /= std::max(splits[c], 1.0);
    cover[c] /= std::max(splits[c], 1.0);
  }
  return {{"gain", std::move(gain)}, {"cover", std::move(cover)}, {"splits", std::move(splits)}};
}

std::vector<std::string> ImportedTrees::lines() const {
  int64_t leaves = 0;
  for (const GrownTree& grown : forest_.trees) leaves += static_cast<int64_t>(grown.tree.nodes.size() + 1) / 2;
  return {cat(with_commas(static_cast<int64_t>(forest_.trees.size())), " trees from a file of ", forest_.maker, "'s, ",
              forest_.objective),
          cat(with_commas(leaves), " leaves")};
}

store::RowForm ImportedTrees::form() const {
  if (std::find(forest_.zero_missing.begin(), forest_.zero_missing.end(), 1) != forest_.zero_missing.end()) return {};
  store::ForestForm form;
  form.link = forest_.link;
  for (const double b : forest_.bases) form.bases.push_back(static_cast<float>(b));
  form.unknown.resize(forest_.columns.size());
  for (const std::vector<double>& splits : splits_) {
    double moved = 0;
    for (const double v : splits) moved = std::max(moved, std::fabs(v - static_cast<double>(static_cast<float>(v))));
    const double range = splits.empty() ? 0 : splits.back() - splits.front();
    form.origins.push_back(moved > kMostMovedOfRange * range && range > 0 ? splits.front() : 0);
  }
  for (const GrownTree& grown : forest_.trees) {
    store::Tree tree = grown.tree;
    for (store::TreeNode& node : tree.nodes) {
      if (node.left < 0) continue;
      if (!node.words) {
        node.value -= form.origins[static_cast<size_t>(node.column)];
        continue;
      }
      const std::vector<int32_t>& categories = forest_.categories[static_cast<size_t>(node.column)];
      std::vector<int64_t> right = std::move(node.levels);
      std::sort(right.begin(), right.end());
      node.levels.clear();
      for (size_t level = 0; level < categories.size(); ++level) {
        if (std::binary_search(right.begin(), right.end(), categories[level])) {
          node.levels.push_back(static_cast<int64_t>(level));
        }
      }
    }
    form.trees.push_back(std::move(tree));
  }
  return form;
}

void ImportedTrees::write(io::SafeTensors& file) const {
  std::vector<int64_t> sizes;
  std::vector<int32_t> children, flags, categories, words;
  std::vector<double> numbers;
  for (const GrownTree& grown : forest_.trees) {
    const size_t before = categories.size();
    for (size_t i = 0; i < grown.tree.nodes.size(); ++i) {
      const store::TreeNode& node = grown.tree.nodes[i];
      for (const int64_t v : {node.left, node.right, node.column}) children.push_back(static_cast<int32_t>(v));
      for (const double v : {node.value, grown.cover[i], grown.gain[i]}) numbers.push_back(v);
      flags.push_back((node.missing_left ? kMissingLeftBit : 0) | (node.words ? kWordsBit : 0));
      flags.push_back(static_cast<int32_t>(node.levels.size()));
      for (const int64_t category : node.levels) categories.push_back(static_cast<int32_t>(category));
    }
    for (const int64_t v : {static_cast<int64_t>(grown.tree.nodes.size()),
                            static_cast<int64_t>(categories.size() - before), grown.tree.group}) {
      sizes.push_back(v);
    }
  }
  for (const std::vector<int32_t>& of_column : forest_.categories) {
    words.insert(words.end(), of_column.begin(), of_column.end());
  }
  const auto nodes = static_cast<int64_t>(children.size() / 3);
  const auto put = [&](const char* name, const auto& values, const Shape& shape) {
    file.tensors.emplace_back(name, Array::of(values, shape));
  };
  put(kForestBases, forest_.bases, {forest_.groups()});
  put(kForestSizes, sizes, {static_cast<int64_t>(forest_.trees.size()), 3});
  put(kForestChildren, children, {nodes, 3});
  put(kForestNumbers, numbers, {nodes, 3});
  put(kForestFlags, flags, {nodes, 2});
  put(kForestCategories, categories, {static_cast<int64_t>(categories.size())});
  put(kForestWords, words, {static_cast<int64_t>(words.size())});
  put(kForestZeros, forest_.zero_missing, {forest_.width()});
  std::string link;
  for (const auto& [value, name] : kLinkNames) link = value == forest_.link ? name : link;
  file.metadata[kForest] = Json{
      {"maker", forest_.maker},
      {"objective", forest_.objective},
      {"link", link},
      {"averaged", forest_.averaged},
      {"ranks", forest_.ranks}}.dump();
}

namespace {

class StoredForest {
 public:
  StoredForest(const io::SafeTensors& file, const std::string& path) : file_(file), path_(path) {}

  OtherForest read(const store::RowShape& shape) {
    OtherForest out;
    out.columns = shape.columns;
    out.classes = static_cast<int64_t>(shape.classes.size());
    read_metadata(out);
    const Array &bases = tensor(kForestBases, DType::f64, 0), &zeros = tensor(kForestZeros, DType::u8, 0),
                &words = tensor(kForestWords, DType::i32, 0);
    out.bases = bases.to_vector<double>();
    out.zero_missing = zeros.to_vector<uint8_t>();
    const int32_t* word = words.data<int32_t>();
    const int32_t* const last = word + words.numel();
    for (const store::Column& column : out.columns) {
      const auto levels = static_cast<int64_t>(column.levels.size());
      if (last - word < levels) wrong(kForestWords, " is too short for the words of ", column.name);
      out.categories.emplace_back(word, word + levels);
      word += levels;
    }
    if (word != last) wrong(kForestWords, " is too long");
    read_trees(out);
    check_forest(out, path_, ErrorKind::checkpoint);
    const bool fits = out.link == store::RowLink::logistic      ? out.classes == 2
                      : out.link == store::RowLink::softmax     ? out.classes > 2
                      : out.link == store::RowLink::probability ? out.classes > 1
                                                                : out.classes == 0;
    if (!fits) wrong(kForest, " does not fit ", out.classes, " classes");
    return out;
  }

 private:
  template <class... T>
  [[noreturn]] void wrong(const T&... what) const {
    fail(ErrorKind::checkpoint, path_, "the stored trees are damaged: ", what...);
  }
  // Of one axis, or with `width` of (N, width).
  const Array& tensor(const char* name, DType dtype, int64_t width) const {
    const Array* const found = file_.find(name);
    const bool right = found && found->dtype() == dtype && found->shape().rank() == (width > 0 ? 2 : 1) &&
                       (width == 0 || found->shape()[1] == width);
    if (!right) wrong("the tensor ", name, " is missing, or of another form");
    return *found;
  }

  void read_metadata(OtherForest& out) const {
    const auto entry = file_.metadata.find(kForest);
    if (entry == file_.metadata.end()) wrong("the metadata have no entry ", kForest);
    try {
      const Json j = io::parse_json<Json>(entry->second, cat(path_, ": metadata: ", kForest), ErrorKind::checkpoint);
      out.maker = j.at("maker").get<std::string>();
      out.objective = j.at("objective").get<std::string>();
      out.averaged = j.at("averaged").get<bool>();
      out.ranks = j.at("ranks").get<bool>();
      const auto link = j.at("link").get<std::string>();
      const auto at =
          std::find_if(kLinkNames.begin(), kLinkNames.end(), [&](const auto& l) { return l.second == link; });
      if (at == kLinkNames.end()) wrong("the metadata ", kForest, " have an unknown link");
      out.link = at->first;
    } catch (const nlohmann::json::exception& e) {
      fail(ErrorKind::checkpoint, path_, "metadata: ", kForest, ": ", io::json_fault(e));
    }
  }

  void read_trees(OtherForest& out) const {
    const Array &sizes = tensor(kForestSizes, DType::i64, 3), &children = tensor(kForestChildren, DType::i32, 3),
                &numbers = tensor(kForestNumbers, DType::f64, 3), &flags = tensor(kForestFlags, DType::i32, 2),
                &categories = tensor(kForestCategories, DType::i32, 0);
    const int64_t nodes = children.shape()[0], all = categories.numel();
    if (numbers.shape()[0] != nodes || flags.shape()[0] != nodes) wrong("its lists of nodes differ in length");
    int64_t node = 0, category = 0;
    for (int64_t t = 0; t < sizes.shape()[0]; ++t) {
      const int64_t* const size = sizes.data<int64_t>() + t * 3;
      if (size[0] < 1 || size[0] > nodes - node) wrong("tree ", t, " has ", size[0], " nodes");
      GrownTree grown;
      grown.tree.group = size[2];
      const int64_t begun = category;
      for (const int64_t end = node + size[0]; node < end; ++node) {
        const int32_t *const child = children.data<int32_t>() + node * 3, *const flag =
                                                                              flags.data<int32_t>() + node * 2;
        const double* const number = numbers.data<double>() + node * 3;
        if (flag[1] < 0 || flag[1] > all - category) wrong("tree ", t, " has too many categories");
        const int32_t* const from = categories.data<int32_t>() + category;
        grown.tree.nodes.push_back({.left = child[0],
                                    .right = child[1],
                                    .column = child[2],
                                    .value = number[0],
                                    .missing_left = (flag[0] & kMissingLeftBit) != 0,
                                    .words = (flag[0] & kWordsBit) != 0,
                                    .levels = {from, from + flag[1]}});
        grown.cover.push_back(number[1]);
        grown.gain.push_back(number[2]);
        category += flag[1];
      }
      if (category - begun != size[1]) wrong("tree ", t, " has ", category - begun, " categories, need ", size[1]);
      out.trees.push_back(std::move(grown));
    }
    if (node != nodes || category != all) wrong("nodes or categories belong to no tree");
  }

  const io::SafeTensors& file_;
  const std::string& path_;
};

}  // namespace

bool holds_imported_trees(const io::SafeTensors& file) { return file.metadata.find(kForest) != file.metadata.end(); }

std::shared_ptr<const store::RowModel> read_imported_trees(const io::SafeTensors& file, const std::string& path,
                                                           const store::RowShape& shape) {
  return std::make_shared<ImportedTrees>(StoredForest(file, path).read(shape));
}

}  // namespace freight::tables
