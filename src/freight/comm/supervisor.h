// The supervisor of a job on this host (freight train --elastic): where a process is lost it ends the others and starts
// all again, which go on from their last checkpoint. It knows nothing of training but the number of the last step.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/comm/launcher.h"

namespace freight::comm {

// The last step that a job has done, in memory that the supervisor shares with its processes: rank 0 writes it.
class StepCount {
 public:
  StepCount();
  // The supervisor's, in a process that it started; null in any other.
  static std::unique_ptr<StepCount> of_process();
  ~StepCount();
  StepCount(const StepCount&) = delete;
  StepCount& operator=(const StepCount&) = delete;

  void store(int64_t step) { step_->store(step, std::memory_order_relaxed); }
  int64_t load() const { return step_->load(std::memory_order_relaxed); }
  int descriptor() const { return file_; }
  std::string setting() const;  // the variable by which a process finds it

 private:
  explicit StepCount(int file);
  int file_;
  std::atomic<int64_t>* step_;
};

struct Supervision {
  LaunchOptions launch;     // of the first start; its command and number of processes are set for each
  int least = 1, most = 1;  // processes of a start
  int devices = 1;          // of which a start takes as many as it may, the first ones that are not left out
  // The program and arguments of a start on these devices, by number from 0 to devices - 1.
  std::function<std::vector<std::string>(const std::vector<int>& devices)> command = {};
  std::function<void(const std::string& line)> tell = {};  // reports what failed and how the job resumes
  std::function<int()> stop_signal = [] { return 0; };  // a signal that asked this process to stop between two starts
};

// Runs the job until it ends well, is asked to stop, or cannot go on, and returns the end of its last start. All
// processes are started again where one was killed or ended with 7 (peer lost); one that is stopped for 5 s is killed.
// A device is left out where it is gone (exit code 4 after steps were done), or its process failed three times within
// ten steps. The job cannot go on where a process fails in another way, or fewer than `least` devices are left.
JobEnd supervise(const Supervision& supervision);

}  // namespace freight::comm
