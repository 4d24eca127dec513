// The learner mlp of tables: it learns what depends on several columns together, answers missing cells and unknown
// words, is stored and read again to the bit, and gives its name to the net where the data is no table.
#include "freight/tables/mlp_learner.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>

#include "freight/base/threads.h"
#include "freight/deploy/predictor.h"
#include "freight/io/json_library.h"
#include "freight/io/npy.h"
#include "freight/job/signals.h"
#include "freight/tables/mlp_columns.h"
#include "freight/tables/mlp_model.h"
#include "freight/train/folds.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;
using Doubles = std::vector<double>;

const double kGone = std::nan("");

TEST(MlpColumnsOfATable, OfFewValuesWithRowsEnoughForEachAreCutAtEveryValue) {
  const auto bins = [](int64_t rows, int64_t values) {
    Array cells(DType::f64, {rows, 1});
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t v = i % values;
      cells.data<double>()[i] = static_cast<double>(v * v);
    }
    return MlpColumns({.columns = {{.name = "a"}}, .classes = {}}, {cells, Array(DType::f32, {rows})}).bins();
  };
  EXPECT_EQ(bins(2000, 150), 149);
  EXPECT_EQ(bins(2000, 200), 199) << "ten rows for each";
  EXPECT_EQ(bins(2000, 201), 48);
  EXPECT_EQ(bins(300, 150), 48) << "two rows for each tell no more than noise";
  EXPECT_EQ(bins(20000, 640), 639);
  EXPECT_EQ(bins(20000, 641), 48) << "as a column of numbers that all differ";
}

TEST(MlpColumnsOfATable, ARowCountsAsOftenAsItsWeightSays) {
  const store::RowShape shape{.columns = {{.name = "a"}, {.name = "b", .words = true, .levels = {"x", "y", "z"}}},
                              .classes = {}};
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
  store::Rows repeated = train::rows_at(rows, again);
  repeated.weights.reset();
  const auto stored = [&](const store::Rows& of) {
    io::SafeTensors file;
    MlpColumns(shape, of).write(file);
    return file;
  };
  const io::SafeTensors weighed = stored(rows), often = stored(repeated);
  for (const auto& [name, tensor] : often.tensors) {
    const Array* const other = weighed.find(name);
    ASSERT_TRUE(other && other->shape() == tensor.shape()) << name;
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const auto at = [&](const Array& a) { return a.cast(DType::f64).data<double>()[i]; };
      EXPECT_NEAR(at(*other), at(tensor), 1e-9 * std::max(1.0, std::fabs(at(tensor)))) << name << " " << i;
    }
  }
}

TEST(MlpColumnsOfATable, AreScaledCutAtQuantilesAndNumbered) {
  const store::RowShape shape{.columns = {{.name = "a"},
                                          {.name = "same"},
                                          {.name = "w", .words = true, .levels = {"rare", "x", "y"}},
                                          {.name = "b"}},
                              .classes = {}};
  Array rows(DType::f64, {20, 4});
  for (int64_t i = 0; i < 20; ++i) {
    double* const cells = rows.data<double>() + 4 * i;
    cells[0] = i == 3 ? kGone : static_cast<double>(i % 2);
    cells[1] = 7;
    cells[2] = i == 0 ? 0 : static_cast<double>(1 + i % 2);
    cells[3] = static_cast<double>(i * i);
  }
  const store::Rows part{rows, Array(DType::f32, {20})};
  const MlpColumns columns(shape, part);
  EXPECT_EQ(columns.numbers(), 2) << "a column that never changes is left out";
  EXPECT_EQ(columns.words(), 1);
  EXPECT_EQ(columns.embeddings(), 3) << "one for each word but the rare one, and one for all others";
  EXPECT_EQ(columns.bins(), 19) << "as many as there are different cells between which a cut may lie";
  // A column of two numbers has one bin from the lower to the upper one; the bins that it lacks have no slope.
  const std::vector<float> starts = columns.bin_starts().to_vector<float>(),
                           slopes = columns.bin_slopes().to_vector<float>();
  const double mean = 9.0 / 19, scale = std::sqrt(mean * (1 - mean));
  EXPECT_NEAR(starts[0], -mean / scale, 1e-6);
  EXPECT_NEAR(slopes[0], scale, 1e-6);
  for (size_t b = 1; b < 19; ++b) EXPECT_EQ(slopes[b], 0) << b;

  Array asked(DType::f64, {3, 4});
  const Doubles cells = {1, 7, 1, 400, kGone, 8, store::kUnknownWord, 0, std::numeric_limits<double>::infinity(),
                         7, 0, 1};
  std::copy(cells.begin(), cells.end(), asked.data<double>());
  const MlpColumns::Encoded encoded = columns.encode(asked, 0, 3, 4);
  const std::vector<float> numbers = encoded.numbers.to_vector<float>();
  EXPECT_NEAR(numbers[0], (1 - mean) / scale, 1e-6);
  EXPECT_TRUE(std::isnan(numbers[2]));
  EXPECT_TRUE(std::isfinite(numbers[4])) << "an infinite number is a far one";
  EXPECT_TRUE(std::isnan(numbers[6])) << "rows behind the last one are empty";
  const std::vector<int64_t> words = encoded.words.to_vector<int64_t>();
  EXPECT_EQ(words, (std::vector<int64_t>{1, 0, 0, 0}));

  rows.data<double>()[4 * 5 + 3] = std::numeric_limits<double>::infinity();
  expect_error(ErrorKind::data, {"b", "finite"}, [&] { MlpColumns(shape, part); });
}

class MlpRuns : public TableRuns {
 protected:
  MlpRuns() {
    config_.overwrite = true;
    tell("y");
  }
  // 400 rows of two numbers, a word that changes what they mean, and a number that is missing in every fifth row. What
  // is told is a chess board's colour, "y", or depends on it: no sum over the columns tells its fields apart.
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
  // The stored model answers as the fitted one, and says what it is.
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
  EXPECT_FALSE(bundle.rows->tells_classes());
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
  const train::RowData data = MlpLearner().read({.data = config_.data});
  const int64_t n = data.train.count(), width = data.train.values.shape()[1];
  const std::vector<float> all = bundle.rows->run(data.train.values).to_vector<float>();
  Array reversed(DType::f64, {n, width});
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(data.train.values.data<double>() + (n - 1 - i) * width, width, reversed.data<double>() + i * width);
  }
  const std::vector<float> backwards = bundle.rows->run(reversed).to_vector<float>();
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(2 * i), other = static_cast<size_t>(2 * (n - 1 - i));
    EXPECT_EQ(all[at], backwards[other]) << i;
    if (i % 40 != 0) continue;
    Array one(DType::f64, {1, width});
    std::copy_n(data.train.values.data<double>() + i * width, width, one.data<double>());
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
  train::RowData data = MlpLearner().read({.data = config_.data});
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
  const auto fitted = [&] { return MlpLearner().fit(config_, data, [](const train::Round&) { return true; }); };
  EXPECT_GT(*train::evaluate(*fitted(), right).top1, 75);
  std::fill_n(data.train.weights->data<float>(), n, 0.0f);
  expect_error(ErrorKind::data, {"y.csv", "nothing to learn from"}, fitted);
}

// An epoch of a table of 300,000 rows takes half a minute, for which SIGTERM waited.
TEST_F(MlpRuns, ASignalEndsAnEpochBehindABatch) {
  const train::RowData data = MlpLearner().read({.data = config_.data});
  MlpLearner().choose(config_);
  config_.epochs = 1;
  const auto loss = [&] {
    double told = 0;
    MlpLearner().fit(config_, data, [&](const train::Round& round) {
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
  const auto number = [](const std::string& name, double value) {
    return [=](io::SafeTensors& f) {
      for (auto& [key, tensor] : f.tensors) {
        if (key != name) continue;
        tensor = tensor.clone();
        dispatch(tensor.dtype(), [&]<class S>(S) { tensor.data<S>()[0] = static_cast<S>(value); });
      }
    };
  };
  expect_damaged(path, number("mlp.number_columns", 2), {"mlp.number_columns", "no column of numbers"});
  expect_damaged(path, number("mlp.word_columns", 99), {"mlp.word_columns", "no column of words"});
  expect_damaged(path, number("mlp.words", 77), {"mlp.words", "77"});
  expect_damaged(path, number("mlp.scales", kGone), {"mlp.scales"});
  expect_damaged(path, number("mlp.edges", 1e6), {"mlp.edges", "do not rise"});
  expect_damaged(path, number("mlp.net.layer0.weight", kGone), {"mlp.net.layer0.weight", "NaN or infinity"});
  const auto entry = [](const std::string& text) { return [=](io::SafeTensors& f) { f.metadata["mlp"] = text; }; };
  expect_damaged(path, entry("{"), {"metadata: mlp"});
  expect_damaged(path, [](io::SafeTensors& f) { f.metadata.erase("mlp"); }, {"no entry mlp"});
  std::string made = good.metadata.at("mlp");
  const size_t at = made.find("\"members\":");
  made.insert(at + 10, "99999");
  expect_damaged(path, entry(made), {"members", "expected 1 to"});
  // 17 GB of weights were made before the file was asked for them.
  nlohmann::json large = nlohmann::json::parse(good.metadata.at("mlp"));
  large["members"] = large["width"] = 8192;
  large["layers"] = 64;
  expect_damaged(path, entry(large.dump()), {"a network of these sizes has", "weights, and the file holds"});
}

// A file says of what sizes its net is, which may have 2^20 weights more than twice what the file holds.
TEST_F(MlpRuns, WeightsOfAStoredNetAreLimitedByWhatItsFileHolds) {
  config_.epochs = 1;
  const std::string path = run().model_path;
  nlohmann::json made = nlohmann::json::parse(io::load_safetensors(path).metadata.at("mlp"));
  made["width"] = 1024;
  const auto refusal = [&](int64_t more) -> std::string {
    io::SafeTensors file = io::load_safetensors(path);
    file.metadata.erase("xxh3_128");
    file.metadata["mlp"] = made.dump();
    if (more > 0) file.tensors.emplace_back("more", Array(DType::u8, {more}));
    io::save_safetensors(dir_ / "large.safetensors", file);
    try {
      store::load_bundle(dir_ / "large.safetensors");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const std::string first = refusal(0);
  double need = 0, held = 0;
  const size_t at = first.find("sizes has ");
  ASSERT_NE(at, std::string::npos) << first;
  ASSERT_EQ(std::sscanf(first.c_str() + at, "sizes has %lf weights, and the file holds %lf", &need, &held), 2) << first;
  // This many more numbers in the file are enough; which of the weights are missing is told then.
  const auto enough = static_cast<int64_t>(std::ceil((need - (1 << 20)) / 2 - held));
  ASSERT_GT(enough, 1);
  EXPECT_NE(refusal(enough - 1).find("weights, and the file holds"), std::string::npos);
  for (const int64_t more : {enough, enough + 1}) {
    EXPECT_NE(refusal(more).find("the tensor mlp.net."), std::string::npos) << refusal(more);
  }
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
  expect_error(ErrorKind::usage, {"--momentum", "--model mlp"}, [&] { run(); });
  config_.momentum = train::Config().momentum;
  std::string csv = "word,y\n";  // words of four rows each tell those rows and not the next one
  for (int i = 0; i < 40; ++i) csv += cat("w", i % 10, ",", i % 4 < 2 ? "u" : "v", "\n");
  io::write_file_atomic(dir_ / "same.csv", std::string_view(csv));
  config_.data = dir_ / "same.csv";
  expect_error(ErrorKind::data, {"no column differs", "--model baseline"}, [&] { run(); });
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
