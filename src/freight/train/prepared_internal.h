// What a PreparedRun holds. prepare.cpp makes it and trainer.cpp runs it: the loop (loop_internal.h) trains with it,
// the record (record_internal.h) writes it down.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "freight/train/device_data.h"
#include "freight/train/net_training.h"
#include "freight/train/prepare.h"
#include "freight/train/start_point.h"
#include "freight/train/task.h"

namespace freight::train {

// Samples that are left out. The feeds of training and of each evaluation tell of them, and readers of text do while
// they are made; each is kept once.
class LeftOut {
 public:
  void add(const data::BadSample& bad) {
    if (!paths_.insert(bad.path).second) return;
    samples_.push_back(bad);
    if (heard) heard(bad);
  }
  const std::vector<data::BadSample>& samples() const { return samples_; }
  std::function<void(const data::BadSample&)> heard = {};

 private:
  std::vector<data::BadSample> samples_;
  std::unordered_set<std::string> paths_;
};

// Steps of a whole run, from its first on.
struct RunLength {
  int64_t steps_per_epoch = 0, steps = 0, epochs = 0;

  // Of an epoch, from 1: the last may be cut short.
  int64_t steps_of(int64_t epoch) const { return std::min(steps_per_epoch, steps - (epoch - 1) * steps_per_epoch); }
};

class RunRecord;

struct Prepared {
  Config config;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  StartPoint start;
  LeftOut left_out;
  std::unique_ptr<Task> task;
  std::unique_ptr<data::Feed> feed;  // of training
  std::unique_ptr<DeviceData> data;  // null: batches come from the feed
  int64_t block = 1;                 // steps that a device which makes its batches is given at a time
  std::unique_ptr<NetTraining> net;
  RunLength length;
  optim::Schedule schedule = optim::Schedule::constant(0);
  std::vector<std::string> class_names;  // of all outputs
  uint64_t fingerprint = 0;              // of the training data
  std::vector<std::string> notes;        // on the machine and on where the run begins
  std::string precision_note;
  Array random_numbers;               // the state of the generator, which others may draw from before the run begins
  bool restored = false;              // PreparedRun::restore
  std::unique_ptr<RunRecord> record;  // once it runs
};

// The learning rate of the run's step number `step`, from 0.
inline double rate_of(const Prepared& run, const RunPosition& place, int64_t step) {
  return place.lr.value_or(run.schedule.at(step));
}

RunSummary summary_of(const Prepared& prepared);

}  // namespace freight::train
