// The reports of a run before, during and after training, and the Observer that receives them. The library prints
// nothing; programs show users these reports.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/job/step_timeline.h"
#include "freight/metrics/scores.h"
#include "freight/train/evaluate.h"

namespace freight::train {

// All that is known of a run before its first step.
struct RunSummary {
  std::string model, device, output_dir, data;
  int64_t parameters = 0, train_count = 0, test_count = 0, batch_size = 0, grad_accum = 1, epochs = 0, steps = 0;
  int64_t devices = 1;  // that share a batch
  std::string parts;    // of a batch that they do not share evenly: "cpu 91 + opencl:0 37"
  int64_t shards = 0;   // see Config
  int64_t classes = 0;  // of the data, or labels; 0 for values to regress
  bool multilabel = false;
  bool ranks = false;  // the values are relevances, by which rows are ranked
  double flops_per_step = 0;
  // Of the whole run, where it was planned (plan/fitting.h); else of the training step's arena.
  size_t planned_bytes = 0;
  bool has_plans = false;  // as PreparedRun says; FLOPs and steps are those of plans
  uint64_t seed = 0;
  std::vector<std::string> notes;     // on how the data was read and split, and on features that the device lacks
  std::vector<std::string> warnings;  // on requests that were not met: damaged checkpoints that were skipped
  std::string pass = "epoch";         // over the training data: an epoch, or a round of boosting
  // The split that epochs are evaluated on: "val" if it was held out of training data or decides something.
  std::string held_out = "test";
  bool test_apart = false;        // the data has a test set, too, which training leaves alone
  std::string measured = "test";  // the split that the saved model was evaluated on: "val" if fitting used these rows
  std::string metric_name;        // of a network's evaluations, besides loss and top1; "" where there is none
  std::string unit;               // of samples: "img", "sample", "doc", "tok"
  std::string example;            // an argument of `freight predict` for this model, quoted; "" if none is known
  std::string sample_set;         // the dataset that `freight data sample` must write first for the example; or ""
};

struct StepReport {
  int64_t epoch = 0, epochs = 0;  // 1-based; epochs is 0 before it is known (a fit that runs until it converges)
  int64_t step = 0, steps = 0;    // within the epoch, 1-based
  int64_t total_step = 0;
  double loss = 0, mean_loss = 0;   // of the step; mean over the epoch's steps, a short last batch counts as any other
  std::optional<double> top1 = {};  // percent of the samples since the epoch's start; none for a regression
  std::optional<double> metric = {};  // mean over them of the model's own metric
  double lr = 0;
  double samples_per_s = 0;  // since the epoch's start
  double data_percent = 0;   // share of time spent waiting for data
  double eta_s = 0;
};

struct EpochReport {
  StepReport train;  // as of the epoch's last step
  std::optional<Evaluation> test;
  bool best = false;
  double seconds = 0;
  std::string slow = {};  // the process that the others wait for, and how long they wait; "" if it is short
};

// The reason why a run ended without an error. Everything is saved; all other endings throw an Error, whose kind
// (base/error.h) is the exit code of the command: diverged, capacity, checkpoint, data, ...
enum class Ended {
  complete,      // all steps are done
  early,         // the validation figure did not improve for as long as --early-stop says
  nothing_left,  // all steps were done before: the run was complete
  by_observer,   // stopped by on_step, and can be resumed
  by_signal,     // stopped by SIGINT or SIGTERM, where signals::install() was called, and can be resumed
};

// A comparison of several models, of which the best was fitted to all of the training data, or the cross-validation of
// one (leaderboard.h).
struct Comparison {
  std::string best;                // the model and its settings: "gbdt --lr 0.05"; "" if there was one alone
  std::string pass = "round";      // of its fit, as in RunSummary
  std::vector<std::string> lines;  // the table of all models
  std::string json;                // the same as in run.json, under "leaderboard"
};

struct Result {
  Evaluation test;                // of the stored model; without a count where nothing was held out
  std::string measured = "test";  // RunSummary::measured, for `test`
  double train_loss = 0;          // of the last step
  int64_t steps = 0, epochs = 0;  // done
  double train_seconds = 0;       // in the training loop, without evaluation; with checkpoints within an epoch
  double total_seconds = 0;       // since preparing the run began
  double step_seconds = 0;  // mean of this process's steps but the first, without waiting for data; 0: no such step
  double samples_per_second = 0;
  int64_t parameters = 0;
  std::string model_path, output_dir;
  std::vector<data::BadSample> bad_samples;  // left out
  std::string metric_name;                   // of test.metric
  // The epoch whose weights are stored, and the figure by which it is the best; 0: those of the last step are.
  int64_t best_epoch = 0;
  std::string best_by = {};
  std::vector<std::string> decisions = {};         // lines on what the validation set decided: threshold, temperature
  std::optional<Comparison> comparison = {};       // empty unless models or settings were compared
  std::optional<job::StepTimeline> timeline = {};  // of a run by several ranks
  // Metrics of the stored model with their intervals, where the evaluation keeps its predictions.
  std::vector<metrics::Score> scores = {};
  Predictions held_out = {};  // PrepareOptions::keeps_predictions: in the order of the held-out samples
  Ended ended = Ended::complete;
  bool interrupted() const { return ended == Ended::by_observer || ended == Ended::by_signal; }
};

// An observer asks for this after a step or an epoch. It holds from the next step on; steps that a device has been
// given by then are finished first.
struct AfterStep {
  bool stop = false;              // as by a signal: all is saved, and the run can be resumed
  std::optional<double> lr = {};  // the learning rate in place of the schedule's, until another is asked for
};

// By name.
using Figures = std::vector<std::pair<std::string, double>>;

// Its functions are called in the thread that runs; what they throw ends the run as a failure.
class Observer {
 public:
  virtual ~Observer() = default;
  // True of one that writes log.txt itself (RunDir::add_to_log), with what it shows of the run.
  virtual bool keeps_log() const { return false; }
  // The output directory is there; no step is done yet.
  virtual void on_start(const RunSummary&) {}
  // True if on_step should be called for this step. Called after each step, so it should be quick.
  virtual bool wants_step() { return true; }
  virtual AfterStep on_step(const StepReport&) { return {}; }
  // Called while learners or settings of tables are compared or folds of a network trained, before each fit and after
  // each round, with the current fit. Only `stop` of the result has an effect: it ends the comparison, and the best so
  // far is kept.
  virtual AfterStep on_comparison(const std::string& /*what*/) { return {}; }
  virtual void on_compared(const Comparison&) {}
  // The model as it is stored, with the averages of its weights where the run keeps some: before a checkpoint is saved,
  // and with the weights of an earlier, best epoch where they take the place of the newest.
  virtual void on_checkpoint(const models::Model&) {}
  // After the epoch's evaluation, before its checkpoint; also for the part of an epoch after which a run is stopped.
  virtual void on_epoch(const EpochReport&) {}
  // Asked after on_epoch: `stop` ends the run there, as by a signal, where epochs are left, and the learning rate is in
  // the epoch's checkpoint. Of ranks the first decides.
  virtual AfterStep after_epoch() { return {}; }
  // A sample that cannot be read and is left out; once per sample.
  virtual void on_bad_sample(const std::string& /*path*/, const std::string& /*reason*/) {}
  virtual void on_evaluation_progress(int64_t /*done*/, int64_t /*total*/) {}
  // Called when the run has ended without an error. Returns measurements of the observer for "plan" in run.json, which
  // is then written.
  virtual Figures figures(const Result&) { return {}; }
};

}  // namespace freight::train
