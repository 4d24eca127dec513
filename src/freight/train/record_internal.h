// RunRecorder writes a run's directory: rows of metrics, log lines, checkpoints and the final model, when the loop
// requests it. It decides nothing.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "freight/base/error.h"
#include "freight/train/prepared_internal.h"
#include "freight/train/run_dir.h"
#include "freight/train/run_lock.h"

namespace freight::train {

class RunRecorder {
 public:
  // Creates or takes over the output directory. For a rank that does not record (Prepared::records), no function does
  // anything. `heard`: an observer writes the log itself (Observer::keeps_log).
  RunRecorder(const Prepared& run, std::vector<std::string> argv, bool heard = false);

  // Writes config.json, model.json, warnings and notes, and run.json with the status "running".
  void begin(const RunSummary& summary);
  // Lists the skipped samples from index `first` on.
  void left_out(size_t first);

  // Writes the row of the trained part of an epoch: `batches` in `seconds`.
  void trained(const StepReport& report, int64_t batches, double seconds);
  void tested(const StepReport& report, const Evaluation& test);
  void epoch(const EpochReport& report);
  void note(const std::string& line) {
    if (dir_) dir_->log(line);
  }
  // The same for a line that observers also receive.
  void note_heard(const std::string& line) {
    if (!heard_) note(line);
  }
  // Writes the row of the step after `place`, whose loss is NaN or infinite.
  void diverged(const RunPosition& place, double loss, double rate);

  // Saves a checkpoint; the caller has checked that the values are finite. `states`: the run's state without its model.
  void checkpoint(const RunPosition& place, const WholeStates& states, bool best);
  // Frees the memory of the last checkpoint's given values.
  void drop_given() {
    if (dir_) dir_->drop_given();
  }
  // Throws the error if the last checkpoint could not be written; does not wait.
  void check_written() {
    if (dir_) dir_->check_written();
  }
  // Waits until the last checkpoint is written.
  void settle() {
    if (dir_) dir_->settle();
  }
  // Returns "WHICH are in PATH" for the last checkpoint, or that there is none.
  std::string saved_weights(const char* which) const;
  // Saves the final model; returns its path.
  std::string store_model(const RunPosition& place);

  // Writes the final run.json, with the observer's figures under "plan".
  void end(const Result& result, const Figures& figures);
  void fail_with(const Result& result, const char* what, ErrorKind kind) noexcept;

 private:
  void write_run(const char* status, int exit_code, const Result* result, const Figures& figures = {});

  const Prepared& run_;
  std::vector<std::string> argv_;
  const bool heard_;
  std::unique_ptr<RunDir> dir_;  // null: nothing is recorded
  int64_t planned_bytes_ = 0;
  std::string held_out_ = "test";                          // RunSummary::held_out
  std::optional<std::unordered_set<std::string>> listed_;  // rows of bad_samples.tsv
};

}  // namespace freight::train
