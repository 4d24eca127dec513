// Learners that are no nets go the way of nets: trained on a table by train::prepare, stored, loaded, measured, asked
// and served. The baseline of the product does, and a learner that is registered here and fits in rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include "freight/deploy/predictor.h"
#include "freight/io/metrics.h"
#include "freight/report/examine.h"
#include "freight/serve/model.h"
#include "freight/tables/table.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;

// The nearest class center over columns of numbers, which each round moves halfway to the mean: a learner in few lines.
class Halfway : public store::RowModel {
 public:
  explicit Halfway(Array centres) : centres_(std::move(centres)) {}
  int64_t outputs() const override { return centres_.shape()[0]; }
  bool predicts_classes() const override { return true; }
  Array run(const Array& rows) const override {
    const int64_t n = rows.shape()[0], width = rows.shape()[1], k = outputs();
    Array out(DType::f32, {n, k});
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < k; ++c) {
        double d = 0;
        for (int64_t j = 0; j < width; ++j) {
          d += std::pow(rows.data<double>()[i * width + j] - centres_.data<double>()[c * width + j], 2);
        }
        sum += out.data<float>()[i * k + c] = static_cast<float>(std::exp(-d));
      }
      for (int64_t c = 0; c < k; ++c) {
        out.data<float>()[i * k + c] = static_cast<float>(out.data<float>()[i * k + c] / sum);
      }
    }
    return out;
  }
  int64_t parameters() const override { return centres_.numel(); }
  std::vector<std::string> lines() const override { return {cat(outputs(), " centres")}; }
  void write(io::SafeTensors& file) const override { file.tensors.emplace_back("centres", centres_); }

 private:
  Array centres_;  // f64 (classes, columns)
};

class HalfwayLearner : public tables::RowLearner {
 public:
  std::string name() const override { return "halfway"; }
  std::string doc() const override { return "the nearest centre"; }
  std::vector<std::string> flags() const override { return {"--epochs"}; }
  tables::RowData read(const tables::RowSource& source) const override { return read_table(source); }
  train::Cost cost(const train::Config&, const tables::RowData& data) const override {
    return {.bytes = static_cast<double>(data.shape.classes.size() * data.shape.columns.size() * sizeof(double))};
  }
  std::shared_ptr<const store::RowModel> fit(const train::Config& config, const tables::RowData& data,
                                             const std::function<bool(const tables::Round&)>& told) const override {
    const auto k = static_cast<int64_t>(data.shape.classes.size()), width = data.train.values.width();
    Array centres(DType::f64, {k, width});
    std::fill_n(centres.data<double>(), k * width, 0.0);
    std::shared_ptr<const store::RowModel> model;
    const Array values = data.train.values.array();
    for (int64_t round = 1; round <= config.epochs; ++round) {
      std::vector<double> sums(static_cast<size_t>(k * width)), counts(static_cast<size_t>(k));
      for (int64_t i = 0; i < data.train.count(); ++i) {
        const int64_t c = data.train.labels.data<int64_t>()[i];
        ++counts[static_cast<size_t>(c)];
        for (int64_t j = 0; j < width; ++j) {
          sums[static_cast<size_t>(c * width + j)] += values.data<double>()[i * width + j];
        }
      }
      for (int64_t at = 0; at < k * width; ++at) {
        double& centre = centres.data<double>()[at];
        centre += (sums[static_cast<size_t>(at)] / counts[static_cast<size_t>(at / width)] - centre) / 2;
      }
      model = std::make_shared<Halfway>(centres.clone());
      const bool on = told({.number = round,
                            .of = config.epochs,
                            .loss = tables::evaluate(*model, data.train).loss,
                            .model = model.get()});
      if (!on) break;
    }
    return model;
  }
};

class Tables : public TableRuns {
 protected:
  Tables() {
    static const bool once = [] {
      store::register_row_model("halfway",
                                [](const io::SafeTensors& file, const std::string& path,
                                   const store::RowShape&) -> std::shared_ptr<const store::RowModel> {
                                  const Array* centres = file.find("centres");
                                  if (!centres) fail(ErrorKind::checkpoint, path, "has no centres");
                                  return std::make_shared<Halfway>(*centres);
                                });
      train::register_learner(std::make_shared<HalfwayLearner>());
      return true;
    }();
    EXPECT_TRUE(once);
  }
  std::string numbers_of_flowers() {
    std::string csv = "length,width,species\n";
    for (int i = 0; i < 60; ++i) {
      csv += cat(i % 3 == 0 ? "1" : "3", ",", i % 3 == 0 ? "0.5" : "2", ",", i % 3 == 0 ? "daisy" : "rose", "\n");
    }
    io::write_file_atomic(dir_ / "numbers.csv", std::string_view(csv));
    return dir_ / "numbers.csv";
  }
};

TEST_F(Tables, ATableIsReadByItsHeaderTypedAndDivided) {
  const tables::RowData data = read_table({.data = config_.data});
  ASSERT_EQ(data.shape.columns.size(), 3u);
  EXPECT_EQ(data.target, "species");
  EXPECT_FALSE(data.shape.columns[0].words);
  EXPECT_EQ(data.shape.columns[2].levels, (std::vector<std::string>{"blue", "red"}));
  EXPECT_EQ(data.shape.classes, (std::vector<std::string>{"daisy", "rose"}));
  EXPECT_EQ(data.train.count(), 48);
  EXPECT_EQ(data.held_out.count(), 12);
  int64_t missing = 0;
  for (const store::Rows* part : {&data.train, &data.held_out}) {
    for (const double v : part->values.array().to_vector<double>()) missing += std::isnan(v);
  }
  EXPECT_EQ(missing, 1);
  EXPECT_EQ(read_table({.data = config_.data}).fingerprint, data.fingerprint);
  EXPECT_NE(read_table({.data = config_.data, .seed = 1}).fingerprint, data.fingerprint);
  EXPECT_EQ(read_table({.data = config_.data, .target = "colour"}).shape.classes[0], "blue");
  EXPECT_EQ(read_table({.data = config_.data, .target = "3"}).target, "colour");
  const tables::RowData values = read_table({.data = dir_ / "values.csv"});
  EXPECT_TRUE(values.shape.classes.empty());
  EXPECT_EQ(values.target, "y");
}

TEST_F(Tables, WhatOthersWriteForAMissingValueIsMissingInNumbersAndWords) {
  std::string text = "a,word,y\n1,red,0\n2,blue,1\n";
  for (const char* missing : {"", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", " nan ", "NULL", "null"})
    text += cat(missing, ",", missing, ",1\n");
  io::write_file_atomic(dir_ / "missing.csv", std::string_view(text));
  const tables::RowData data = read_table({.data = dir_ / "missing.csv"});
  EXPECT_FALSE(data.shape.columns[0].words);
  EXPECT_LE(data.shape.columns[1].levels.size(), 2u);
  int64_t missing = 0;
  for (const store::Rows* part : {&data.train, &data.held_out}) {
    for (const double v : part->values.array().to_vector<double>()) missing += std::isnan(v);
  }
  EXPECT_EQ(missing, 22);
}

TEST_F(Tables, AFolderOfAKnownTableIsReadByWhatIsKnownOfIt) {
  std::filesystem::create_directories(dir_ / "wine_quality");
  std::string red = "a;b;quality\n", white = red;
  for (int i = 0; i < 40; ++i) {
    red += cat(i, ";", i * i, ";", 5 + i % 2, "\n");
    white += cat(i, ";", 2 * i, ";", 6 + i % 2, "\n");
  }
  io::write_file_atomic(dir_ / "wine_quality/winequality-red.csv", std::string_view(red));
  io::write_file_atomic(dir_ / "wine_quality/winequality-white.csv", std::string_view(white));
  const tables::RowData data = read_table({.data = dir_ / "wine_quality"});
  EXPECT_EQ(data.target, "quality");
  EXPECT_EQ(data.train.count() + data.held_out.count(), 80);
  ASSERT_EQ(data.shape.columns.size(), 3u);
  EXPECT_EQ(data.shape.columns[2].name, "color");
  EXPECT_EQ(data.shape.columns[2].levels, (std::vector<std::string>{"red", "white"}));
}

TEST_F(Tables, ATableWithoutAHeaderSaysSoAndOneWithYearsDoes) {
  std::string rows;
  for (int i = 0; i < 9; ++i) rows += cat(i, ",", i * i, ",", i % 2, "\n");
  const auto first_note = [&](const std::string& text) {
    io::write_file_atomic(dir_ / "years.csv", std::string_view(text));
    const tables::RowData data = read_table({.data = dir_ / "years.csv"});
    return data.notes.empty() ? std::string() : data.notes[0];
  };
  EXPECT_NE(first_note("5,3,1\n" + rows).find("not a header"), std::string::npos);
  EXPECT_NE(first_note("id,2019,2020\n" + rows).find("some of whose names are numbers: id, 2019, 2020"),
            std::string::npos);
}

TEST_F(Tables, CellsOfTheToldColumnMeanWhatTheySay) {
  const auto read = [&](const std::vector<std::string>& told) {
    std::string text = "a,y\n";
    for (int i = 0; i < 20; ++i) text += cat(i, ",", told[static_cast<size_t>(i) % told.size()], "\n");
    io::write_file_atomic(dir_ / "told.csv", std::string_view(text));
    return read_table({.data = dir_ / "told.csv"});
  };
  const auto classes = [&](const std::vector<std::string>& told) { return read(told).shape.classes; };
  EXPECT_EQ(classes({"1", "+2.0", "1e1"}), (std::vector<std::string>{"1", "2", "10"}));
  EXPECT_TRUE(classes({"1e-310", "1"}).empty()) << "a number below the least normal one";
  EXPECT_TRUE(classes({"9007199254740993", "1"}).empty()) << "doubles do not tell such whole numbers apart";
  EXPECT_EQ(classes({"+-1", "1"}), (std::vector<std::string>{"+-1", "1"})) << "no number";
  // Spellings of the same number are one class.
  const tables::RowData words = read({"1", "1.0", "one"});
  EXPECT_EQ(words.shape.classes, (std::vector<std::string>{"1", "one"}));
  const std::vector<int64_t> labels = words.train.labels.to_vector<int64_t>();
  for (const int64_t label : {0, 1}) EXPECT_GT(std::count(labels.begin(), labels.end(), label), 0) << label;
  expect_error(ErrorKind::data, {"told.csv:", "column y", "inf"}, [&] { read({"1", "inf"}); });
}

TEST_F(Tables, WholeNumbersAreClassesWhereEachHasTwoRowsInTheMean) {
  const auto read = [&](int rows, int different) {
    std::string text = "a,price\n";
    for (int i = 0; i < rows; ++i) text += cat(i, ",", 1000 * (i % different), "\n");
    io::write_file_atomic(dir_ / "prices.csv", std::string_view(text));
    return read_table({.data = dir_ / "prices.csv"});
  };
  EXPECT_EQ(read(40, 20).shape.classes.size(), 20u);
  EXPECT_TRUE(read(39, 20).shape.classes.empty());
  const tables::RowData prices = read(20, 20);
  EXPECT_TRUE(prices.shape.classes.empty());
  EXPECT_EQ(prices.held_out.count(), 4);
  EXPECT_NE(prices.notes[0].find("regression on 1 feature"), std::string::npos) << prices.notes[0];
}

TEST_F(Tables, ValuesThatF32DoesNotTellApartAreRefused) {
  const auto read = [&](double from, double by) {
    std::string text = "a,price\n";
    for (int i = 0; i < 30; ++i) text += cat(i, ",", static_cast<int64_t>(from + by * i), "\n");
    io::write_file_atomic(dir_ / "prices.csv", std::string_view(text));
    return read_table({.data = dir_ / "prices.csv"});
  };
  expect_error(ErrorKind::data, {"prices.csv", "column price", "f32", "subtract 1700000000"}, [&] { read(1.7e9, 1); });
  EXPECT_EQ(read(1.7e9, 1e6).train.count(), 24);
  EXPECT_EQ(read(0, 1).train.count(), 24);
}

TEST_F(Tables, MeasuringLeavesOutRowsWithACellThatIsNoNumber) {
  config_.data = numbers_of_flowers();
  const train::Result r = run();
  std::string text = "length,width,species\n1,0.5,daisy\n3,wide,rose\n3,inf,rose\n3,2,rose\n";
  io::write_file_atomic(dir_ / "bad.csv", std::string_view(text));
  train::MeasureRequest request{.data = dir_ / "bad.csv"};
  const auto measured = [&] {
    const store::Bundle bundle = store::load_bundle(r.model_path);
    return train::learner_of(bundle).measure(bundle, r.model_path, request).figures.count;
  };
  expect_error(ErrorKind::data, {"bad.csv:", "column width", "expected a finite number"}, measured);
  std::vector<std::string> left_out;
  request.on_bad = data::OnBad::skip;
  request.left_out = [&](const data::BadSample& b) { left_out.push_back(b.path + " " + b.reason); };
  EXPECT_EQ(measured(), 2);
  ASSERT_EQ(left_out.size(), 2u);
  EXPECT_NE(left_out[0].find(
                "bad.csv:3 column width: expected a finite number, or an empty field where it is missing, got 'wide'"),
            std::string::npos)
      << left_out[0];
  EXPECT_NE(left_out[1].find("bad.csv:4"), std::string::npos) << left_out[1];
}

TEST_F(Tables, WrongTablesAreRefusedByFileAndLine) {
  const auto refused = [&](const std::string& text, ErrorKind kind, const std::vector<std::string>& parts,
                           const std::string& label = {}) {
    io::write_file_atomic(dir_ / "bad.csv", std::string_view(text));
    expect_error(kind, parts, [&] { read_table({.data = dir_ / "bad.csv", .target = label}); });
  };
  refused("a,b\n1,2\n3\n", ErrorKind::data, {"bad.csv:3", "got 1 fields", "2"});
  refused("a,a\n1,2\n3,4\n", ErrorKind::data, {"bad.csv:1", "two columns are named a"});
  refused("a,b\n", ErrorKind::data, {"bad.csv", "has a header and no rows"});
  refused(
      "a,b\nred,1\nfa\xe7"
      "ade,2\n",
      ErrorKind::data, {"bad.csv:3", "not UTF-8", "231", "iconv"});
  refused("a,b\xe9\n1,2\n", ErrorKind::data, {"bad.csv:1", "not UTF-8"});
  refused("a,b\n1,2\n3,\n4,5\n", ErrorKind::data, {"bad.csv:3", "column b", "empty", "--on-bad-sample skip"});
  refused("a,b\n1,2\n3,4\n", ErrorKind::usage, {"--target", "there is no column c", "a, b"}, "c");
  refused("b\n1\n1\n2\n2\n", ErrorKind::data, {"the column b only"});
  expect_error(ErrorKind::data, {"is not a table", ".csv"}, [&] { read_table({.data = dir_.path()}); });
}

TEST_F(Tables, TheBaselineTellsFrequenciesAndItsStoredFileAnswersTheSame) {
  train::PreparedRun prepared = train::prepare(config_);
  const train::RunSummary s = prepared.summary();
  EXPECT_EQ(s.model, "baseline");
  EXPECT_EQ(s.unit, "row");
  EXPECT_EQ(s.classes, 2);
  EXPECT_FALSE(prepared.has_plans());
  EXPECT_GT(prepared.cost().bytes, 0);
  EXPECT_FALSE(std::filesystem::exists(config_.output_dir));
  expect_error(ErrorKind::usage, {"PreparedRun::planned", "baseline", "networks"}, [&] { prepared.planned(); });
  train::Observer silent;
  const train::Result r = prepared.run(silent, {"train"});
  ASSERT_TRUE(r.test.top1);
  EXPECT_NEAR(*r.test.top1, 100.0 * 2 / 3, 0.1);  // roses, of a part with the shares of the whole
  EXPECT_NEAR(r.test.loss, -(std::log(1.0 / 3) + 2 * std::log(2.0 / 3)) / 3, 1e-4);
  const auto j = nlohmann::json::parse(read_text(dir_ / "run/run.json"));
  EXPECT_EQ(j.at("status"), "complete");
  EXPECT_EQ(j.at("data").at("train"), 48);
  EXPECT_EQ(nlohmann::json::parse(read_text(dir_ / "run/model.json")).at("learner"), "baseline");
  EXPECT_EQ(io::read_metrics(dir_ / "run/metrics.jsonl").rows.size(), 2u);

  store::Bundle bundle = store::load_bundle(r.model_path);
  EXPECT_EQ(bundle.learner, "baseline");
  EXPECT_FALSE(bundle.net());
  EXPECT_EQ(bundle.classes, (std::vector<std::string>{"daisy", "rose"}));
  EXPECT_EQ(bundle.columns[2].levels.size(), 2u);
  const train::Measurement m = train::learner_of(bundle).measure(bundle, r.model_path, {});
  EXPECT_EQ(m.figures.count, 12);
  EXPECT_EQ(m.figures.loss, r.test.loss);
  EXPECT_EQ(m.figures.top1, r.test.top1);
  // Another seed asks for another division of the same data, and makes them no other data.
  std::string note;
  const auto noted = [&](const std::string& said) { note = said; };
  EXPECT_EQ(train::learner_of(bundle).measure(bundle, r.model_path, {.seed = 1, .note = noted}).figures.count, 12);
  EXPECT_EQ(note, "all predictions are of one class, number 1 from 0: mcc is 0 by definition");
  expect_error(ErrorKind::usage, {"--text-column", "reads rows of columns"},
               [&] { train::learner_of(bundle).measure(bundle, r.model_path, {.text_column = "colour"}); });
  const report::Examination e = report::examine(r.model_path, {});
  EXPECT_EQ(e.count, 12);
  EXPECT_EQ(e.right(), 8);
  deploy::Predictor predictor(std::move(bundle));
  EXPECT_TRUE(predictor.probabilities());
  const std::vector<float> y =
      predictor
          .run({predictor.sample_of_row({"1", "", "green"}, "row"), predictor.sample_of_row({"2", "3", "red"}, "row")})
          .to_vector<float>();
  EXPECT_EQ(y, (std::vector<float>{16.0f / 48, 32.0f / 48, 16.0f / 48, 32.0f / 48}));
  EXPECT_EQ(deploy::class_name(predictor.bundle(), 1), "rose");
  expect_error(ErrorKind::data, {"row", "column length", "'long'", "expected a finite number"}, [&] {
    predictor.sample_of_row({"long", "1", "red"}, "row");
  });
  expect_error(ErrorKind::usage, {"reads no texts", "length, width, colour", ".csv"},
               [&] { predictor.sample_of_text("a daisy"); });
}

TEST_F(Tables, ARunThatWasToGoOnSaysThatThereIsNothingToGoOnFrom) {
  config_.resume = "auto";
  const std::vector<std::string> notes = train::prepare(config_).summary().notes;
  EXPECT_EQ(std::count(notes.begin(), notes.end(), "nothing to resume in " + config_.output_dir + ": a new run"), 1);
}

TEST_F(Tables, TheBaselineTellsTheMeanOfValues) {
  config_.data = dir_ / "values.csv";
  const train::Result r = run();
  EXPECT_FALSE(r.test.top1);
  const store::Bundle bundle = store::load_bundle(r.model_path);
  EXPECT_EQ(bundle.parameters(), 1);
  const tables::RowData data = read_table({.data = config_.data});
  double mean = 0;
  for (const float v : data.train.labels.to_vector<float>()) mean += static_cast<double>(v) / 40;
  EXPECT_NEAR(bundle.rows->run(data.held_out.values.array()).to_vector<float>()[0], mean, 1e-5);
  EXPECT_EQ(train::learner_of(bundle).measure(bundle, r.model_path, {}).figures.loss, r.test.loss);
}

TEST_F(Tables, EarlyFilesSayWhatTheyTellByAnotherName) {
  config_.target = "colour";
  const train::Result r = run();
  io::SafeTensors file = io::load_safetensors(r.model_path);
  auto provenance = nlohmann::json::parse(file.metadata.at("provenance"));
  EXPECT_EQ(provenance.at("target"), "colour");
  provenance["label_column"] = provenance["target"];
  provenance.erase("target");
  file.metadata["provenance"] = provenance.dump();
  file.metadata.erase("xxh3_128");
  io::save_safetensors(r.model_path, file);
  const store::Bundle bundle = store::load_bundle(r.model_path);
  EXPECT_EQ(train::learner_of(bundle).measure(bundle, r.model_path, {}).figures.loss, r.test.loss);
}

TEST_F(Tables, OtherDataAreMeasuredByTheColumnsOfTheModelWhole) {
  const train::Result r = run();
  const store::Bundle bundle = store::load_bundle(r.model_path);
  const auto measure = [&](const std::string& text) {
    io::write_file_atomic(dir_ / "other.csv", std::string_view(text));
    return train::learner_of(bundle).measure(bundle, r.model_path, {.data = dir_ / "other.csv"});
  };
  // Columns in another order, one more, and a class the less.
  const train::Measurement m = measure(
      "species,note,colour,width,length\nrose,x,red,1,2\nrose,y,blue,2,3\n"
      "rose,z,red,2,3\n");
  EXPECT_EQ(m.figures.count, 3);
  EXPECT_EQ(m.figures.top1, 100.0);
  const std::string header = "length,width,colour,species\n";
  EXPECT_EQ(measure(header + "1,2,red,rose\n1,2,red,daisy\n").figures.count, 2) << "too few to be divided";
  EXPECT_EQ(measure(header + "1,2,red,rose\n").figures.count, 1);
  expect_error(ErrorKind::usage, {"--split", "no row of", "in the split test"}, [&] {
    train::learner_of(bundle).measure(bundle, r.model_path, {.data = dir_ / "other.csv", .seed = 1});
  });
  expect_error(ErrorKind::data, {"other.csv", "no column length"},
               [&] { measure("species,colour,width\nrose,red,1\nrose,red,2\n"); });
  expect_error(ErrorKind::data, {"other.csv:3", "class tulip", "daisy, rose"},
               [&] { measure("length,width,colour,species\n1,2,red,rose\n1,2,red,tulip\n"); });
}

TEST_F(Tables, ALearnerOfOnesOwnFitsInRoundsAndIsStoppedBetweenThem) {
  config_.data = numbers_of_flowers();
  config_.model = "halfway";
  config_.epochs = 5;
  struct Heard : train::Observer {
    bool wants_step() override { return true; }
    train::AfterStep on_step(const train::StepReport& r) override { return {.stop = r.total_step == stop_after}; }
    void on_epoch(const train::EpochReport& e) override {
      losses.push_back(e.train.loss);
      best.push_back(e.best);
      seconds += e.seconds;
    }
    int64_t stop_after = -1;
    std::vector<double> losses;
    std::vector<bool> best;
    double seconds = 0;
  } heard;
  const train::Result r = train::train(config_, heard);
  EXPECT_EQ(r.steps, 5);
  EXPECT_EQ(r.test.top1, 100.0);
  ASSERT_EQ(heard.losses.size(), 5u);
  EXPECT_TRUE(std::is_sorted(heard.losses.rbegin(), heard.losses.rend()));
  EXPECT_EQ(heard.best, (std::vector<bool>{true, false, false, false, false})) << "all is right from the first on";
  EXPECT_EQ(heard.seconds, r.train_seconds) << "a round's are its own, without evaluation";
  const std::string stored = read_text(r.model_path);
  config_.output_dir = dir_ / "again";
  EXPECT_EQ(read_text(run().model_path), stored) << "the same to the bit";
  config_.output_dir = dir_ / "stopped";
  heard.stop_after = 2;
  const train::Result stopped = train::train(config_, heard);
  EXPECT_TRUE(stopped.interrupted());
  EXPECT_EQ(stopped.steps, 2);
  EXPECT_EQ(nlohmann::json::parse(read_text(dir_ / "stopped/run.json")).at("status"), "interrupted");
  EXPECT_EQ(store::load_bundle(stopped.model_path).learner, "halfway");
}

// The number of Newton's steps is not known before the last one.
TEST_F(Tables, AFitUntilItConvergesNamesItsTotalWithTheLastRoundOnly) {
  struct Heard : train::Observer {
    void on_epoch(const train::EpochReport& e) override { totals.push_back(e.train.epochs); }
    std::vector<int64_t> totals;
  } heard;
  config_.model = "logistic";
  train::train(config_, heard, {}, {"train"});
  const size_t rounds = heard.totals.size();
  ASSERT_GT(rounds, 1u);
  EXPECT_EQ(heard.totals.back(), static_cast<int64_t>(rounds));
  heard.totals.pop_back();
  EXPECT_EQ(heard.totals, std::vector<int64_t>(rounds - 1, 0));
  const std::string log = io::read_text(dir_ / "run/log.txt");
  EXPECT_NE(log.find("round 1 loss "), std::string::npos) << log;
  EXPECT_NE(log.find(cat("round ", rounds, "/", rounds, " loss ")), std::string::npos) << log;
}

TEST_F(Tables, WhatIsForNetsIsRefusedByName) {
  const auto refused = [&](const std::vector<std::string>& parts, auto change) {
    train::Config before = config_;
    change(config_);
    expect_error(ErrorKind::usage, parts, [&] { train::prepare(config_); });
    config_ = before;
  };
  refused({"--lr is a flag of networks; this run trains baseline"}, [](train::Config& c) { c.lr = 0.5; });
  refused({"--batch-size is a flag of networks"}, [](train::Config& c) { c.batch_size = 32; });
  refused({"--optimizer is a flag of networks"}, [](train::Config& c) { c.optimizer = "lion"; });
  refused({"--device", "runs on the CPU"}, [](train::Config& c) { c.backend = "ref"; });
  refused({"--precision", "computes in f64"}, [](train::Config& c) { c.precision = "bf16"; });
  const train::Result r = run();
  refused({"is not empty", "--overwrite"}, [](train::Config&) {});
  refused({"--resume", "no checkpoint to resume from"}, [](train::Config& c) { c.resume = c.output_dir; });
  expect_error(ErrorKind::usage, {r.model_path, "fitted by baseline", "ONNX", "for networks only"},
               [&] { store::load_net(r.model_path, "export to ONNX"); });
  // A mistyped name may be meant for either list.
  const auto named = [&](const std::string& model) { config_.model = model, train::prepare(config_); };
  expect_error(ErrorKind::usage,
               {"--model", "unknown model 'basline'", "did you mean baseline?", "networks: ", "resnet18",
                "for tables: baseline", "halfway"},
               [&] { named("basline"); });
  expect_error(ErrorKind::usage, {"unknown model 'lenett'", "did you mean lenet?", "for tables: baseline"},
               [&] { named("lenett"); });
  expect_error(ErrorKind::usage, {"a plan", "baseline is not a network"},
               [] { train::need_net_model("baseline", "a plan"); });
  train::need_net_model("lenet", "a plan");
  models::Model lenet = models::create("lenet");
  expect_error(ErrorKind::checkpoint, {"fitted by baseline", "no weights of a network"},
               [&] { store::load_weights(lenet, r.model_path); });
  expect_error(ErrorKind::usage, {"register_learner", "halfway"},
               [] { train::register_learner(std::make_shared<HalfwayLearner>()); });
  expect_error(ErrorKind::usage, {"register_row_model", "net"}, [] { store::register_row_model("net", {}); });
}

// Each name was compared with all others: minutes for a table of some megabytes.
TEST_F(Tables, AModelOfAHundredThousandColumnsIsLoaded) {
  const train::Result r = run();
  io::SafeTensors file = io::load_safetensors(r.model_path);
  file.metadata.erase("xxh3_128");
  std::string columns = "[";
  for (int i = 0; i < 100'000; ++i) columns += cat(i ? "," : "", R"({"name": "c)", i, R"(", "kind": "numbers"})");
  file.metadata["columns"] = columns + "]";
  std::erase_if(file.tensors, [](const auto& t) { return starts_with(t.first, "samples."); });
  const store::Bundle b = store::from_file(file, "wide");
  ASSERT_EQ(b.columns.size(), 100'000u);
  const std::vector<std::string> sources = store::sources_of(b.columns);
  EXPECT_EQ(sources.size(), 100'000u);
  const std::vector<size_t> places = store::places_of(b.columns, {sources.rbegin(), sources.rend()}, "row");
  EXPECT_EQ(places.front(), 99'999u);
  EXPECT_EQ(places.back(), 0u);
}

TEST_F(Tables, DamagedFilesAndUnknownLearnersAreRefused) {
  const train::Result r = run();
  const auto changed = [&](auto change, const std::vector<std::string>& parts) {
    expect_damaged(r.model_path, change, parts);
  };
  changed([](auto& f) { f.metadata["learner"] = "xgboost"; }, {"fitted by xgboost", "net, baseline"});
  changed([](auto& f) { f.metadata["columns"] = "[]"; }, {"columns: there are none"});
  changed([](auto& f) { f.metadata["columns"] = R"([{"name": "a", "kind": "dates"}])"; }, {"unknown kind", "dates"});
  changed([](auto& f) { f.metadata["classes"] = R"(["one"])"; }, {"baseline.answer", "f32[1]"});
  changed([](auto& f) { f.tensors.clear(); }, {"baseline.answer", "missing"});
  changed([](auto& f) { f.tensors[0].second = Array::of<float>({NAN, 1}, {2}); }, {"NaN or infinity"});
  changed([](auto& f) { f.metadata["classes"] = R"(["rose", "rose"])"; }, {"several classes are named", "rose"});
  const auto columns = [](const std::string& text) { return [=](auto& f) { f.metadata["columns"] = text; }; };
  changed(
      columns(
          R"([{"name": "a", "kind": "numbers", "source": "s"}, {"name": "s", "kind": "categories", "levels": []}])"),
      {"columns: s is read as numbers and as categories"});
  changed(columns(R"([{"name": "a", "kind": "numbers"}, {"name": "a", "kind": "numbers"}])"),
          {"columns: a: expected different names"});
  // verify asked for the third word of a column that has two.
  const auto of_words = [](double cell) {
    return [=](auto& f) {
      for (auto& [name, tensor] : f.tensors) {
        if (name != "samples.rows" && name != "samples.missing") continue;
        tensor = tensor.clone();
        const auto width = tensor.shape()[1];
        if (tensor.dtype() == DType::f64) tensor.template data<double>()[width - 1] = cell;
        if (tensor.dtype() == DType::u8) tensor.template data<uint8_t>()[width - 1] = 0;
      }
    };
  };
  for (const double cell : {2.0, -2.0, 0.5, 1e308}) {
    changed(of_words(cell), {"samples.rows", "in column colour, which has 2 categories"});
  }
}

TEST_F(Tables, ARequestIsReadAsWhatItSaysThatItIs) {
  serve::ServedModel model("flowers", store::load_bundle(run().model_path), {}, 8192);
  // A request is what it says that it is: not JSON lines of a hundred thousand keys, nor an archive that unpacks to
  // gigabytes. Of many rows two are read.
  expect_error(ErrorKind::data, {"predict", "there is no column"},
               [&] { model.sample_of_table("{\"width\": 3, \"colour\": \"red\", \"length\": 1}\n{}\n", "predict"); });
  expect_error(ErrorKind::data, {"predict"}, [&] { model.sample_of_table("PK\x03\x04", "predict"); });
  std::string rows = "width,colour,length\n";
  for (int i = 0; i < 5; ++i) rows += "3,red,0.1\n";
  expect_error(ErrorKind::usage, {"expected the names of the columns and one row, got several rows"},
               [&] { model.sample_of_table(rows, "predict"); });
}

TEST_F(Tables, RowsAreServedByNamedInputsTablesAndObjects) {
  serve::ServedModel model("flowers", store::load_bundle(run().model_path), {}, 8192);
  const auto metadata = nlohmann::json::parse(model.metadata());
  ASSERT_EQ(metadata.at("inputs").size(), 3u);
  EXPECT_EQ(metadata.at("inputs")[0].at("name"), "length");
  EXPECT_EQ(metadata.at("inputs")[0].at("datatype"), "FP64");
  EXPECT_EQ(metadata.at("inputs")[2].at("datatype"), "BYTES");
  EXPECT_EQ(nlohmann::json::parse(model.config()).at("input")[1].at("data_type"), "TYPE_FP64");
  const auto card = nlohmann::json::parse(model.page_json());
  EXPECT_EQ(card.at("kind"), "rows");
  EXPECT_EQ(card.at("fields")[0],
            nlohmann::json::parse(R"({"name": "length", "kind": "numbers", "categories": 0, "levels": []})"));
  EXPECT_EQ(card.at("fields")[2].at("levels"), nlohmann::json({"blue", "red"}));
  serve::InferRequest request;
  request.inputs = {{.name = "colour", .type = serve::DataType::bytes, .shape = {2}, .texts = {"red", "blue"}},
                    {.name = "length", .shape = {2}, .values = Array::of<float>({0.1f, 2}, {2})},
                    {.name = "width", .shape = {2}, .values = Array::of<float>({3, 4}, {2})}};
  const std::vector<Array> samples = model.samples(request, "infer");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].to_vector<double>(), (std::vector<double>{0.1, 3, 1}));
  EXPECT_EQ(model.sample_of_json(R"({"width": 3, "length": 0.1, "colour": "red"})", "predict").to_vector<double>(),
            samples[0].to_vector<double>());
  EXPECT_EQ(model.sample_of_table("width,colour,length\n3,red,0.1\n", "predict").to_vector<double>(),
            samples[0].to_vector<double>());
  EXPECT_TRUE(
      std::isnan(model.sample_of_json(R"({"width": null, "length": 1, "colour": "x"})", "predict").data<double>()[1]));
  const Array results = model.predictor().run(samples);
  const auto prediction = [&](const std::vector<std::string>& warnings) {
    return nlohmann::json::parse(model.prediction(results.data<float>(), 2, 0, warnings));
  };
  EXPECT_EQ(prediction({}).at("class"), "rose");
  EXPECT_FALSE(prediction({}).contains("warnings"));
  const std::vector<std::string> warnings =
      model.row_warnings(model.sample_of_json(R"({"width": null, "length": 2, "colour": "x"})", "predict"));
  ASSERT_EQ(warnings.size(), 2u) << join(warnings, "; ");
  EXPECT_EQ(warnings[0], "column width is missing in the row, and in no row of the training set");
  EXPECT_EQ(warnings[1], "column colour: the category is unknown in the row: training had blue, red");
  EXPECT_EQ(prediction(warnings).at("warnings").size(), 2u);
  request.inputs[1] = {.name = "length",
                       .type = serve::DataType::int32,
                       .shape = {2, 1},
                       .values = Array::of<int32_t>({16777217, 2}, {2, 1})};
  EXPECT_EQ(model.samples(request, "infer")[0].data<double>()[0], 16777217) << "not rounded to a float";
  const auto length = [&](serve::DataType type, const Array& values) {
    serve::InferRequest other = request;
    other.inputs[1] = {.name = "length", .type = type, .shape = values.shape(), .values = values};
    return model.samples(other, "infer")[0].data<double>()[0];
  };
  EXPECT_EQ(length(serve::DataType::fp64, Array::of<double>({0.1234567890123456, 2}, {2})), 0.1234567890123456);
  EXPECT_EQ(length(serve::DataType::int64, Array::of<int64_t>({int64_t{1} << 53, 2}, {2})), 0x1p53);
  expect_error(ErrorKind::usage, {"infer", "input \"length\"", "element 0 is 9007199254740993", "FP64"}, [&] {
    length(serve::DataType::int64, Array::of<int64_t>({9007199254740993, 2}, {2}));
  });
  EXPECT_GT(model.predictor().flops(), 0) << "else the server takes every model of rows for a small one";
  const int64_t many = std::numeric_limits<int32_t>::max();
  serve::InferRequest empty = request;
  for (serve::NamedTensor& t : empty.inputs) {
    t = {.name = t.name, .type = t.type, .shape = {many, 0}, .values = Array(DType::f32, {many, 0})};
  }
  expect_error(ErrorKind::usage, {"infer", "input \"length\"", "expected [N] or [N,1]"},
               [&] { model.samples(empty, "infer"); });
  request.inputs.pop_back();
  expect_error(ErrorKind::data, {"infer", "no column width"}, [&] { model.samples(request, "infer"); });
  expect_error(ErrorKind::usage, {"predict", "expected a number, a text, true, false or null"},
               [&] { model.sample_of_json(R"({"width": [1], "length": 1, "colour": "x"})", "predict"); });
}

TEST_F(Tables, RealTablesAreTheYardstickOfTheirData) {
  const std::string root = freight::testing::real_data("tabular/ccpp/CCPP.csv");
  if (root.empty()) GTEST_SKIP() << "no tables in $FREIGHT_DATA or beside the checkout";
  struct Case {
    const char* path;
    const char* target;
    int64_t rows;
    bool classes;
  };
  for (const Case& c : {Case{"ccpp/CCPP.csv", "PE", 9568, false}, Case{"titanic/train.csv", "Survived", 891, true},
                        Case{"california_housing/housing.csv.gz", "median_house_value", 20640, false},
                        Case{"adult/adult.data.gz", "column_15", 32561, true},
                        Case{"wine_quality/winequality-red.csv", "quality", 1599, true}}) {
    SCOPED_TRACE(c.path);
    config_.data = root + "/tabular/" + c.path;
    config_.target = c.target;
    config_.output_dir = cat(dir_.path(), "/", c.target);
    const train::Result r = run();
    const store::Bundle bundle = store::load_bundle(r.model_path);
    EXPECT_EQ(bundle.rows->predicts_classes(), c.classes);
    const train::Measurement m = train::learner_of(bundle).measure(bundle, r.model_path, {});
    EXPECT_EQ(m.figures.loss, r.test.loss);
    EXPECT_EQ(m.figures.top1, r.test.top1);
    EXPECT_NEAR(static_cast<double>(m.figures.count), 0.2 * static_cast<double>(c.rows), 6);
  }
}

}  // namespace
}  // namespace freight::tables
