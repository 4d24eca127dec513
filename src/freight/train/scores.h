// Metrics: how good answers are, as the field names it. One of them decides where learners and settings are compared,
// early stopping ends a fit and a threshold is chosen (--metric); all that fit the data are shown beside the loss, each
// with the interval in which it lies with 95 %.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "freight/base/array.h"

namespace freight::store {
struct Rows;
}

namespace freight::train {

struct Config;

// A metric with what it depends on.
struct Metric {
  std::string name;     // "auc", "ndcg@10"
  bool higher = false;  // the higher, the better
  double quantile = 0.5, tweedie_power = 1.5;

  bool better(double a, double b) const { return higher ? a > b : a < b; }
};
// Words that --metric takes: "auto" first. Behind those of rankings "@K" may stand: the first K rows of a query alone.
std::vector<std::string> metric_names();
// Throws Error(usage) that names --metric for a word that is none of them.
void check_metric_name(const std::string& name);
// The metric that a configuration asks for, for so many classes (0: values, or relevances where its task is a ranking);
// "auto" is the one of its objective. Throws Error(usage) that names --metric for one that does not fit.
Metric metric_for(const Config& config, size_t classes);
// True of a metric that reads which class is told, and hence depends on a threshold.
bool reads_told_class(const Metric& metric);

// A metric with its parameters as entries of a stored model, and back: nothing where there is none, or one whose
// parameter is missing, as in files of before it was stored.
void write_metric(const Metric& metric, std::map<std::string, std::string>& entries);
std::optional<Metric> read_metric(const std::map<std::string, std::string>& entries);

// Labels and weights, and the queries of a ranking, with which predictions are compared.
struct Truth {
  Truth(const Array& of_rows) : labels(of_rows) {}  // no ranking, all rows count alike
  Truth(const store::Rows& rows);
  Array labels;                       // i64 (N): classes; or f32 (N): values, or relevances
  std::optional<Array> weights = {};  // f32 (N): how often a row counts, in every metric; none: once
  std::optional<Array> queries = {};  // i64 (N), of a ranking: rows with equal numbers are ranked among each other
};

// Scores answers f32 (N, K), probabilities of classes, or values (N, 1). Above `threshold` the second of two classes is
// told; without one the likelier. A ranking has the mean over its queries. Empty where the labels do not allow it, such
// as the area where all are of one class, or there are none.
std::optional<double> score_of(const Metric& metric, const Array& answers, const Truth& truth,
                               std::optional<double> threshold = {});

struct Score {
  std::string name;
  double value = 0;
  double low = 0, high = 0;  // the middle 95 % over samples drawn with replacement (bootstrap)
};
struct ScoreOptions {
  std::optional<double> threshold = {};
  // A metric that stands first, and is added where it is not shown otherwise. Its parameters hold for all metrics.
  Metric first = {};
  int draws = 400;  // for the intervals, by a fixed seed
};
// The usual ones: of two classes auc, f1 of the second one, accuracy and log_loss; of more macro_f1, accuracy and
// log_loss; of values rmse, mae and r2; of a ranking ndcg, ndcg@10 and map, whose intervals are drawn by queries. What
// the labels do not allow is left out (notes_on_scores). Throws Error(data) for values that a deviance is not defined
// for.
std::vector<Score> scores_of(const Array& answers, const Truth& truth, const ScoreOptions& options = {});

// What a reader of these scores should know: which of them the labels do not allow, and predictions that a metric
// cannot take as they are.
std::vector<std::string> notes_on_scores(const Array& answers, const Truth& truth, const ScoreOptions& options = {});

// The probability of the second of two classes above which it is told so that the metric is best, in the middle between
// two that rows have (none is told above the highest); of equally good ones the nearest to 0.5, which is the best where
// none is better.
double best_threshold(const Metric& metric, const Array& answers, const Truth& truth);

}  // namespace freight::train
