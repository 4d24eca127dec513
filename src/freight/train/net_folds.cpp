// Cross-validation of a network (--folds): each fold of the training samples is held out from a run of its own, an
// ordinary one in the run's folder folds/K, so that it resumes and uses devices as every run does. The predictions for
// the held-out samples of all folds become one list and one leaderboard; then the network is trained on all training
// samples, as without folds. Tables have tables/selection.cpp.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/csv_field.h"
#include "freight/io/file.h"
#include "freight/metrics/folds.h"
#include "freight/train/leaderboard.h"
#include "freight/train/loop_internal.h"
#include "freight/train/metric.h"
#include "freight/train/trainer.h"

namespace freight::train {

namespace {

constexpr const char* kFoldsDir = "folds";

std::vector<int64_t> fold_of_samples(const NetRun& run) {
  const Array groups = run.task->fold_groups();
  return metrics::folds_of(
      {.labels = run.task->fold_labels(), .groups = groups.defined() ? std::optional(groups) : std::nullopt},
      {.folds = run.config.folds, .seed = static_cast<uint64_t>(run.config.seed)});
}

// The figure of the folds: that of --metric; else a usual one of the kind of target.
metrics::Metric metric_of_folds(const NetRun& run) {
  if (run.metric) return *run.metric;
  const models::Loss loss = run.net->model.loss;
  Config named = run.config;
  named.metric = models::regresses(loss) ? "rmse" : loss == models::Loss::multilabel ? "macro_f1" : "accuracy";
  return metric_for(named, models::regresses(loss) || loss == models::Loss::multilabel ? 0 : run.class_names.size());
}

// Passes what happens in the run of a fold on to the observer of the whole run.
class FoldObserver : public Observer {
 public:
  FoldObserver(Observer& whole, std::string name) : whole_(whole), name_(std::move(name)) {}
  void on_epoch(const EpochReport& e) override {
    stop_ = stop_ || whole_.on_comparison(cat(name_, "  epoch ", e.train.epoch, "/", e.train.epochs)).stop;
  }
  bool wants_step() override { return stop_; }
  AfterStep on_step(const StepReport&) override { return {.stop = stop_}; }
  void on_bad_sample(const std::string& path, const std::string& reason) override {
    whole_.on_bad_sample(path, reason);
  }

 private:
  Observer& whole_;
  std::string name_;
  bool stop_ = false;
};

class Folds {
 public:
  Folds(NetRun& run, RunRecorder& record, Observer& observer)
      : run_(run),
        record_(record),
        observer_(observer),
        metric_(metric_of_folds(run)),
        fold_of_(fold_of_samples(run)),
        dir_(cat(run.config.output_dir, "/", kFoldsDir)) {}

  // False if it was stopped.
  bool run() {
    const auto began = std::chrono::steady_clock::now();
    if (run_.records() && run_.config.resume.empty()) {
      std::error_code none;
      std::filesystem::remove_all(dir_, none);  // of a run that this one replaces
    }
    for (int64_t fold = 0; fold < run_.config.folds; ++fold) {
      if (!train(fold)) return false;
    }
    finish(seconds_since(began));
    return true;
  }

 private:
  Config config_of(int64_t fold) const {
    Config c = run_.config;
    c.folds = 0;
    c.output_dir = cat(dir_, "/", fold + 1);
    c.resume = c.resume.empty() ? "" : "auto";
    c.overwrite = true;  // the folder belongs to this run
    return c;
  }

  bool train(int64_t fold) {
    const std::vector<int64_t> fitted = metrics::fold_samples(fold_of_, fold, metrics::FoldSide::outside),
                               held_out = metrics::fold_samples(fold_of_, fold, metrics::FoldSide::inside);
    const std::string name = cat("fold ", fold + 1, " of ", run_.config.folds);
    FoldObserver observer(observer_, name);
    PrepareOptions options;
    options.source = run_.task->divided(fitted, held_out);
    options.ranks = run_.ranks;
    options.keeps_predictions = true;
    const Result result = train::train(config_of(fold), observer, std::move(options));
    if (result.interrupted()) return false;
    const Predictions& predictions = result.held_out;
    FREIGHT_CHECK(predictions.count() == static_cast<int64_t>(held_out.size()),
                  "a prediction for each held-out sample");
    const auto score = metrics::score_of(metric_, predictions.outputs, predictions.targets, run_.thresholds);
    if (score && !std::isfinite(*score)) fail(ErrorKind::diverged, name, "has no finite ", metric_.name);
    if (score) scores_.push_back(*score);
    seconds_ += result.train_seconds;
    row_seconds_ += result.test.seconds / static_cast<double>(std::max<int64_t>(result.test.count, 1));
    rows_ = static_cast<int64_t>(fitted.size());
    if (run_.records()) {
      std::error_code none;
      bytes_ = static_cast<double>(std::filesystem::file_size(result.model_path, none));
    }
    predictions_.push_back(predictions);
    samples_.insert(samples_.end(), held_out.begin(), held_out.end());
    return true;
  }

  // The predictions of all folds in the order of the samples.
  Predictions all_predictions() const {
    Predictions all;
    for (Array Predictions::*part : {&Predictions::outputs, &Predictions::targets}) {
      Shape shape = (predictions_[0].*part).shape();
      shape[0] = static_cast<int64_t>(samples_.size());
      Array joined((predictions_[0].*part).dtype(), shape);
      auto* to = static_cast<char*>(joined.raw());
      for (const Predictions& one : predictions_) {
        const Array& array = one.*part;
        std::copy_n(static_cast<const char*>(array.raw()), array.bytes(), to);
        to += array.bytes();
      }
      std::vector<int64_t> place(samples_.size());
      for (size_t i = 0; i < samples_.size(); ++i) place[static_cast<size_t>(samples_[i])] = static_cast<int64_t>(i);
      all.*part = data::selected_rows(joined, place);
    }
    return all;
  }

  void finish(double seconds) {
    const Predictions all = all_predictions();
    const auto n = static_cast<double>(std::max<size_t>(scores_.size(), 1));
    const double mean = std::accumulate(scores_.begin(), scores_.end(), 0.0) / n;
    double squares = 0;
    for (const double s : scores_) squares += (s - mean) * (s - mean);
    const double deviation = scores_.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
    const Leaderboard board{.metric = metric_.name,
                            .higher = metric_.higher,
                            .pass = "epoch",
                            .folds = run_.config.folds,
                            .standings = {{.learner = run_.net->model.name,
                                           .settings = {},
                                           .mean = mean,
                                           .deviation = deviation,
                                           .folds = static_cast<int64_t>(scores_.size()),
                                           .rows = rows_,
                                           .fit_seconds = seconds_ / static_cast<double>(run_.config.folds),
                                           .row_seconds = row_seconds_ / static_cast<double>(run_.config.folds),
                                           .bytes = bytes_}},
                            .left_out = {},
                            .seconds = seconds};
    Comparison comparison{.best = {}, .pass = board.pass, .lines = lines_of(board), .json = to_json(board)};
    if (run_.records()) {
      const std::string path = cat(dir_, "/predictions.csv");
      io::write_file_atomic(path, std::string_view(list_of(all)));
      comparison.lines.push_back(cat("out-of-fold predictions: ", path));
    }
    for (const metrics::Score& s :
         metrics::scores_of(all.outputs, all.targets, {.thresholds = run_.thresholds, .first = metric_})) {
      if (s.name == metric_.name) {
        comparison.lines.push_back(
            cat(s.name, " of all out-of-fold predictions: ", significant(s.value, 4), "  ", interval_text(s)));
      }
    }
    for (const std::string& line : comparison.lines) record_.note_heard(line);
    observer_.on_compared(comparison);
    run_.comparison = std::move(comparison);
  }

  std::string class_name(int64_t number) const {
    return io::csv_field(run_.class_names.at(static_cast<size_t>(number)));
  }
  std::string label_names(const std::function<bool(int64_t)>& has) const {
    std::vector<std::string> names;
    for (size_t k = 0; k < run_.class_names.size(); ++k) {
      if (has(static_cast<int64_t>(k))) names.push_back(run_.class_names[k]);
    }
    return io::csv_field(join(names, "|"));
  }

  // A line per training sample: its name, its fold, its target and the prediction of the fold's model.
  std::string list_of(const Predictions& all) const {
    const auto [column, names] = run_.task->sample_names();
    const int64_t k = all.outputs.shape()[1];
    const DType kind = all.targets.dtype();
    const std::vector<std::string> targets = run_.task->targets();
    std::string text = cat(column, ",fold");
    if (kind != DType::f32) text += kind == DType::i64 ? ",label,prediction,probability" : ",labels,prediction";
    for (int64_t c = 0; kind == DType::f32 && c < k; ++c) {
      const std::string name = targets.empty() ? cat("target", c) : targets[static_cast<size_t>(c)];
      text += cat(",", io::csv_field(name), ",", io::csv_field(cat("prediction:", name)));
    }
    text += "\n";
    for (size_t i = 0; i < names.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      const float* const y = all.outputs.data<float>() + row * k;
      text += cat(io::csv_field(names[i]), ",", fold_of_[i] + 1);
      if (kind == DType::i64) {
        const int64_t predicted = metrics::predicted_class(y, k, run_.thresholds.second);
        text += cat(",", class_name(all.targets.data<int64_t>()[row]), ",", class_name(predicted), ",", y[predicted]);
      } else if (kind == DType::f32) {
        for (int64_t c = 0; c < k; ++c) text += cat(",", all.targets.data<float>()[row * k + c], ",", y[c]);
      } else {
        const uint8_t* const has = all.targets.data<uint8_t>() + row * k;
        text += cat(",", label_names([&](int64_t c) { return has[c] != 0; }), ",",
                    label_names([&](int64_t c) { return static_cast<double>(y[c]) > run_.thresholds.of_label(c); }));
      }
      text += "\n";
    }
    return text;
  }

  NetRun& run_;
  RunRecorder& record_;
  Observer& observer_;
  metrics::Metric metric_;
  std::vector<int64_t> fold_of_;
  std::string dir_;
  std::vector<double> scores_;
  std::vector<Predictions> predictions_;
  std::vector<int64_t> samples_;  // of the predictions
  double seconds_ = 0, row_seconds_ = 0, bytes_ = 0;
  int64_t rows_ = 0;
};

}  // namespace

void check_folds(const NetRun& run) {
  const Config& c = run.config;
  const Array labels = run.task->fold_labels();
  if (!labels.defined()) {
    fail(ErrorKind::usage, "--folds", "is for images, arrays and documents: ", c.data, " cannot be divided into folds");
  }
  if (!run.recorded) {
    fail(ErrorKind::usage, "--folds", "trains each fold in a folder of the run, and this run writes nothing ",
         "(PrepareOptions::recorded)");
  }
  excludes(
      {"--folds", run.task->reads_image_files()},
      {cat("--on-bad-sample ", c.on_bad_sample), c.on_bad_sample != "error"},
      "predictions are listed by sample, and a sample that cannot be read has none: freight data verify finds them");
  fold_of_samples(run);  // refuses more folds than samples
}

bool train_folds(NetRun& run, RunRecorder& record, Observer& observer) {
  const Array random = rng_state().array().clone();
  const bool whole = Folds(run, record, observer).run();
  rng_state().set(random);  // the network is trained as without folds
  return whole;
}

}  // namespace freight::train
