// A training set in device memory. The step itself gathers, shifts, flips, normalizes and erases the samples of its
// batch, and keeps its loss on the device, so only the random numbers of the samples and the learning rates are
// transferred, once per epoch. The batches are those of the Feed (data/feed.h). M samples in the set, N in a batch, S
// batches in an epoch; C channels, H rows, W columns.
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
  // The samples are shared, not copied.
  explicit DeviceData(const data::BatchRecipe& recipe);
  // The device memory that it needs, in bytes.
  size_t bytes() const;
  int64_t batches() const { return recipe_.batches; }
  int64_t batch_size() const { return recipe_.batch_size; }

  // Starts an epoch at batch `first`, with the random numbers of Feed::draws and a learning rate per batch.
  void start_epoch(const Array& draws, const std::vector<float>& rates, int64_t first) const;
  // The results of the steps from batch `first` on, f32 (count, 3): loss, number of correct predictions, fp16 loss
  // scale.
  std::unique_ptr<DeviceRead> results(int64_t first, int64_t count) const;

  // Called within a step: its inputs f32 (N, ...) and targets, and its learning rate f32[].
  std::pair<Tensor, Tensor> batch() const;
  Tensor rate() const;
  // True, as bool[], if no step since start_epoch had a NaN or infinite loss. Later steps must then change nothing,
  // since the host notices it with a delay.
  Tensor all_finite_so_far() const;
  // Stores the results of the step, and advances to the next batch.
  void finish(const Tensor& loss, const Tensor& right, const Tensor& scale) const;
  static constexpr int64_t kFigures = 3;  // numbers per step

 private:
  Tensor draws_of_batch() const;
  Tensor cursor() const;
  data::BatchRecipe recipe_;
  Shape image_;                       // (C, H, W), or (C, 1, rest)
  Variable samples_, targets_;        // (M * C * H * W); the targets of the recipe
  Variable scale_, bias_;             // (1, C, 1, 1)
  Variable draws_, rates_, results_;  // i32 (S, N * kDrawNumbers), (S), (S, kFigures)
  Variable cursor_;                   // i32[]: the index of the next batch
  Variable loss_;                     // f32[]: the loss of the last step, or the first one that was NaN or infinite
};

}  // namespace freight::train
