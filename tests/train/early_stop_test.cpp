// Early stopping, the metric of a run, and the weights that it stores: those of the best epoch, wherever it is stopped
// and resumed.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "freight/data/catalog.h"
#include "freight/deploy/predictor.h"
#include "freight/io/file.h"
#include "freight/train/checkpoint.h"
#include "freight/train/learner.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"
#include "tests/support/small_digits.h"
#include "tests/support/unbalanced_texts.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

class EarlyStop : public ::testing::Test {
 protected:
  EarlyStop() {
    test::write_small_digits(dir_.path());
    config_ = recipe(dir_.path());
    config_.model = "mlp";
    config_.batch_size = 32;
    config_.epochs = 8;
    config_.deterministic = true;
    config_.keep = 2;
  }
  Config at(const std::string& run) const {
    Config c = config_;
    c.output_dir = dir_ / run;
    return c;
  }
  // The held-out rows of metrics.jsonl, by epoch.
  std::vector<nlohmann::json> evaluations(const std::string& run) const {
    std::vector<nlohmann::json> rows;
    for (const std::string& line : split(read_text(dir_ / (run + "/metrics.jsonl")), '\n')) {
      const auto j = nlohmann::json::parse(line, nullptr, false);
      if (j.is_object() && j["split"] != "train") rows.push_back(j);
    }
    return rows;
  }
  static Result run(const Config& c) {
    Observer silent;
    return train(c, silent);
  }
  // Trains one epoch, or to the end where there is nothing left to stop.
  static Result one_epoch(const Config& c) {
    struct OneEpoch : Observer {
      bool stop = false;
      void on_epoch(const EpochReport&) override { stop = true; }
      AfterStep on_step(const StepReport&) override { return {.stop = stop}; }
    } observer;
    return train(c, observer);
  }

  TemporaryDir dir_;
  Config config_;
};

TEST_F(EarlyStop, EndsARunWhoseLossNoLongerImprovesAndStoresTheBestEpoch) {
  config_.epochs = 40;
  config_.lr = 0.3;  // overfits the 640 images soon
  config_.early_stop = 2;
  const Result r = run(at("run"));
  EXPECT_EQ(r.ended, Ended::early);
  const auto rows = evaluations("run");
  ASSERT_EQ(static_cast<int64_t>(rows.size()), r.epochs);
  ASSERT_LT(r.epochs, 40);
  double least = std::numeric_limits<double>::infinity();
  int64_t best = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]["loss"].get<double>() < least) {
      least = rows[i]["loss"];
      best = static_cast<int64_t>(i) + 1;
    }
  }
  EXPECT_EQ(r.best_epoch, best);
  EXPECT_EQ(r.best_by, "loss");
  EXPECT_EQ(r.epochs, best + 2);
  EXPECT_EQ(r.test.loss, least);
  const std::string stored = dir_ / "run/model.safetensors";
  // Measured in batches of another size: equal to rounding.
  EXPECT_NEAR(learner_of(store::load_bundle(stored)).measure(store::load_bundle(stored), stored, {}).figures.loss,
              least, 1e-6);
  const store::Bundle newest = store::load_bundle(dir_ / "run/last/model.safetensors");
  EXPECT_EQ(newest.provenance.at("steps"), cat(r.steps)) << "last/ stays the newest";
  EXPECT_EQ(store::load_bundle(stored).provenance.at("steps"), cat(20 * best));
}

TEST_F(EarlyStop, IsResumedAsIfItHadNeverStopped) {
  config_.epochs = 40;
  config_.lr = 0.3;
  config_.early_stop = 2;
  config_.model_ema = 0.5;
  const Result whole = run(at("whole"));
  Config parts = at("parts");
  Result r = one_epoch(parts);
  parts.resume = "auto";
  for (int i = 0; i < 40 && r.interrupted(); ++i) r = one_epoch(parts);
  EXPECT_EQ(r.ended, Ended::early);
  EXPECT_EQ(r.best_epoch, whole.best_epoch);
  EXPECT_EQ(read_text(dir_ / "parts/model.safetensors"), read_text(dir_ / "whole/model.safetensors"));
  EXPECT_EQ(run(parts).ended, Ended::nothing_left);
  EXPECT_EQ(read_text(dir_ / "parts/model.safetensors"), read_text(dir_ / "whole/model.safetensors"));
  parts.early_stop = 4;  // more patience: it goes on
  EXPECT_GT(run(parts).steps, whole.steps);
}

TEST_F(EarlyStop, CountsOnlyWhatImprovesByAsMuchAsAsked) {
  config_.early_stop = 1;
  config_.min_improvement = 100;
  const Result r = run(at("run"));
  EXPECT_EQ(r.epochs, 2) << "the first evaluation improves on nothing, the second by less than 100";
  config_.early_stop = -1;
  expect_error(ErrorKind::usage, {"--min-improvement", "--early-stop"}, [&] { run(at("other")); });
}

TEST_F(EarlyStop, SettlesTheMetricBeforeTheFirstStep) {
  const auto refused = [&](ErrorKind kind, const std::vector<std::string>& parts, auto change) {
    Config c = at("refused");
    change(c);
    expect_error(kind, parts, [&] { prepare(c); });
  };
  refused(ErrorKind::usage, {"--metric", "auc is for two classes", "10 classes"}, [](Config& c) { c.metric = "auc"; });
  refused(ErrorKind::usage, {"--metric", "rmse is for values"}, [](Config& c) { c.metric = "rmse"; });
  refused(ErrorKind::usage, {"--weight-column", "this run trains a network"}, [](Config& c) { c.weight_column = "w"; });
  refused(ErrorKind::usage, {"--threshold", "two classes", "10 classes"}, [](Config& c) { c.threshold = 0.3; });
  refused(ErrorKind::usage, {"--threshold", "recall=2"}, [](Config& c) { c.threshold_rule = "recall=2"; });
  refused(ErrorKind::usage, {"--loss", "huber", "are classes", "focal"}, [](Config& c) { c.loss = "huber"; });
  refused(ErrorKind::usage, {"--loss", "mea"}, [](Config& c) { c.loss = "mea"; });
}

TEST_F(EarlyStop, StoresTheEpochThatIsTheBestByTheMetric) {
  config_.metric = "macro_f1";
  config_.lr = 0.3;
  const Result r = run(at("run"));
  EXPECT_EQ(r.ended, Ended::complete);
  EXPECT_EQ(r.metric_name, "macro_f1");
  double most = 0;
  for (const auto& row : evaluations("run")) most = std::max(most, row["macro_f1"].get<double>());
  ASSERT_TRUE(r.test.metric);
  EXPECT_EQ(*r.test.metric, most);
  const std::string stored = dir_ / "run/model.safetensors";
  const Measurement again = learner_of(store::load_bundle(stored)).measure(store::load_bundle(stored), stored, {});
  ASSERT_FALSE(again.scores.empty());
  EXPECT_EQ(again.scores.front().name, "macro_f1");
  EXPECT_NEAR(again.scores.front().value, most, 1e-9);
}

TEST_F(EarlyStop, GoesWithShardsPartsAndBatchesOfTheDevice) {
  config_.epochs = 3;
  config_.metric = "accuracy";
  config_.early_stop = 2;
  config_.class_weight = "balanced";
  const double whole = *run(at("whole")).test.metric;
  for (const auto& [name, change] : std::vector<std::pair<std::string, std::function<void(Config&)>>>{
           {"shards", [](Config& c) { c.shards = 4; }},
           {"parts", [](Config& c) { c.grad_accum = 2; }},
           {"device", [](Config& c) { c.device_data = "yes"; }}}) {
    SCOPED_TRACE(name);
    Config c = at(name);
    change(c);
    const Result r = run(c);
    EXPECT_NEAR(*r.test.metric, whole, 0.05);
    EXPECT_GT(r.best_epoch, 0);
  }
}

TEST_F(EarlyStop, APlateauCutsTheRateWhereNothingImproves) {
  config_.lr_scheduler = "plateau";
  config_.lr_gamma = 0.5;
  config_.min_improvement = 100;
  config_.epochs = 4;
  for (const int64_t patience : {0, 1}) {  // 0, as in PyTorch, does not wait for a second one either
    config_.lr_patience = patience;
    run(at(patience ? "run" : "impatient"));
    std::vector<double> rates;
    for (const std::string& line :
         split(read_text(dir_ / (patience ? "run/metrics.jsonl" : "impatient/metrics.jsonl")), '\n')) {
      const auto j = nlohmann::json::parse(line, nullptr, false);
      if (j.is_object() && j["split"] == "train") rates.push_back(j["lr"].get<double>());
    }
    ASSERT_EQ(rates.size(), 4u);
    EXPECT_NEAR(rates[1] / rates[0], 1, 1e-6) << "the first evaluation improves on nothing";
    EXPECT_NEAR(rates[2] / rates[1], 0.5, 1e-6);
    EXPECT_NEAR(rates[3] / rates[2], 0.5, 1e-6);
  }
  Config c = at("parts");
  Result r = one_epoch(c);
  c.resume = "auto";
  for (int i = 0; i < 4 && r.interrupted(); ++i) r = one_epoch(c);
  EXPECT_EQ(read_text(dir_ / "parts/model.safetensors"), read_text(dir_ / "run/model.safetensors"));
}

class UnbalancedTexts : public EarlyStop {
 protected:
  UnbalancedTexts() {
    io::write_file_atomic(dir_ / "texts.csv", std::string_view(test::unbalanced_texts(600, 6)));
    config_ = recipe(dir_ / "texts.csv");
    config_.model = "text_bow";
    config_.epochs = 3;
    config_.deterministic = true;
    config_.max_length = 16;
  }
};

TEST_F(UnbalancedTexts, AThresholdByRecallIsSavedAndUsedByEverything) {
  config_.threshold_rule = "recall=0.95";
  const Result r = run(at("run"));
  const store::Bundle bundle = store::load_bundle(r.model_path);
  ASSERT_TRUE(bundle.threshold);
  const Measurement measured = learner_of(bundle).measure(store::load_bundle(r.model_path), r.model_path, {});
  EXPECT_DOUBLE_EQ(*measured.figures.top1, *r.test.top1);
  const auto recall = std::find_if(measured.scores.begin(), measured.scores.end(),
                                   [](const metrics::Score& s) { return s.name == "recall"; });
  ASSERT_NE(recall, measured.scores.end());
  EXPECT_GE(recall->value, 0.95);
  const float low = static_cast<float>(*bundle.threshold), over[] = {1 - low - 0.001f, low + 0.001f};
  EXPECT_EQ(bundle.predicted(over, 2), 1);
  ASSERT_EQ(r.decisions.size(), 1u);
  EXPECT_NE(r.decisions[0].find("by recall=0.95 on the validation set"), std::string::npos) << r.decisions[0];
}

TEST_F(UnbalancedTexts, AThresholdThatCannotBeMetIsSaidAndTheModelStored) {
  std::string same = "text,label\n";  // one text of both classes has one probability
  for (int i = 0; i < 120; ++i) same += cat("win a prize now,", i % 6 == 0 ? "spam" : "ham", "\n");
  io::write_file_atomic(dir_ / "same.csv", std::string_view(same));
  config_.data = dir_ / "same.csv";
  config_.threshold_rule = "precision=1";
  config_.epochs = 1;
  const Result r = run(at("run"));
  EXPECT_FALSE(store::load_bundle(r.model_path).threshold);
  ASSERT_EQ(r.decisions.size(), 1u);
  EXPECT_NE(r.decisions[0].find("cannot be met"), std::string::npos) << r.decisions[0];
}

TEST_F(UnbalancedTexts, ATemperatureLowersTheLossThatEvaluationAndPredictionHave) {
  config_.calibration = "temperature";
  config_.lr = 0.5;
  config_.epochs = 6;
  const Result r = run(at("run"));
  store::Bundle bundle = store::load_bundle(r.model_path);
  EXPECT_NE(bundle.model.temperature, 1);
  const double loss = learner_of(bundle).measure(store::load_bundle(r.model_path), r.model_path, {}).figures.loss;
  EXPECT_NEAR(loss, r.test.loss, 1e-6) << "in batches of other sizes";
  EXPECT_LT(loss, evaluations("run").back()["loss"].get<double>());
  const double temperature = bundle.model.temperature;
  deploy::Predictor scaled(bundle, {.deterministic = true});
  const Array tokens = scaled.sample_of_text("win a prize at lunch");
  const Array p = scaled.run({tokens});
  bundle.model.temperature = 1;
  const Array q = deploy::Predictor(bundle, {.deterministic = true}).run({tokens});
  const auto logit = [](const Array& a) { return std::log(a.data<float>()[1] / a.data<float>()[0]); };
  EXPECT_NEAR(logit(p), logit(q) / temperature, 1e-4);
}

TEST_F(UnbalancedTexts, MetricsThatTheValidationClassesDoNotAllowAreRefusedAtOnce) {
  std::filesystem::create_directories(dir_ / "one");
  io::write_file_atomic(dir_ / "one/train.csv", std::string_view(test::unbalanced_texts(100, 6)));
  io::write_file_atomic(dir_ / "one/test.csv", std::string_view("text,label\na b,ham\nc d,ham\n"));
  config_.data = dir_ / "one";
  config_.metric = "auc";
  config_.output_dir = dir_ / "refused";
  expect_error(ErrorKind::data, {"--metric", "auc is not defined", "ham"}, [&] { prepare(config_); });
  config_.metric = "log_loss";
  const std::vector<std::string> warnings = prepare(config_).summary().warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("the validation set has no sample of class spam"), std::string::npos) << warnings[0];
}

TEST_F(UnbalancedTexts, ClassesAreDrawnEquallyOften) {
  config_.sample_by = "class";
  config_.lr = 1e-9;
  config_.epochs = 1;
  config_.output_dir = dir_ / "run";
  struct Seen : Observer {
    double right = 0;
    void on_epoch(const EpochReport& e) override { right = e.train.top1.value_or(0); }
  } seen;
  // A network that tells one class alone is right on half of the samples.
  train(config_, seen);
  EXPECT_GT(seen.right, 25);
  EXPECT_LT(seen.right, 75);
}

}  // namespace
}  // namespace freight::train
