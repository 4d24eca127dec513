// Boosted trees and forests by XGBoost. Tests that need the library skip themselves where there is none; the columns,
// the reader of stored trees and what is told of a wrong library are tested everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include <nlohmann/json.hpp>

#include "freight/store/bundle.h"
#include "freight/tables/learners.h"
#include "freight/tables/table.h"
#include "freight/tables/xgboost_learner.h"
#include "freight/train/trainer.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;
using Json = nlohmann::json;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(TreeColumns, WordsThatAreUnknownAreMissingAndNumbersStayWithinF32) {
  const std::vector<store::Column> columns = {{.name = "a"}, {.name = "b", .words = true, .levels = {"x", "y"}}};
  const TreeColumns c(columns);
  const Array rows = Array::of<double>({-1, store::kUnknownWord, NAN, 1, 1e300, NAN, -1e300, 0}, {4, 2});
  const std::vector<float> got = c.features(rows).to_vector<float>();
  constexpr float kMost = std::numeric_limits<float>::max();
  const std::vector<float> need = {-1, kNan, kNan, 1, kMost, kNan, -kMost, 0};
  for (size_t i = 0; i < need.size(); ++i) {
    EXPECT_TRUE(std::isnan(need[i]) ? std::isnan(got[i]) : got[i] == need[i]) << i << ": " << got[i];
  }
  EXPECT_EQ(c.features(rows, 1, 2).shape(), (Shape{1, 2}));
  io::SafeTensors file;
  c.write(file);
  EXPECT_TRUE(file.tensors.empty());
}

TEST(TreeColumns, NumbersThatF32WouldNotTellApartAreReadFromTheLeastOn) {
  Array rows(DType::f64, {4, 2});
  for (int i = 0; i < 4; ++i) {
    rows.data<double>()[2 * i] = 1.7e9 + i;  // f32 has steps of 128 there
    rows.data<double>()[2 * i + 1] = 0.1 * i;
  }
  rows.data<double>()[2] = NAN;
  const TreeColumns c({{.name = "time"}, {.name = "b"}}, store::Rows{rows, Array(DType::f32, {4})});
  io::SafeTensors file;
  c.write(file);
  ASSERT_NE(file.find("xgboost.origins"), nullptr);
  EXPECT_EQ(file.find("xgboost.origins")->to_vector<double>(), (std::vector<double>{1.7e9, 0}));
  const Array features = c.features(rows);
  EXPECT_EQ(features.data<float>()[0], 0);
  EXPECT_TRUE(std::isnan(features.data<float>()[2]));
  EXPECT_EQ(features.data<float>()[6], 3);
  EXPECT_EQ(features.data<float>()[7], 0.3f);
}

TEST(TreeColumns, AColumnWithoutAValueInTheFittedRowsIsReadAsItIs) {
  const Array rows = Array::of<double>({kNan, 0.1, kNan, 0.2}, {2, 2});
  const TreeColumns c({{.name = "a"}, {.name = "b"}}, store::Rows{rows, Array(DType::f32, {2})});
  io::SafeTensors file;
  c.write(file);
  EXPECT_EQ(file.find("xgboost.origins"), nullptr);
  EXPECT_EQ(c.features(Array::of<double>({0.3, 0.1}, {1, 2})).to_vector<float>(), (std::vector<float>{0.3f, 0.1f}));
}

TEST(TreeColumns, WordsOfAFewRowsAreMissing) {
  const std::vector<store::Column> columns = {{.name = "a", .words = true, .levels = {"few", "many", "more"}},
                                              {.name = "id", .words = true, .levels = {"x", "y"}}};
  Array rows(DType::f64, {14, 2});
  for (int i = 0; i < 14; ++i) {
    rows.data<double>()[2 * i] = i < 4 ? 0 : i < 9 ? 1 : 2;
    rows.data<double>()[2 * i + 1] = i < 2 ? i : NAN;
  }
  const TreeColumns c(columns, store::Rows{rows, Array(DType::f32, {14})});
  EXPECT_TRUE(c.words(0));
  EXPECT_FALSE(c.words(1)) << "no word is a category";
  io::SafeTensors file;
  c.write(file);
  const auto predictions = [&](const TreeColumns& by) {
    return by.features(Array::of<double>({0, 0, 1, 1, 2, -1, -1, 0}, {4, 2})).to_vector<float>();
  };
  const std::vector<float> got = predictions(c), again = predictions(TreeColumns(columns, file, "m"));
  for (const std::vector<float>& features : {got, again}) {
    EXPECT_TRUE(std::isnan(features[0]));
    EXPECT_EQ(features[2], 0);
    EXPECT_EQ(features[4], 1);
    for (const size_t i : {1, 3, 5, 6, 7}) EXPECT_TRUE(std::isnan(features[i])) << i;
  }
  Array& categories = file.tensors[0].second;
  categories.data<int32_t>()[1] = 3;
  expect_error(ErrorKind::checkpoint, {"m", "xgboost.categories", "holds 3"}, [&] { TreeColumns(columns, file, "m"); });
  categories = Array::of<int32_t>({0, 1}, {2});
  expect_error(ErrorKind::checkpoint, {"m", "not i32[5]"}, [&] { TreeColumns(columns, file, "m"); });
}

TEST(TreeLoss, IsThatOfTheObjective) {
  TreeSettings s;
  const auto loss = [&](const char* objective, std::vector<float> prediction, double label) {
    s.objective = objective;
    return tree_loss(s, prediction.data(), label);
  };
  EXPECT_NEAR(loss("binary:logistic", {0.25f, 0.75f}, 1), -std::log(0.75), 1e-12);
  EXPECT_NEAR(loss("multi:softprob", {0.25f, 0.5f, 0.25f}, 1), -std::log(0.5), 1e-12);
  EXPECT_EQ(loss("reg:squarederror", {3}, 5), 4);
  EXPECT_EQ(loss("reg:absoluteerror", {3}, 5), 2);
  s.quantile = 0.75;
  EXPECT_EQ(loss("reg:quantileerror", {3}, 5), 1.5);  // too low by 2
  EXPECT_EQ(loss("reg:quantileerror", {5}, 3), 0.5);  // too high by 2
  EXPECT_NEAR(loss("count:poisson", {2}, 3), 2 - 3 * std::log(2.0), 1e-12);
  EXPECT_NEAR(loss("reg:tweedie", {4}, 3), 2 * 2.0 + 3 * 2 * 0.5, 1e-12);  // of power 1.5
}

TEST(XgboostLibrary, WhatIsNoXgboostIsToldWithTheMend) {
  const TemporaryDir dir;
  expect_error(ErrorKind::device, {"--xgboost: no library can be loaded there: there is no file " + (dir / "none.so")},
               [&] { xgboost(dir / "none.so"); });
  io::write_file_atomic(dir / "text.so", std::string_view("no library"));
  expect_error(ErrorKind::device, {"text.so", "the loader refuses"}, [&] { xgboost(dir / "text.so"); });
  std::ifstream maps("/proc/self/maps");
  std::string other;
  for (std::string line; std::getline(maps, line) && other.empty();) {
    if (line.find("/libm.so") != std::string::npos) other = line.substr(line.find('/'));
  }
  ASSERT_FALSE(other.empty());
  expect_error(ErrorKind::device,
               {"--xgboost", other, "has no XGBoostVersion", "no XGBoost", "apt-get install libxgboost0",
                "pip install xgboost-cpu", "FREIGHT_XGBOOST (or by --xgboost of train)"},
               [&] { xgboost(other); });
  const freight::testing::ScopedEnvironment named("FREIGHT_XGBOOST", dir / "none.so");
  expect_error(ErrorKind::device, {"FREIGHT_XGBOOST", "none.so"}, [] { xgboost(); });
}

class XgboostTest : public TableRuns {
 protected:
  void SetUp() override {
    if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
    // The color alone tells the class, but for a tenth of the rows; a cell of each column is missing.
    std::string csv = "length,colour,noise,species\n";
    for (int i = 0; i < 400; ++i) {
      const int colour = i * 7 % 5, noise = i * 31 % 17;
      const bool rose = (colour == 1 || colour == 3) != (i % 10 == 9);
      csv += cat(i == 3 ? std::string() : cat(rose ? 3 + noise * 0.1 : 2 + noise * 0.1), ",",
                 i == 5 ? "NA" : std::string(1, static_cast<char>('a' + colour)), ",", noise, ",",
                 rose ? "rose" : "daisy", "\n");
    }
    io::write_file_atomic(dir_ / "flowers.csv", std::string_view(csv));
    std::string values = "x,z,kind,y\n";
    for (int i = 0; i < 500; ++i) {
      const double x = i * 37 % 101 * 0.1, z = i * 53 % 89 * 0.1;
      values += cat(x, ",", z, ",", i % 3 == 0 ? "low" : "high", ",",
                    2 * x + (i % 3 == 0 ? 0 : 5) + (i * 29 % 41) * 0.05, "\n");
    }
    io::write_file_atomic(dir_ / "values.csv", std::string_view(values));
    train::set_model(config_, "gbdt");
    config_.data = dir_ / "flowers.csv";
    config_.output_dir = dir_ / "run";
    config_.rounds = 30;
  }
  tables::RowData data() const {
    return read_table({.data = config_.data, .target = config_.target, .values = config_.objective != "auto"});
  }
  std::shared_ptr<const store::RowModel> fit(
      const tables::RowData& rows,
      const std::function<bool(const tables::Round&)>& told = [](const tables::Round&) { return true; }) const {
    return TreeLearner(TreeLearner::Kind::gbdt).fit(config_, rows, told);
  }
};

TEST_F(XgboostTest, TreesAreFittedStoredMeasuredAndAnswerAlike) {
  const train::Result r = run();
  EXPECT_GT(*r.test.top1, 85.0);
  const store::Bundle bundle = store::load_bundle(r.model_path);
  EXPECT_EQ(bundle.learner, "gbdt");
  const train::Measurement m = train::learner_of(bundle).measure(bundle, r.model_path, {});
  EXPECT_EQ(m.figures.loss, r.test.loss);
  EXPECT_EQ(m.figures.top1, r.test.top1);
  EXPECT_GT(bundle.parameters(), 30);
  EXPECT_NE(bundle.rows->lines()[0].find(xgboost().version().text()), std::string::npos);
  const std::string stored = read_text(r.model_path);
  config_.output_dir = dir_ / "again";
  EXPECT_EQ(read_text(run().model_path), stored) << "the same to the bit";
  config_.model = "baseline";
  config_.rounds = 0;
  config_.output_dir = dir_ / "baseline";
  config_.lr = train::Config().lr;
  EXPECT_GT(run().test.loss, 1.5 * r.test.loss);
}

TEST_F(XgboostTest, ARowsAnswerDoesNotDependOnItsNeighborsOrThreads) {
  const tables::RowData rows = data();
  const auto model = fit(rows);
  const Array values = rows.train.values.array(), all = model->run(values);
  const int64_t n = rows.train.count(), width = rows.train.values.width();
  const auto ask = [&](int64_t from, int64_t by, int64_t& differ) {
    for (int64_t i = from; i < n; i += by) {
      Array row(DType::f64, {1, width});
      std::copy_n(values.data<double>() + i * width, width, row.data<double>());
      const Array y = model->run(row);
      for (int64_t k = 0; k < 2; ++k) differ += y.data<float>()[k] != all.data<float>()[2 * i + k];
    }
  };
  int64_t differ[3] = {};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t) threads.emplace_back([&, t] { ask(t, 3, differ[t]); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(differ[0] + differ[1] + differ[2], 0);
  EXPECT_EQ(model->run(Array(DType::f64, {0, width})).shape(), (Shape{0, 2}));
}

TEST_F(XgboostTest, MissingCellsAndUnknownWordsAreAnsweredAlike) {
  const tables::RowData rows = data();
  const auto model = fit(rows);
  const auto prediction = [&](const std::vector<store::Cell>& cells) {
    const Array row = store::row_of(rows.shape.columns, cells, "row");
    Array one(DType::f64, {1, row.numel()});
    std::copy_n(row.data<double>(), row.numel(), one.data<double>());
    return model->run(one).data<float>()[1];
  };
  EXPECT_GT(prediction({"3", "b", "1"}), prediction({"3", "a", "1"})) << "b is a colour of roses";
  EXPECT_EQ(prediction({"3", "green", "1"}), prediction({"3", "", "1"}));
  EXPECT_EQ(prediction({"3", "green", "1"}), prediction({"3", "NA", "1"}));
}

TEST_F(XgboostTest, EarlyStopKeepsTheRoundOfTheLeastHeldOutLoss) {
  config_.rounds = 50;  // each is told
  config_.early_stop = 4;
  config_.lr = 0.8;
  const tables::RowData rows = data();
  std::vector<double> losses;
  std::vector<bool> best;
  const auto model = fit(rows, [&](const tables::Round& r) {
    losses.push_back(r.test->loss);
    best.push_back(*r.best);
    return true;
  });
  const auto least = std::min_element(losses.begin(), losses.end());
  EXPECT_EQ(losses.end() - least, 5) << "four rounds without a better one end the fit";
  EXPECT_LT(losses.size(), 50u);
  EXPECT_EQ(tables::evaluate(*model, rows.held_out).loss, *least);
  EXPECT_TRUE(best[static_cast<size_t>(least - losses.begin())]);
  EXPECT_FALSE(best.back());
  const std::vector<std::string> lines = model->lines();
  EXPECT_EQ(lines.back(), cat("the first ", losses.size() - 4, " of ", losses.size(), " rounds"));
  config_.early_stop = 0;
  int64_t told = 0;
  const auto whole = fit(rows, [&](const tables::Round&) { return ++told, true; });
  EXPECT_EQ(told, 50);
  EXPECT_NE(tables::evaluate(*whole, rows.held_out).loss, *least);
}

TEST_F(XgboostTest, AFitThatIsStoppedGivesTheModelSoFar) {
  config_.early_stop = 0;
  const tables::RowData rows = data();
  const auto stopped = fit(rows, [](const tables::Round& r) { return r.number < 3; });
  config_.rounds = 3;
  const auto three = fit(rows);
  EXPECT_EQ(stopped->run(rows.held_out.values.array()).to_vector<float>(),
            three->run(rows.held_out.values.array()).to_vector<float>());
}

TEST_F(XgboostTest, ValuesAreToldByTheObjectiveThatIsAskedFor) {
  config_.data = dir_ / "values.csv";
  config_.rounds = 80;
  const tables::RowData rows = data();
  const auto predictions = [&] { return fit(rows)->run(rows.held_out.values.array()).to_vector<float>(); };
  const std::vector<float> y = rows.held_out.labels.to_vector<float>(), squared = predictions();
  double error = 0;
  for (size_t i = 0; i < y.size(); ++i)
    error += std::fabs(static_cast<double>(squared[i] - y[i])) / static_cast<double>(y.size());
  EXPECT_LT(error, 1.0);
  for (const char* objective : {"absoluteerror", "poisson", "tweedie"}) {
    config_.objective = objective;
    const std::vector<float> other = predictions();
    EXPECT_NE(other, squared) << objective;
    double off = 0;
    for (size_t i = 0; i < y.size(); ++i)
      off += std::fabs(static_cast<double>(other[i] - y[i])) / static_cast<double>(y.size());
    EXPECT_LT(off, 2.0) << objective;
  }
  config_.objective = "quantile";
  config_.quantile = 0.9;
  if (xgboost().version() < XgboostVersion{2, 0, 0}) {
    expect_error(ErrorKind::device, {"--objective", "quantile", "2.0.0", xgboost().version().text(), "pip install"},
                 predictions);
    return;
  }
  const std::vector<float> high = predictions();
  int64_t below = 0;
  for (size_t i = 0; i < y.size(); ++i) below += y[i] <= high[i];
  EXPECT_NEAR(static_cast<double>(below) / static_cast<double>(y.size()), 0.9, 0.1);
}

TEST_F(XgboostTest, CountsThatWouldPassForClassesAreValuesWhereAnObjectiveOfValuesIsAskedFor) {
  std::string text = "a,n\n";
  for (int i = 0; i < 100; ++i) text += cat(i % 10, ",", i % 10 / 3, "\n");
  io::write_file_atomic(dir_ / "counts.csv", std::string_view(text));
  config_.data = dir_ / "counts.csv";
  EXPECT_EQ(data().shape.classes.size(), 4u);
  config_.objective = "poisson";
  const train::Result r = run();
  EXPECT_FALSE(r.test.top1);
  EXPECT_LT(r.test.loss, 0.2);
}

TEST_F(XgboostTest, AMonotoneColumnOnlyRises) {
  config_.data = dir_ / "values.csv";
  config_.monotone = "x=1,z=-1";
  const tables::RowData rows = data();
  const auto model = fit(rows);
  Array sweep(DType::f64, {200, 3});
  for (int i = 0; i < 200; ++i) {
    sweep.data<double>()[3 * i] = 0.05 * (i % 100) * 2;
    sweep.data<double>()[3 * i + 1] = i < 100 ? 1 : 7;
    sweep.data<double>()[3 * i + 2] = 0;
  }
  const std::vector<float> y = model->run(sweep).to_vector<float>();
  EXPECT_TRUE(std::is_sorted(y.begin(), y.begin() + 100));
  EXPECT_TRUE(std::is_sorted(y.begin() + 100, y.end()));
  for (size_t i = 0; i < 100; ++i) EXPECT_GE(y[i], y[100 + i]);
  EXPECT_GT(y[99], y[0] + 10);
}

TEST_F(XgboostTest, WhatDoesNotGoWithTheDataIsRefusedByItsFlag) {
  const auto refused = [&](ErrorKind kind, const std::vector<std::string>& parts, auto change) {
    const train::Config before = config_;
    change(config_);
    expect_error(kind, parts, [&] { train::prepare(config_); });
    config_ = before;
  };
  using C = train::Config;
  refused(ErrorKind::usage, {"--monotone", "no column lenght", "length?"}, [](C& c) { c.monotone = "lenght=1"; });
  refused(ErrorKind::usage, {"--monotone", "column length", "'up'", "expected 1"},
          [](C& c) { c.monotone = "length=up"; });
  refused(ErrorKind::usage, {"--monotone", "column colour contains categories"}, [](C& c) { c.monotone = "colour=1"; });
  refused(ErrorKind::data, {"contains categories"}, [](C& c) { c.objective = "poisson"; });
  refused(ErrorKind::usage, {"--quantile", "--objective quantile"}, [](C& c) { c.quantile = 0.9; });
  refused(ErrorKind::usage, {"--momentum is a flag of networks; this run trains gbdt"}, [](C& c) { c.momentum = 0.5; });
  refused(ErrorKind::usage, {"--trees is a flag of tree models; this run trains gbdt"}, [](C& c) { c.trees = 5; });
  refused(ErrorKind::usage, {"--lambda", "at least 0"}, [](C& c) { c.lambda = -0.5; });
  refused(ErrorKind::usage, {"--objective", "unknown value", "poisson"}, [](C& c) { c.objective = "poison"; });
  refused(ErrorKind::usage, {"--device", "runs on the CPU"}, [](C& c) { c.backend = "opencl:0"; });
  refused(ErrorKind::usage, {"--rounds is a flag of tree models; this run trains a network"}, [](C& c) {
    c = C();
    c.model = "lenet";
    c.data = "digits";
    c.rounds = 5;
  });
  refused(ErrorKind::usage, {"--max-depth is a flag of tree models; this run trains baseline"}, [](C& c) {
    c.model = "baseline";
    c.rounds = 0;
    c.lr = C().lr;
    c.max_depth = 3;
  });
  refused(ErrorKind::usage, {"--class-weight", "is for classes"}, [&](C& c) {
    c.data = dir_ / "values.csv";
    c.class_weight = "balanced";
  });
  std::string text = "a,y\n";
  for (int i = 0; i < 30; ++i) text += cat(i, ",", i - 3.5, "\n");
  io::write_file_atomic(dir_ / "negative.csv", std::string_view(text));
  refused(ErrorKind::data, {"column y", "--objective tweedie", "at least 0", "got -"}, [&](C& c) {
    c.data = dir_ / "negative.csv";
    c.objective = "tweedie";
  });
}

TEST_F(XgboostTest, ADeviceWithoutItsLibraryOrGpuIsNeverTheCpuInSilence) {
  config_.backend = "cuda";
  try {
    train::prepare(config_);
    GTEST_SKIP() << "there is a GPU, and a library for it";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::device);
    const std::string text = e.what();
    EXPECT_NE(text.find("--device"), std::string::npos) << text;
    EXPECT_NE(text.find(xgboost().cuda() ? "found no such GPU" : "built without CUDA"), std::string::npos) << text;
  }
}

TEST_F(XgboostTest, ClassesOfAFewRowsWeighAsMuchWhereThatIsAskedFor) {
  std::string text = "a,b,y\n";
  for (int i = 0; i < 600; ++i)
    text += cat(i * 17 % 23, ",", i * 7 % 11, ",", i * 17 % 23 > 17 && i % 3 == 0 ? "rare" : "usual", "\n");
  io::write_file_atomic(dir_ / "rare.csv", std::string_view(text));
  config_.data = dir_ / "rare.csv";
  config_.max_depth = 2;
  const tables::RowData rows = data();
  const auto rare = [&] {
    const std::vector<float> y = fit(rows)->run(rows.held_out.values.array()).to_vector<float>();
    int64_t told = 0;
    for (size_t i = 0; i < y.size(); i += 2) told += y[i] > 0.5f;
    return told;
  };
  const int64_t before = rare();
  config_.class_weight = "balanced";
  EXPECT_GT(rare(), before + 10);
}

TEST_F(XgboostTest, ManyClassesAreToldByTheirProbabilities) {
  std::string text = "a,y\n";
  for (int i = 0; i < 300; ++i) text += cat(i % 30, ",", i % 30 < 10 ? "low" : i % 30 < 20 ? "middle" : "high", "\n");
  io::write_file_atomic(dir_ / "three.csv", std::string_view(text));
  config_.data = dir_ / "three.csv";
  for (const char* model : {"gbdt", "forest"}) {
    train::set_model(config_, model);
    config_.rounds = 0;
    config_.output_dir = dir_ / model;
    const train::Result r = run();
    EXPECT_EQ(r.test.top1, 100.0) << model;
    const store::Bundle bundle = store::load_bundle(r.model_path);
    EXPECT_EQ(bundle.learner, model);
    const std::vector<float> y = bundle.rows->run(Array::of<double>({5, 15, 25}, {3, 1})).to_vector<float>();
    ASSERT_EQ(y.size(), 9u);
    EXPECT_GT(std::min({y[1], y[5], y[6]}), 0.5f) << "sorted, the classes are high, low, middle";
    for (size_t i = 0; i < 9; i += 3) EXPECT_NEAR(static_cast<double>(y[i] + y[i + 1] + y[i + 2]), 1, 1e-5);
  }
}

TEST_F(XgboostTest, AForestIsOneRoundOfManyTrees) {
  train::set_model(config_, "forest");
  config_.rounds = 0;
  config_.trees = 7;
  const train::Result r = run();
  EXPECT_EQ(r.steps, 1);
  EXPECT_GT(*r.test.top1, 80.0);
  EXPECT_NE(store::load_bundle(r.model_path).rows->lines()[0].find("7 trees of XGBoost"), std::string::npos);
  const std::string stored = read_text(r.model_path);
  config_.output_dir = dir_ / "again";
  EXPECT_EQ(read_text(run().model_path), stored);
  config_.output_dir = dir_ / "seed";
  config_.seed = 1;
  EXPECT_NE(read_text(run().model_path), stored);
}

TEST_F(XgboostTest, DamagedFilesAreRefused) {
  const train::Result r = run();
  const auto changed = [&](ErrorKind kind, auto change, const std::vector<std::string>& parts) {
    io::SafeTensors file = io::load_safetensors(r.model_path);
    file.metadata.erase("xxh3_128");
    change(file);
    io::save_safetensors(dir_ / "changed.safetensors", file);
    expect_error(kind, parts, [&] { store::load_bundle(dir_ / "changed.safetensors"); });
  };
  constexpr auto kDamage = ErrorKind::checkpoint;
  changed(kDamage, [](auto& f) { f.tensors.clear(); }, {"xgboost.trees", "missing"});
  changed(kDamage, [](auto& f) { f.metadata.erase("xgboost"); }, {"no entry xgboost"});
  changed(kDamage, [](auto& f) { f.metadata["xgboost"] = "{}"; }, {"version"});
  changed(kDamage, [](auto& f) { f.metadata["classes"] = R"(["a", "b", "c"])"; }, {"they predict 1 numbers"});
  changed(kDamage,
          [](auto& f) {
            Array& bytes = f.tensors[0].second;
            Array half(DType::u8, {bytes.numel() / 2});
            std::copy_n(bytes.template data<uint8_t>(), half.numel(), half.template data<uint8_t>());
            bytes = half;
          },
          {"the saved trees are damaged"});
  changed(ErrorKind::device,
          [](auto& f) { f.metadata["xgboost"] = R"({"version": "99.1.0", "rounds": 1, "fitted": 1})"; },
          {"XGBoost 99.1.0's", "may not read", "pip install xgboost-cpu"});
}

TEST_F(XgboostTest, ColumnsOfTimesAreToldApart) {
  std::string text = "time,y\n";
  for (int i = 0; i < 200; ++i) text += cat(1700000000 + i * 13 % 60, ",", i * 13 % 60 < 30 ? "early" : "late", "\n");
  io::write_file_atomic(dir_ / "times.csv", std::string_view(text));
  config_.data = dir_ / "times.csv";
  const train::Result r = run();
  EXPECT_EQ(r.test.top1, 100.0);
  const store::Bundle bundle = store::load_bundle(r.model_path);
  const train::Measurement m = train::learner_of(bundle).measure(bundle, r.model_path, {});
  EXPECT_EQ(m.figures.loss, r.test.loss);
}

TEST_F(XgboostTest, AdultIsToldBetterThanByFrequencies) {
  const std::string root = freight::testing::real_data("tabular/adult/adult.data.gz");
  if (root.empty()) GTEST_SKIP() << "no tables in $FREIGHT_DATA or beside the checkout";
  config_.data = root + "/tabular/adult/adult.data.gz";
  config_.target = "column_15";
  config_.rounds = 60;
  const train::Result r = run();
  EXPECT_GT(*r.test.top1, 86.0);  // 75.9 by frequencies
  EXPECT_LT(r.test.loss, 0.30);
}

// The package of Python with its own library: equal trees, equal predictions.
TEST_F(XgboostTest, ThePythonPackageFitsTheSameTrees) {
  const std::string python = freight::testing::python_with("xgboost");
  if (python.empty()) GTEST_SKIP() << "no Python has the package xgboost";
  const std::string script = dir_ / "fit.py", tells = dir_ / "path.txt";
  const auto call = [&](const std::string& arguments) {
    return std::system(cat(python, " ", script, " ", arguments).c_str());
  };
  io::write_file_atomic(script, std::string_view(R"(
import sys
import numpy as np
import xgboost as xgb
from xgboost.libpath import find_lib_path
if len(sys.argv) == 2:
    open(sys.argv[1], "w").write(find_lib_path()[0])
    sys.exit()
d = sys.argv[1] + "/"
kinds = open(d + "kinds").read().split()
load = lambda name: np.fromfile(d + name, "f4").reshape(-1, len(kinds))
rows = xgb.DMatrix(load("x"), np.fromfile(d + "y", "f4"), feature_types=kinds, enable_categorical=True)
more = {"base_score": float(open(d + "start").read())} if xgb.__version__.startswith("1.") else {}
trees = xgb.train({"objective": "binary:logistic", "tree_method": "hist", "eta": 0.1, "max_depth": 6, "nthread": 1,
                   "subsample": 0.8, "max_cat_to_onehot": 50, **more}, rows, 30)
trees.predict(rows).tofile(d + "p")
trees.save_model(d + "model.json")
other = xgb.Booster(model_file=d + "ours.ubj")
other.save_model(d + "ours.json")
)"));
  ASSERT_EQ(call(tells), 0);
  config_.xgboost = read_text(tells);
  config_.subsample = 0.8;
  config_.early_stop = 0;
  config_.deterministic = true;
  const tables::RowData rows = data();
  const auto model = fit(rows);
  const TreeColumns columns(rows.shape.columns, rows.train);
  const auto put = [&](const char* name, const void* bytes, size_t size) {
    io::write_file_atomic(dir_ / name, std::string_view(static_cast<const char*>(bytes), size));
  };
  const Array features = columns.features(rows.train.values);
  put("x", features.raw(), features.bytes());
  std::vector<float> labels;
  for (const int64_t label : rows.train.labels.to_vector<int64_t>()) labels.push_back(static_cast<float>(label));
  put("y", labels.data(), labels.size() * sizeof(float));
  std::string kinds;
  for (int64_t c = 0; c < columns.count(); ++c) kinds += columns.words(c) ? "c " : "q ";
  put("kinds", kinds.data(), kinds.size());
  for (const auto& [name, value] :
       tree_settings(config_, rows, xgboost(config_.xgboost), TreeLearner::Kind::gbdt).parameters) {
    if (name == "base_score") put("start", value.data(), value.size());
  }
  io::SafeTensors file;
  model->write(file);
  put("ours.ubj", file.tensors[0].second.raw(), file.tensors[0].second.bytes());
  ASSERT_EQ(call(dir_.path() + " compare"), 0);
  const std::string theirs = read_text(dir_ / "p");
  const Array ours = model->run(rows.train.values.array());
  ASSERT_EQ(theirs.size(), static_cast<size_t>(rows.train.count()) * sizeof(float));
  for (int64_t i = 0; i < rows.train.count(); ++i) {
    EXPECT_NEAR(ours.data<float>()[2 * i + 1], reinterpret_cast<const float*>(theirs.data())[i], 1e-6f);
  }
  EXPECT_EQ(Json::parse(read_text(dir_ / "model.json")), Json::parse(read_text(dir_ / "ours.json")));
}

}  // namespace
}  // namespace freight::tables
