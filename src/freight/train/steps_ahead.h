// Runs steps on batches that the device assembles (device_data.h), in blocks: the next block is enqueued while the host
// waits for the results of one, so that the device never waits for the host.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "freight/train/device_data.h"
#include "freight/train/step.h"

namespace freight::train {

class StepsAhead {
 public:
  // `step` was made with `data`; both must outlive it. `block`: the number of steps that are enqueued at a time.
  StepsAhead(TrainStep& step, const DeviceData& data, int64_t block) : step_(&step), data_(&data), block_(block) {}

  // As DeviceData::start_epoch. The results of all earlier steps must be known.
  void start_epoch(const Array& draws, const std::vector<float>& rates, int64_t first);
  // Returns the results of the oldest pending block, in order, after enqueuing further blocks, but no batch from index
  // `limit` on. Empty if there is none. Throws Error(diverged) as TrainStep::run.
  std::vector<TrainStep::Outcome> next(int64_t limit);
  // True if the results of all enqueued steps are known.
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
