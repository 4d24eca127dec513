// Prepares a run: a Config becomes data, model, plans and their estimates before anything is written and before the
// training step allocates memory; then PreparedRun::run trains. The learner that the configuration's model names does
// both (learner.h). A caller that only needs to know about a run reads the summary and the plans and does not run it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/train/checkpoint.h"
#include "freight/train/config.h"
#include "freight/train/net_training.h"
#include "freight/train/observer.h"
#include "freight/train/task.h"

namespace freight::job {
class Ranks;
}  // namespace freight::job

namespace freight::train {

struct PrepareOptions {
  // The device memory that the run may use, in bytes; 0: all that is free. The training set is kept on the device only
  // if it needs at most a quarter of it.
  double device_memory = 0;
  // Throws Error(capacity) if weights and optimizer state exceed that memory, before they are allocated. Off by
  // default, since a machine may swap.
  bool refuse_too_large = false;
  // Called for each sample that cannot be read while the data is prepared. If it is not set, the run's observer is
  // called for them when the run starts.
  std::function<void(const data::BadSample&)> on_bad_sample = {};
  // The checkpoint that config.resume refers to, if the caller has already read it.
  std::optional<Found> found = {};
  // The configuration's data, if it is already open; otherwise config.data is opened. For arrays and tables in memory
  // config.data is only their name.
  data::Source source = {};
  // A network or batches of the program. config.model and config.data are then only their names.
  Own own = {};
  // False: the run writes nothing; its results are only in the observer and the model (Own).
  bool recorded = true;
  // True: Result::held_out has the stored model's predictions for the held-out samples.
  bool keeps_predictions = false;
  // Returns if the user gave a flag ("--lr"): a learner without that setting then refuses it even at its default value.
  std::function<bool(const std::string& flag)> flag_is_given = {};
  // The processes that train the run together; null: only this one. They outlive the run. All prepare the same
  // configuration. Ranks other than 0 neither look for a checkpoint nor touch the run directory; they get weights,
  // states and the position from rank 0 when the run starts.
  job::Ranks* ranks = nullptr;
};

struct Prepared;

// The estimated memory of a run in addition to its data, and its time; 0: unknown.
struct Cost {
  double bytes = 0;
  double seconds = 0;  // of a round of a learner for tables
};

class PreparedRun {
 public:
  explicit PreparedRun(std::unique_ptr<Prepared> prepared);
  ~PreparedRun();
  PreparedRun(PreparedRun&&) noexcept;
  PreparedRun& operator=(PreparedRun&&) noexcept;

  // The configuration with the values that preparing has determined: the output directory, the location of the data.
  const Config& config() const;
  RunSummary summary() const;
  // Sets the planned memory of the whole run, which the summary and run.json then report.
  void set_planned_bytes(size_t bytes);
  Cost cost() const;
  // True if the run trains a network: only these have plans. planned() and plan_within() throw Error(usage) otherwise.
  bool has_plans() const;
  // Valid until the run is planned again or destroyed.
  Planned planned() const;
  // Plans the training step again, for a run that offloads, before it is restored or run: `limit` is the maximum arena
  // of each plan. Without this call there is no limit.
  void plan_within(const ArenaLimit& limit);
  // The preprocessing of its data and the names of all outputs, as the stored model has them; of a network.
  store::Preprocessing preprocessing() const;
  const std::vector<std::string>& class_names() const;
  // Restores the random state of the time when the run was prepared, and the checkpoint that it resumes from. run()
  // does so itself; calling it alone checks if the checkpoint can be used. Throws Error(checkpoint).
  void restore();
  // Trains to the end, or until a signal or the observer stops it, and records everything in the output directory. May
  // be called once. Throws Error: usage, data, diverged (the message names the step and the first bad layer), runtime.
  // `argv` is recorded in run.json.
  Result run(Observer& observer, const std::vector<std::string>& argv = {});

 private:
  std::unique_ptr<Prepared> prepared_;
};

// Reads the data, makes the model and plans its step. Changes no file, but locks an output directory that is not empty.
// Throws Error: usage, data, device, checkpoint, capacity.
PreparedRun prepare(const Config& config, PrepareOptions options = {});

}  // namespace freight::train
