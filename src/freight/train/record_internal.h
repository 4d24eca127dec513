// RunRecord: what a run leaves in its directory. It writes rows, lines, checkpoints and the final model where the loop
// tells it to, and decides nothing.
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
  // Makes or takes over the output directory; from here on the run is on disk. Of a rank that does not record
  // (Prepared::records) nothing is written, and every function does nothing.
  // `heard`: an observer keeps the log of what it hears (Observer::keeps_log).
  RunRecorder(const Prepared& run, std::vector<std::string> argv, bool heard = false);

  // Writes config.json, model.json, warnings and notes, and run.json with the status "running".
  void begin(const RunSummary& summary);
  // Lists the samples that were left out, from number `first` on.
  void left_out(size_t first);

  // Writes the row of the part of an epoch that was trained: `batches` in `seconds`.
  void trained(const StepReport& report, int64_t batches, double seconds);
  void tested(const StepReport& report, const Evaluation& test);
  void epoch(const EpochReport& report);
  void note(const std::string& line) {
    if (dir_) dir_->log(line);
  }
  // The same of what observers hear as well.
  void note_heard(const std::string& line) {
    if (!heard_) note(line);
  }
  // Writes the row of the step after `place`, whose loss is not finite.
  void diverged(const RunPosition& place, double loss, double rate);

  // Whoever calls has checked that the values are finite. `states`: what the run has besides its model.
  void checkpoint(const RunPosition& place, const WholeStates& states, bool best);
  // The memory of the last checkpoint's given values is free after this.
  void drop_given() {
    if (dir_) dir_->drop_given();
  }
  // Throws what went wrong where the last checkpoint could not be written; waits for nothing.
  void check_written() {
    if (dir_) dir_->check_written();
  }
  // Waits for the last checkpoint.
  void settle() {
    if (dir_) dir_->settle();
  }
  // Says "WHICH are in PATH" of the last checkpoint, or that there is none.
  std::string saved_weights(const char* which) const;
  // Stores the model as it is at the end; returns its path.
  std::string store_model(const RunPosition& place);

  // Writes run.json as of the run's end, with the observer's figures under "plan".
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
  bool validates_ = false;                                 // RunSummary::validates
  std::optional<std::unordered_set<std::string>> listed_;  // rows of bad_samples.tsv
};

}  // namespace freight::train
