// The supervisor of a job on this host (freight train --elastic): if a process fails, it ends the others and restarts
// all of them from the last checkpoint. It knows nothing of training but the number of the last step.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/comm/launcher.h"

namespace freight::job {

// The last step that a job has completed, in memory that the supervisor shares with its processes: rank 0 writes it.
class StepCount {
 public:
  StepCount();
  // The supervisor's count, in a process that it started; null in any other process.
  static std::unique_ptr<StepCount> of_process();
  ~StepCount();
  StepCount(const StepCount&) = delete;
  StepCount& operator=(const StepCount&) = delete;

  void store(int64_t step) { step_->store(step, std::memory_order_relaxed); }
  int64_t load() const { return step_->load(std::memory_order_relaxed); }
  int descriptor() const { return file_; }
  std::string setting() const;  // the variable by which a process finds the memory

 private:
  explicit StepCount(int file);
  int file_;
  std::atomic<int64_t>* step_;
};

struct Supervision {
  comm::LaunchOptions launch;  // options of every start; the command and the number of processes are set for each
  int least = 1, most = 1;     // processes of a start
  int devices = 1;             // a start uses as many of these as allowed, the first ones that are not skipped
  // The program and arguments of a start on these devices, which have numbers from 0 to devices - 1.
  std::function<std::vector<std::string>(const std::vector<int>& devices)> command = {};
  std::function<void(const std::string& line)> report = {};  // reports what failed and how the job resumes
  // The signal that asked this process to stop between two starts; 0: none.
  std::function<int()> stop_signal = [] { return 0; };
};

// Runs the job until it completes, is asked to stop, or cannot continue, and returns the end of its last start. All
// processes are restarted if one was killed or ended with 7 (peer lost); one that has been stopped for 5 s is killed. A
// device is skipped if it is gone (exit code 4 after some steps), or failed three times within ten steps. The job
// cannot continue after another failure, three ends with 7 within ten steps, or with fewer than `least` devices left.
comm::JobEnd supervise(const Supervision& supervision);

}  // namespace freight::job
