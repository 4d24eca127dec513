// BatchSteps runs the steps of an epoch, with batches from the feed or assembled on the device. A device gets blocks of
// steps before the host knows the results of earlier ones.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/train/prepared_internal.h"
#include "freight/train/steps_ahead.h"

namespace freight::train {

class BatchSteps {
 public:
  explicit BatchSteps(NetRun& run);

  struct Done {
    TrainStep::Outcome outcome;
    int64_t samples = 0;
  };
  // Starts the epoch at the batch of `place`; `steps` is the number of steps of the whole epoch.
  void start_epoch(const RunPosition& place, int64_t steps);
  // Uses the learning rate in `place` for the following steps. Must only be called when settled().
  void change_rate(const RunPosition& place, int64_t steps);
  // Runs the next steps and returns their results in order; `place` is the position before them. A device gets no batch
  // from index `limit` on. Empty if the batches are used up, or all results of the device are known.
  std::vector<Done> next(const RunPosition& place, int64_t limit);
  // True if the results of all steps that were started are known: only then may weights be read.
  bool settled() const { return !ahead_ || ahead_->settled(); }
  // True if the feed has no more batches in this epoch; there may be fewer than planned if samples were skipped.
  bool used_up() const { return used_up_; }
  // Names the sample and the layer in which the step after `place`, the last one that ran, first has a NaN or infinite
  // result, and the rank if there are several. A collective: all ranks call it.
  std::string first_nonfinite(const RunPosition& place);

 private:
  std::vector<Done> next_sharded(const RunPosition& place);
  // Returns the batch if it is full. If it is short because samples were skipped, returns the part that can be trained
  // on, since normalization layers need more than one value per channel; null if there is none.
  const data::FeedBatch* usable(const data::FeedBatch& batch);
  // The sample and layer of a batch or shard, the feed's last one; "" if all is finite.
  std::string first_nonfinite_of(const data::FeedBatch& batch);
  std::string first_nonfinite_shard(int64_t epoch);

  NetRun& run_;
  std::unique_ptr<StepsAhead> ahead_;       // null if batches come from the feed
  const data::FeedBatch* batch_ = nullptr;  // the last batch
  int64_t fed_ = 0;                         // batches of the epoch that were taken from a feed of shards
  bool used_up_ = false;
  int64_t short_count_ = 0, usable_count_ = 0;  // of the last short batch
  data::FeedBatch shorter_;
};

}  // namespace freight::train
