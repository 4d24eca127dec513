// Folds: samples in K parts of nearly equal size, each of which is held out once (cross-validation).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "freight/base/array.h"

namespace freight::metrics {

// The samples to divide, one for each label.
struct FoldedSamples {
  Array labels;                      // i64 (N): classes; or f32 (N): values
  std::optional<Array> groups = {};  // i64 (N): samples with equal numbers are in one fold
  int64_t count() const { return labels.shape()[0]; }
  // The number of samples or groups, which no division separates: the most folds there can be.
  int64_t units() const;
};

struct FoldOptions {
  int64_t folds = 5;
  uint64_t seed = 0;
  uint64_t division = 0;  // divisions of different numbers differ, of one seed too
};

// The fold of each sample, drawn by the seed: every fold has its share of each class, or of small and large values.
// Samples of one group are in one fold; folds are then only of about equal size. Throws Error(usage) that names --folds
// for fewer than 2 folds or more than units().
std::vector<int64_t> folds_of(const FoldedSamples& samples, const FoldOptions& options);

// The numbers of the samples in a fold (`inside`) or outside of it.
enum class FoldSide { inside, outside };
std::vector<int64_t> fold_samples(const std::vector<int64_t>& fold_of, int64_t fold, FoldSide side);

}  // namespace freight::metrics
