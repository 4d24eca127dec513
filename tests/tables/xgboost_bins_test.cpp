// Rows that XGBoost gets in batches, of which it keeps the bins: equal trees, less memory.
#include "freight/tables/xgboost_bins.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "freight/base/error.h"
#include "freight/io/json_library.h"
#include "freight/tables/learners.h"
#include "freight/tables/xgboost_learner.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

class XgboostBins : public ::testing::Test {
 protected:
  void SetUp() override {
    register_learners();
    if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
  }
};

// Numbers and words, some missing; two classes.
tables::RowData flowers() {
  constexpr int64_t kRows = 500;
  tables::RowData rows;
  rows.shape = {.columns = {{.name = "length"}, {.name = "colour", .words = true, .levels = {"a", "b", "c", "d", "e"}}},
                .classes = {"daisy", "rose"}};
  rows.target = "species";
  Array values(DType::f64, {kRows, 2}), labels(DType::i64, {kRows});
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t colour = i * 7 % 5;
    const bool rose = (colour == 1 || colour == 3) != (i % 10 == 9);
    values.data<double>()[2 * i] =
        i % 17 == 3 ? std::nan("") : (rose ? 3 : 2) + static_cast<double>(i * 31 % 173) * 0.01;
    values.data<double>()[2 * i + 1] = i % 23 == 5 ? std::nan("") : static_cast<double>(colour);
    labels.data<int64_t>()[i] = rose;
  }
  rows.train = {values, labels};
  rows.held_out = {Array(DType::f64, {0, 2}), Array(DType::i64, {0})};
  return rows;
}

// The trees of five rounds.
std::string trees(const Xgboost& library, const XgboostHandle& matrix, const char* objective) {
  void* made = nullptr;
  void* const matrices[] = {matrix.get()};
  library.check(library->XGBoosterCreate(matrices, 1, &made), "a booster");
  const XgboostHandle booster = owned_booster(library, made);
  for (const auto& [name, value] : {std::pair("objective", objective), std::pair("tree_method", "hist"),
                                    std::pair("nthread", "1"), std::pair("base_score", "0.5")}) {
    library.check(library->XGBoosterSetParam(made, name, value), name);
  }
  for (int round = 0; round < 5; ++round) {
    library.check(library->XGBoosterUpdateOneIter(made, round, matrix.get()), "a round");
  }
  uint64_t length = 0;
  const char* bytes = nullptr;
  library.check(library->XGBoosterSaveModelToBuffer(made, R"({"format": "json"})", &length, &bytes), "the trees");
  return std::string(bytes, length);
}

// Bytes of the largest memory that this process had since forget_peak().
int64_t peak_memory() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return int64_t{use.ru_maxrss} * 1024;
}

void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

TEST_F(XgboostBins, BinsOfBatchesGiveTheTreesOfAMatrixThatHoldsAllCells) {
  const tables::RowData rows = flowers();
  const Xgboost& library = xgboost();
  const TreeColumns columns(rows.shape.columns, rows.train);
  std::vector<float> weights, labels;
  for (int64_t i = 0; i < rows.train.count(); ++i) {
    weights.push_back(1 + static_cast<float>(i % 3));
    labels.push_back(static_cast<float>(rows.train.labels.data<int64_t>()[i]));
  }
  const XgboostHandle whole = matrix_of_features(library, columns, columns.features(rows.train.values), "1");
  library.check(library->XGDMatrixSetFloatInfo(whole.get(), "label", labels.data(), labels.size()), "the labels");
  library.check(library->XGDMatrixSetFloatInfo(whole.get(), "weight", weights.data(), weights.size()), "the weights");
  const std::string want = trees(library, whole, "binary:logistic");
  for (const int64_t cells : {int64_t{1}, int64_t{50}, int64_t{1} << 21}) {
    const BinningOptions asked{.weights = weights, .threads = "1", .cells_at_once = cells};
    EXPECT_EQ(trees(library, binned_matrix(library, columns, rows.train, asked), "binary:logistic"), want)
        << cells << " cells at once";
  }
}

// Batches divide groups, of which XGBoost hears when it has all rows.
TEST_F(XgboostBins, GroupsOfARankingAreThoseOfAMatrixThatHoldsAllCells) {
  constexpr int64_t kRows = 3000, kOfGroup = 10;
  const Xgboost& library = xgboost();
  Array values(DType::f64, {kRows, 2}), labels(DType::f32, {kRows}), groups(DType::i64, {kRows});
  const std::vector<uint32_t> sizes(kRows / kOfGroup, kOfGroup);
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t match = i * 7919 % 1009;
    groups.data<int64_t>()[i] = i / kOfGroup;
    values.data<double>()[2 * i] = static_cast<double>(match);
    values.data<double>()[2 * i + 1] = static_cast<double>(i * 31 % 773);
    labels.data<float>()[i] = static_cast<float>((i / kOfGroup % 3 == 0 ? 1008 - match : match) / 253);
  }
  const store::Rows rows{.values = values, .labels = labels, .groups = groups, .ranked = true};
  const std::vector<store::Column> names = {{.name = "match"}, {.name = "age"}};
  store::Rows all;
  all.values = values;
  const TreeColumns columns(names, all);
  const auto cells = [&] {
    const XgboostHandle whole = matrix_of_features(library, columns, columns.features(values), "1");
    library.check(library->XGDMatrixSetFloatInfo(whole.get(), "label", labels.data<float>(), kRows), "the labels");
    return whole;
  };
  const XgboostHandle apart = cells(), whole = cells();
  const std::string of_sizes = cat(R"({"data": [)", reinterpret_cast<uintptr_t>(sizes.data()), R"(, true], "shape": [)",
                                   sizes.size(), R"(], "typestr": "<u4", "version": 3})");
  library.check(library->XGDMatrixSetInfoFromInterface(whole.get(), "group", of_sizes.c_str()), "the groups");
  const std::string want = trees(library, whole, "rank:ndcg");
  EXPECT_NE(trees(library, apart, "rank:ndcg"), want) << "all rows of one group show nothing";
  const std::vector<float> none;
  for (const int64_t at_once : {int64_t{2}, int64_t{66}, int64_t{1} << 21}) {
    const BinningOptions asked{.weights = none, .threads = "1", .cells_at_once = at_once};
    EXPECT_EQ(trees(library, binned_matrix(library, columns, rows, asked), "rank:ndcg"), want) << at_once;
  }
}

// All cells of a column lie in one batch or in many.
TEST_F(XgboostBins, RowsInFilesGiveTheTreesOfRowsInMemory) {
  const tables::RowData rows = flowers();
  const Xgboost& library = xgboost();
  if (library.version() < kOldestPages) GTEST_SKIP() << "this XGBoost keeps no rows with missing cells in files";
  const TreeColumns columns(rows.shape.columns, rows.train);
  std::vector<float> weights;
  for (int64_t i = 0; i < rows.train.count(); ++i) weights.push_back(1 + static_cast<float>(i % 3));
  const BinningOptions at_once{.weights = weights, .threads = "1"};
  const std::string want = trees(library, binned_matrix(library, columns, rows.train, at_once), "binary:logistic");
  for (const int64_t cells : {int64_t{100}, int64_t{1} << 21}) {
    const testing::TemporaryDir dir;
    const BinningOptions asked{.weights = weights, .threads = "1", .cells_at_once = cells};
    {
      const XgboostHandle matrix = paged_matrix(library, columns, rows.train, asked, dir / "rows");
      EXPECT_EQ(trees(library, matrix, "binary:logistic"), want) << cells << " cells at once";
      EXPECT_FALSE(std::filesystem::is_empty(dir.path())) << "nothing lies on the disk";
    }
  }
}

TEST_F(XgboostBins, AFitToRowsOnTheDiskGivesTheTreesOfOneInMemory) {
  tables::RowData rows = flowers();
  rows.held_out = rows.train;
  train::Config config;
  train::set_model(config, "gbdt");
  config.rounds = 9;
  config.deterministic = true;
  const auto stored = [&] {
    io::SafeTensors file;
    TreeLearner(TreeLearner::Kind::gbdt).fit(config, rows, [](const tables::Round&) { return true; })->write(file);
    return file.tensors[0].second.to_vector<uint8_t>();
  };
  const std::vector<uint8_t> here = stored();
  const testing::TemporaryDir dir;
  const testing::ScopedEnvironment folder("TMPDIR", dir.path());
  rows.folder = dir.path();
  EXPECT_EQ(stored(), here);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << "files are left";
}

// Only the last hundred rows, behind 2^31 bytes of cells, differ from the others, and so do their labels.
TEST_F(XgboostBins, RowsBehind2To31BytesOfCellsAreBinned) {
  if (!std::getenv("FREIGHT_LONG")) GTEST_SKIP() << "takes 4 GiB: FREIGHT_LONG=1 (./test --long) runs it";
  constexpr int64_t kWidth = 8, kRows = (int64_t{1} << 31) / 8 / kWidth + 100;
  const Xgboost& library = xgboost();
  const Array values(DType::f64, {kRows, kWidth}), labels(DType::f32, {kRows});
  std::vector<store::Column> names;
  for (int64_t c = 0; c < kWidth; ++c) names.push_back({.name = cat("x", c)});
  for (int64_t i = kRows - 100; i < kRows; ++i) {
    values.data<double>()[i * kWidth + 7] = 3;
    labels.data<float>()[i] = 50;
  }
  const store::Rows rows{.values = values, .labels = labels};
  store::Rows all;
  all.values = values;
  const TreeColumns columns(names, all);
  const XgboostHandle matrix = binned_matrix(library, columns, rows, {.weights = {}, .threads = "2"});
  void* made = nullptr;
  void* const matrices[] = {matrix.get()};
  library.check(library->XGBoosterCreate(matrices, 1, &made), "a booster");
  const XgboostHandle booster = owned_booster(library, made);
  for (const auto& [name, value] :
       {std::pair("objective", "reg:squarederror"), std::pair("tree_method", "hist"), std::pair("nthread", "2"),
        std::pair("base_score", "0"), std::pair("eta", "1"), std::pair("lambda", "0"), std::pair("max_depth", "1")}) {
    library.check(library->XGBoosterSetParam(made, name, value), name);
  }
  library.check(library->XGBoosterUpdateOneIter(made, 0, matrix.get()), "a round");
  uint64_t length = 0;
  const char* bytes = nullptr;
  library.check(library->XGBoosterSaveModelToBuffer(made, R"({"format": "json"})", &length, &bytes), "the trees");
  const auto model = nlohmann::json::parse(bytes, bytes + length);
  const auto& tree = model["learner"]["gradient_booster"]["model"]["trees"][0];
  ASSERT_EQ(tree["left_children"].size(), 3u) << tree;
  EXPECT_EQ(tree["split_indices"][0], 7) << tree;
  EXPECT_NEAR(tree["split_conditions"][1].get<double>(), 0, 1e-5) << "the leaf of the others";
  EXPECT_NEAR(tree["split_conditions"][2].get<double>(), 50, 1e-3) << "the leaf of the last rows";
}

TEST_F(XgboostBins, AFitKeepsBinsInPlaceOfCells) {
  constexpr int64_t kRows = 300000, kWidth = 40, kCells = kRows * kWidth;
  tables::RowData rows;
  rows.target = "y";
  Array values(DType::f64, {kRows, kWidth}), labels(DType::f32, {kRows});
  for (int64_t c = 0; c < kWidth; ++c) rows.shape.columns.push_back({.name = cat("x", c)});
  for (int64_t i = 0; i < kCells; ++i) values.data<double>()[i] = static_cast<double>(i * 7919 % 10007);
  for (int64_t i = 0; i < kRows; ++i) labels.data<float>()[i] = static_cast<float>(values.data<double>()[i * kWidth]);
  rows.train = {values, labels};
  rows.held_out = {Array(DType::f64, {0, kWidth}), Array(DType::f32, {0})};
  train::Config config;
  train::set_model(config, "gbdt");
  config.rounds = 2;
  config.early_stop = 0;
  forget_peak();
  const int64_t before = peak_memory();
  TreeLearner(TreeLearner::Kind::gbdt).fit(config, rows, [](const tables::Round&) { return true; });
  // A matrix of cells takes 12 bytes for each, beside the 4 of their f32.
  EXPECT_LT(peak_memory() - before, 8 * kCells);
}

}  // namespace
}  // namespace freight::tables
