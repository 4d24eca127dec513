// The runs in a directory, next to each other: status, best metric, the settings that differ, time.
#pragma once
#include <string>
#include <vector>

#include "freight/report/run_record.h"

namespace freight::report {

struct ListedRun {
  std::string path = {}, model = {}, data = {};
  std::string status = {};  // as in run.json; "killed" where it says running, and no process has the run
  std::string metric =
      {};               // of the best epoch's row, or of the saved model: "top1", "auc", "loss"; "" where none is known
  double value = 0;     // of that metric
  double epoch = 0;     // of that row; 0 where the figure is of the saved model
  int64_t steps = 0;    // done
  double seconds = 0;   // of training; of a run that has not ended, from its first row of metrics to the last
  double time = 0;      // of the last change, in seconds since 1970
  Facts settings = {};  // those that differ between the listed runs
};

// The runs in `dir` and the folders within it, the last one changed last; of a run's own directory that run. Throws
// Error(data) where there is none.
std::vector<ListedRun> list_runs(const std::string& dir);

}  // namespace freight::report
