// See batch_steps_internal.h.
#include "freight/train/batch_steps_internal.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/train/diverged.h"

namespace freight::train {

BatchSteps::BatchSteps(NetRun& run) : run_(run) {
  if (run.data) ahead_ = std::make_unique<StepsAhead>(*run.net->step, *run.data, run.block);
}

void BatchSteps::start_epoch(const RunPosition& place, int64_t steps) {
  used_up_ = false;
  batch_ = nullptr;
  fed_ = place.batch;
  if (!ahead_) {
    run_.feed->start(place.epoch - 1, place.batch);
    return;
  }
  const int64_t before = place.step - place.batch;
  std::vector<float> rates(static_cast<size_t>(run_.data->batches()));
  for (int64_t i = 0; i < steps; ++i) {
    rates[static_cast<size_t>(i)] = static_cast<float>(rate_of(run_, place, before + i));
  }
  ahead_->start_epoch(run_.feed->draws(place.epoch - 1), rates, place.batch);
}

// A device has the rates of the whole epoch: it begins again at the next batch, with others. The feed goes on.
void BatchSteps::change_rate(const RunPosition& place, int64_t steps) {
  if (ahead_ && place.batch < steps) start_epoch(place, steps);
}

std::vector<BatchSteps::Done> BatchSteps::next(const RunPosition& place, int64_t limit) {
  std::vector<Done> done;
  if (ahead_) {
    for (const TrainStep::Outcome& o : ahead_->next(limit)) done.push_back({o, run_.data->batch_size()});
    return done;
  }
  if (run_.sharding.shards > 0) return next_sharded(place);
  do {
    const data::FeedBatch* const batch = run_.feed->next();
    used_up_ = !batch;
    if (used_up_) return done;
    batch_ = usable(*batch);
  } while (!batch_);
  run_.net->optimizer->set_lr(rate_of(run_, place, place.step));
  done.push_back({run_.net->step->run(batch_->inputs, batch_->targets), batch_->count});
  return done;
}

// All ranks come to the end of the epoch at the same batch, and pass over the same ones of which nothing is left.
std::vector<BatchSteps::Done> BatchSteps::next_sharded(const RunPosition& place) {
  TrainStep& step = *run_.net->step;
  run_.net->optimizer->set_lr(rate_of(run_, place, place.step));
  if (run_.ranks) run_.ranks->comm().at_step(place.step);
  int64_t counted = 0;
  const int64_t shards = run_.sharding.deal().count();
  TrainStep::Outcome outcome;
  while (counted == 0) {
    for (int64_t i = 0; i < shards; ++i) {
      batch_ = run_.feed->next();
      used_up_ = !batch_;
      if (used_up_) return {};
      step.add_shard(*batch_);
    }
    ++fed_;
    outcome = step.finish_shards(counted);
  }
  return {{outcome, counted}};
}

const data::FeedBatch* BatchSteps::usable(const data::FeedBatch& batch) {
  const int64_t count = batch.inputs.shape()[0];
  if (count >= run_.config.batch_size) return &batch;
  if (count != short_count_) {
    short_count_ = count;
    usable_count_ = run_.net->step->trainable({batch.inputs.dtype(), batch.inputs.shape()},
                                              {batch.targets.dtype(), batch.targets.shape()});
    if (usable_count_ < count) {
      logging::warn(cat("of a batch of ", count, " samples, since others were skipped, ", usable_count_,
                        " are trained on: BatchNorm needs more than one value per channel"));
    }
  }
  if (usable_count_ == count) return &batch;
  if (usable_count_ == 0) return nullptr;
  shorter_ = {batch_rows(batch.inputs, 0, usable_count_), batch_rows(batch.targets, 0, usable_count_)};
  shorter_.count = data::counted(shorter_.targets);
  return &shorter_;
}

std::string BatchSteps::first_nonfinite(const RunPosition& place) {
  if (run_.sharding.shards == 0) {
    if (!batch_) {  // the device made it
      run_.feed->start(place.epoch - 1, place.batch);
      batch_ = run_.feed->next();
    }
    return first_nonfinite_of(*batch_);
  }
  if (!run_.ranks) return first_nonfinite_shard(place.epoch);
  std::string mine;
  try {
    mine = first_nonfinite_shard(place.epoch);
  } catch (const Error& e) {  // the other ranks wait in from_all()
    mine = cat("(the first bad layer could not be found: ", e.what(), ")");
  }
  const std::vector<std::string> by_rank = run_.ranks->from_all(mine);
  const auto first = std::find_if(by_rank.begin(), by_rank.end(), [](const std::string& s) { return !s.empty(); });
  return first == by_rank.end() ? "" : cat("on rank ", first - by_rank.begin(), ", ", *first);
}

// With --sync-batch-norm the NaN of one shard makes the losses of all NaN, so each is searched by itself.
std::string BatchSteps::first_nonfinite_shard(int64_t epoch) {
  const std::vector<int64_t> bad = run_.net->step->nonfinite_shards();
  const job::ShardAssignment deal = run_.sharding.deal();
  run_.feed->start(epoch - 1, fed_ - 1);
  for (int64_t shard = deal.first(); shard < deal.first() + deal.count(); ++shard) {
    batch_ = run_.feed->next();
    if (!batch_) return "";
    if (batch_->inputs.shape()[0] == 0 || std::find(bad.begin(), bad.end(), shard) == bad.end()) continue;
    if (const std::string found = first_nonfinite_of(*batch_); !found.empty()) return found;
  }
  return "";
}

std::string BatchSteps::first_nonfinite_of(const data::FeedBatch& batch) {
  const std::string sample = train::first_nonfinite(*run_.feed, batch);
  const std::string layer = run_.net->step->first_nonfinite(batch.inputs, batch.targets);
  return sample.empty() || layer.empty() ? sample + layer : cat(sample, ", and from it ", layer);
}

}  // namespace freight::train
