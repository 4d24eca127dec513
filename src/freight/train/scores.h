// Metrics: how good answers are, as the field names it. One of them decides where learners and settings are compared,
// early stopping ends a fit and a threshold is chosen (--metric); all that fit the data are shown beside the loss, each
// with the interval in which it lies with 95 %.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/base/array.h"

namespace freight::train {

struct Config;

// A metric with what it depends on.
struct Metric {
  std::string name;     // "auc"
  bool higher = false;  // the higher, the better
  double quantile = 0.5, tweedie_power = 1.5;

  bool better(double a, double b) const { return higher ? a > b : a < b; }
};
// Words that --metric takes: "auto" first.
std::vector<std::string> metric_names();
// The metric that a configuration asks for, for so many classes (0: values); "auto" is the one of its objective. Throws
// Error(usage) that names --metric for one that does not fit.
Metric metric_for(const Config& config, size_t classes);
// True of a metric that reads which class is told, and hence depends on a threshold.
bool reads_told_class(const Metric& metric);

// Scores answers f32 (N, K), probabilities with labels i64 (N), or values (N, 1) with f32 (N). Above `threshold` the
// second of two classes is told; without one the likelier. Empty where the labels do not allow it, such as the area
// where all are of one class, or there are none.
std::optional<double> score_of(const Metric& metric, const Array& answers, const Array& labels,
                               std::optional<double> threshold = {});

struct Score {
  std::string name;
  double value = 0;
  double low = 0, high = 0;  // the middle 95 % over samples drawn with replacement (bootstrap)
};
struct ScoreOptions {
  std::optional<double> threshold = {};
  std::string first = {};  // a metric that stands first; one that is not shown otherwise is added
  int draws = 400;         // for the intervals, by a fixed seed
};
// The usual ones: of two classes auc, f1 of the second one, accuracy and log_loss; of more macro_f1, accuracy and
// log_loss; of values rmse, mae and r2. What the labels do not allow is left out.
std::vector<Score> scores_of(const Array& answers, const Array& labels, const ScoreOptions& options = {});

// The probability of the second of two classes above which it is told so that the metric is best, in the middle between
// two that rows have (none is told above the highest); of equally good ones the nearest to 0.5, which is the best where
// none is better.
double best_threshold(const Metric& metric, const Array& answers, const Array& labels);

}  // namespace freight::train
