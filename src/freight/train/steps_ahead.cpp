// See steps_ahead.h.
#include "freight/train/steps_ahead.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"

namespace freight::train {

namespace {
constexpr size_t kAhead = 2;  // blocks: one computes, one waits behind it
}

void StepsAhead::start_epoch(const Array& draws, const std::vector<float>& rates, int64_t first) {
  FREIGHT_CHECK(settled(), "an epoch begins while steps of another are not known");
  data_->start_epoch(draws, rates, first);
  next_batch_ = first;
}

std::vector<TrainStep::Outcome> StepsAhead::next(int64_t limit) {
  while (blocks_.size() < kAhead && next_batch_ < limit) {
    const int64_t count = std::min(block_, limit - next_batch_);
    step_->enqueue(count);
    blocks_.push_back({count, data_->results(next_batch_, count)});
    next_batch_ += count;
  }
  std::vector<TrainStep::Outcome> outcomes;
  if (settled()) return outcomes;
  const Block block = std::move(blocks_.front());
  blocks_.pop_front();
  std::vector<float> figures(static_cast<size_t>(DeviceData::kFigures * block.count));
  block.results->take(figures.data());
  for (size_t i = 0; i < figures.size(); i += DeviceData::kFigures) {
    outcomes.push_back({static_cast<double>(figures[i]), static_cast<double>(figures[i + 1])});
    if (!std::isfinite(figures[i])) break;  // those behind it changed nothing
    TrainStep::check_scale(static_cast<double>(figures[i + 2]));
  }
  return outcomes;
}

}  // namespace freight::train
