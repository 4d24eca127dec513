// Forests as ONNX files, by forests that are drawn: ONNX Runtime adds the leaves that the definition of
// store/row_form.h reaches, whatever stands next to what.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/base/philox.h"
#include "freight/deploy/onnx.h"
#include "onnx_runtime.h"

namespace freight::deploy {
namespace {

using freight::testing::peer_python;

constexpr int64_t kNumbers = 1, kWords = 2, kColumns = kNumbers + kWords, kLevels = 5;

// A forest alone: predictions are its sums, leaf by leaf.
class Forest : public store::RowModel {
 public:
  explicit Forest(store::ForestForm form) : form_(std::move(form)) {}
  int64_t outputs() const override { return static_cast<int64_t>(form_.bases.size()); }
  bool predicts_classes() const override { return false; }
  Array run(const Array& rows) const override {
    const int64_t n = rows.shape()[0];
    Array out(DType::f32, {n, outputs()});
    for (int64_t i = 0; i < n; ++i) {
      float* sums = out.data<float>() + i * outputs();
      std::copy(form_.bases.begin(), form_.bases.end(), sums);
      for (const store::Tree& tree : form_.trees) {
        size_t at = 0;
        while (tree.nodes[at].left >= 0) {
          const store::TreeNode& node = tree.nodes[at];
          at = static_cast<size_t>(goes_left(node, rows.data<double>()[i * kColumns + node.column]) ? node.left
                                                                                                    : node.right);
        }
        sums[tree.group] += static_cast<float>(tree.nodes[at].value);
      }
    }
    return out;
  }
  int64_t parameters() const override { return 0; }
  std::vector<std::string> lines() const override { return {}; }
  void write(io::SafeTensors&) const override {}
  store::RowForm form() const override { return form_; }

 private:
  bool goes_left(const store::TreeNode& node, double cell) const {
    if (std::isnan(cell)) return node.missing_left;
    if (!node.words) return cell < node.value;
    const auto level = static_cast<int64_t>(cell);
    const std::vector<int64_t>& unknown = form_.unknown[static_cast<size_t>(node.column)];
    if (level < 0 || std::count(unknown.begin(), unknown.end(), level) > 0) return node.missing_left;
    return std::count(node.levels.begin(), node.levels.end(), level) == 0;
  }
  store::ForestForm form_;
};

class Drawing {
 public:
  explicit Drawing(uint64_t seed) : random_(seed, 0, 0) {}

  // Bases and trees for three sums, with few leaf values, so that leaves are equal, also next to each other.
  store::ForestForm forest() {
    store::ForestForm form;
    form.bases = {0.5f, -1, 2};
    form.origins.resize(kColumns);
    form.unknown = {{}, {3}, {}};
    const int64_t count = 1 + below(4);
    for (int64_t t = 0; t < count; ++t) {
      form.trees.push_back({.group = below(3), .nodes = {}});
      grow(form.trees.back(), below(4));
    }
    return form;
  }

 private:
  int64_t below(uint32_t count) { return static_cast<int64_t>(random_.below(count)); }

  int64_t grow(store::Tree& tree, int64_t depth) {
    const size_t at = tree.nodes.size();
    tree.nodes.emplace_back();
    if (depth == 0) {
      tree.nodes[at].value = 10 * static_cast<double>(1 + below(2));
      return static_cast<int64_t>(at);
    }
    store::TreeNode node{.column = below(kColumns), .missing_left = below(2) == 0, .levels = {}};
    node.words = node.column >= kNumbers;
    if (!node.words) node.value = static_cast<double>(1 + below(4)) - 0.5;
    for (int64_t level = 0; node.words && level < kLevels; ++level) {
      if ((node.column != kNumbers || level != 3) && below(3) == 0) node.levels.push_back(level);
    }
    node.left = grow(tree, depth - 1);
    node.right = grow(tree, below(2) * (depth - 1));
    tree.nodes[at] = node;
    return static_cast<int64_t>(at);
  }

  PhiloxStream random_;
};

// Every combination of a missing cell, a word that is no level, and each level or number.
Array all_cells() {
  constexpr int64_t kCells = kLevels + 2;
  Array rows(DType::f64, {kCells * kCells * kCells, kColumns});
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const int64_t row = i / kColumns, column = i % kColumns;
    const int64_t cell = (column == 0 ? row : column == 1 ? row / kCells : row / kCells / kCells) % kCells;
    rows.data<double>()[i] = cell == kCells - 1 ? NAN : static_cast<double>(cell - 1);
  }
  return rows;
}

TEST(TreesTest, OnnxRuntimeReachesTheSameLeavesWhateverStandsNextToWhat) {
  if (peer_python().empty()) GTEST_SKIP() << "no build/python";
  const Array rows = all_cells();
  Array features(DType::f32, rows.shape());
  std::copy_n(rows.data<double>(), rows.numel(), features.data<float>());
  test::Runtime runtime;
  std::vector<Array> need;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    store::Bundle bundle;
    bundle.learner = "drawn";
    for (int64_t c = 0; c < kColumns; ++c) bundle.columns.push_back({.name = cat("c", c), .words = c >= kNumbers});
    bundle.rows = std::make_shared<Forest>(Drawing(seed).forest());
    const std::string file = runtime / cat(seed, ".onnx");
    export_onnx(bundle, file);
    runtime.add(file, features);
    need.push_back(bundle.rows->run(rows));
  }
  const std::vector<Array> got = runtime.results();
  ASSERT_EQ(got.size(), need.size());
  for (size_t m = 0; m < got.size(); ++m) {
    ASSERT_EQ(got[m].shape(), need[m].shape());
    int64_t wrong = 0;
    for (int64_t i = 0; i < got[m].numel(); ++i) wrong += got[m].data<float>()[i] != need[m].data<float>()[i];
    EXPECT_EQ(wrong, 0) << "forest " << m;
  }
}

}  // namespace
}  // namespace freight::deploy
