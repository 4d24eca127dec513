// Curves over the thresholds of a classifier, and how well its probabilities are kept: ROC, precision and recall,
// calibration. Knows nothing of models.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/report/plot.h"

namespace freight::report {

// A sample as one class sees it: the probability that it was given, and whether the sample is of it.
struct Scored {
  float score = 0;
  bool positive = false;
};

struct ThresholdCurves {
  std::vector<Point> roc;               // false positive rate to true positive rate
  std::vector<Point> precision_recall;  // recall to precision
  double area = 0;                      // under the ROC curve; of equal scores half
  double average_precision = 0;         // mean of the precisions, each weighed by the recall that it adds
  int64_t positives = 0, negatives = 0;
};
// Empty curves where all samples are on one side.
ThresholdCurves threshold_curves(std::vector<Scored> samples);

// Samples whose probability lies in one of the equal parts of [0, 1].
struct CalibrationBin {
  int64_t samples = 0;
  double said = 0, found = 0;  // the mean of the probabilities, and the share of samples for which it came true
};
class Calibration {
 public:
  static constexpr size_t kBins = 10;
  void take(float probability, bool came_true);
  std::vector<CalibrationBin> bins() const;  // those that hold samples, by rising probability
  double error() const;                      // mean of |said - found| over samples (expected calibration error)

 private:
  struct Sums {
    int64_t samples = 0, true_ones = 0;
    double said = 0;
  };
  Sums sums_[kBins];
};

}  // namespace freight::report
