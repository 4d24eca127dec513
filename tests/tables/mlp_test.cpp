// The learner mlp of tables: it learns what depends on several columns together, predicts rows with missing cells and
// unknown words, is stored and read again to the bit, and gives its name to the net where the data is no table.
#include "freight/tables/mlp_learner.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>

#include "freight/base/threads.h"
#include "freight/deploy/predictor.h"
#include "freight/io/npy.h"
#include "freight/job/signals.h"
#include "freight/tables/mlp_columns.h"
#include "freight/tables/mlp_model.h"
#include "freight/tables/row_parts.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;
using Doubles = std::vector<double>;

const double kGone = std::nan("");

// The columns of training rows after their preparation.
struct PreparedColumns {
  PreparedColumns(const std::vector<store::Column>& named, const store::Rows& rows)
      : columns(named, rows), encoded(columns.encode(rows.values)), bins(mlp_bins(columns, named, encoded, rows)) {}
  MlpColumns columns;
  Array encoded;
  MlpBins bins;
};

TEST(MlpColumnsOfATable, OfFewValuesWithRowsEnoughForEachAreCutAtEveryValue) {
  const auto bins = [](int64_t rows, int64_t values) {
    Array cells(DType::f64, {rows, 1});
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t v = i % values;
      cells.data<double>()[i] = static_cast<double>(v * v);
    }
    return PreparedColumns({{.name = "a"}}, {cells, Array(DType::f32, {rows})}).bins.count();
  };
  EXPECT_EQ(bins(2000, 150), 149);
  EXPECT_EQ(bins(2000, 200), 199) << "ten rows for each";
  EXPECT_EQ(bins(2000, 201), 48);
  EXPECT_EQ(bins(300, 150), 48) << "two rows for each tell no more than noise";
  EXPECT_EQ(bins(20000, 640), 639);
  EXPECT_EQ(bins(20000, 641), 48) << "as a column of numbers that all differ";
}

TEST(MlpColumnsOfATable, ARowCountsAsOftenAsItsWeightSays) {
  const std::vector<store::Column> named = {{.name = "a"}, {.name = "b", .words = true, .levels = {"x", "y", "z"}}};
  constexpr int64_t kRows = 700;
  Array values(DType::f64, {kRows, 2});
  store::Rows rows{values, Array(DType::f32, {kRows})};
  rows.weights = Array(DType::f32, {kRows});
  std::vector<int64_t> again;
  for (int64_t i = 0; i < kRows; ++i) {
    const auto v = static_cast<double>(i * 37 % 701);
    values.data<double>()[2 * i] = i % 9 == 0 ? 0 : v * v;
    values.data<double>()[2 * i + 1] =
        i < 3 ? 0 : static_cast<double>(1 + i % 2);  // x: 3 rows, with 5 by their weights
    rows.weights->data<float>()[i] = static_cast<float>(i % 4);
    if (i < 3) rows.weights->data<float>()[i] = i == 0 ? 3 : 1;
    for (float k = 0; k < rows.weights->data<float>()[i]; ++k) again.push_back(i);
  }
  store::Rows repeated = tables::rows_at(rows, again);
  repeated.weights.reset();
  const PreparedColumns weighed(named, rows), often(named, repeated);
  EXPECT_EQ(weighed.columns.embeddings(), 4);
  EXPECT_EQ(weighed.columns.features().categories(1), often.columns.features().categories(1));
  const auto expect_near = [](const Array& other, const Array& tensor) {
    ASSERT_EQ(other.shape(), tensor.shape());
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const auto at = [&](const Array& a) { return a.cast(DType::f64).data<double>()[i]; };
      EXPECT_NEAR(at(other), at(tensor), 1e-9 * std::max(1.0, std::fabs(at(tensor)))) << i;
    }
  };
  expect_near(weighed.bins.mean, often.bins.mean);
  expect_near(weighed.bins.slope, often.bins.slope);
  expect_near(weighed.bins.bin_start, often.bins.bin_start);
  expect_near(weighed.bins.bin_slope, often.bins.bin_slope);
}

TEST(MlpColumnsOfATable, AreScaledCutAtQuantilesAndNumbered) {
  const std::vector<store::Column> named = {
      {.name = "a"}, {.name = "same"}, {.name = "w", .words = true, .levels = {"rare", "x", "y"}}, {.name = "b"}};
  Array rows(DType::f64, {20, 4});
  for (int64_t i = 0; i < 20; ++i) {
    double* const cells = rows.data<double>() + 4 * i;
    cells[0] = i == 3 ? kGone : static_cast<double>(i % 2);
    cells[1] = 7;
    cells[2] = i == 0 ? 0 : static_cast<double>(1 + i % 2);
    cells[3] = static_cast<double>(i * i);
  }
  const store::Rows part{rows, Array(DType::f32, {20})};
  const PreparedColumns prepared(named, part);
  const MlpColumns& columns = prepared.columns;
  EXPECT_EQ(columns.numbers().size(), 3u);
  EXPECT_EQ(columns.words().size(), 1u);
  EXPECT_EQ(columns.embeddings(), 3) << "one for each word but the rare one, and one for all others";
  EXPECT_EQ(prepared.bins.count(), 19) << "as many as there are different cells between which a cut may lie";
  // A column of two numbers has one bin from the lower to the upper one; the bins that it lacks have no slope.
  const std::vector<float> means = prepared.bins.mean.to_vector<float>(),
                           scales = prepared.bins.slope.to_vector<float>(),
                           starts = prepared.bins.bin_start.to_vector<float>(),
                           slopes = prepared.bins.bin_slope.to_vector<float>();
  const double mean = 9.0 / 19, scale = std::sqrt(mean * (1 - mean));
  EXPECT_NEAR(means[0], mean, 1e-6);
  EXPECT_NEAR(scales[0], 1 / scale, 1e-6);
  EXPECT_NEAR(starts[0], -mean / scale, 1e-6);
  EXPECT_NEAR(slopes[0], scale, 1e-6);
  for (size_t b = 1; b < 19; ++b) EXPECT_EQ(slopes[b], 0) << b;
  EXPECT_EQ(scales[1], 0) << "a column that never changes says nothing";
  for (size_t b = 0; b < 19; ++b) EXPECT_EQ(slopes[19 + b], 0) << b;

  Array asked(DType::f64, {3, 4});
  const Doubles cells = {1, 7, 1, 400, kGone, 8, store::kUnknownWord, 0, std::numeric_limits<double>::infinity(),
                         7, 0, 1};
  std::copy(cells.begin(), cells.end(), asked.data<double>());
  const std::vector<float> rows_of = columns.encode(asked, 0, 3, 4).to_vector<float>();
  ASSERT_EQ(rows_of.size(), 4u * 7);
  const std::vector<float> first(rows_of.begin(), rows_of.begin() + 7),
      second(rows_of.begin() + 7, rows_of.begin() + 14), last(rows_of.begin() + 21, rows_of.end());
  EXPECT_EQ(first, (std::vector<float>{1, 7, 400, 1, 1, 1, 1}));
  EXPECT_EQ(second, (std::vector<float>{0, 8, 0, 0, 1, 1, 0})) << "a missing cell is marked, an unknown word by 0";
  EXPECT_TRUE(std::isfinite(rows_of[14])) << "an infinite number is a far one";
  EXPECT_EQ(rows_of[20], 0) << "a rare word counts as an unknown one";
  EXPECT_EQ(last, std::vector<float>(7, 0)) << "rows behind the last one are empty";

  rows.data<double>()[4 * 5 + 3] = std::numeric_limits<double>::infinity();
  expect_error(ErrorKind::data, {"b", "finite"}, [&] { PreparedColumns(named, part); });
}

class MlpRuns : public TableRuns {
 protected:
  MlpRuns() {
    config_.overwrite = true;
    tell("y");
  }
  // 400 rows of two numbers, a word that changes what they mean, and a number that is missing in every fifth row. What
  // is told is a chess board's color, "y", or depends on it: no sum over the columns tells its fields apart.
  void tell(const std::string& column) {
    std::string csv = cat("a,b,word,c,", column, "\n");
    for (int i = 0; i < 400; ++i) {
      const double a = i * 37 % 101 / 101.0, b = i * 53 % 97 / 97.0;
      const bool turned = i % 3 == 0, y = ((a > 0.5) != (b > 0.5)) != turned, gone = i % 5 == 0;
      const std::string told = column == "y"       ? y ? "yes" : "no"
                               : column == "which" ? gone ? "none"
                                                     : y  ? "black"
                                                          : "white"
                                                   : cat(100 + 20 * y + (gone ? 10.5 : 0));
      csv += cat(a, ",", b, ",",
                 turned       ? "turned"
                 : i % 3 == 1 ? "plain"
                              : "even",
                 ",", gone ? std::string() : cat(i % 11), ",", told, "\n");
    }
    config_.data = dir_ / cat(column, ".csv");
    io::write_file_atomic(config_.data, std::string_view(csv));
    train::set_model(config_, "baseline");
    train::set_model(config_, "mlp");
    config_.epochs = 40;
  }
  double loss_of(const std::string& model) {
    const train::Config keep = config_;
    config_ = train::Config();
    config_.data = keep.data;
    config_.output_dir = dir_ / "other";
    config_.overwrite = true;
    config_.model = model;
    const double loss = run().test.loss;
    config_ = keep;
    return loss;
  }
};

TEST_F(MlpRuns, ClassesThatNoSumOverTheColumnsTellsAreLearned) {
  const train::Result result = run();
  EXPECT_GT(*result.test.top1, 85);
  EXPECT_LT(result.test.loss, loss_of("logistic") / 2);
  // The saved model predicts as the fitted one does, and says what it is.
  const store::Bundle bundle = store::load_bundle(result.model_path);
  EXPECT_EQ(bundle.learner, "mlp");
  EXPECT_EQ(train::learner_of(bundle).measure(bundle, result.model_path, {}).figures.loss, result.test.loss);
  ASSERT_GE(bundle.rows->lines().size(), 2u);
  EXPECT_NE(bundle.rows->lines()[0].find("TabM"), std::string::npos);
  EXPECT_GT(bundle.parameters(), 1000);
}

TEST_F(MlpRuns, ValuesAreToldInTheUnitsOfTheirColumn) {
  tell("value");
  const train::Result result = run();
  EXPECT_LT(result.test.loss, loss_of("linear") / 2);
  const store::Bundle bundle = store::load_bundle(result.model_path);
  EXPECT_FALSE(bundle.rows->predicts_classes());
}

TEST_F(MlpRuns, ProbabilitiesOfManyClassesAddUpAndOddCellsAreAnswered) {
  tell("which");
  const store::Bundle bundle = store::load_bundle(run().model_path);
  ASSERT_EQ(bundle.rows->outputs(), 3);
  const double huge = std::numeric_limits<double>::infinity();
  Array rows(DType::f64, {4, 4});
  const Doubles cells = {0.1,   0.9,  0,     5, kGone, kGone, kGone, kGone, 0.1, 0.9, store::kUnknownWord,
                         kGone, huge, -huge, 0, 1e300};
  std::copy(cells.begin(), cells.end(), rows.data<double>());
  const std::vector<float> told = bundle.rows->run(rows).to_vector<float>();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(told[3 * i] + told[3 * i + 1] + told[3 * i + 2], 1, 1e-5) << i;
    for (size_t c = 0; c < 3; ++c) EXPECT_GE(told[3 * i + c], 0);
  }
}

TEST_F(MlpRuns, ARowHasTheSameBitsWhateverRowsBesideItAndWhoeverAsks) {
  config_.epochs = 2;
  const store::Bundle bundle = store::load_bundle(run().model_path);
  const tables::RowData data = MlpLearner().read({.data = config_.data});
  const int64_t n = data.train.count(), width = data.train.values.width();
  const Array values = data.train.values.array();
  const std::vector<float> all = bundle.rows->run(values).to_vector<float>();
  Array reversed(DType::f64, {n, width});
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(values.data<double>() + (n - 1 - i) * width, width, reversed.data<double>() + i * width);
  }
  const std::vector<float> backwards = bundle.rows->run(reversed).to_vector<float>();
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(2 * i), other = static_cast<size_t>(2 * (n - 1 - i));
    EXPECT_EQ(all[at], backwards[other]) << i;
    if (i % 40 != 0) continue;
    Array one(DType::f64, {1, width});
    std::copy_n(values.data<double>() + i * width, width, one.data<double>());
    const ThreadLimit limit(1);
    EXPECT_EQ(bundle.rows->run(one).to_vector<float>(), (std::vector<float>{all[at], all[at + 1]})) << i;
  }
}

TEST_F(MlpRuns, EqualSettingsGiveEqualWeightsForAnyNumberOfThreads) {
  config_.epochs = 2;
  const io::SafeTensors first = io::load_safetensors(run().model_path);
  io::SafeTensors second;
  {
    const ThreadLimit limit(1);
    second = io::load_safetensors(run().model_path);
  }
  config_.seed = 1;
  const io::SafeTensors other = io::load_safetensors(run().model_path);
  ASSERT_EQ(first.tensors.size(), second.tensors.size());
  bool differs = false;
  for (size_t i = 0; i < first.tensors.size(); ++i) {
    const auto bytes = [&](const io::SafeTensors& f) {
      const auto* p = static_cast<const char*>(f.tensors[i].second.raw());
      return std::string(p, p + f.tensors[i].second.bytes());
    };
    EXPECT_EQ(bytes(first), bytes(second)) << first.tensors[i].first;
    differs = differs || bytes(first) != bytes(other);
  }
  EXPECT_TRUE(differs) << "another seed gives another model";
}

TEST_F(MlpRuns, ItEndsWhereRowsOfItsOwnAreToldNoBetterAndKeepsTheBestWeights) {
  // Classes that depend on nothing: what is learned is worse than nothing.
  std::string csv = "a,b,y\n";
  for (int i = 0; i < 200; ++i)
    csv += cat(i * 7919 % 211, ",", i * 104729 % 223, ",", i * i * 31 % 7 % 2 ? "u" : "v", "\n");
  io::write_file_atomic(dir_ / "noise.csv", std::string_view(csv));
  config_.data = dir_ / "noise.csv";
  config_.epochs = 40;
  config_.early_stop = 2;
  struct Rounds : train::Observer {
    void on_epoch(const train::EpochReport& e) override {
      told = e.train.epoch;
      if (e.best) best = e.train.epoch;
    }
    int64_t told = 0, best = 0;
  } rounds;
  const std::string path = train::train(config_, rounds, {}, {"train"}).model_path;
  EXPECT_LT(rounds.told, 40);
  EXPECT_EQ(rounds.told, rounds.best + 2);
  const std::vector<std::string> lines = store::load_bundle(path).rows->lines();
  EXPECT_EQ(lines.back(), cat("the weights of epoch ", rounds.best, " of ", rounds.told));
  config_.early_stop = 0;
  config_.epochs = 4;
  EXPECT_EQ(train::train(config_, rounds, {}, {"train"}).epochs, 4);
  EXPECT_EQ(rounds.best, 4) << "without an early stop the last weights are kept";
}

TEST_F(MlpRuns, RowsCountAsMuchAsTheirWeightsSay) {
  tables::RowData data = MlpLearner().read({.data = config_.data});
  const store::Rows right = data.train;
  // Every second row is told wrongly, and counts for nothing.
  const int64_t n = right.count();
  data.train.labels = right.labels.clone();
  data.train.weights = Array(DType::f32, {n});
  for (int64_t i = 0; i < n; ++i) {
    const bool wrong = i % 2 == 0;
    if (wrong) data.train.labels.data<int64_t>()[i] = 1 - right.labels.data<int64_t>()[i];
    data.train.weights->data<float>()[i] = wrong ? 0.0f : 3.0f;
  }
  config_.early_stop = 0;
  const auto fitted = [&] { return MlpLearner().fit(config_, data, [](const tables::Round&) { return true; }); };
  EXPECT_GT(*tables::evaluate(*fitted(), right).top1, 75);
  std::fill_n(data.train.weights->data<float>(), n, 0.0f);
  expect_error(ErrorKind::data, {"y.csv", "nothing to learn from"}, fitted);
}

// An epoch of a table of 300,000 rows takes half a minute, for which SIGTERM waited.
TEST_F(MlpRuns, ASignalEndsAnEpochBehindABatch) {
  const tables::RowData data = MlpLearner().read({.data = config_.data});
  MlpLearner().choose(config_);
  config_.epochs = 1;
  const auto loss = [&] {
    double told = 0;
    MlpLearner().fit(config_, data, [&](const tables::Round& round) {
      told = round.loss;
      return !signals::stop_requested();
    });
    return told;
  };
  const double whole = loss();
  signals::install();
  std::raise(SIGTERM);
  const double stopped = loss();
  signals::reset();
  EXPECT_NE(stopped, whole) << "the mean over a batch, not over all of them";
  EXPECT_TRUE(std::isfinite(stopped));
  EXPECT_EQ(loss(), whole);
}

TEST_F(MlpRuns, ADamagedFileIsRefused) {
  config_.epochs = 1;
  const std::string path = run().model_path;
  const io::SafeTensors good = io::load_safetensors(path);
  for (size_t i = 0; i < good.tensors.size(); ++i) {
    expect_damaged(path,
                   [&](io::SafeTensors& f) { f.tensors.erase(f.tensors.begin() + static_cast<std::ptrdiff_t>(i)); },
                   {good.tensors[i].first});
    expect_damaged(path, [&](io::SafeTensors& f) { f.tensors[i].second = Array(DType::f16, {2}); },
                   {good.tensors[i].first});
  }
  expect_damaged(path,
                 [](io::SafeTensors& f) {
                   for (auto& [key, tensor] : f.tensors) {
                     if (key != "mlp.net.layer0.weight") continue;
                     tensor = tensor.clone();
                     tensor.data<float>()[0] = std::nanf("");
                   }
                 },
                 {"mlp.net.layer0.weight", "NaN or infinity"});
  const auto entry = [](const std::string& text) { return [=](io::SafeTensors& f) { f.metadata["mlp"] = text; }; };
  expect_damaged(path, entry("{"), {"metadata: mlp"});
  expect_damaged(path, entry("{}"), {"metadata: mlp", "epochs"});
  expect_damaged(path, [](io::SafeTensors& f) { f.metadata.erase("mlp"); }, {"no entry mlp"});
  // The network has as many weights as the file's columns say, of which none is made before the file is seen to have
  // them.
  const auto added = [](const std::string& name, const Array& tensor) {
    return [=](io::SafeTensors& f) { f.tensors.emplace_back(name, tensor); };
  };
  expect_damaged(path, added("mlp.net.more", Array(DType::f32, {3})), {"unexpected", "mlp.net.more"});
  expect_damaged(path, added("mlp.input.categories", Array::of<int32_t>({0, 7, 1}, {3})),
                 {"mlp.input.categories", "7"});
  expect_damaged(path, added("mlp.input.origins", Array(DType::f64, {2})), {"mlp.input.origins", "f64[4]"});
  expect_damaged(path,
                 [](io::SafeTensors& f) {
                   for (auto& [key, tensor] : f.tensors) {
                     if (key == "mlp.net.bin_start") tensor = Array(DType::f32, {3, 1, int64_t{1} << 16});
                   }
                 },
                 {"mlp.net.bin_weight"});
}

// A run of the trainer within a run of a table writes no directory of its own.
TEST_F(MlpRuns, NothingIsWrittenBesideTheRunsDirectory) {
  config_.epochs = 1;
  run();
  const auto entries = [](const std::filesystem::path& folder) {
    std::vector<std::string> names;
    for (const auto& e : std::filesystem::directory_iterator(folder)) names.push_back(e.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_FALSE(std::filesystem::exists("runs/mlp-y.csv")) << "where a run goes that is told no directory";
  const std::vector<std::string> written = entries(config_.output_dir);
  EXPECT_EQ(std::count(written.begin(), written.end(), "model.safetensors"), 1);
  EXPECT_EQ(std::count(written.begin(), written.end(), "checkpoints"), 0);
}

TEST_F(MlpRuns, TheNameMeansTheNetWhereTheDataIsNoTable) {
  EXPECT_TRUE(train::is_table(config_, train::source_of(config_)));
  EXPECT_EQ(train::learner_of(config_, train::source_of(config_)).name(), "mlp");
  EXPECT_NE(config_.lr, train::Config().lr);
  train::Config digits = train::recipe("digits");
  const double lr = digits.lr;
  train::set_model(digits, "mlp");
  EXPECT_FALSE(train::is_table(digits, train::source_of(digits)));
  EXPECT_EQ(train::learner_of(digits, train::source_of(digits)).name(), store::kNet);
  EXPECT_EQ(digits.lr, lr) << "a net's rate is the recipe's";
  io::save_npz(dir_ / "arrays.npz", {{"x", Array(DType::f32, {4, 3})}, {"y", Array(DType::f32, {4})}});
  digits.data = dir_ / "arrays.npz";
  EXPECT_EQ(train::learner_of(digits, train::source_of(digits)).name(), store::kNet);
  config_.text_column = "word";
  EXPECT_EQ(train::learner_of(config_, train::source_of(config_)).name(), store::kNet)
      << "the column of texts asks for a network";
  train::need_net_model("mlp", "a plan");
  // A learner that does not say so is still refused by the name of a net.
  class Impostor : public MlpLearner {
    std::string name() const override { return "lenet"; }
    bool beside_net() const override { return false; }
  };
  expect_error(ErrorKind::usage, {"lenet"}, [] { train::register_learner(std::make_shared<Impostor>()); });
}

TEST_F(MlpRuns, FlagsOfNetsThatItLacksAndTablesWithoutAnythingToLearnAreRefused) {
  config_.momentum = 0.5;
  expect_error(ErrorKind::usage, {"--momentum", "this run trains mlp"}, [&] { run(); });
  config_.momentum = train::Config().momentum;
  std::string csv = "word,y\n";  // words of four rows each tell those rows and not the next one
  for (int i = 0; i < 40; ++i) csv += cat("w", i % 10, ",", i % 4 < 2 ? "u" : "v", "\n");
  io::write_file_atomic(dir_ / "same.csv", std::string_view(csv));
  config_.data = dir_ / "same.csv";
  expect_error(ErrorKind::data, {"every column is constant", "--model baseline"}, [&] { run(); });
  config_.lr = 1e30;
  config_.data = dir_ / "y.csv";
  expect_error(ErrorKind::diverged, {"--lr"}, [&] { run(); });
}

TEST_F(MlpRuns, TablesOfWordsAloneAndOfFewRowsAreFitted) {
  std::string csv = "word,y\n";
  for (int i = 0; i < 60; ++i) csv += cat(i % 3 ? "x" : "z", ",", i % 3 ? "u" : "v", "\n");
  io::write_file_atomic(dir_ / "words.csv", std::string_view(csv));
  config_.data = dir_ / "words.csv";
  EXPECT_EQ(*run().test.top1, 100);
  io::write_file_atomic(dir_ / "few.csv", std::string_view("a,y\n1,2.5\n2,4\n3,6\n"));
  config_.data = dir_ / "few.csv";
  EXPECT_GT(run().test.count, 0);
}

}  // namespace
}  // namespace freight::tables
