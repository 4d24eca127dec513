// The directory of a run: run.json, config.json, model.json, log.txt, metrics.*, checkpoints/step-N with `last` and
// `best`, and the final model.safetensors. A directory that is not empty is never overwritten unless asked, and belongs
// to one process at a time.
#pragma once
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "freight/io/metrics.h"
#include "freight/train/checkpoint.h"
#include "freight/train/run_lock.h"

namespace freight::train {

// "runs/MODEL-DATA": where a run goes that is told no directory.
std::string usual_dir(const Config& config);

class RunDir {
 public:
  // Throws Error(usage) where the path is no directory, or holds something and `overwrite` is off. Changes nothing.
  static void check(const std::string& path, bool overwrite);
  // The first of NAME, NAME-2, NAME-3, ... that is free: a run without --output-dir never stands in another's way.
  static std::string free_name(const std::string& name);
  // True where the directory is that of a run which ended, was killed say, before it saved anything.
  static bool barely_begun(const std::string& path);
  // The folder for what ranks other than the first print; it is made before the run begins, and no part of it.
  static constexpr const char* kRankLogs = "ranks";
  // The model card. One without this line is the user's own, and stays.
  static constexpr const char* kCard = "README.md";
  static constexpr const char* kCardMark =
      "<!-- Made by Freight, which replaces this file as long as this line is in it. -->";
  // True where `folder` has a card with the line.
  static bool has_card(const std::string& folder);
  // True where nothing lies there but the lock, and the ranks' logs, of a run that never began.
  static bool is_empty(const std::string& path);
  // Checks, makes and claims the directory; of what it holds only an earlier run's files are removed. Throws
  // Error(runtime) where it cannot be written, and Error(usage) where another process has it. `lock`: of the directory,
  // where it was claimed before.
  RunDir(const std::string& path, bool overwrite, std::shared_ptr<RunLock> lock = {});
  // Where a run goes on: rows of metrics behind `step` are taken back, checkpoints behind it are moved to
  // checkpoints/set-aside. The row of the part of `open_epoch` that was trained goes, too: that of the whole epoch will
  // take its place.
  struct GoesOn {
    int64_t step = 0;
    int64_t open_epoch = 0;  // from 1; 0: none is
  };
  // Goes on in the directory of an earlier run.
  RunDir(const std::string& path, const GoesOn& from, std::shared_ptr<RunLock> lock = {});
  ~RunDir();
  RunDir(const RunDir&) = delete;
  RunDir& operator=(const RunDir&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void write_text(const std::string& name, const std::string& text);
  // Adds whole lines at a file's end, at once. Throws Error(runtime).
  void append_text(const std::string& name, const std::string& text);
  // Appends to log.txt.
  void log(const std::string& line);
  // The same of the run in directory `path`, for who shows the run. What cannot be written there is left out: the run
  // itself says so.
  static void add_to_log(const std::string& path, const std::string& line);
  // What this run wrote goes when it ends, and the directory with it where nothing else is in there.
  void discard() { discard_ = true; }
  io::MetricsWriter& metrics() { return *metrics_; }

  // Saves checkpoints/step-N, points `last` (and `best`) at it and removes the oldest beyond `keep`; what `best` points
  // at stays. Returns as soon as all values are copied, a thread writes them while the run goes on; in place, when they
  // are written, without a copy.
  struct Saving {
    int64_t keep = 0;  // 0: all
    bool in_place = false;
  };
  void checkpoint(const store::Bundle& bundle, const RunState& state, bool best, const Saving& saving);
  // Waits until the last checkpoint is written, and lets go of what was given to it.
  void drop_given();
  // What went wrong in writing the last checkpoint is thrown by the first of these and checkpoint(). The first waits
  // for nothing, the second until the checkpoint is written.
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
  Snapshot taken_;  // the last one; being written while writing_ is valid
  std::future<void> writing_;
};

}  // namespace freight::train
