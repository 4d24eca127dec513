// Thresholds by a rule, and temperatures: the best of all, by trying them.
#include "freight/metrics/decision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "freight/base/philox.h"
#include "tests/support/files.h"

namespace freight::metrics {
namespace {

using freight::testing::expect_error;

struct Predictions {
  Array predictions, labels;
};

// Probabilities of a step of 1 / `levels`, so that many are equal.
Predictions random_predictions(uint64_t seed, int64_t n, int levels) {
  PhiloxStream random(seed, 0, 0);
  Predictions p{Array(DType::f32, {n, 2}), Array(DType::i64, {n})};
  for (int64_t i = 0; i < n; ++i) {
    const auto second =
        static_cast<float>(random.below(static_cast<uint32_t>(levels)) + 1) / static_cast<float>(levels + 1);
    p.predictions.data<float>()[2 * i] = 1 - second;
    p.predictions.data<float>()[2 * i + 1] = second;
    p.labels.data<int64_t>()[i] = random.below(1000) < static_cast<uint32_t>(800 * second) ? 1 : 0;
  }
  return p;
}

// Recall and precision of the second class above a threshold.
std::pair<double, double> figures(const Predictions& p, double threshold) {
  double right = 0, told = 0, positives = 0;
  for (int64_t i = 0; i < p.labels.numel(); ++i) {
    const bool says = p.predictions.data<float>()[2 * i + 1] > threshold, is = p.labels.data<int64_t>()[i] == 1;
    right += says && is;
    told += says;
    positives += is;
  }
  return {right / positives, told > 0 ? right / told : 0};
}

TEST(Threshold, MeetsItsRuleWithTheBestOtherFigure) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Predictions p = random_predictions(seed, 80, 12);
    if (figures(p, 0).first != 1) continue;  // no sample of the second class
    for (const bool of_recall : {true, false}) {
      const double least = of_recall ? 0.8 : 0.5;
      double best = -1;
      for (double t = 0.0001; t < 1; t += 0.01) {
        const auto [recall, precision] = figures(p, t);
        if ((of_recall ? recall : precision) >= least) best = std::max(best, of_recall ? precision : recall);
      }
      const ThresholdRule rule{of_recall ? "recall" : "precision", least};
      if (best < 0) {
        expect_error(ErrorKind::data, {"--threshold", "cannot be met"},
                     [&] { threshold_by(rule, p.predictions, p.labels); });
        continue;
      }
      const auto [recall, precision] = figures(p, threshold_by(rule, p.predictions, p.labels));
      EXPECT_GE(of_recall ? recall : precision, least);
      EXPECT_NEAR(of_recall ? precision : recall, best, 1e-12);
    }
  }
}

TEST(Threshold, GivesAwayNothingOfItsFigureWithoutNeed) {
  const Array predictions = Array::of<float>({0.9f, 0.1f, 0.8f, 0.2f, 0.3f, 0.7f, 0.1f, 0.9f}, {4, 2});
  const Array labels = Array::of<int64_t>({0, 0, 1, 1}, {4});
  EXPECT_NEAR(threshold_by({"recall", 0.5}, predictions, labels), 0.45, 1e-6) << "precision 1 with recall 1, not 0.5";
  EXPECT_NEAR(threshold_by({"precision", 0.5}, predictions, labels), 0.45, 1e-6);
}

// Two labels of the same rows: each has the threshold that it would have as the second of two classes.
TEST(Threshold, OfEachLabelIsThatOfTheLabelAlone) {
  const Predictions a = random_predictions(3, 200, 40), b = random_predictions(4, 200, 40);
  Array predictions(DType::f32, {200, 2}), labels(DType::u8, {200, 2});
  for (int64_t i = 0; i < 200; ++i) {
    for (const auto& [c, p] : {std::pair{0, &a}, {1, &b}}) {
      predictions.data<float>()[2 * i + c] = p->predictions.data<float>()[2 * i + 1];
      labels.data<uint8_t>()[2 * i + c] = static_cast<uint8_t>(p->labels.data<int64_t>()[i]);
    }
  }
  std::vector<UnmetLabel> unmet;
  EXPECT_EQ(label_thresholds("recall=0.9", predictions, labels, unmet),
            (std::vector{threshold_by({"recall", 0.9}, a.predictions, a.labels),
                         threshold_by({"recall", 0.9}, b.predictions, b.labels)}));
  EXPECT_TRUE(unmet.empty());
  // Without a rule the mean of f1 is the best that any thresholds give.
  const Metric macro{.name = "macro_f1", .higher = true};
  const std::vector<double> best = label_thresholds("", predictions, labels, unmet);
  const double score = *score_of(macro, predictions, labels, {std::nullopt, best});
  for (const double first : {0.2, 0.35, 0.5, 0.65, 0.8}) {
    for (const double second : {0.2, 0.35, 0.5, 0.65, 0.8}) {
      EXPECT_GE(score, *score_of(macro, predictions, labels, {std::nullopt, {first, second}}) - 1e-12);
    }
  }
  EXPECT_GT(score, *score_of(macro, predictions, labels));
  // A label that no row has keeps 0.5.
  for (int64_t i = 0; i < 200; ++i) labels.data<uint8_t>()[2 * i + 1] = 0;
  EXPECT_EQ(label_thresholds("recall=0.9", predictions, labels, unmet)[1], 0.5);
  ASSERT_EQ(unmet.size(), 1u);
  EXPECT_EQ(unmet[0].label, 1);
  EXPECT_NE(unmet[0].why.find("recall=0.9 cannot be met"), std::string::npos) << unmet[0].why;
}

TEST(Threshold, IsReadOrRefused) {
  EXPECT_EQ(parse_threshold_rule("recall=0.95").least, 0.95);
  EXPECT_EQ(parse_threshold_rule("precision=1").metric, "precision");
  for (const char* bad : {"recall", "recall=", "recall=0", "recall=1.1", "recall=nan", "f1=0.5", "=0.5"}) {
    expect_error(ErrorKind::usage, {"--threshold", "recall=R"}, [&] { parse_threshold_rule(bad); });
  }
  const Predictions p = random_predictions(1, 10, 5);
  const Array none = Array::of<int64_t>(std::vector<int64_t>(10, 0), {10});
  expect_error(ErrorKind::data, {"--threshold", "no sample of the second class"}, [&] {
    threshold_by({"recall", 0.5}, p.predictions, none);
  });
}

TEST(Temperature, IsWhatTheLogitsWereMultipliedBy) {
  constexpr int64_t kCount = 4000, kClasses = 5;
  for (const double sharpened : {0.4, 1.0, 3.0}) {
    PhiloxStream random(7, 0, 0);
    Array predictions(DType::f32, {kCount, kClasses}), labels(DType::i64, {kCount});
    for (int64_t i = 0; i < kCount; ++i) {
      double logits[kClasses], sum = 0, told_sum = 0;
      for (double& z : logits) sum += std::exp(z = static_cast<double>(random.normal()));
      double u = static_cast<double>(random.below(1 << 20)) / (1 << 20) * sum;
      int64_t label = 0;
      while (label + 1 < kClasses && (u -= std::exp(logits[label])) > 0) ++label;
      labels.data<int64_t>()[i] = label;
      for (const double z : logits) told_sum += std::exp(sharpened * z);
      for (int64_t c = 0; c < kClasses; ++c) {
        predictions.data<float>()[i * kClasses + c] = static_cast<float>(std::exp(sharpened * logits[c]) / told_sum);
      }
    }
    EXPECT_NEAR(best_temperature(predictions, labels) / sharpened, 1, 0.08);
  }
}

TEST(Temperature, IsOneWhereNoneIsTheBest) {
  const Array predictions = Array::of<float>({0.9f, 0.1f, 0.2f, 0.8f}, {2, 2}), right = Array::of<int64_t>({0, 1}, {2});
  EXPECT_EQ(best_temperature(predictions, right), 1);
}

}  // namespace
}  // namespace freight::metrics
