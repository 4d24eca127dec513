// Curves over the thresholds of a classifier, and the calibration of its probabilities: ROC, precision and recall,
// calibration bins. Knows nothing of models.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace freight::metrics {

struct CurvePoint {
  double x = 0, y = 0;
};

// A sample from the view of one class: the predicted probability of the class, and whether the sample belongs to it.
struct Scored {
  float score = 0;
  bool positive = false;
};

struct ThresholdCurves {
  std::vector<CurvePoint> roc;               // false positive rate to true positive rate
  std::vector<CurvePoint> precision_recall;  // recall to precision
  double area = 0;                           // under the ROC curve; equal scores count half
  double average_precision = 0;              // mean of the precisions, weighted by the recall that each adds
  int64_t positives = 0, negatives = 0;
};
// The curves are empty if all samples belong to the class, or none does.
ThresholdCurves threshold_curves(std::vector<Scored> samples);

// The samples whose probability is in one of the equal parts of [0, 1].
struct CalibrationBin {
  int64_t samples = 0;
  double said = 0, found = 0;  // the mean of the probabilities, and the fraction of samples that belong to the class
};
class Calibration {
 public:
  static constexpr size_t kBins = 10;
  void take(float probability, bool came_true);
  std::vector<CalibrationBin> bins() const;  // those that contain samples, by ascending probability
  double error() const;                      // mean of |said - found| over samples (expected calibration error)

 private:
  struct Sums {
    int64_t samples = 0, true_ones = 0;
    double said = 0;
  };
  Sums sums_[kBins];
};

}  // namespace freight::metrics
