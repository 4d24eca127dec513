// See decision.h.
#include "freight/metrics/decision.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/metrics/evaluated_internal.h"

namespace freight::metrics {

ThresholdRule parse_threshold_rule(const std::string& text) {
  const size_t at = text.find('=');
  ThresholdRule rule{.metric = text.substr(0, at)};
  const auto number =
      at == std::string::npos ? std::nullopt : parse_number<double>(std::string_view(text).substr(at + 1));
  rule.least = number.value_or(0);
  if ((rule.metric != "recall" && rule.metric != "precision") || !(rule.least > 0 && rule.least <= 1)) {
    refuse_text("--threshold", "a probability, or recall=R or precision=P with a figure above 0 and at most 1", text);
  }
  return rule;
}

namespace {

double weight_at(const Truth& truth, int64_t row) {
  return truth.weights ? static_cast<double>(truth.weights->data<float>()[row]) : 1.0;
}

// Rows of two classes, by weight, and those that a threshold predicts to be of the second: of them `right` are.
struct Operating {
  double threshold = 0, n = 0, positives = 0, predicted = 0, right = 0;

  double recall() const { return positives > 0 ? right / positives : 0; }
  double precision() const { return predicted > 0 ? right / predicted : 0; }
};

// All thresholds between two probabilities that rows have, and below the least, from low to high.
std::vector<Operating> operating_points(const Array& predictions, const Truth& truth) {
  const int64_t n = predictions.shape()[0];
  std::vector<int64_t> ascending(static_cast<size_t>(n));
  std::iota(ascending.begin(), ascending.end(), int64_t{0});
  const auto probability = [&](int64_t row) { return static_cast<double>(predictions.data<float>()[2 * row + 1]); };
  const auto second = [&](int64_t row) { return static_cast<double>(truth.labels.data<int64_t>()[row]); };
  std::stable_sort(ascending.begin(), ascending.end(),
                   [&](int64_t a, int64_t b) { return probability(a) < probability(b); });
  Operating at;
  for (int64_t i = 0; i < n; ++i) {
    at.n += weight_at(truth, i);
    at.positives += weight_at(truth, i) * second(i);
  }
  at.right = at.positives;
  at.predicted = at.n;
  std::vector<Operating> points;
  double below = 0;
  for (const int64_t row : ascending) {
    if (const double here = probability(row); here > below) {
      at.threshold = (below + here) / 2;
      points.push_back(at);
      below = here;
    }
    at.predicted -= weight_at(truth, row);
    at.right -= weight_at(truth, row) * second(row);
  }
  return points;
}

double score_at(const std::string& metric, const Operating& s) {
  if (metric == "f1") return 2 * s.right / std::max(s.predicted + s.positives, 1e-300);
  const double negatives = s.n - s.positives, right_below = negatives - (s.predicted - s.right);
  if (metric == "balanced_accuracy") {
    const double recall = s.positives > 0 ? s.right / s.positives : 1;
    return (recall + (negatives > 0 ? right_below / negatives : 1)) / 2;
  }
  if (metric == "mcc") {
    const double spread = s.predicted * (s.n - s.predicted) * s.positives * negatives;
    return spread > 0 ? (s.right * s.n - s.predicted * s.positives) / std::sqrt(spread) : 0;
  }
  return (2 * s.right + s.n - s.predicted - s.positives) / s.n;  // accuracy
}

}  // namespace

double best_threshold(const Metric& metric, const Array& predictions, const Truth& truth) {
  double best = 0.5, best_score = score_of(metric, predictions, truth).value_or(0);
  for (const Operating& at : operating_points(predictions, truth)) {
    const double score = score_at(metric.name, at);
    const bool nearer = score == best_score && std::fabs(at.threshold - 0.5) < std::fabs(best - 0.5);
    if (score > best_score || nearer) {
      best_score = score;
      best = at.threshold;
    }
  }
  return best;
}

double threshold_by(const ThresholdRule& rule, const Array& predictions, const Truth& truth) {
  const int64_t n = predictions.shape()[0];
  const auto* const labels = truth.labels.data<int64_t>();
  if (std::find(labels, labels + n, 1) == labels + n) {
    fail(ErrorKind::data, "--threshold", rule.metric, "=", rule.least,
         " cannot be met: the validation set has no sample of the second class");
  }
  const bool of_recall = rule.metric == "recall";
  const auto figure = [&](const Operating& o) { return of_recall ? o.recall() : o.precision(); };
  const auto other = [&](const Operating& o) { return of_recall ? o.precision() : o.recall(); };
  const Operating *chosen = nullptr, *nearest = nullptr;
  const std::vector<Operating> points = operating_points(predictions, truth);
  constexpr double kRounding = 1e-12;  // 19 of 20 are at least 0.95
  for (const Operating& o : points) {
    if (!nearest || figure(o) > figure(*nearest)) nearest = &o;
    if (figure(o) < rule.least - kRounding) continue;
    const bool better =
        chosen && (other(o) > other(*chosen) || (other(o) == other(*chosen) && figure(o) > figure(*chosen)));
    if (!chosen || better) chosen = &o;
  }
  if (!chosen) {
    fail(ErrorKind::data, "--threshold", rule.metric, "=", rule.least, " cannot be met on the validation set",
         nearest ? cat(": the best ", rule.metric, " is ", fixed(figure(*nearest), 4), ", with a ",
                       of_recall ? "precision" : "recall", " of ", fixed(other(*nearest), 4))
                 : ": all samples have probability 0");
  }
  return std::clamp(chosen->threshold, std::numeric_limits<double>::min(), 1 - std::numeric_limits<double>::epsilon());
}

double chosen_threshold(const std::string& rule, const Metric& metric, const Array& predictions, const Truth& truth) {
  return rule.empty() ? best_threshold(metric, predictions, truth)
                      : threshold_by(parse_threshold_rule(rule), predictions, truth);
}

std::vector<double> label_thresholds(const std::string& rule, const Array& predictions, const Truth& truth,
                                     std::vector<UnmetLabel>& unmet) {
  std::vector<double> thresholds;
  for (int64_t label = 0; label < predictions.shape()[1]; ++label) {
    const auto [two, one] = label_as_classes(predictions, truth, label);
    double threshold = 0.5;
    try {
      threshold = chosen_threshold(rule, {.name = "f1", .higher = true}, two, one);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::data) throw;
      unmet.push_back({label, e.what()});
    }
    thresholds.push_back(threshold);
  }
  return thresholds;
}

double best_temperature(const Array& predictions, const Truth& truth) {
  const int64_t n = predictions.shape()[0], k = predictions.shape()[1];
  const auto* const labels = truth.labels.data<int64_t>();
  bool all_right = true;
  std::vector<double> logs(static_cast<size_t>(predictions.numel()));
  for (int64_t i = 0; i < n; ++i) {
    const float* const p = predictions.data<float>() + i * k;
    all_right = all_right && std::max_element(p, p + k) - p == labels[i];
    for (int64_t c = 0; c < k; ++c) {
      logs[static_cast<size_t>(i * k + c)] =
          std::log(static_cast<double>(std::max(p[c], std::numeric_limits<float>::min())));
    }
  }
  if (n == 0 || all_right) return 1;
  // Newton's method on 1 / T, in which the log loss is convex.
  constexpr double kLeast = 0.05, kMost = 20;
  double inverse = 1;
  for (int round = 0; round < 50; ++round) {
    double slope = 0, curvature = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double* const z = logs.data() + i * k;
      double sum = 0, mean = 0, square = 0;
      const double most = *std::max_element(z, z + k);
      for (int64_t c = 0; c < k; ++c) {
        const double e = std::exp((z[c] - most) * inverse);
        sum += e;
        mean += e * z[c];
        square += e * z[c] * z[c];
      }
      mean /= sum;
      slope += weight_at(truth, i) * (mean - z[labels[i]]);
      curvature += weight_at(truth, i) * std::max(square / sum - mean * mean, 0.0);
    }
    if (!(curvature > 0)) break;
    const double next =
        std::clamp(inverse - slope / curvature, std::max(1 / kMost, inverse / 4), std::min(1 / kLeast, inverse * 4));
    const bool settled = std::fabs(next - inverse) < 1e-10 * inverse;
    inverse = next;
    if (settled) break;
  }
  return 1 / inverse;
}

}  // namespace freight::metrics
