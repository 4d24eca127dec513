// The directory of a run: run.json, config.json, model.json, log.txt, metrics.*, checkpoints/step-N with `last` and
// `best`, and the final model.safetensors. A directory that is not empty is only overwritten on request, and belongs to
// one process at a time.
#pragma once
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "freight/io/metrics.h"
#include "freight/train/checkpoint.h"
#include "freight/train/run_lock.h"

namespace freight::train {

// "runs/MODEL-DATA": the default directory of a run.
std::string usual_dir(const Config& config);

class RunDir {
 public:
  // Throws Error(usage) if the path is not a directory, or is not empty and `overwrite` is off. Changes nothing.
  static void check(const std::string& path, bool overwrite);
  // The first of NAME, NAME-2, NAME-3, ... that does not exist, for runs without --output-dir.
  static std::string free_name(const std::string& name);
  // True if the directory belongs to a run that ended (for example killed) before it saved anything.
  static bool barely_begun(const std::string& path);
  // The folder for the output of ranks other than 0, which is made before the run begins.
  static constexpr const char* kRankLogs = "ranks";
  // The model card. A file without the line kCardMark belongs to the user and is kept.
  static constexpr const char* kCard = "README.md";
  static constexpr const char* kCardMark =
      "<!-- Made by Freight, which replaces this file as long as this line is in it. -->";
  // True if `folder` has a card with that line.
  static bool has_card(const std::string& folder);
  // True if it contains at most the lock and the ranks' logs of a run that never began.
  static bool is_empty(const std::string& path);
  // Checks, creates and locks the directory. Only the files of an earlier run are removed from it. Throws
  // Error(runtime) if it cannot be written, and Error(usage) if another process uses it. `lock`: its lock, if it was
  // locked before.
  RunDir(const std::string& path, bool overwrite, std::shared_ptr<RunLock> lock = {});
  // The step at which a run resumes: rows of metrics after it are removed, and later checkpoints are moved to
  // checkpoints/set-aside. The row of a partly trained `open_epoch` is removed, too, since the whole epoch replaces it.
  struct GoesOn {
    int64_t step = 0;
    int64_t open_epoch = 0;  // from 1; 0: none
  };
  // Resumes in the directory of an earlier run.
  RunDir(const std::string& path, const GoesOn& from, std::shared_ptr<RunLock> lock = {});
  ~RunDir();
  RunDir(const RunDir&) = delete;
  RunDir& operator=(const RunDir&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void write_text(const std::string& name, const std::string& text);
  // Appends whole lines to a file at once. Throws Error(runtime).
  void append_text(const std::string& name, const std::string& text);
  // Appends to log.txt.
  void log(const std::string& line);
  // Appends to log.txt of the run in directory `path`, for code that shows the run. Errors are ignored, since the run
  // itself reports them.
  static void add_to_log(const std::string& path, const std::string& line);
  // Removes what this run wrote when it ends, and the directory if it is then empty.
  void discard() { discard_ = true; }
  io::MetricsWriter& metrics() { return *metrics_; }

  // Saves checkpoints/step-N, points `last` (and `best`) at it and removes the oldest beyond `keep`, but not the one
  // that `best` points at. Returns when all values are copied, and a thread writes them while the run continues; with
  // in_place it returns when they are written, without a copy.
  struct Saving {
    int64_t keep = 0;  // 0: all
    bool in_place = false;
  };
  void checkpoint(const store::Bundle& bundle, const RunState& state, bool best, const Saving& saving);
  // Waits until the last checkpoint is written, and frees the values that were given to it.
  void drop_given();
  // check_written() and checkpoint() throw the error of writing the last checkpoint. check_written() does not wait;
  // settle() waits until the checkpoint is written.
  void check_written();
  void settle();

 private:
  void write(const Snapshot& taken, bool best, int64_t keep);
  void open(std::optional<int64_t> last_step = {});
  void set_aside_after(int64_t step);
  void point(const std::string& link, const std::string& target);
  void tidy();
  std::string path_;
  bool discard_ = false;
  std::shared_ptr<RunLock> lock_;
  std::unique_ptr<io::MetricsWriter> metrics_;
  struct Log;
  std::unique_ptr<Log> log_;
  Snapshot taken_;  // the last snapshot, which is being written while writing_ is valid
  std::future<void> writing_;
};

}  // namespace freight::train
