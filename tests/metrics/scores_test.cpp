// Scores of predictions: by hand, as scikit-learn defines them, and their intervals.
#include "freight/metrics/scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/metrics/decision.h"
#include "tests/support/files.h"

namespace freight::metrics {
namespace {

Array predictions_of(const std::vector<float>& v, int64_t k) {
  Array a(DType::f32, {static_cast<int64_t>(v.size()) / k, k});
  std::copy(v.begin(), v.end(), a.data<float>());
  return a;
}
Array classes_of(const std::vector<int64_t>& v) {
  Array a(DType::i64, {static_cast<int64_t>(v.size())});
  std::copy(v.begin(), v.end(), a.data<int64_t>());
  return a;
}
double score(const std::vector<Score>& scores, const std::string& name) {
  const auto at = std::find_if(scores.begin(), scores.end(), [&](const Score& s) { return s.name == name; });
  return at == scores.end() ? std::nan("") : at->value;
}

TEST(Scores, OfTwoClassesAreTheAreaAndF1) {
  // Probabilities of the second class 0.1 0.4 0.35 0.8 0.4, of which the second, fourth and fifth pair has a tie.
  const Array y = predictions_of({0.9f, 0.1f, 0.6f, 0.4f, 0.65f, 0.35f, 0.2f, 0.8f, 0.6f, 0.4f}, 2);
  const auto scores = scores_of(y, classes_of({0, 0, 1, 1, 1}));
  // Of six pairs, (0.35 | 0.1), (0.8 | 0.1), (0.8 | 0.4), (0.4 | 0.1) are right and (0.4 | 0.4) counts half.
  EXPECT_NEAR(score(scores, "auc"), 4.5 / 6, 1e-12);
  EXPECT_NEAR(score(scores, "f1"), 2 * 1.0 / (1 + 3), 1e-12);
  EXPECT_NEAR(score(scores, "accuracy"), 3.0 / 5, 1e-12);
  EXPECT_NEAR(score(scores, "log_loss"),
              -(std::log(0.9) + std::log(0.6) + std::log(0.35) + std::log(0.8) + std::log(0.4)) / 5, 1e-6);
  EXPECT_TRUE(std::isnan(score(scores_of(y, classes_of({1, 1, 1, 1, 1})), "auc")));
}

TEST(Scores, OfMoreClassesAreTheMeanOverThoseThatAreThere) {
  const Array y = predictions_of({1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0}, 4);
  const auto scores = scores_of(y, classes_of({0, 1, 2, 2}));
  EXPECT_NEAR(score(scores, "macro_f1"), (2.0 / 3 + 2.0 / 3 + 0) / 3, 1e-12);
  EXPECT_TRUE(std::isnan(score(scores, "auc")));
}

TEST(Scores, OfValuesAreErrorsAndTheShareThatIsExplained) {
  Array labels(DType::f32, {4});
  const float told[] = {1, 2, 3, 6};
  std::copy_n(told, 4, labels.data<float>());
  const auto scores = scores_of(predictions_of({1, 3, 3, 4}, 1), labels);
  EXPECT_NEAR(score(scores, "rmse"), std::sqrt(5.0 / 4), 1e-12);
  EXPECT_NEAR(score(scores, "mae"), 3.0 / 4, 1e-12);
  EXPECT_NEAR(score(scores, "r2"), 1 - 5.0 / 14, 1e-12);
  std::fill_n(labels.data<float>(), 4, 2.0f);
  EXPECT_TRUE(std::isnan(score(scores_of(predictions_of({1, 3, 3, 4}, 1), labels), "r2")));
  EXPECT_TRUE(scores_of(Array(DType::f32, {0, 1}), Array(DType::f32, {0})).empty());
}

TEST(Scores, AThresholdSaysFromWhereOnTheSecondClassIsTold) {
  const Array y = predictions_of({0.9f, 0.1f, 0.8f, 0.2f, 0.7f, 0.3f, 0.6f, 0.4f, 0.4f, 0.6f}, 2);
  const Array labels = classes_of({0, 0, 1, 0, 1});
  const Metric f1{.name = "f1", .higher = true}, accuracy{.name = "accuracy", .higher = true};
  EXPECT_NEAR(*score_of(f1, y, labels), 2.0 / 3, 1e-12);
  EXPECT_NEAR(*score_of(f1, y, labels, 0.25), 4.0 / 5, 1e-12);
  EXPECT_NEAR(best_threshold(f1, y, labels), 0.25, 1e-7);
  EXPECT_NEAR(best_threshold(accuracy, y, labels), 0.5, 1e-7) << "0.25 is as good, and farther away";
  const Array sure = predictions_of({0.9f, 0.1f, 0.3f, 0.7f, 0.2f, 0.8f}, 2);
  EXPECT_NEAR(best_threshold(accuracy, sure, classes_of({0, 0, 1})), 0.75, 1e-7);
  EXPECT_NEAR(best_threshold(f1, sure, classes_of({1, 1, 1})), 0.05, 1e-7) << "all are told";
  EXPECT_EQ(best_threshold(accuracy, sure, classes_of({0, 1, 1})), 0.5);
}

TEST(Scores, ThoseOfObjectivesAreAsScikitLearnHasThem) {
  const Array told = predictions_of({1, 3, 0.5f}, 1);
  Array labels(DType::f32, {3});
  const float truth[] = {2, 1, 0};
  std::copy_n(truth, 3, labels.data<float>());
  EXPECT_NEAR(*score_of({.name = "quantile_loss", .quantile = 0.9}, told, labels), (0.9 + 0.2 + 0.05) / 3, 1e-7);
  EXPECT_NEAR(*score_of({.name = "poisson_deviance"}, told, labels),
              2 * (2 * std::log(2.0) - 1 + std::log(1 / 3.0) + 2 + 0.5) / 3, 1e-7);
  // y^0.5 / (-0.25) + 2 y / m^0.5 + 2 m^0.5, doubled, where the power is 1.5.
  const double sum = -4 * std::sqrt(2.0) + 4 + 2 + -4 + 2 / std::sqrt(3.0) + 2 * std::sqrt(3.0) + 2 * std::sqrt(0.5);
  EXPECT_NEAR(*score_of({.name = "tweedie_deviance", .tweedie_power = 1.5}, told, labels), 2 * sum / 3, 1e-6);
}

TEST(Scores, ARowCountsAsOftenAsItsWeightSays) {
  // The figures are scikit-learn's with this sample_weight.
  const Array weights = Array::of<float>({2, 0.5f, 1, 3, 0}, {5});
  Truth classes(classes_of({0, 1, 1, 1, 0}));
  classes.weights = weights;
  const Array y = predictions_of({0.9f, 0.1f, 0.6f, 0.4f, 0.65f, 0.35f, 0.2f, 0.8f, 0.1f, 0.9f}, 2);
  const auto two = scores_of(y, classes);
  EXPECT_NEAR(score(two, "auc"), 1, 1e-12);
  EXPECT_NEAR(score(two, "f1"), 2 * 3 / (3 + 4.5), 1e-12);
  EXPECT_NEAR(score(two, "accuracy"), 5 / 6.5, 1e-12);
  EXPECT_NEAR(score(two, "log_loss"),
              -(2 * std::log(0.9) + 0.5 * std::log(0.4) + std::log(0.35) + 3 * std::log(0.8)) / 6.5, 1e-6);
  EXPECT_NEAR(best_threshold({.name = "accuracy", .higher = true}, y, classes), 0.225, 1e-7);

  Truth values(Array::of<float>({1, 2, 3, 6, 100}, {5}));
  values.weights = weights;
  const auto of_values =
      scores_of(predictions_of({1, 3, 3, 4, 0}, 1), values, {.first = {.name = "quantile_loss", .quantile = 0.9}});
  EXPECT_EQ(of_values[0].name, "quantile_loss");
  EXPECT_NEAR(of_values[0].value, (0.5 * 0.1 + 3 * 1.8) / 6.5, 1e-7) << "of the model's own quantile";
  EXPECT_NEAR(score(of_values, "rmse"), std::sqrt((0.5 + 12) / 6.5), 1e-7);
  EXPECT_NEAR(score(of_values, "mae"), 6.5 / 6.5, 1e-7);
  const double mean = (2 + 1 + 3 + 18) / 6.5;
  const double spread =
      2 * std::pow(1 - mean, 2) + 0.5 * std::pow(2 - mean, 2) + std::pow(3 - mean, 2) + 3 * std::pow(6 - mean, 2);
  EXPECT_NEAR(score(of_values, "r2"), 1 - 12.5 / spread, 1e-7);
}

TEST(Scores, AStoredMetricKeepsItsParameter) {
  for (const Metric& metric :
       {Metric{.name = "quantile_loss", .quantile = 0.05}, Metric{.name = "tweedie_deviance", .tweedie_power = 1.9},
        Metric{.name = "auc", .higher = true}, Metric{.name = "ndcg@3", .higher = true}}) {
    std::map<std::string, std::string> entries;
    write_metric(metric, entries);
    const std::optional<Metric> read = read_metric(entries);
    ASSERT_TRUE(read) << metric.name;
    EXPECT_EQ(read->name, metric.name);
    EXPECT_EQ(read->higher, metric.higher);
    EXPECT_EQ(read->quantile, metric.quantile);
    EXPECT_EQ(read->tweedie_power, metric.tweedie_power);
  }
  EXPECT_FALSE(read_metric({}));
  EXPECT_FALSE(read_metric({{"metric", "quantile_loss"}})) << "of an early file, which does not say its quantile";
}

TEST(Scores, WhatCannotBeMeasuredIsSaid) {
  const Array y = predictions_of({0.9f, 0.1f, 0.4f, 0.6f}, 2), values = predictions_of({1, -2}, 1);
  const auto expect_note = [](const std::vector<std::string>& notes, const char* text) {
    EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [&](const auto& n) { return n.find(text) != n.npos; })) << text;
  };
  expect_note(notes_on_scores(y, classes_of({1, 1})), "auc is not defined: all rows are of one class");
  expect_note(notes_on_scores(values, Array::of<float>({2, 2}, {2})), "r2 is not defined");
  EXPECT_TRUE(notes_on_scores(y, classes_of({0, 1})).empty());
  const ScoreOptions deviance{.first = {.name = "poisson_deviance"}};
  expect_note(notes_on_scores(values, Array::of<float>({2, 3}, {2}), deviance), "1 prediction is 0 or below");
  testing::expect_error(ErrorKind::data, {"poisson_deviance", "got a target of -1"}, [&] {
    scores_of(values, Array::of<float>({2, -1}, {2}), deviance);
  });
}

TEST(Scores, TheFirstMetricIsTheOneThatIsAskedFor) {
  const Array y = predictions_of({0.9f, 0.1f, 0.4f, 0.6f}, 2);
  EXPECT_EQ(scores_of(y, classes_of({0, 1}), {.first = {.name = "accuracy"}}).front().name, "accuracy");
  EXPECT_EQ(scores_of(y, classes_of({0, 1})).front().name, "auc");
}

TEST(Scores, IntervalsAreThoseOfTheBinomialDistribution) {
  constexpr int64_t kRows = 1000;
  Array y(DType::f32, {kRows, 2}), labels(DType::i64, {kRows});
  for (int64_t i = 0; i < kRows; ++i) {
    labels.data<int64_t>()[i] = i % 2;
    const bool right = i % 10 != 0 && i % 10 != 1;  // 80 %
    y.data<float>()[2 * i + ((i % 2 == 1) == right ? 1 : 0)] = 1;
  }
  for (const Score& s : scores_of(y, labels)) {
    if (s.name != "accuracy") continue;
    const double half = 1.96 * std::sqrt(0.8 * 0.2 / kRows);
    EXPECT_NEAR(s.low, 0.8 - half, half / 4);
    EXPECT_NEAR(s.high, 0.8 + half, half / 4);
  }
}

}  // namespace
}  // namespace freight::metrics
