// Metrics of predictions, by the field's names, for networks and models of tables alike. One of them (--metric) decides
// which of several models is best, ends a fit early and chooses a threshold; all that fit the data are shown beside the
// loss, each with its 95 % interval. Nothing here knows a model or a configuration: train/metric.h chooses the metric
// of a run.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/metrics/thresholds.h"

namespace freight::metrics {

// A metric with what it depends on.
struct Metric {
  std::string name;                            // "auc", "ndcg@10"
  bool higher = false;                         // the higher, the better
  double quantile = 0.5, tweedie_power = 1.5;  // parameters of the quantile loss and of the Tweedie deviance

  // True if score a is better than b.
  bool better(double a, double b) const { return higher ? a > b : a < b; }
};
// Words that --metric takes: "auto" first. Behind those of rankings "@K" may stand: the first K rows of a query alone.
std::vector<std::string> metric_names();
// Throws Error(usage) that names --metric for a word that is none of them.
void check_metric_name(const std::string& name);
// True if the metric of that name is the better the higher it is; nothing for an unknown name.
std::optional<bool> higher_is_better(const std::string& name);
// The kind of label that predictions are compared with.
struct Target {
  size_t classes = 0;    // or labels; 0: values, or relevances
  bool ranking = false;  // the labels are relevances, by which the rows of a query are ranked
  bool labels = false;   // a row has any number of labels, in place of one class
};
// The metric of that name, other than "auto". Throws Error(usage) that names --metric for a name that is unknown or
// does not fit the target.
Metric metric_named(const std::string& name, const Target& target);
// True for a metric of predicted classes, which hence depends on a threshold.
bool reads_predicted_class(const Metric& metric);
// True for a metric of predicted classes that some threshold maximizes. Recall and precision have no such threshold,
// since either alone is best if all or no samples are predicted positive (metrics/decision.h has rules for them).
bool has_best_threshold(const Metric& metric);
// The class that is predicted from the probabilities of `classes`: the most probable, and of equal ones the first; of
// two classes the second if its probability is above `threshold`.
int64_t predicted_class(const float* probabilities, int64_t classes, std::optional<double> threshold);

// Writes a metric with its parameters as entries of a stored model.
void write_metric(const Metric& metric, std::map<std::string, std::string>& entries);
// Reads them. Empty if there is none, or one whose parameter is missing, as in files from before it was stored.
std::optional<Metric> read_metric(const std::map<std::string, std::string>& entries);

// Labels and weights, and the queries of a ranking, with which predictions are compared.
struct Truth {
  // Without weights all rows count alike.
  Truth(const Array& of_rows, std::optional<Array> of_weights = {}) : labels(of_rows), weights(std::move(of_weights)) {}
  // i64 (N): classes; f32 (N): values, or relevances; f32 (N, K): K values; or u8 (N, K): 1 for each label of a row
  Array labels;
  std::optional<Array> weights;       // f32 (N): how often a row counts, in every metric; none: once
  std::optional<Array> queries = {};  // i64 (N), of a ranking: rows with equal numbers are ranked among each other
};

// Scores predictions f32 (N, K), probabilities of classes or labels, or values. A ranking has the mean over its
// queries; several values have the mean over them, and labels the mean over those that allow it (macro), as in
// scikit-learn, except for micro_f1 and subset_accuracy. Empty where the labels do not allow it, such as the area where
// all are of one class, or there are none.
std::optional<double> score_of(const Metric& metric, const Array& predictions, const Truth& truth,
                               const Thresholds& thresholds = {});

// The score of one metric.
struct Score {
  std::string name;          // of the metric
  double value = 0;          // over all samples
  double low = 0, high = 0;  // the 95 % interval; both are `value` where there is none
  enum class Interval {      // says if there is one, and if not, why
    known,                   // low and high are its bounds
    too_few,  // fewer than 20 samples of the rarer class, or of all for metrics that do not depend on classes
    none      // the metric is a calibration error, whose estimate is larger than the error itself in small sets
  } interval = Interval::known;  // of this score
};
// "(95 %: 0.91 to 0.97)", "(too few samples for an interval)", or "" for a metric that never has one.
std::string interval_text(const Score& score);
struct ScoreOptions {
  Thresholds thresholds = {};  // as for score_of
  // A metric that stands first, and is added where it is not shown otherwise. Its parameters hold for all metrics.
  Metric first = {};
  int draws = 400;  // for the intervals, by a fixed seed
  // Names of the labels or of several values: the scores of each alone follow, as "average_precision[NAME]" and
  // "f1[NAME]", or as "rmse[NAME]", "mae[NAME]" and "r2[NAME]".
  std::vector<std::string> columns = {};
};
// The usual ones: of two classes auc, average_precision, f1, precision and recall of the second one; of more macro_f1;
// of both accuracy, balanced_accuracy, log_loss and ece; of values rmse, mae and r2; of a ranking ndcg, ndcg@10 and
// map, whose intervals are drawn by queries; of several labels auc, average_precision, macro_f1, micro_f1,
// subset_accuracy and log_loss. What the labels do not allow is left out (notes_on_scores). Intervals: of
// shares of samples Wilson's (Probable inference, JASA 1927), of f1 by the share of right samples among those that are
// of the class or predicted, of a mean of recalls by those of each (Zou, Donner, Construction of confidence limits,
// Statistics in Medicine 2008); of rankings the middle of what samples drawn with replacement have; of others normal
// ones in a scale without bounds, by their spread. Throws Error(data) for values that a deviance is not defined for.
std::vector<Score> scores_of(const Array& predictions, const Truth& truth, const ScoreOptions& options = {});

// Notes for a reader of these scores: the metrics that the labels do not allow, and predictions that a metric cannot
// take as they are.
std::vector<std::string> notes_on_scores(const Array& predictions, const Truth& truth,
                                         const ScoreOptions& options = {});

}  // namespace freight::metrics
