// Steps on batches that the device makes (device_data.h), in blocks: while the outcomes of one are waited for, the next
// is enqueued already, so that the device never waits for the host.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "freight/train/device_data.h"
#include "freight/train/step.h"

namespace freight::train {

class StepsAhead {
 public:
  // `step` was made with `data`; both must outlive it. `block`: steps that are enqueued at a time.
  StepsAhead(TrainStep& step, const DeviceData& data, int64_t block) : step_(&step), data_(&data), block_(block) {}

  // As DeviceData::start_epoch. What the steps before it did must be known.
  void start_epoch(const Array& draws, const std::vector<float>& rates, int64_t first);
  // Tells what the oldest block whose outcomes are not known did, in order; enqueues more before, but no batch from
  // number `limit` on. Empty where there is none. Throws Error(diverged) as TrainStep::run.
  std::vector<TrainStep::Outcome> next(int64_t limit);
  // True where the outcomes of all enqueued steps are known.
  bool settled() const { return blocks_.empty(); }

 private:
  struct Block {
    int64_t count;
    std::unique_ptr<DeviceRead> results;
  };
  TrainStep* step_;
  const DeviceData* data_;
  int64_t block_;
  int64_t next_batch_ = 0;
  std::deque<Block> blocks_;
};

}  // namespace freight::train
