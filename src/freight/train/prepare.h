// Prepare, then run: a Config becomes data, model, plans and their figures, before anything is written and before the
// training step allocates memory; then the PreparedRun trains (trainer.cpp). The learner that the configuration's model
// names does both (learner.h). Whoever only wants to know what a run would be reads the summary and the plans and
// leaves it at that.
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
  // Bytes of the device's memory that the run may take; 0: what is free. A training set lies there only where it takes
  // a quarter of them at most.
  double device_memory = 0;
  // Throws Error(capacity) where the weights and what the optimizer keeps exceed these bytes, before any of them is
  // allocated. Off, since a machine may swap.
  bool refuse_too_large = false;
  // Hears at once of samples that cannot be read while the data are prepared. Without it the run's observer hears of
  // them when the run starts.
  std::function<void(const data::BadSample&)> on_bad_sample = {};
  // It is what config.resume leads to, where that has been looked for already: it is not read again.
  std::optional<Found> found = {};
  // The configuration's data, where they are open; else they are opened by its `data`. Arrays and tables in memory are
  // given here, and `data` is their name then.
  data::Source source = {};
  // A network or batches of the program's own. The configuration's `model` and `data` then are their names.
  Own own = {};
  // False: the run writes nothing, and what becomes of it is its observer's and its model's (Own) alone.
  bool recorded = true;
  // Says whether the user's command gave a flag ("--lr"): a learner that lacks it refuses its usual value, too.
  std::function<bool(const std::string& flag)> flag_is_given = {};
  // The processes that train the run together; null: this one alone. They outlive the run. All prepare the same
  // configuration; those behind rank 0 neither look for a checkpoint nor touch the run's directory, and get weights,
  // states and the place in the run from rank 0 when it runs.
  job::Ranks* ranks = nullptr;
};

struct Prepared;

// A run takes this besides its data, as far as that is known before it begins; 0: not known.
struct Cost {
  double bytes = 0;
  double seconds = 0;  // of a round of a learner of rows
};

class PreparedRun {
 public:
  explicit PreparedRun(std::unique_ptr<Prepared> prepared);
  ~PreparedRun();
  PreparedRun(PreparedRun&&) noexcept;
  PreparedRun& operator=(PreparedRun&&) noexcept;

  // With what preparing has decided: the output directory, where the data lie.
  const Config& config() const;
  RunSummary summary() const;
  // What the whole run takes, as who plans it found: its summary and its records tell these bytes from here on.
  void set_planned_bytes(size_t bytes);
  Cost cost() const;
  // Says whether it trains a net: those alone have plans. Both throw Error(usage) where it does not.
  bool has_plans() const;
  // Valid until the run is planned again or gone.
  Planned planned() const;
  // Plans the training step again for a run that offloads, before it is restored or run: `limit` is what each of its
  // plans may have as its arena. Without this it offloads as if it had any number of bytes.
  void plan_within(const ArenaLimit& limit);
  // Puts back the random numbers as they were when the run had been prepared, and what the checkpoint holds that it
  // goes on from. run() does so itself; by itself this tells whether the checkpoint can be used. Throws
  // Error(checkpoint).
  void restore();
  // Trains to the end, or until a signal or the observer stops it, and records everything in the output directory. To
  // be called once. Throws Error: usage, data, diverged (the message names the step and the first bad layer), runtime.
  // `argv` is recorded in run.json.
  Result run(Observer& observer, const std::vector<std::string>& argv = {});

 private:
  std::unique_ptr<Prepared> prepared_;
};

// Reads the data, makes the model and plans its step. Changes no file, but claims the output directory where something
// lies in it. Throws Error: usage, data, device, checkpoint, capacity.
PreparedRun prepare(const Config& config, PrepareOptions options = {});

}  // namespace freight::train
