// BatchSteps: the steps of an epoch, whichever way their batches come: from the feed, one by one, or made by the
// device, which is given blocks of steps ahead of what the host knows.
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
  // Begins the epoch at the batch where `place` stands; `steps` are those of the whole epoch.
  void start_epoch(const RunPosition& place, int64_t steps);
  // Takes the learning rate that `place` says now, for the steps that follow. Only when settled().
  void change_rate(const RunPosition& place, int64_t steps);
  // Does the next steps and returns what they did, in order; `place` is where the steps before them led. A device is
  // given no batch from number `limit` on. Empty where the batches are used up, or all that the device was given is
  // known.
  std::vector<Done> next(const RunPosition& place, int64_t limit);
  // True where nothing runs of which the outcome is not known: only then may weights be read.
  bool settled() const { return !ahead_ || ahead_->settled(); }
  // True where the feed has no more batches in this epoch; fewer than planned where samples are left out.
  bool used_up() const { return used_up_; }
  // Names the layer where the step that follows `place` goes wrong.
  std::string first_nonfinite(const RunPosition& place);

 private:
  std::vector<Done> next_sharded(const RunPosition& place);
  // The batch itself where it is full. Of one that is short, since samples were left out, those that can be trained on:
  // normalizations need more than one value per channel. Null where none can.
  const data::FeedBatch* usable(const data::FeedBatch& batch);

  NetRun& run_;
  std::unique_ptr<StepsAhead> ahead_;       // null: batches come from the feed
  const data::FeedBatch* batch_ = nullptr;  // the last one
  bool used_up_ = false;
  int64_t short_count_ = 0, usable_count_ = 0;  // of the last short batch
  data::FeedBatch shorter_;
};

}  // namespace freight::train
