// Scores of answers beside the loss, as the field has them: of two classes the area under the ROC curve and F1 of the
// second one, of more macro F1, of values RMSE, MAE and R^2. Each with the interval in which it lies with 95 %.
#pragma once
#include <string>
#include <vector>

#include "freight/base/array.h"

namespace freight::train {

struct Score {
  std::string name;  // "auc", "f1", "accuracy", "log_loss"; "macro_f1"; "rmse", "mae", "r2"
  double value = 0;
  double low = 0, high = 0;  // the middle 95 % over samples drawn with replacement (bootstrap)
};

// Of answers f32 (N, K), probabilities with labels i64 (N), or values (N, 1) with f32 (N). A score that the labels do
// not allow, such as the area where all are of one class, is left out. `draws` samples are drawn for the intervals, by
// a fixed seed.
std::vector<Score> scores_of(const Array& answers, const Array& labels, int draws = 400);

}  // namespace freight::train
