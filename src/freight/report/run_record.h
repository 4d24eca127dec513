// RunRecord: the contents of a run's directory for reports: its metrics, its configuration as keys and texts, its
// outcome and machine. Unlike resuming, reading accepts runs that are damaged, still running or of another version:
// missing parts stay empty, and `notes` lists them.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "freight/io/metrics.h"
#include "freight/metrics/scores.h"
#include "freight/train/leaderboard.h"

namespace freight::report {

using Facts = std::vector<std::pair<std::string, std::string>>;  // name and value, in the order of the file

// The times of a step of several ranks, in seconds since its beginning (job/step_timeline.h).
struct StepTimes {
  struct Sum {
    double begin = 0, end = 0, bytes = 0;
  };
  int64_t ranks = 0;  // 0: not recorded
  double computed = 0, step = 0;
  std::vector<Sum> sums;
};

struct RunRecord {
  std::string path;
  std::vector<io::Metrics> rows;  // by ascending step within each split
  Facts config;                   // "optimizer.lr", "0.1"; texts without quotes
  std::string spec;               // model.json
  // Path of the saved model: the final one; for a run without it, or that still runs, the best or last one.
  std::string model;
  std::vector<std::string> notes;

  // From run.json; empty or 0 if missing there.
  std::string status, version, host, device, compute, command, data, fingerprint;
  StepTimes timeline;
  train::Leaderboard leaderboard;  // empty if nothing was compared
  int64_t exit_code = 0, threads = 0, train_count = 0, test_count = 0, steps = 0, bad_samples = 0;
  // Figures of the end, "test_top1", "97.4", and of plan and measurement, "planned_step_seconds"; without those that
  // are not known.
  Facts result = {}, plan = {};
  std::vector<metrics::Score> scores = {};       // of the saved network, with their intervals
  double planned_bytes = 0, measured_bytes = 0;  // of memory; 0: not recorded
  double train_seconds = 0, time = 0;            // `time`: of the last change of the status, in seconds since 1970

  const std::string& config_value(const std::string& key) const;  // "" if it is not set
  double plan_figure(const std::string& name) const;              // 0 if it is not known
  std::vector<std::string> splits() const;                        // in order of appearance
  std::vector<const io::Metrics*> rows_of(const std::string& split) const;
  // The held-out row of the best checkpoint; in a run without one the row with the highest top1, or with the lowest
  // loss if no row has a top1. Null if there is none.
  const io::Metrics* best() const;
};

// Throws Error(data) for a path that is not a run's directory.
RunRecord read_run(const std::string& path);

}  // namespace freight::report
