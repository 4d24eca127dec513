// A training set that lies on the device whole: the step itself gathers, moves, mirrors, normalizes and erases the
// samples of its batch, and keeps its loss there, so that nothing crosses over but, once an epoch, what was drawn for
// each sample and the learning rates. The batches are those of the Feed (data/feed.h). M samples of the set, N of a
// batch, S batches of an epoch; C channels, H rows, W columns.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "freight/base/device_memory.h"
#include "freight/data/loader.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight::train {

class DeviceData {
 public:
  // The set's memory is shared, not copied.
  explicit DeviceData(const data::BatchRecipe& recipe);
  // The bytes of device memory that it takes.
  size_t bytes() const;
  int64_t batches() const { return recipe_.batches; }
  int64_t batch_size() const { return recipe_.batch_size; }

  // The next step takes batch number `first` of an epoch: draws as Feed::draws makes them, one rate per batch.
  void start_epoch(const Array& draws, const std::vector<float>& rates, int64_t first) const;
  // The figures of the steps from batch `first` on, f32 (count, 3): loss, number right, scale of losses in f16.
  std::unique_ptr<DeviceRead> results(int64_t first, int64_t count) const;

  // Inside a step: its inputs f32 (N, ...) and targets, and its learning rate f32[].
  std::pair<Tensor, Tensor> batch() const;
  Tensor rate() const;
  // True, as bool[], if no step since start_epoch has met a loss that is not finite: one that follows such a step must
  // change nothing, since the host learns of it later.
  Tensor sound() const;
  // Keeps what the step tells, and goes on to the next batch.
  void finish(const Tensor& loss, const Tensor& right, const Tensor& scale) const;
  static constexpr int64_t kTold = 3;  // numbers of a step

 private:
  Tensor draws_of_batch() const;
  Tensor cursor() const;
  data::BatchRecipe recipe_;
  Shape image_;                       // (C, H, W), or (C, 1, rest)
  Variable samples_, targets_;        // (M * C * H * W), and as in the recipe
  Variable scale_, bias_;             // (1, C, 1, 1)
  Variable draws_, rates_, results_;  // i32 (S, N * kDrawNumbers), (S), (S, kTold)
  Variable cursor_;                   // i32[]: the next batch
  Variable loss_;                     // f32[]: of the last step, or the first that was not finite
};

}  // namespace freight::train
