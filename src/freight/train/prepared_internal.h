// The state behind PreparedRun. A learner makes it (net_learner.cpp, tables/row_learner.cpp), trainer.cpp runs it: a
// network's loop (loop_internal.h) trains with it, RunRecorder (record_internal.h) writes the run directory.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "freight/job/ranks.h"
#include "freight/metrics/scores.h"
#include "freight/trace/initial_values.h"
#include "freight/train/device_data.h"
#include "freight/train/feature_task.h"
#include "freight/train/net_training.h"
#include "freight/train/prepare.h"
#include "freight/train/rank_shares.h"
#include "freight/train/start_point.h"
#include "freight/train/task.h"

namespace freight::train {

// Samples that are skipped because they cannot be read. The feeds of training and of evaluations report them, and text
// readers do so while they are made; each is kept once.
class LeftOut {
 public:
  void add(const data::BadSample& bad) {
    if (!paths_.insert(bad.path).second) return;
    samples_.push_back(bad);
    if (heard) heard(bad);
  }
  const std::vector<data::BadSample>& samples() const { return samples_; }
  std::function<void(const data::BadSample&)> heard = {};

 private:
  std::vector<data::BadSample> samples_;
  std::unordered_set<std::string> paths_;
};

// Steps of a whole run, from its first on.
struct RunLength {
  int64_t steps_per_epoch = 0, steps = 0, epochs = 0;

  // The steps of an epoch, counted from 1: the last may be cut short.
  int64_t steps_of(int64_t epoch) const { return std::min(steps_per_epoch, steps - (epoch - 1) * steps_per_epoch); }
};

// The contents of a checkpoint other than the model: states that this process keeps, and values of other ranks.
struct WholeStates {
  std::vector<nn::NamedVariable> kept;
  std::vector<nn::NamedArray> given = {};
};

class Learner;
class Loop;
class RunRecorder;

// A prepared run: the members that runs of all learners have, and the functions in which they differ.
struct Prepared {
  Prepared() = default;
  virtual ~Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  virtual RunSummary summary() const = 0;
  virtual Cost cost() const = 0;
  // The description of the model, as JSON: model.json.
  virtual std::string description() const = 0;
  // The model as it is, to be stored.
  virtual store::Bundle bundle(const RunPosition& place) const = 0;
  virtual std::string compute() const { return "f64"; }   // the type of the arithmetic
  virtual std::string pass() const { return "epoch"; }    // see RunSummary
  virtual std::string metric_name() const { return {}; }  // of a metric of the model's own; "" where it has none
  // True if the checkpoint that the run goes on from lies within an epoch: its row of metrics is written anew.
  virtual bool within_epoch() const { return false; }
  // See PreparedRun::restore. A learner without checkpoints and random numbers has nothing to put back.
  virtual void restore() {}
  // Trains to the end, or until it is stopped, and stores the model.
  virtual void train(RunRecorder& record, Observer& observer) = 0;
  virtual const Result& result() const = 0;  // as far as it came
  virtual struct NetRun* net_run() { return nullptr; }
  // The division of a batch among the ranks, if it was measured, given or restored from a checkpoint; otherwise null.
  virtual const RankShares* rank_shares() const { return nullptr; }
  // True of the process that has the run's directory: of the only one, or the first. A run may have none.
  bool records() const { return recorded && (!ranks || ranks->first()); }

  Config config;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  StartPoint start;
  LeftOut left_out;
  std::vector<std::string> class_names;  // of all outputs
  uint64_t fingerprint = 0;              // of the training data
  std::vector<std::string> notes;        // on the machine and on where the run begins
  bool recorded = true;                  // see PrepareOptions
  bool keeps_predictions = false;        // see PrepareOptions
  job::Ranks* ranks = nullptr;           // with whom the run is shared, or null
  size_t planned_bytes = 0;              // of the whole run; 0: not planned yet
  bool ran = false;                      // or runs
  std::unique_ptr<RunRecorder> record;   // while it runs
};

// A net's.
struct NetRun : Prepared {
  NetRun();
  ~NetRun() override;
  RunSummary summary() const override;
  Cost cost() const override;
  std::string description() const override;
  store::Bundle bundle(const RunPosition& place) const override;
  std::string compute() const override;
  std::string metric_name() const override;
  bool within_epoch() const override;
  // The score by which evaluations are compared (RunPosition): of the metric; with early stopping or the plateau
  // schedule of the loss; else the usual one.
  double score(const Evaluation& e) const;
  bool judged_by_loss() const;
  std::string judged_by() const;  // the figure behind the score: "auc", "loss", "top1"
  // Adds the metric of the predictions that the evaluation has kept, and the figures that depend on the threshold.
  void add_figures(Evaluation& e, const Predictions& predictions) const;
  // The path of the weights that were saved at this step, in this run or the one that it goes on from; "": none.
  std::string best_model(int64_t step) const;
  // True if the trained network gets a temperature or a threshold from the validation set.
  bool decides() const;
  // The usual metrics of stored_predictions; none where they are not kept, or compared with other targets than metrics
  // know.
  std::vector<metrics::Score> scores() const;
  // Makes these decisions (temperature, threshold) with `measure`, which evaluates the network, or returns nothing if
  // it is stopped. Sets `test` to the final evaluation and adds a line per decision to `said`. False if it was stopped.
  using Measure = std::function<std::optional<Evaluation>(Evaluator&)>;
  bool decide(const Measure& measure, Evaluation& test, std::vector<std::string>& said);
  // The last of them, by stored_predictions.
  void choose_thresholds(std::vector<std::string>& said);
  // True where the stored model is that of the best evaluation, rather than of the last step.
  bool stores_best() const { return config.early_stop > 0 || config.metric != Config().metric; }
  // True where no evaluation improved for as long as --early-stop waits.
  bool stops_early(const RunPosition& place) const { return config.early_stop > 0 && place.stale >= config.early_stop; }
  std::string evaluated_part() const;  // of the data, after each epoch: "val" or "test"
  void restore() override;
  void train(RunRecorder& record, Observer& observer) override;
  const Result& result() const override;
  NetRun* net_run() override { return this; }
  Planned planned() const;
  void plan_within(const ArenaLimit& limit);
  void share_start();
  // All that a checkpoint holds besides the model; of several ranks the first has it, and all call it together.
  WholeStates whole_states() const;
  // Names the first of weights and states that is not finite, on whichever rank; "" where all are.
  std::string first_nonfinite() const;
  // Weights, and the states that all ranks have.
  std::vector<nn::NamedVariable> common_values() const;
  // Ranks on devices of several kinds take over rank 0's weights and states, from which theirs differ by rounding.
  void level_ranks();
  const RankShares* rank_shares() const override { return shares ? &*shares : nullptr; }

  std::unique_ptr<Task> task;
  FeatureTask* features = nullptr;   // the task, where it gives features of frozen layers in place of samples
  std::unique_ptr<data::Feed> feed;  // of training
  std::unique_ptr<DeviceData> data;  // null: batches come from the feed
  int64_t block = 1;                 // the number of steps enqueued at a time, if the device assembles batches
  std::unique_ptr<NetTraining> net;
  std::unique_ptr<trace::DrawAhead> weights;  // drawn while the run is planned; null where it begins with others
  models::Model stored;    // what files have in place of the network: its graph, with its variables; often none
  job::Sharding sharding;  // of its batches; 0 shards: they are whole
  std::optional<RankShares> shares;
  RunLength length;
  optim::Schedule schedule = optim::Schedule::constant(0);
  std::optional<metrics::Metric> metric;  // --metric; none: auto
  metrics::Thresholds thresholds;         // of two classes or several labels (store::Bundle)
  Predictions stored_predictions;         // of the stored model, for the validation set; none until it is known
  std::string precision_note;
  Array random_numbers;  // the state of the generator, which others may draw from before the run begins
  bool restored = false;
  std::optional<Comparison> comparison;  // of the folds, once they are trained
  std::unique_ptr<Loop> loop;            // once it runs
};

// --folds: trains the network on folds of the training samples, each in a run of its own in the folder "folds" of the
// run's directory (net_folds.cpp).
// Throws Error(usage) that names --folds for runs that cannot be divided.
void check_folds(const NetRun& run);
// Trains and measures all folds, or goes on with them where a resumed run has begun. False if it was stopped.
bool train_folds(NetRun& run, RunRecorder& record, Observer& observer);

// Begins a run of every learner: the configuration is checked, and where the run starts and writes is settled.
void begin(Prepared& run, const Config& config, PrepareOptions options);
// The part of a summary that is the configuration's and the start's; notes on the data go in front of its notes.
RunSummary common_summary(const Prepared& run);
std::shared_ptr<const Learner> net_learner();

// The learning rate of the run's step number `step`, from 0. Skipped f16 steps count too, so the schedule advances.
inline double rate_of(const NetRun& run, const RunPosition& place, int64_t step) {
  return place.lr.value_or(run.schedule.at(step) * place.lr_factor);
}

}  // namespace freight::train
