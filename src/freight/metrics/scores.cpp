// See scores.h.
#include "freight/metrics/scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/metrics/ranking.h"

namespace freight::metrics {

namespace {

using Times = std::vector<double>;

// Predictions and labels, with what metrics share of them. `times[i]` says how often row i counts, of a ranking query
// i.
class Answered {
 public:
  Answered(const Array& answers, const Truth& truth, std::optional<double> threshold)
      : n_(answers.shape()[0]), k_(answers.shape()[1]), answers_(answers) {
    for (int64_t i = 0; i < n_; ++i) {
      weights_.push_back(truth.weights ? static_cast<double>(truth.weights->data<float>()[i]) : 1.0);
    }
    if (truth.labels.dtype() != DType::i64) {
      values_ = truth.labels.data<float>();
      if (truth.queries) part_in_queries(truth.queries->data<int64_t>());
      return;
    }
    classes_ = truth.labels.data<int64_t>();
    for (int64_t i = 0; i < n_; ++i) told_.push_back(predicted_class(row(i), k_, threshold));
  }

  int64_t count() const { return n_; }
  bool ranking() const { return !queries_.empty(); }
  // Samples are drawn of these: rows of one query are not by chance together.
  int64_t units() const { return static_cast<int64_t>(weights_.size()); }
  // How often each of these counts by its weight.
  const Times& weights() const { return weights_; }
  int64_t classes() const { return classes_ ? k_ : 0; }
  const float* row(int64_t i) const { return answers_.data<float>() + i * k_; }
  int64_t label(int64_t i) const { return classes_[i]; }
  int64_t told(int64_t i) const { return told_[static_cast<size_t>(i)]; }
  double truth(int64_t i) const { return static_cast<double>(values_[i]); }
  double value(int64_t i) const { return static_cast<double>(row(i)[0]); }

  // Rows by the probability of the second of two classes; sorted when first asked for.
  const std::vector<int64_t>& ascending() const {
    if (ascending_.empty()) {
      ascending_.resize(static_cast<size_t>(n_));
      std::iota(ascending_.begin(), ascending_.end(), int64_t{0});
      std::stable_sort(ascending_.begin(), ascending_.end(),
                       [&](int64_t a, int64_t b) { return row(a)[1] < row(b)[1]; });
    }
    return ascending_;
  }

  // The figure of each query, which is computed when first asked for.
  const std::vector<double>& by_query(const std::string& name, int64_t top,
                                      double (*of)(std::vector<RankedRow>, int64_t)) const {
    const auto [at, fresh] = by_query_.try_emplace(name);
    for (size_t q = 0; fresh && q < queries_.size(); ++q) at->second.push_back(of(queries_[q], top));
    return at->second;
  }

 private:
  void part_in_queries(const int64_t* query) {
    std::map<int64_t, size_t> place;
    Times of_queries;  // a query has the weight of its rows, which is the same in all of them
    for (int64_t i = 0; i < n_; ++i) {
      const auto [at, fresh] = place.try_emplace(query[i], queries_.size());
      if (fresh) {
        queries_.emplace_back();
        of_queries.push_back(weights_[static_cast<size_t>(i)]);
      }
      queries_[at->second].push_back({row(i)[0], values_[i]});
    }
    weights_ = std::move(of_queries);
  }

  int64_t n_, k_;
  const Array& answers_;
  const int64_t* classes_ = nullptr;
  const float* values_ = nullptr;
  std::vector<int64_t> told_;
  Times weights_;
  std::vector<std::vector<RankedRow>> queries_;
  mutable std::vector<int64_t> ascending_;
  mutable std::map<std::string, std::vector<double>> by_query_;
};

double square(double v) { return v * v; }

double times_of(const Times& times, int64_t i) { return times[static_cast<size_t>(i)]; }

// The mean over the rows of what f says of each.
template <class F>
double mean_of(const Answered& a, const Times& times, F f) {
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
std::optional<double> area(const Answered& a, const Times& times, const Metric&) {
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

// The harmonic mean of precision and recall of each class; empty for one that is neither there nor told.
std::vector<std::optional<double>> f1_by_class(const Answered& a, const Times& times) {
  std::vector<double> right(static_cast<size_t>(a.classes())), told(right), there(right);
  for (int64_t i = 0; i < a.count(); ++i) {
    const double count = times_of(times, i);
    const auto said = static_cast<size_t>(a.told(i)), is = static_cast<size_t>(a.label(i));
    told[said] += count;
    there[is] += count;
    if (said == is) right[is] += count;
  }
  std::vector<std::optional<double>> all(right.size());
  for (size_t c = 0; c < all.size(); ++c) {
    if (told[c] + there[c] > 0) all[c] = 2 * right[c] / (told[c] + there[c]);
  }
  return all;
}
std::optional<double> f1(const Answered& a, const Times& times, const Metric&) { return f1_by_class(a, times)[1]; }
std::optional<double> macro_f1(const Answered& a, const Times& times, const Metric&) {
  double sum = 0;
  int count = 0;
  for (const std::optional<double>& one : f1_by_class(a, times)) {
    sum += one.value_or(0);
    count += one.has_value();
  }
  return sum / std::max(count, 1);
}

std::optional<double> accuracy(const Answered& a, const Times& times, const Metric&) {
  return mean_of(a, times, [&](int64_t i) { return a.told(i) == a.label(i) ? 1.0 : 0.0; });
}
std::optional<double> log_loss(const Answered& a, const Times& times, const Metric&) {
  return mean_of(a, times, [&](int64_t i) {
    return -std::log(static_cast<double>(std::max(a.row(i)[a.label(i)], std::numeric_limits<float>::min())));
  });
}

std::optional<double> rmse(const Answered& a, const Times& times, const Metric&) {
  return std::sqrt(mean_of(a, times, [&](int64_t i) { return square(a.value(i) - a.truth(i)); }));
}
std::optional<double> mae(const Answered& a, const Times& times, const Metric&) {
  return mean_of(a, times, [&](int64_t i) { return std::fabs(a.value(i) - a.truth(i)); });
}
std::optional<double> r2(const Answered& a, const Times& times, const Metric&) {
  const double mean = mean_of(a, times, [&](int64_t i) { return a.truth(i); });
  const double spread = mean_of(a, times, [&](int64_t i) { return square(a.truth(i) - mean); });
  const double wrong = mean_of(a, times, [&](int64_t i) { return square(a.value(i) - a.truth(i)); });
  return spread > 0 ? std::optional(1 - wrong / spread) : std::nullopt;
}
std::optional<double> quantile_loss(const Answered& a, const Times& times, const Metric& m) {
  return mean_of(a, times, [&](int64_t i) {
    const double error = a.truth(i) - a.value(i);
    return std::max(m.quantile * error, (m.quantile - 1) * error);
  });
}
constexpr double kLeastMean = 1e-30;  // a prediction of 0 or below, which such a model cannot mean
void need_no_negative(const Answered& a, const Metric& m) {
  for (int64_t i = 0; i < a.count(); ++i) {
    if (a.truth(i) >= 0) continue;
    fail(ErrorKind::data, m.name, "is for values of at least 0: got a target of ", a.truth(i),
         "; --metric names another");
  }
}
std::optional<double> poisson_deviance(const Answered& a, const Times& times, const Metric& m) {
  need_no_negative(a, m);
  return mean_of(a, times, [&](int64_t i) {
    const double y = a.truth(i), mean = std::max(a.value(i), kLeastMean);
    return 2 * ((y > 0 ? y * std::log(y / mean) : 0.0) - y + mean);
  });
}
std::optional<double> tweedie_deviance(const Answered& a, const Times& times, const Metric& m) {
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
std::optional<double> ndcg(const Answered& a, const Times& times, const Metric& m) {
  return mean_over_queries(a.by_query(m.name, top_of(m.name), query_ndcg), times);
}
std::optional<double> mean_precision(const Answered& a, const Times& times, const Metric& m) {
  return mean_over_queries(a.by_query(m.name, top_of(m.name), query_precision), times);
}

enum class For { two, more, classes, values, ranking };  // classes: two and more

struct MetricRow {
  const char* name;
  For what;
  bool higher;
  bool shown;  // without being asked for
  bool told;   // reads the told class
  std::optional<double> (*of)(const Answered&, const Times&, const Metric&);
};
constexpr std::array<MetricRow, 14> kMetrics = {{
    {"auc", For::two, true, true, false, area},
    {"f1", For::two, true, true, true, f1},
    {"macro_f1", For::more, true, true, true, macro_f1},
    {"accuracy", For::classes, true, true, true, accuracy},
    {"log_loss", For::classes, false, true, false, log_loss},
    {"rmse", For::values, false, true, false, rmse},
    {"mae", For::values, false, true, false, mae},
    {"r2", For::values, true, true, false, r2},
    {"quantile_loss", For::values, false, false, false, quantile_loss},
    {"poisson_deviance", For::values, false, false, false, poisson_deviance},
    {"tweedie_deviance", For::values, false, false, false, tweedie_deviance},
    {"ndcg", For::ranking, true, true, false, ndcg},
    {"ndcg@10", For::ranking, true, true, false, ndcg},
    {"map", For::ranking, true, true, false, mean_precision},
}};

bool fits(const MetricRow& row, const Target& target) {
  const auto [classes, ranking] = target;
  switch (row.what) {
    case For::two: return classes == 2;
    case For::more: return classes > 2;
    case For::classes: return classes > 0;
    case For::values: return classes == 0 && !ranking;
    case For::ranking: return classes == 0 && ranking;
  }
  return false;
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
    fail(ErrorKind::usage, "--metric", "got ", name, ": ",
         row->what == For::ranking ? "expected a whole number of at least 1 after the @, as in ndcg@10"
                                   : cat(whole, " is computed on all rows; only ndcg and map accept an @"));
  }
  refuse_name("--metric", name, metric_names());
}

// Drawn numbers that leave out so much on either side have 95 % between.
constexpr double kTail = 0.025;

}  // namespace

std::vector<std::string> metric_names() {
  std::vector<std::string> names = {"auto"};
  for (const MetricRow& row : kMetrics) names.emplace_back(row.name);
  return names;
}

void check_metric_name(const std::string& name) {
  if (name != "auto") row_of_metric(name);
}

Metric metric_named(const std::string& name, const Target& target) {
  const MetricRow& row = row_of_metric(name);
  if (!fits(row, target)) {
    std::vector<std::string> others;
    for (const MetricRow& other : kMetrics) {
      if (fits(other, target)) others.emplace_back(other.name);
    }
    const char* const what[] = {"two classes", "more than two classes", "classes", "values",
                                "rankings (--task ranking)"};
    fail(ErrorKind::usage, "--metric", name, " is for ", what[static_cast<size_t>(row.what)],
         ": the target column contains ",
         target.ranking        ? std::string("relevance labels for ranking")
         : target.classes == 0 ? std::string("values")
         : target.classes == 1 ? std::string("one class")
                               : cat(target.classes, " classes"),
         ", expected ", others.empty() ? std::string("another column") : join(others, ", "));
  }
  return {.name = name, .higher = row.higher};
}

bool reads_predicted_class(const Metric& metric) { return row_of_metric(metric.name).told; }

int64_t predicted_class(const float* probabilities, int64_t classes, std::optional<double> threshold) {
  if (threshold && classes == 2) return static_cast<double>(probabilities[1]) > *threshold ? 1 : 0;
  return std::max_element(probabilities, probabilities + classes) - probabilities;
}

std::optional<double> score_of(const Metric& metric, const Array& answers, const Truth& truth,
                               std::optional<double> threshold) {
  if (answers.shape()[0] == 0) return std::nullopt;
  const Answered answered(answers, truth, threshold);
  return row_of_metric(metric.name).of(answered, answered.weights(), metric);
}

namespace {
// The metrics of these answers: `first`, where it fits, and then those that are shown.
std::vector<std::string> shown_metrics(const Answered& answered, const std::string& first) {
  const auto of_these = [&](const MetricRow& row) {
    return fits(row, {.classes = static_cast<size_t>(answered.classes()), .ranking = answered.ranking()});
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

std::vector<Score> scores_of(const Array& answers, const Truth& truth, const ScoreOptions& options) {
  std::vector<Score> scores;
  if (answers.shape()[0] == 0) return scores;
  const Answered answered(answers, truth, options.threshold);
  const int64_t n = answered.units();
  const std::vector<std::string> names = shown_metrics(answered, options.first.name);
  const auto at = [&](const Times& times) {
    std::vector<std::optional<double>> values;
    Metric metric = options.first;  // its parameters are those of the model, for all metrics that have them
    for (const std::string& name : names) {
      metric.name = name;
      values.push_back(row_of_metric(name).of(answered, times, metric));
    }
    return values;
  };
  const auto whole = at(answered.weights());
  std::vector<std::vector<double>> drawn(whole.size());
  for (int draw = 0; draw < options.draws; ++draw) {
    Times times(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      const auto u = static_cast<double>(random_uniform(0, static_cast<uint64_t>(draw), 0, static_cast<uint64_t>(i)));
      const auto at_row = static_cast<size_t>(std::min(static_cast<int64_t>(u * static_cast<double>(n)), n - 1));
      times[at_row] += answered.weights()[at_row];
    }
    const auto again = at(times);
    for (size_t s = 0; s < again.size(); ++s) {
      if (again[s]) drawn[s].push_back(*again[s]);
    }
  }
  for (size_t s = 0; s < whole.size(); ++s) {
    if (!whole[s]) continue;
    Score score{.name = names[s], .value = *whole[s], .low = *whole[s], .high = *whole[s]};
    std::sort(drawn[s].begin(), drawn[s].end());
    if (!drawn[s].empty()) {
      const auto most = static_cast<double>(drawn[s].size() - 1);
      score.low = drawn[s][static_cast<size_t>(std::lround(most * kTail))];
      score.high = drawn[s][static_cast<size_t>(std::lround(most * (1 - kTail)))];
    }
    scores.push_back(std::move(score));
  }
  return scores;
}

std::vector<std::string> notes_on_scores(const Array& answers, const Truth& truth, const ScoreOptions& options) {
  std::vector<std::string> notes;
  if (answers.shape()[0] == 0) return notes;
  const Answered answered(answers, truth, options.threshold);
  Metric metric = options.first;
  for (const std::string& name : shown_metrics(answered, options.first.name)) {
    metric.name = name;
    if (row_of_metric(name).of(answered, answered.weights(), metric)) continue;
    notes.push_back(cat(name,
                        " is not defined: ", answered.classes() > 0 ? "all rows" : "the target is the same in all",
                        answered.classes() > 0 ? " are of one class" : " rows"));
  }
  if (options.first.name == "poisson_deviance" || options.first.name == "tweedie_deviance") {
    int64_t count = 0;
    for (int64_t i = 0; i < answered.count(); ++i) count += answered.value(i) <= 0;
    if (count > 0) {
      notes.push_back(cat(count, count == 1 ? " prediction is" : " predictions are", " 0 or below, which ",
                          options.first.name, " does not have: they count as ", kLeastMean));
    }
  }
  return notes;
}

double best_threshold(const Metric& metric, const Array& answers, const Truth& truth) {
  const Answered a(answers, truth, {});
  double positives = 0, n = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double weight = times_of(a.weights(), i);
    n += weight;
    positives += weight * static_cast<double>(a.label(i));
  }
  double right = positives, told = n, below = 0;  // of the second class, of which all are told at first
  double best = 0.5, best_score = score_of(metric, answers, truth).value_or(0);
  for (const int64_t row : a.ascending()) {
    const auto here = static_cast<double>(a.row(row)[1]);
    if (here > below) {
      const double middle = (below + here) / 2;
      const double score =
          metric.name == "f1" ? 2 * right / std::max(told + positives, 1e-300) : (2 * right + n - told - positives) / n;
      const bool nearer = score == best_score && std::fabs(middle - 0.5) < std::fabs(best - 0.5);
      if (score > best_score || nearer) {
        best_score = score;
        best = middle;
      }
      below = here;
    }
    const double weight = times_of(a.weights(), row);
    right -= weight * static_cast<double>(a.label(row));
    told -= weight;
  }
  return best;
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
