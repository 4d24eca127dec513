// The training loop: data, model, optimizer and schedule of a Config become one compiled step that is replayed; each
// epoch ends with an evaluation and a checkpoint. What happens is reported through Observer; the library prints
// nothing.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/models/models.h"
#include "freight/store/bundle.h"
#include "freight/train/checkpoint.h"
#include "freight/train/config.h"
#include "freight/train/evaluate.h"
#include "freight/train/step.h"

namespace freight {
class DeviceMemory;
}

namespace freight::train {

// What is known before the first step: the start block.
struct Start {
  std::string model, device, output_dir, data;
  int64_t parameters = 0, train_count = 0, test_count = 0, batch_size = 0, grad_accum = 1, epochs = 0, steps = 0;
  int64_t classes = 0;  // of the data; 0 for values to regress
  double flops_per_step = 0;
  size_t planned_bytes = 0;  // arena of the training step
  size_t plan_steps = 0;
  uint64_t seed = 0;
  std::vector<std::string> notes;     // on how the data came about, and on what the device lacks
  std::vector<std::string> warnings;  // what was asked for and is not so: damaged checkpoints that were passed over
  std::string unit;                   // of samples: "img", "doc", "tok"
};

struct StepReport {
  int64_t epoch = 0, epochs = 0;  // 1-based
  int64_t step = 0, steps = 0;    // within the epoch, 1-based
  int64_t total_step = 0;
  double loss = 0, mean_loss = 0;
  std::optional<double> top1 = {};  // percent of the samples since the epoch's start; none for a regression
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
};

// The plans of a run, before anything is allocated for it or written. Valid during the call.
struct Planned {
  const Config& config;
  const models::Model& model;
  const optim::Optimizer& optimizer;
  const optim::EMA* ema;  // or null
  Type inputs, targets;   // of a full batch
  std::vector<TrainStep::Run> step;
  std::shared_ptr<const Plan> evaluation;             // of a full batch
  int64_t evaluation_batch, train_count, test_count;  // counts: of samples, or of a corpus's tokens
  size_t data_bytes = 0;                              // of the training set, where it lies on the device
  size_t kept_bytes = 0;                              // Task::kept_bytes
};

struct Result {
  Evaluation test;                // of the stored model
  double train_loss = 0;          // of the last step
  int64_t steps = 0, epochs = 0;  // done
  double train_seconds = 0;       // in the training loop, evaluation and saving left out
  double total_seconds = 0;
  double step_seconds = 0;  // mean of this process's steps but the first, without waiting for data; 0: no such step
  double samples_per_second = 0;
  int64_t parameters = 0;
  std::string model_path, output_dir;
  std::vector<data::BadSample> bad_samples;  // left out
  bool interrupted = false;                  // a signal asked to stop; everything was saved
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Bytes of the device's memory that the run may take; 0: what is free. A training set lies there only where it takes
  // a quarter of them at most.
  virtual double device_memory() { return 0; }
  // What each plan of the training step may have as its arena: asked where the run offloads, with plans that have no
  // limit. Default: any number of bytes.
  virtual ArenaLimit arena_limit(const Planned&) { return {}; }
  // Bytes that the run takes whatever its plan is, `states` by optimizer and averages: told before any of them is
  // allocated. `device` is null where that computes in the host's memory. May refuse the run by throwing.
  virtual void on_least(double /*weights*/, double /*states*/, const DeviceMemory* /*device*/) {}
  // May refuse the run by throwing.
  virtual void on_planned(const Planned&) {}
  // Whether the run begins, now that it is checked and planned: if not, it ends after on_start and leaves no trace.
  virtual bool wants_run() { return true; }
  virtual void on_start(const Start&) {}
  // Whether a StepReport is wanted now; asked after each step, so it should be quick.
  virtual bool wants_step() { return false; }
  virtual void on_step(const StepReport&) {}
  virtual void on_epoch(const EpochReport&) {}
  // A sample that cannot be read and is left out; once per sample.
  virtual void on_bad_sample(const std::string& /*path*/, const std::string& /*reason*/) {}
  virtual void on_evaluation_progress(int64_t /*done*/, int64_t /*total*/) {}
  // Figures to keep in run.json under "plan", asked once everything else is saved.
  virtual std::vector<std::pair<std::string, double>> kept_figures(const Result&) { return {}; }
};

// Runs to the end. Throws Error: usage, data, device, diverged (the message names the step and the first bad layer),
// runtime. `argv` is recorded in run.json. Who has looked for the checkpoint of config.resume already gives what he
// found, so that it is not read again.
Result train(const Config& config, Observer& observer, const std::vector<std::string>& argv = {},
             std::optional<Found> found = {});

}  // namespace freight::train
