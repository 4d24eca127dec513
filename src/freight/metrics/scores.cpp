// See scores.h.
#include "freight/metrics/scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/metrics/curves.h"
#include "freight/metrics/evaluated_internal.h"
#include "freight/metrics/interval.h"
#include "freight/metrics/ranking.h"

namespace freight::metrics {

namespace {

double square(double v) { return v * v; }

double times_of(const Times& times, int64_t i) { return times[static_cast<size_t>(i)]; }

// The mean over the rows of what f says of each.
template <class F>
double mean_of(const Evaluated& a, const Times& times, F f) {
  double sum = 0, total = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double count = times_of(times, i);
    if (count == 0) continue;
    sum += count * f(i);
    total += count;
  }
  return sum / total;
}

// The share of pairs of one row of either class in which the second class is thought more likely in its own; equal
// ones count half.
std::optional<double> area(const Evaluated& a, const Times& times, const Metric&) {
  const std::vector<int64_t>& ascending = a.ascending();
  double below = 0, pairs = 0, positive = 0;
  for (size_t first = 0; first < ascending.size();) {
    double equal[2] = {};
    size_t last = first;
    for (; last < ascending.size() && a.row(ascending[last])[1] == a.row(ascending[first])[1]; ++last) {
      equal[a.label(ascending[last])] += times_of(times, ascending[last]);
    }
    pairs += equal[1] * (below + equal[0] / 2);
    below += equal[0];
    positive += equal[1];
    first = last;
  }
  if (below == 0 || positive == 0) return std::nullopt;
  return pairs / below / positive;
}

// Mean of the precisions at the thresholds, weighted by the recall that each adds; rows of equal predictions come
// together.
std::optional<double> average_precision(const Evaluated& a, const Times& times, const Metric&) {
  const std::vector<int64_t>& ascending = a.ascending();
  double positive = 0, right = 0, predicted = 0, sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) positive += a.label(i) == 1 ? times_of(times, i) : 0;
  if (positive == 0) return std::nullopt;
  for (size_t last = ascending.size(); last > 0;) {
    const float here = a.row(ascending[last - 1])[1];
    double added = 0;
    for (; last > 0 && a.row(ascending[last - 1])[1] == here; --last) {
      const double count = times_of(times, ascending[last - 1]);
      predicted += count;
      if (a.label(ascending[last - 1]) == 1) added += count;
    }
    right += added;
    if (predicted > 0) sum += added * right / predicted;
  }
  return sum / positive;
}

// The weights of rows by class: predicted correctly, predicted as the class, and labeled with the class.
struct ClassSums {
  std::vector<double> right, predicted, there;
};
ClassSums class_sums(const Evaluated& a, const Times& times) {
  const auto k = static_cast<size_t>(a.classes());
  ClassSums s{std::vector<double>(k), std::vector<double>(k), std::vector<double>(k)};
  for (int64_t i = 0; i < a.count(); ++i) {
    const double count = times_of(times, i);
    const auto said = static_cast<size_t>(a.predicted(i)), is = static_cast<size_t>(a.label(i));
    s.predicted[said] += count;
    s.there[is] += count;
    if (said == is) s.right[is] += count;
  }
  return s;
}

// The harmonic mean of precision and recall of each class; empty for a class that is neither labeled nor predicted.
std::vector<std::optional<double>> f1_by_class(const Evaluated& a, const Times& times) {
  const ClassSums s = class_sums(a, times);
  std::vector<std::optional<double>> all(s.right.size());
  for (size_t c = 0; c < all.size(); ++c) {
    if (s.predicted[c] + s.there[c] > 0) all[c] = 2 * s.right[c] / (s.predicted[c] + s.there[c]);
  }
  return all;
}
std::optional<double> f1(const Evaluated& a, const Times& times, const Metric&) { return f1_by_class(a, times)[1]; }
std::optional<double> macro_f1(const Evaluated& a, const Times& times, const Metric&) {
  double sum = 0;
  int count = 0;
  for (const std::optional<double>& one : f1_by_class(a, times)) {
    sum += one.value_or(0);
    count += one.has_value();
  }
  return sum / std::max(count, 1);
}
// The precision of the second class; 0 if it is never predicted, as in scikit-learn (notes_on_scores reports that).
std::optional<double> precision(const Evaluated& a, const Times& times, const Metric&) {
  const ClassSums s = class_sums(a, times);
  return s.predicted[1] > 0 ? s.right[1] / s.predicted[1] : 0;
}
std::optional<double> recall(const Evaluated& a, const Times& times, const Metric&) {
  const ClassSums s = class_sums(a, times);
  return s.there[1] > 0 ? std::optional(s.right[1] / s.there[1]) : std::nullopt;
}
// The mean of the recalls of the classes that are there.
std::optional<double> balanced_accuracy(const Evaluated& a, const Times& times, const Metric&) {
  const ClassSums s = class_sums(a, times);
  double sum = 0, count = 0;
  for (size_t c = 0; c < s.there.size(); ++c) {
    if (s.there[c] == 0) continue;
    sum += s.right[c] / s.there[c];
    ++count;
  }
  return sum / count;
}
// Matthews' correlation coefficient for any number of classes (Gorodkin, Comparing two K-category assignments, 2004); 0
// if all rows belong to one class, or all are predicted as one.
std::optional<double> mcc(const Evaluated& a, const Times& times, const Metric&) {
  const ClassSums s = class_sums(a, times);
  double all = 0, right = 0, both = 0, predicted = 0, there = 0;
  for (size_t c = 0; c < s.there.size(); ++c) {
    all += s.there[c];
    right += s.right[c];
    both += s.there[c] * s.predicted[c];
    predicted += square(s.predicted[c]);
    there += square(s.there[c]);
  }
  const double spread = (square(all) - predicted) * (square(all) - there);
  return spread > 0 ? (right * all - both) / std::sqrt(spread) : 0;
}
// The share of rows whose class is among the five most probable; of equal probabilities the later class stands first.
std::optional<double> top5(const Evaluated& a, const Times& times, const Metric&) {
  constexpr int kTop = 5;
  return mean_of(a, times, [&](int64_t i) {
    const float* const p = a.row(i);
    const int64_t label = a.label(i);
    int before = 0;
    for (int64_t c = 0; c < a.classes(); ++c) before += p[c] > p[label] || (p[c] == p[label] && c > label);
    return before < kTop ? 1.0 : 0.0;
  });
}
// Expected calibration error, in ten bins of equal width: of two classes by the probability of the second, of more by
// that of the most probable one (Guo et al., On calibration of modern neural networks, ICML 2017).
std::optional<double> calibration_error(const Evaluated& a, const Times& times, const Metric&) {
  struct Bin {
    double rows = 0, said = 0, found = 0;
  } bins[Calibration::kBins];
  double all = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const float* const p = a.row(i);
    const int64_t of = a.classes() == 2 ? 1 : std::max_element(p, p + a.classes()) - p;
    const auto bin = static_cast<size_t>(static_cast<double>(p[of]) * Calibration::kBins);
    Bin& b = bins[std::min(bin, Calibration::kBins - 1)];
    const double count = times_of(times, i);
    b.rows += count;
    b.said += count * static_cast<double>(p[of]);
    if (a.label(i) == of) b.found += count;
    all += count;
  }
  double sum = 0;
  for (const Bin& b : bins) sum += std::fabs(b.said - b.found);
  return sum / all;
}

std::optional<double> accuracy(const Evaluated& a, const Times& times, const Metric&) {
  return mean_of(a, times, [&](int64_t i) { return a.predicted(i) == a.label(i) ? 1.0 : 0.0; });
}
std::optional<double> log_loss(const Evaluated& a, const Times& times, const Metric&) {
  return mean_of(a, times, [&losses = a.losses()](int64_t i) { return losses[static_cast<size_t>(i)]; });
}

std::optional<double> rmse(const Evaluated& a, const Times& times, const Metric&) {
  return std::sqrt(mean_of(a, times, [&](int64_t i) { return square(a.value(i) - a.truth(i)); }));
}
std::optional<double> mae(const Evaluated& a, const Times& times, const Metric&) {
  return mean_of(a, times, [&](int64_t i) { return std::fabs(a.value(i) - a.truth(i)); });
}
std::optional<double> r2(const Evaluated& a, const Times& times, const Metric&) {
  const double mean = mean_of(a, times, [&](int64_t i) { return a.truth(i); });
  const double spread = mean_of(a, times, [&](int64_t i) { return square(a.truth(i) - mean); });
  const double wrong = mean_of(a, times, [&](int64_t i) { return square(a.value(i) - a.truth(i)); });
  return spread > 0 ? std::optional(1 - wrong / spread) : std::nullopt;
}
std::optional<double> quantile_loss(const Evaluated& a, const Times& times, const Metric& m) {
  return mean_of(a, times, [&](int64_t i) {
    const double error = a.truth(i) - a.value(i);
    return std::max(m.quantile * error, (m.quantile - 1) * error);
  });
}
constexpr double kLeastMean = 1e-30;  // a prediction of 0 or below, which such a model cannot mean
void need_no_negative(const Evaluated& a, const Metric& m) {
  for (int64_t i = 0; i < a.count(); ++i) {
    if (a.truth(i) >= 0) continue;
    fail(ErrorKind::data, m.name, "is for values of at least 0: got a target of ", a.truth(i),
         "; --metric names another");
  }
}
std::optional<double> poisson_deviance(const Evaluated& a, const Times& times, const Metric& m) {
  need_no_negative(a, m);
  return mean_of(a, times, [&](int64_t i) {
    const double y = a.truth(i), mean = std::max(a.value(i), kLeastMean);
    return 2 * ((y > 0 ? y * std::log(y / mean) : 0.0) - y + mean);
  });
}
std::optional<double> tweedie_deviance(const Evaluated& a, const Times& times, const Metric& m) {
  need_no_negative(a, m);
  const double p = m.tweedie_power;
  return mean_of(a, times, [&](int64_t i) {
    const double y = a.truth(i), mean = std::max(a.value(i), kLeastMean);
    return 2 * (std::pow(y, 2 - p) / ((1 - p) * (2 - p)) - y * std::pow(mean, 1 - p) / (1 - p) +
                std::pow(mean, 2 - p) / (2 - p));
  });
}

// "10" of "ndcg@10"; 0 where the name says no place, -1 where it is not a whole number above 0.
int64_t top_of(const std::string& name) {
  const size_t at = name.find('@');
  if (at == std::string::npos) return 0;
  const int64_t top = parse_number<int64_t>(std::string_view(name).substr(at + 1)).value_or(0);
  return top > 0 ? top : -1;
}

double mean_over_queries(const std::vector<double>& figures, const Times& times) {
  double sum = 0, total = 0;
  for (size_t q = 0; q < figures.size(); ++q) {
    sum += times[q] * figures[q];
    total += times[q];
  }
  return sum / total;
}
std::optional<double> ndcg(const Evaluated& a, const Times& times, const Metric& m) {
  return mean_over_queries(a.by_query(m.name, top_of(m.name), query_ndcg), times);
}
std::optional<double> mean_precision(const Evaluated& a, const Times& times, const Metric& m) {
  return mean_over_queries(a.by_query(m.name, top_of(m.name), query_precision), times);
}

// The mean over the labels, or over several values, of what f says of each; those that do not allow it are left out.
template <class F>
std::optional<double> mean_over_columns(const Evaluated& a, F f) {
  double sum = 0, count = 0;
  for (const Evaluated& column : a.columns()) {
    const std::optional<double> one = f(column);
    sum += one.value_or(0);
    count += one.has_value();
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}
using Figure = std::optional<double> (*)(const Evaluated&, const Times&, const Metric&);
// The macro average of a metric of two classes over the labels.
template <Figure of>
std::optional<double> macro(const Evaluated& a, const Times& times, const Metric& m) {
  return mean_over_columns(a, [&](const Evaluated& label) { return of(label, times, m); });
}
// F1 of the labels of all rows, counted together; 0 if there is none, labeled or predicted.
std::optional<double> micro_f1(const Evaluated& a, const Times& times, const Metric&) {
  double right = 0, all = 0;
  for (const Evaluated& label : a.columns()) {
    const ClassSums s = class_sums(label, times);
    right += s.right[1];
    all += s.predicted[1] + s.there[1];
  }
  return all > 0 ? 2 * right / all : 0;
}
// F1 of one label; 0 if no row has it or is predicted to have it, as in scikit-learn.
std::optional<double> f1_or_zero(const Evaluated& a, const Times& times, const Metric& m) {
  return f1(a, times, m).value_or(0);
}
// The share of rows whose labels are all predicted, and no others.
std::optional<double> subset_accuracy(const Evaluated& a, const Times& times, const Metric&) {
  return mean_of(a, times, [&](int64_t i) {
    const auto right = [&](const Evaluated& label) { return label.predicted(i) == label.label(i); };
    return std::all_of(a.columns().begin(), a.columns().end(), right) ? 1.0 : 0.0;
  });
}

enum class For { two, more, classes, values, ranking, labels };  // classes: two and more

// The way in which a metric's interval is found (interval.h).
enum class By { all, predicted, there, f1, recalls, unit, signed_unit, positive, below_one, middle, none };

struct MetricRow {
  const char* name;
  For what;
  bool higher;
  bool shown;    // without being asked for
  bool decides;  // reads the predicted class
  By interval;
  Figure of;
  Figure of_labels = nullptr;  // the same for several labels per row; null: it is not for them
};
constexpr std::array<MetricRow, 23> kMetrics = {{
    {"auc", For::two, true, true, false, By::unit, area, macro<area>},
    {"average_precision", For::two, true, true, false, By::unit, average_precision, macro<average_precision>},
    {"f1", For::two, true, true, true, By::f1, f1},
    {"precision", For::two, true, true, true, By::predicted, precision},
    {"recall", For::two, true, true, true, By::there, recall},
    {"macro_f1", For::more, true, true, true, By::unit, macro_f1, macro<f1_or_zero>},
    {"micro_f1", For::labels, true, true, true, By::unit, micro_f1, micro_f1},
    {"subset_accuracy", For::labels, true, true, true, By::all, subset_accuracy, subset_accuracy},
    {"accuracy", For::classes, true, true, true, By::all, accuracy},
    {"top5", For::more, true, false, false, By::all, top5},
    {"balanced_accuracy", For::classes, true, true, true, By::recalls, balanced_accuracy},
    {"mcc", For::classes, true, true, true, By::signed_unit, mcc},
    {"log_loss", For::classes, false, true, false, By::positive, log_loss, macro<log_loss>},
    {"ece", For::classes, false, true, false, By::none, calibration_error},
    {"rmse", For::values, false, true, false, By::positive, rmse},
    {"mae", For::values, false, true, false, By::positive, mae},
    {"r2", For::values, true, true, false, By::below_one, r2},
    {"quantile_loss", For::values, false, false, false, By::positive, quantile_loss},
    {"poisson_deviance", For::values, false, false, false, By::positive, poisson_deviance},
    {"tweedie_deviance", For::values, false, false, false, By::positive, tweedie_deviance},
    {"ndcg", For::ranking, true, true, false, By::middle, ndcg},
    {"ndcg@10", For::ranking, true, true, false, By::middle, ndcg},
    {"map", For::ranking, true, true, false, By::middle, mean_precision},
}};

bool fits(const MetricRow& row, const Target& target) {
  const auto [classes, ranking, labels] = target;
  if (labels) return row.of_labels != nullptr;
  switch (row.what) {
    case For::two: return classes == 2;
    case For::more: return classes > 2;
    case For::classes: return classes > 0;
    case For::values: return classes == 0 && !ranking;
    case For::ranking: return classes == 0 && ranking;
    case For::labels: return false;
  }
  return false;
}
std::optional<double> figure_of(const MetricRow& row, const Evaluated& a, const Times& times, const Metric& metric) {
  if (a.several_labels()) return row.of_labels(a, times, metric);
  if (a.columns().empty()) return row.of(a, times, metric);
  return mean_over_columns(a, [&](const Evaluated& value) { return row.of(value, times, metric); });
}
// Null where there is none of that name.
const MetricRow* find_metric(const std::string& name) {
  const std::string whole = name.substr(0, name.find('@'));
  for (const MetricRow& row : kMetrics) {
    if (name == row.name || (whole == row.name && row.what == For::ranking && top_of(name) > 0)) return &row;
  }
  return nullptr;
}
const MetricRow& row_of_metric(const std::string& name) {
  if (const MetricRow* const row = find_metric(name)) return *row;
  const std::string whole = name.substr(0, name.find('@'));
  if (const MetricRow* const row = find_metric(whole)) {
    refuse_value("--metric", name,
                 row->what == For::ranking ? "expected a whole number of at least 1 after the @, as in ndcg@10"
                                           : cat(whole, " is computed on all rows; only ndcg and map accept an @"));
  }
  refuse_name("--metric", name, metric_names());
}

}  // namespace

std::vector<std::string> metric_names() {
  std::vector<std::string> names = {"auto"};
  for (const MetricRow& row : kMetrics) names.emplace_back(row.name);
  return names;
}

void check_metric_name(const std::string& name) {
  if (name != "auto") row_of_metric(name);
}

std::optional<bool> higher_is_better(const std::string& name) {
  const MetricRow* const row = find_metric(name);
  return row ? std::optional(row->higher) : std::nullopt;
}

Metric metric_named(const std::string& name, const Target& target) {
  const MetricRow& row = row_of_metric(name);
  if (!fits(row, target)) {
    std::vector<std::string> others;
    for (const MetricRow& other : kMetrics) {
      if (fits(other, target)) others.emplace_back(other.name);
    }
    const char* const what[] = {
        "two classes", "more than two classes",     "classes",
        "values",      "rankings (--task ranking)", "several labels per sample (--task multilabel)"};
    fail(ErrorKind::usage, "--metric", name, " is for ", what[static_cast<size_t>(row.what)],
         ": the target column contains ",
         target.labels         ? std::string("several labels per sample")
         : target.ranking      ? std::string("relevance labels for ranking")
         : target.classes == 0 ? std::string("values")
         : target.classes == 1 ? std::string("one class")
                               : cat(target.classes, " classes"),
         ", expected ", others.empty() ? std::string("another column") : join(others, ", "));
  }
  return {.name = name, .higher = row.higher};
}

bool reads_predicted_class(const Metric& metric) { return row_of_metric(metric.name).decides; }

bool has_best_threshold(const Metric& metric) {
  return reads_predicted_class(metric) && metric.name != "precision" && metric.name != "recall";
}

int64_t predicted_class(const float* probabilities, int64_t classes, std::optional<double> threshold) {
  if (threshold && classes == 2) return static_cast<double>(probabilities[1]) > *threshold ? 1 : 0;
  return std::max_element(probabilities, probabilities + classes) - probabilities;
}

std::optional<double> score_of(const Metric& metric, const Array& predictions, const Truth& truth,
                               const Thresholds& thresholds) {
  if (predictions.shape()[0] == 0) return std::nullopt;
  const Evaluated evaluated(predictions, truth, thresholds);
  return figure_of(row_of_metric(metric.name), evaluated, evaluated.weights(), metric);
}

namespace {
// The metrics of these predictions: `first`, where it fits, and then those that are shown.
std::vector<std::string> shown_metrics(const Evaluated& evaluated, const std::string& first) {
  const auto of_these = [&](const MetricRow& row) {
    return fits(row, {.classes = static_cast<size_t>(evaluated.classes()),
                      .ranking = evaluated.ranking(),
                      .labels = evaluated.several_labels()});
  };
  std::vector<std::string> names;
  const MetricRow* const leading = find_metric(first);
  if (leading && of_these(*leading)) names.push_back(first);
  for (const MetricRow& row : kMetrics) {
    if (row.name != first && row.shown && of_these(row)) names.emplace_back(row.name);
  }
  return names;
}
}  // namespace

namespace {

bool needs_draws(By by) {
  return by == By::unit || by == By::signed_unit || by == By::positive || by == By::below_one || by == By::middle;
}

// How often each unit counts in a sample of all units that is drawn with replacement by a fixed seed.
Times drawn_times(const Evaluated& evaluated, int64_t draw) {
  const int64_t n = evaluated.units();
  Times times(static_cast<size_t>(n));
  Philox4 block{};
  for (int64_t i = 0; i < n; ++i) {  // random_uniform(0, draw, 0, i), of which a block has four
    if (i % 4 == 0) block = philox(0, static_cast<uint64_t>(i / 4), static_cast<uint64_t>(draw));
    const auto u = static_cast<double>(uniform_from_bits(block.v[i % 4]));
    const auto at_row = static_cast<size_t>(std::min(static_cast<int64_t>(u * static_cast<double>(n)), n - 1));
    times[at_row] += evaluated.weights()[at_row];
  }
  return times;
}

// The figures of the whole set, by metric, for such samples. `at` has computed each figure before: it refuses nothing
// here, and what Evaluated keeps for all samples is there.
template <class F>
std::vector<std::vector<double>> drawn_figures(const Evaluated& evaluated, const std::vector<std::string>& names,
                                               int draws, F at) {
  std::vector<std::vector<std::optional<double>>> figures(names.size());
  for (auto& of_metric : figures) of_metric.resize(static_cast<size_t>(draws));
  parallel_for(draws, [&](int64_t draw) {
    const Times times = drawn_times(evaluated, draw);
    for (size_t s = 0; s < names.size(); ++s) {
      if (needs_draws(row_of_metric(names[s]).interval)) figures[s][static_cast<size_t>(draw)] = at(names[s], times);
    }
  });
  std::vector<std::vector<double>> drawn(names.size());
  for (size_t s = 0; s < names.size(); ++s) {
    for (const std::optional<double>& value : figures[s]) {
      if (value) drawn[s].push_back(*value);
    }
  }
  return drawn;
}

// The number of equal samples whose mean has the variance of that of the weighted rows which `of` names.
template <class F>
double effective_samples(const Evaluated& a, F of) {
  double sum = 0, square_sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    if (!of(i)) continue;
    sum += times_of(a.weights(), i);
    square_sum += square(times_of(a.weights(), i));
  }
  return square_sum > 0 ? sum * sum / square_sum : 0;
}

// Rows of the rarest class that there is; of two classes also one that is not there. Of labels the rarest one.
int64_t rarest_class(const Evaluated& a) {
  if (a.several_labels()) {
    int64_t least = a.count();
    for (const Evaluated& label : a.columns()) least = std::min(least, rarest_class(label));
    return least;
  }
  std::vector<int64_t> rows(static_cast<size_t>(a.classes()));
  for (int64_t i = 0; i < a.count(); ++i) ++rows[static_cast<size_t>(a.label(i))];
  int64_t least = a.count();
  for (const int64_t n : rows) {
    if (n > 0 || rows.size() == 2) least = std::min(least, n);
  }
  return least;
}

Bounds bounds_of(const Evaluated& a, const MetricRow& row, double value, const std::vector<double>& drawn) {
  const auto n = static_cast<double>(a.units());
  switch (row.interval) {
    case By::all: return share_bounds(value, effective_samples(a, [](int64_t) { return true; }));
    case By::predicted:
      return share_bounds(value, effective_samples(a, [&](int64_t i) { return a.predicted(i) == 1; }));
    case By::there: return share_bounds(value, effective_samples(a, [&](int64_t i) { return a.label(i) == 1; }));
    case By::f1: {
      const double either = effective_samples(a, [&](int64_t i) { return a.predicted(i) == 1 || a.label(i) == 1; });
      const Bounds b = share_bounds(value / (2 - value), either);
      return {2 * b.low / (1 + b.low), 2 * b.high / (1 + b.high)};
    }
    case By::recalls: {
      const ClassSums s = class_sums(a, a.weights());
      std::vector<Share> recalls;
      for (size_t c = 0; c < s.there.size(); ++c) {
        if (s.there[c] == 0) continue;
        const auto of_class = [&](int64_t i) { return a.label(i) == static_cast<int64_t>(c); };
        recalls.push_back({s.right[c] / s.there[c], effective_samples(a, of_class)});
      }
      return mean_bounds(recalls);
    }
    case By::unit: return spread_bounds(value, drawn, Scale::unit, n);
    case By::signed_unit: return spread_bounds(value, drawn, Scale::signed_unit, n);
    case By::positive: return spread_bounds(value, drawn, Scale::positive, n);
    case By::below_one: return spread_bounds(value, drawn, Scale::below_one, n);
    case By::middle: return middle_bounds(value, drawn);
    case By::none: break;
  }
  return {value, value};
}

// Too few samples have intervals that hold the true figure less often than they say.
Score::Interval interval_of(const Evaluated& a, const MetricRow& row) {
  constexpr int64_t kEnough = 20;
  if (row.interval == By::none) return Score::Interval::none;
  if (row.interval == By::middle) return Score::Interval::known;
  const bool by_class = row.what == For::two || row.decides || row.what == For::more;
  const bool of_rows = row.interval == By::all || row.interval == By::positive || row.interval == By::below_one;
  const int64_t samples = by_class && !of_rows ? rarest_class(a) : a.count();
  return samples < kEnough ? Score::Interval::too_few : Score::Interval::known;
}

}  // namespace

std::string interval_text(const Score& score) {
  if (score.interval == Score::Interval::none) return {};
  if (score.interval == Score::Interval::too_few) return "(too few samples for an interval)";
  char text[96];
  std::snprintf(text, sizeof text, "(95 %%: %.6g to %.6g)", score.low, score.high);
  return text;
}

namespace {
std::vector<Score> scores_by(const std::vector<std::string>& names, const Evaluated& evaluated,
                             const ScoreOptions& options) {
  std::vector<Score> scores;
  const auto at = [&](const std::string& name, const Times& times) {
    Metric metric = options.first;  // its parameters are those of the model, for all metrics that have them
    metric.name = name;
    return figure_of(row_of_metric(name), evaluated, times, metric);
  };
  std::vector<std::optional<double>> values;
  for (const std::string& name : names) values.push_back(at(name, evaluated.weights()));
  const auto drawn = drawn_figures(evaluated, names, options.draws, at);
  for (size_t s = 0; s < names.size(); ++s) {
    const std::optional<double>& value = values[s];
    if (!value) continue;
    const MetricRow& row = row_of_metric(names[s]);
    Score score{.name = names[s], .value = *value, .low = *value, .high = *value};
    score.interval = interval_of(evaluated, row);
    if (score.interval == Score::Interval::known) {
      const Bounds bounds = bounds_of(evaluated, row, *value, drawn[s]);
      score.low = bounds.low;
      score.high = bounds.high;
    }
    scores.push_back(std::move(score));
  }
  return scores;
}
}  // namespace

std::vector<Score> scores_of(const Array& predictions, const Truth& truth, const ScoreOptions& options) {
  if (predictions.shape()[0] == 0) return {};
  const Evaluated evaluated(predictions, truth, options.thresholds);
  std::vector<Score> scores = scores_by(shown_metrics(evaluated, options.first.name), evaluated, options);
  const std::vector<std::string> names = evaluated.several_labels()
                                             ? std::vector<std::string>{"average_precision", "f1"}
                                             : std::vector<std::string>{"rmse", "mae", "r2"};
  for (size_t c = 0; c < std::min(options.columns.size(), evaluated.columns().size()); ++c) {
    for (Score& score : scores_by(names, evaluated.columns()[c], options)) {
      score.name += cat("[", options.columns[c], "]");
      scores.push_back(std::move(score));
    }
  }
  return scores;
}

std::vector<std::string> notes_on_scores(const Array& predictions, const Truth& truth, const ScoreOptions& options) {
  std::vector<std::string> notes;
  if (predictions.shape()[0] == 0) return notes;
  const Evaluated evaluated(predictions, truth, options.thresholds);
  Metric metric = options.first;
  for (const std::string& name : shown_metrics(evaluated, options.first.name)) {
    metric.name = name;
    if (figure_of(row_of_metric(name), evaluated, evaluated.weights(), metric)) continue;
    notes.push_back(cat(name,
                        " is not defined: ", evaluated.classes() > 0 ? "all rows" : "the target is the same in all",
                        evaluated.classes() > 0 ? " are of one class" : " rows"));
  }
  if (evaluated.classes() > 1 && !evaluated.several_labels()) {
    int64_t first = 0;
    for (int64_t i = 0; i < evaluated.count(); ++i) first += evaluated.predicted(i) == evaluated.predicted(0);
    if (first == evaluated.count()) {
      notes.push_back(cat(
          "all predictions are of one class, number ", evaluated.predicted(0),
          " from 0: ", evaluated.classes() == 2 && evaluated.predicted(0) == 0 ? "precision, f1 and mcc are" : "mcc is",
          " 0 by definition"));
    }
  }
  if (options.first.name == "poisson_deviance" || options.first.name == "tweedie_deviance") {
    int64_t count = 0;
    for (int64_t i = 0; i < evaluated.count(); ++i) count += evaluated.value(i) <= 0;
    if (count > 0) {
      notes.push_back(cat(count, count == 1 ? " prediction is" : " predictions are", " 0 or below, which ",
                          options.first.name, " does not have: they count as ", kLeastMean));
    }
  }
  return notes;
}

namespace {
constexpr const char *kMetricEntry = "metric", *kQuantileEntry = "quantile", *kTweedieEntry = "tweedie_power";
}

void write_metric(const Metric& metric, std::map<std::string, std::string>& entries) {
  entries[kMetricEntry] = metric.name;
  if (metric.name == "quantile_loss") entries[kQuantileEntry] = cat(metric.quantile);
  if (metric.name == "tweedie_deviance") entries[kTweedieEntry] = cat(metric.tweedie_power);
}

std::optional<Metric> read_metric(const std::map<std::string, std::string>& entries) {
  const auto name = entries.find(kMetricEntry);
  const MetricRow* const row = name == entries.end() ? nullptr : find_metric(name->second);
  if (!row) return std::nullopt;
  Metric metric{.name = name->second, .higher = row->higher};
  const auto read = [&](const char* entry, double& to) {
    const auto at = entries.find(entry);
    if (at == entries.end()) return false;
    const std::optional<double> number = parse_number<double>(at->second);
    to = number.value_or(to);
    return number.has_value();
  };
  if (metric.name == "quantile_loss" && !read(kQuantileEntry, metric.quantile)) return std::nullopt;
  if (metric.name == "tweedie_deviance" && !read(kTweedieEntry, metric.tweedie_power)) return std::nullopt;
  return metric;
}

}  // namespace freight::metrics
