// Choosing between learners of tables and their settings: folds, the leaderboard, what is stored, what a stop leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include <nlohmann/json.hpp>

#include "freight/tables/auto_learner.h"
#include "freight/tables/row_parts.h"
#include "freight/tables/selection_internal.h"
#include "freight/tables/table.h"
#include "freight/tables/xgboost_learner.h"
#include "freight/train/metric.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::ScopedEnvironment;

// Predicts one value for every row.
class OnePrediction : public store::RowModel {
 public:
  explicit OnePrediction(double value) : value_(Array::of<float>({static_cast<float>(value)}, {1})) {}
  int64_t outputs() const override { return 1; }
  bool predicts_classes() const override { return false; }
  Array run(const Array& rows) const override {
    Array out(DType::f32, {rows.shape()[0], 1});
    std::fill_n(out.data<float>(), out.numel(), value_.data<float>()[0]);
    return out;
  }
  int64_t parameters() const override { return 1; }
  std::vector<std::string> lines() const override { return {}; }
  void write(io::SafeTensors& file) const override { file.tensors.emplace_back("value", value_); }

 private:
  Array value_;
};

// A learner whose prediction is its setting --epochs, and which remembers the rows that it was given.
class Remembering : public tables::RowLearner {
 public:
  std::string name() const override { return "remembering"; }
  std::string doc() const override { return "one value"; }
  std::vector<std::string> flags() const override { return {"--epochs"}; }
  tables::RowData read(const tables::RowSource& source) const override {
    tables::RowSource values = source;
    values.values = true;
    return read_table(values);
  }
  train::Cost cost(const train::Config&, const tables::RowData&) const override { return {}; }
  std::optional<tables::Candidate> trial(const train::Config& config, int64_t number) const override {
    tables::Candidate c{.learner = this, .config = config, .settings = cat("--epochs ", number + 2)};
    c.config.epochs = number + 2;
    return c;
  }
  std::shared_ptr<const store::RowModel> fit(const train::Config& config, const tables::RowData& data,
                                             const std::function<bool(const tables::Round&)>& told) const override {
    fits.push_back({data.train.labels.to_vector<float>(), data.held_out.labels.to_vector<float>()});
    auto model = std::make_shared<OnePrediction>(static_cast<double>(config.epochs));
    told({.model = model.get()});
    return model;
  }

  struct Seen {
    std::vector<float> train, test;
  };
  mutable std::vector<Seen> fits;
};

class Selection : public TableRuns {
 protected:
  Selection() {
    static const std::shared_ptr<Remembering> learner = [] {
      auto made = std::make_shared<Remembering>();
      train::register_learner(made);
      store::register_row_model(
          "remembering",
          [](const io::SafeTensors& file, const std::string&,
             const store::RowShape&) -> std::shared_ptr<const store::RowModel> {
            return std::make_shared<OnePrediction>(static_cast<double>(file.find("value")->data<float>()[0]));
          });
      return made;
    }();
    learner_ = learner.get();
    learner_->fits.clear();
  }
  // Rows 0, 1, 2, ... whose value is their number.
  void use_numbers(int64_t n) {
    std::string csv = "a,y\n";
    for (int64_t i = 0; i < n; ++i) csv += cat(i % 7, ",", i, "\n");
    io::write_file_atomic(dir_ / "numbers.csv", std::string_view(csv));
    config_.data = dir_ / "numbers.csv";
    config_.model = "remembering";
  }
  // Two classes, of which the second is one in five and never likelier than not.
  void use_rare() {
    std::string csv = "a,noise,kind\n";
    for (int i = 0; i < 400; ++i) {
      const int a = i * 37 % 20, noise = i * 29 % 13;
      csv += cat(a, ",", noise, ",", a > 11 && i * 7919 % 1009 < 400 ? "yes" : "no", "\n");
    }
    io::write_file_atomic(dir_ / "rare.csv", std::string_view(csv));
    config_.data = dir_ / "rare.csv";
    config_.model = "logistic";
  }

  Remembering* learner_;
};

TEST_F(Selection, FoldsHoldEachRowOutOnceAndAreAlike) {
  const tables::RowData flowers = read_table({.data = config_.data});
  const std::vector<int64_t> fold_of = tables::folds_of(flowers.train, 5, 3);
  EXPECT_EQ(tables::folds_of(flowers.train, 5, 3), fold_of);
  EXPECT_NE(tables::folds_of(flowers.train, 5, 4), fold_of);
  std::map<int64_t, int64_t> rows, daisies;
  for (size_t i = 0; i < fold_of.size(); ++i) {
    ++rows[fold_of[i]];
    daisies[fold_of[i]] += flowers.train.labels.data<int64_t>()[i] == 0;
  }
  ASSERT_EQ(rows.size(), 5u);
  for (const auto& [fold, count] : rows) {
    EXPECT_NEAR(static_cast<double>(count), 48.0 / 5, 1) << fold;
    EXPECT_NEAR(static_cast<double>(daisies[fold]), 16.0 / 5, 1) << fold;
  }
  use_numbers(100);
  const tables::RowData numbers = learner_->read({.data = config_.data});
  const std::vector<int64_t> of_values = tables::folds_of(numbers.train, 4, 0);
  for (int64_t fold = 0; fold < 4; ++fold) {
    const tables::RowData part = tables::with_fold_out(numbers, of_values, fold);
    EXPECT_EQ(part.held_out.count(), 20);
    std::vector<float> both = part.train.labels.to_vector<float>(), all = numbers.train.labels.to_vector<float>();
    double sum = 0;
    for (const float v : part.held_out.labels.to_vector<float>()) sum += static_cast<double>(v), both.push_back(v);
    EXPECT_NEAR(sum / 20, 49.5, 6) << "small and large values are in each";
    std::sort(both.begin(), both.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(both, all);
    EXPECT_EQ(tables::with_fold_out(numbers, of_values, fold, 1.0 / 3).train.count(), 20);
  }
  expect_error(ErrorKind::usage, {"--folds", "got 200", "80 training rows"},
               [&] { tables::folds_of(numbers.train, 200, 0); });
}

TEST_F(Selection, FoldsKeepGroupsTogetherAndWeightsWithTheirRows) {
  use_numbers(100);
  tables::RowData data = learner_->read({.data = config_.data});
  const int64_t n = data.train.count();
  Array groups(DType::i64, {n}), weights(DType::f32, {n});
  for (int64_t i = 0; i < n; ++i) {
    groups.data<int64_t>()[i] = i * i % 23;
    weights.data<float>()[i] = data.train.labels.data<float>()[i] + 1;
  }
  data.train.groups = groups;
  data.train.weights = weights;
  const std::vector<int64_t> fold_of = tables::folds_of(data.train, 3, 1);
  EXPECT_EQ(tables::folds_of(data.train, 3, 1), fold_of);
  std::map<int64_t, std::set<int64_t>> folds_of_group;
  std::vector<int64_t> rows(3);
  for (int64_t i = 0; i < n; ++i) {
    folds_of_group[groups.data<int64_t>()[i]].insert(fold_of[static_cast<size_t>(i)]);
    ++rows[static_cast<size_t>(fold_of[static_cast<size_t>(i)])];
  }
  for (const auto& [group, folds] : folds_of_group) EXPECT_EQ(folds.size(), 1u) << group;
  for (const int64_t count : rows) EXPECT_NEAR(static_cast<double>(count), static_cast<double>(n) / 3, 8);
  const tables::RowData part = tables::with_fold_out(data, fold_of, 0), tenth = tables::with_tenth_out(data, 1);
  for (const store::Rows& some : {part.train, part.held_out, tenth.train, tenth.held_out}) {
    ASSERT_GT(some.count(), 0);
    for (int64_t i = 0; i < some.count(); ++i) {
      EXPECT_EQ(some.weights->data<float>()[i], some.labels.data<float>()[i] + 1);
    }
  }
  std::set<int64_t> in, out;
  for (const int64_t g : tenth.train.groups->to_vector<int64_t>()) in.insert(g);
  for (const int64_t g : tenth.held_out.groups->to_vector<int64_t>()) out.insert(g);
  for (const int64_t g : out) EXPECT_FALSE(in.contains(g)) << g;
  expect_error(ErrorKind::usage, {"--folds", "got 60", "groups of training rows"},
               [&] { tables::folds_of(data.train, 60, 0); });
}

TEST(SharedFolds, ALearnerThatTheTimeEndedIsComparedOnItsFolds) {
  const metrics::Metric less{.name = "log_loss", .higher = false}, more{.name = "auc", .higher = true};
  const std::vector<double> all = {0.3, 0.3, 0.9}, some = {0.4, 0.4};
  EXPECT_TRUE(tables::better_on_shared_folds(less, all, some))
      << "the hard fold, which the other lacks, does not count";
  EXPECT_FALSE(tables::better_on_shared_folds(less, some, all));
  EXPECT_TRUE(tables::better_on_shared_folds(more, some, all));
  EXPECT_FALSE(tables::better_on_shared_folds(less, all, all)) << "of equally good ones the first stays";
}

TEST_F(Selection, TheTestPartIsNeverSeenBeforeItIsMeasured) {
  use_numbers(100);
  config_.folds = 4;
  const train::Result r = run();
  const tables::RowData data = learner_->read({.data = config_.data});
  const std::vector<float> of_test = data.held_out.labels.to_vector<float>();
  const std::set<float> test(of_test.begin(), of_test.end());
  ASSERT_EQ(learner_->fits.size(), 5u);
  for (const Remembering::Seen& seen : learner_->fits) {
    for (const auto* part : {&seen.train, &seen.test}) {
      EXPECT_TRUE(std::none_of(part->begin(), part->end(), [&](float v) { return test.contains(v); }));
    }
  }
  EXPECT_EQ(learner_->fits.back().train.size(), 72u) << "a learner that reads held-out rows has a tenth of its own";
  ASSERT_TRUE(r.comparison);
  const train::Leaderboard board = train::leaderboard_in(r.comparison->json);
  EXPECT_EQ(board.metric, "rmse");
  ASSERT_EQ(board.standings.size(), 1u);
  EXPECT_EQ(board.standings[0].folds, 4);
  double squares = 0;
  for (const float v : of_test) squares += std::pow(static_cast<double>(v) - 1, 2);
  EXPECT_NEAR(*r.test.metric, std::sqrt(squares / static_cast<double>(of_test.size())), 1e-4);
  EXPECT_EQ(r.metric_name, "rmse");
}

TEST_F(Selection, ATestPartOfItsOwnLeavesAllRowsToTheComparison) {
  use_numbers(100);
  io::write_file_atomic(dir_ / "test.csv", std::string_view("a,y\n1,1000\n2,2000\n"));
  config_.test = dir_ / "test.csv";
  config_.folds = 4;
  const train::Result r = run();
  ASSERT_EQ(learner_->fits.size(), 5u);
  for (size_t fold = 0; fold < 4; ++fold) {
    EXPECT_EQ(learner_->fits[fold].train.size() + learner_->fits[fold].test.size(), 100u);
  }
  EXPECT_EQ(learner_->fits.back().train.size(), 90u) << "a tenth is for learners that stop by held-out rows";
  for (const Remembering::Seen& seen : learner_->fits) {
    for (const auto* part : {&seen.train, &seen.test}) EXPECT_LT(*std::max_element(part->begin(), part->end()), 100);
  }
  EXPECT_EQ(r.test.count, 2);
  const store::Bundle bundle = store::load_bundle(r.model_path);
  EXPECT_EQ(learner_->measure(bundle, r.model_path, {}).figures.count, 2);
  train::MeasureRequest held_out;
  held_out.split = "val";
  expect_error(ErrorKind::usage, {"--split", "was left for validation", "--split train measures"},
               [&] { learner_->measure(bundle, r.model_path, held_out); });
  // Without a comparison the held-out rows guide the fit, as before.
  learner_->fits.clear();
  config_.folds = 0;
  config_.output_dir = dir_ / "alone";
  run();
  EXPECT_EQ(learner_->fits.back().train.size(), 80u);
}

TEST_F(Selection, ARunIsCountedAndComputedAsTheChosenLearnerDoes) {
  struct Heard : train::Observer {
    void on_compared(const train::Comparison& comparison) override { pass = comparison.pass; }
    std::string pass;
  } observer;
  const auto compute = [&](const std::string& run) {
    return nlohmann::json::parse(read_text(dir_ / (run + "/run.json"))).at("compute").get<std::string>();
  };
  EXPECT_STREQ(dynamic_cast<const tables::RowLearner*>(train::find_learner("mlp"))->compute(), "f32");
  config_.model = "mlp";
  config_.epochs = 2;
  config_.folds = 2;
  train::train(config_, observer, {}, {"train"});
  EXPECT_EQ(observer.pass, "epoch");
  EXPECT_EQ(compute("run"), "f32");
  EXPECT_NE(read_text(dir_ / "run/log.txt").find("epoch 1/2"), std::string::npos);
  const ScopedEnvironment none("FREIGHT_XGBOOST", "none");
  config_ = {};
  config_.data = dir_ / "flowers.csv";
  config_.model = "auto";
  config_.output_dir = dir_ / "auto";
  config_.time_budget = "60s";
  const train::Result r = train::train(config_, observer, {}, {"train"});
  const std::string chosen = store::load_bundle(r.model_path).learner;
  EXPECT_EQ(observer.pass, chosen == "mlp" ? "epoch" : "round");
  EXPECT_EQ(compute("auto"), chosen == "mlp" ? "f32" : "f64");
  config_.precision = "bf16";
  config_.model = "mlp";
  config_.output_dir = dir_ / "other";
  expect_error(ErrorKind::usage, {"--precision", "mlp computes in f32"}, [&] { train::prepare(config_); });
}

TEST_F(Selection, HalvingFindsTheBestOfManySettings) {
  use_numbers(100);
  config_.tune = 60;  // predictions 2 to 61, of which the mean is best
  const train::Result r = run();
  const tables::RowData data = learner_->read({.data = config_.data});
  double mean = 0;
  for (const float v : data.train.labels.to_vector<float>()) mean += static_cast<double>(v) / 80;
  ASSERT_TRUE(r.comparison);
  const train::Leaderboard board = train::leaderboard_in(r.comparison->json);
  EXPECT_EQ(board.standings[0].settings, cat("--epochs ", std::llround(mean)));
  EXPECT_EQ(board.standings.size(), 61u) << "each is a line";
  EXPECT_EQ(
      std::count_if(board.standings.begin(), board.standings.end(), [](const train::ModelScore& s) { return s.whole; }),
      4)
      << "the usual settings and three that were left";
  EXPECT_LT(learner_->fits.size(), 60u + 20 + 7 + 3 * 5 + 5 + 5) << "most see one fold of few rows";
  const store::Bundle bundle = store::load_bundle(r.model_path);
  EXPECT_EQ(bundle.rows->run(Array(DType::f64, {1, 1})).data<float>()[0], static_cast<float>(std::llround(mean)));
  const nlohmann::json run = nlohmann::json::parse(read_text(dir_ / "run/run.json"));
  EXPECT_EQ(run.at("leaderboard").at("standings").size(), 61u);
  EXPECT_EQ(run.at("leaderboard").at("standings")[0].at("settings"), board.standings[0].settings);
}

TEST_F(Selection, WithoutXgboostTheOthersAreComparedAndTheReasonIsTold) {
  const ScopedEnvironment none("FREIGHT_XGBOOST", "none");
  config_.model = "auto";
  const train::Result r = run();
  ASSERT_TRUE(r.comparison);
  const train::Leaderboard board = train::leaderboard_in(r.comparison->json);
  EXPECT_EQ(board.standings[0].folds, 5);
  EXPECT_EQ(board.standings.back().learner, "baseline") << "which the others are better than";
  EXPECT_GT(board.standings.back().mean, board.standings[0].mean);
  std::set<std::string> left_out;
  for (const std::string& reason : board.left_out) {
    if (reason.find("FREIGHT_XGBOOST=none") != std::string::npos) left_out.insert(reason.substr(0, reason.find(':')));
  }
  EXPECT_EQ(left_out, (std::set<std::string>{"forest", "gbdt"}));
  const store::Bundle bundle = store::load_bundle(r.model_path);
  EXPECT_EQ(bundle.learner, board.standings[0].learner);
  const train::Measurement m = train::learner_of(bundle).measure(bundle, r.model_path, {});
  EXPECT_EQ(m.scores.front().name, "log_loss") << "the metric of the comparison stands first";
  EXPECT_NEAR(m.scores.front().value, *r.test.metric, 1e-12);
  EXPECT_GT(*r.test.top1, 99.0);
}

TEST_F(Selection, ANamedXgboostThatIsNotThereIsAnErrorAndNotAReasonToSkipTrees) {
  const std::string path = dir_ / "none.so";
  config_.model = "auto";
  config_.xgboost = path;
  expect_error(ErrorKind::device, {"--xgboost", "there is no file " + path}, [&] { run(); });
  config_.xgboost = "";
  const ScopedEnvironment named("FREIGHT_XGBOOST", path);
  expect_error(ErrorKind::device, {"FREIGHT_XGBOOST", "there is no file " + path}, [&] { run(); });
}

TEST_F(Selection, AutoFitsTheBestToAllRowsAndStoresItAsThatLearner) {
  if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
  std::string csv = "a,b,y\n";
  for (int i = 0; i < 600; ++i) {
    const int a = i * 37 % 101, b = i * 53 % 89;
    csv += cat(a, ",", b, ",", (a > 40) != (b > 50) ? "apart" : "alike", "\n");  // no line tells them apart
  }
  io::write_file_atomic(dir_ / "apart.csv", std::string_view(csv));
  config_.data = dir_ / "apart.csv";
  config_.model = "auto";
  config_.tune = 4;
  config_.time_budget = "1h";
  const train::Result r = run();
  ASSERT_TRUE(r.comparison);
  const train::Leaderboard board = train::leaderboard_in(r.comparison->json);
  const store::Bundle bundle = store::load_bundle(r.model_path);
  EXPECT_NE(bundle.learner, "logistic");
  EXPECT_EQ(bundle.learner, board.standings[0].learner);
  EXPECT_GT(*r.test.top1, 95.0);
  std::map<std::string, int> lines;
  for (const train::ModelScore& s : board.standings) ++lines[s.learner];
  EXPECT_EQ(lines["gbdt"], 4) << "in two settings, and two that were drawn";
  EXPECT_EQ(lines["forest"], 3);
  EXPECT_EQ(lines["logistic"], 1);
  for (const std::string& line : train::lines_of(board)) EXPECT_EQ(line.find("nan"), std::string::npos) << line;
}

TEST_F(Selection, AutoTriesTreesThatSeeAPartUnlessTheUserSaysWhichPart) {
  if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
  const AutoLearner learner;
  const auto settings = [&] {
    std::vector<std::string> all, left_out;
    for (const tables::Candidate& c : learner.candidates(config_, learner.read({.data = config_.data}), left_out)) {
      if (c.config.model == "gbdt") all.push_back(c.settings);
    }
    return all;
  };
  EXPECT_EQ(settings(), (std::vector<std::string>{"", "--subsample 0.8 --colsample 0.8"}));
  config_.colsample = 0.5;
  EXPECT_EQ(settings(), (std::vector<std::string>{""}));
}

TEST_F(Selection, TheRoundsOfTheFitOnAllRowsAreThoseThatWereBestOnFolds) {
  if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
  config_.model = "gbdt";
  config_.lr = 0.5;
  config_.folds = 3;
  const train::Result r = run();
  EXPECT_LT(r.steps, 1000);
  const TreeLearner gbdt(TreeLearner::Kind::gbdt);
  EXPECT_TRUE(gbdt.reads_held_out(config_));
  EXPECT_FALSE(gbdt.reads_held_out(gbdt.settled(config_, {store::load_bundle(r.model_path).rows})));
  EXPECT_EQ(gbdt.settled(config_, {store::load_bundle(r.model_path).rows}).rounds, r.steps);
}

TEST_F(Selection, SettingsToTryAreDrawnByTheSeedAndLeaveThoseOfTheUser) {
  const TreeLearner gbdt(TreeLearner::Kind::gbdt);
  train::Config c;
  c.max_depth = 3;
  const auto one = gbdt.trial(c, 1);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->config.max_depth, 3);
  EXPECT_EQ(one->settings.find("--max-depth"), std::string::npos);
  EXPECT_NE(one->settings.find(cat("--lr ", one->config.lr)), std::string::npos) << one->settings;
  EXPECT_EQ(gbdt.trial(c, 1)->settings, one->settings);
  EXPECT_NE(gbdt.trial(c, 2)->settings, one->settings);
  c.seed = 1;
  EXPECT_NE(gbdt.trial(c, 1)->settings, one->settings);
}

TEST_F(Selection, AStopKeepsTheBestSoFarAndSaysSo) {
  struct Stopping : train::Observer {
    train::AfterStep on_comparison(const std::string& what) override {
      heard.push_back(what);
      return {.stop = heard.size() >= 8};
    }
    std::vector<std::string> heard;
  } observer;
  use_numbers(100);
  config_.folds = 10;
  const train::Result r = train::train(config_, observer, {}, {"train"});
  EXPECT_EQ(r.ended, train::Ended::by_observer);
  ASSERT_TRUE(r.comparison);
  const train::Leaderboard board = train::leaderboard_in(r.comparison->json);
  EXPECT_GE(board.standings[0].folds, 2);
  EXPECT_LT(board.standings[0].folds, 10);
  EXPECT_EQ(store::load_bundle(r.model_path).learner, "remembering");
  EXPECT_EQ(observer.heard[0], "remembering, fold 1 of 10");
}

TEST_F(Selection, ATimeThatIsOverLeavesTheFirstLearner) {
  const ScopedEnvironment none("FREIGHT_XGBOOST", "none");
  config_.model = "auto";
  config_.data = dir_ / "values.csv";
  config_.time_budget = "0.000001s";
  const train::Result r = run();
  ASSERT_TRUE(r.comparison);
  const train::Leaderboard board = train::leaderboard_in(r.comparison->json);
  ASSERT_EQ(board.standings.size(), 2u) << "beside the baseline";
  EXPECT_EQ(board.standings[0].folds, 1);
  EXPECT_EQ(board.standings[1].learner, "baseline");
  EXPECT_EQ(store::load_bundle(r.model_path).learner, "ridge");
}

TEST_F(Selection, AThresholdIsChosenForTheMetricStoredAndUsed) {
  use_rare();
  const train::Result plain = run();
  EXPECT_FALSE(store::load_bundle(plain.model_path).threshold);
  config_.metric = "f1";
  config_.folds = 4;
  config_.output_dir = dir_ / "f1";
  const train::Result r = run();
  const store::Bundle bundle = store::load_bundle(r.model_path);
  ASSERT_TRUE(bundle.threshold);
  EXPECT_LT(*bundle.threshold, 0.45) << "the second class is never likelier than not";
  const train::Measurement m = train::learner_of(bundle).measure(bundle, r.model_path, {});
  EXPECT_EQ(m.scores.front().name, "f1");
  EXPECT_NEAR(m.scores.front().value, *r.test.metric, 1e-12);
  const train::Measurement before =
      train::learner_of(bundle).measure(store::load_bundle(plain.model_path), plain.model_path, {});
  const auto f1 = std::find_if(before.scores.begin(), before.scores.end(), [](auto& s) { return s.name == "f1"; });
  EXPECT_GT(m.scores.front().value, f1 == before.scores.end() ? 0.0 : f1->value + 0.1);
  const float low = static_cast<float>(*bundle.threshold), over[] = {1 - low - 0.01f, low + 0.01f};
  EXPECT_EQ(bundle.predicted(over, 2), 1);
  config_.threshold = 0.3;
  config_.output_dir = dir_ / "said";
  EXPECT_EQ(store::load_bundle(run().model_path).threshold, 0.3);
  expect_damaged(r.model_path, [](io::SafeTensors& f) { f.metadata["threshold"] = "1.5"; }, {"threshold", "1.5"});
  expect_damaged(r.model_path, [](io::SafeTensors& f) { f.metadata["threshold"] = "\"half\""; }, {"damaged"});
}

TEST_F(Selection, NonsenseIsRefusedByItsFlag) {
  const auto refused = [&](const std::vector<std::string>& parts, auto change) {
    train::Config c = config_;
    change(c);
    expect_error(ErrorKind::usage, parts, [&] { train::prepare(c); });
  };
  using C = train::Config;
  const std::string values = dir_ / "values.csv";
  refused({"--metric", "rmse is for values", "2 classes", "auc"}, [](C& c) { c.metric = "rmse"; });
  refused({"--metric", "macro_f1 is for more than two classes"}, [](C& c) { c.metric = "macro_f1"; });
  refused({"--metric", "auc is for two classes", "contains values", "rmse, mae, r2"}, [&](C& c) {
    c.data = values;
    c.metric = "auc";
  });
  refused({"--metric", "quantile_loss", "--objective quantile"}, [&](C& c) {
    c.data = values;
    c.metric = "quantile_loss";
  });
  refused({"--metric", "unknown value", "got acc", "accuracy"}, [](C& c) { c.metric = "acc"; });
  refused({"--threshold", "two classes", "contains values"}, [&](C& c) {
    c.data = values;
    c.threshold = 0.4;
  });
  refused({"--tune", "baseline has none to try"}, [](C& c) { c.tune = 3; });
  refused({"--folds", "got 1"}, [](C& c) { c.folds = 1; });
  refused({"--time-budget", "like 60s", "'60'"}, [](C& c) { c.time_budget = "60"; });
  refused({"--time-budget", "is for comparing"}, [](C& c) { c.time_budget = "60s"; });
  refused({"--rounds is a flag of tree models; this run trains auto"}, [](C& c) {
    c.model = "auto";
    c.rounds = 5;
  });
  refused({"--tune is a flag of table models; this run trains a network"}, [](C& c) {
    c = C();
    c.model = "lenet";
    c.tune = 3;
  });
}

TEST_F(Selection, ALearnerHasItsOwnLearningRateHoweverItIsNamed) {
  EXPECT_EQ(train::learning_rate(train::Config()), 0.01) << "of networks";
  train::Config nets;
  nets.model = "mlp";
  EXPECT_EQ(train::prepare(nets).config().lr, 0.01);
  if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
  train::Config c = config_;
  c.model = "gbdt";
  EXPECT_EQ(train::prepare(c).config().lr, kGbdtRate);
  c.lr = 0.03;
  EXPECT_EQ(train::prepare(c).config().lr, 0.03);
  c = train::recipe(config_.data);  // of texts: a program may say the model by itself
  c.model = "gbdt";
  c.output_dir = dir_ / "other";
  const train::PreparedRun run = train::prepare(c);
  EXPECT_EQ(run.config().lr, kGbdtRate);
  const std::vector<std::string> notes = run.summary().notes;
  EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [](const std::string& n) {
    return n.find("belongs to the recipe, for networks") != std::string::npos;
  }));
}

TEST_F(Selection, EarlyStopGoesByTheMetric) {
  if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
  use_rare();
  config_.model = "gbdt";
  config_.rounds = 40;
  config_.early_stop = 5;
  config_.lr = 0.3;
  const tables::RowData data = read_table({.data = config_.data});
  const TreeLearner gbdt(TreeLearner::Kind::gbdt);
  const auto best = [&](const char* metric) {
    config_.metric = metric;
    std::vector<double> scores;
    const metrics::Metric by = train::metric_for(config_, 2);
    const auto model = gbdt.fit(config_, data, [&](const tables::Round& r) {
      scores.push_back(*r.test->metric);
      return true;
    });
    const double kept = *metrics::score_of(by, model->run(data.held_out.values.array()), data.held_out.labels);
    for (const double s : scores) EXPECT_FALSE(by.better(s, kept + (by.higher ? 1e-9 : -1e-9))) << metric;
    return std::dynamic_pointer_cast<const XgboostModel>(model)->rounds();
  };
  EXPECT_NE(best("auc"), best("accuracy"));
  best("log_loss");
}

}  // namespace
}  // namespace freight::tables
