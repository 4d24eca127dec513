// Decisions by held-out predictions, which a model saves with itself: the threshold of the second of two classes, or of
// each label, by a rule, and the temperature of its probabilities.
#pragma once
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/metrics/scores.h"

namespace freight::metrics {

// "recall=0.95": of all thresholds with at least this figure the one whose other figure, precision or recall, is best.
struct ThresholdRule {
  std::string metric;  // recall or precision, of the second class
  double least = 0;    // above 0, at most 1
};
// Throws Error(usage) that names --threshold.
ThresholdRule parse_threshold_rule(const std::string& text);
// For probabilities f32 (N, 2). Throws Error(data) where no threshold meets the rule; it names the best that can be
// had.
double threshold_by(const ThresholdRule& rule, const Array& predictions, const Truth& truth);

// The threshold above which the second of two classes is predicted so that the metric is best. It lies in the middle
// between two probabilities of the rows; thresholds above the highest, where no row would be predicted as the class,
// are not tried. Of equally good thresholds it is the nearest to 0.5, and 0.5 itself if none is better.
double best_threshold(const Metric& metric, const Array& predictions, const Truth& truth);

// The threshold that `rule` chooses (parse_threshold_rule), or without one the best for the metric.
double chosen_threshold(const std::string& rule, const Metric& metric, const Array& predictions, const Truth& truth);

// The same for each label of predictions f32 (N, K) to labels u8 (N, K); without a rule for the best f1. A label for
// which no threshold meets the rule has 0.5, and is in `unmet`.
struct UnmetLabel {
  int64_t label = 0;
  std::string why;
};
std::vector<double> label_thresholds(const std::string& rule, const Array& predictions, const Truth& truth,
                                     std::vector<UnmetLabel>& unmet);

// The temperature T > 0 for which probabilities f32 (N, K), raised to the power 1 / T and scaled to a sum of 1, have
// the least log loss; 1 where every sample is predicted correctly, since no temperature is the best then.
double best_temperature(const Array& predictions, const Truth& truth);

}  // namespace freight::metrics
