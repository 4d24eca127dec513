// Curves and calibration of classifiers, computed by hand.
#include "freight/metrics/curves.h"

#include <gtest/gtest.h>

#include <cmath>

#include "freight/metrics/scores.h"

namespace freight::metrics {
namespace {

TEST(Curves, AreThoseOfAHandfulOfSamples) {
  // By falling score: +, -, + and -, (equal), -.
  const ThresholdCurves c = threshold_curves({{0.9f, true}, {0.8f, false}, {0.5f, true}, {0.5f, false}, {0.1f, false}});
  EXPECT_EQ(c.positives, 2);
  EXPECT_NEAR(c.area, (3 + 1.5) / 6, 1e-12) << "pairs in the right order, equal ones half";
  EXPECT_NEAR(c.average_precision, 0.5 * 1 + 0.5 * 0.5, 1e-12);
  ASSERT_EQ(c.roc.size(), 5u);
  EXPECT_NEAR(c.roc[2].x, 1.0 / 3, 1e-12);
  EXPECT_NEAR(c.roc[2].y, 0.5, 1e-12);
  EXPECT_NEAR(c.roc.back().x + c.roc.back().y, 2, 1e-12);
  EXPECT_TRUE(threshold_curves({{0.1f, true}}).roc.empty());
}

TEST(Curves, TheAreaIsThatOfEval) {
  Array predictions(DType::f32, {200, 2}), labels(DType::i64, {200});
  std::vector<Scored> scored;
  for (int64_t i = 0; i < 200; ++i) {
    const float p = static_cast<float>(i * 37 % 101) / 101;
    labels.data<int64_t>()[i] = i * 13 % 7 < 3 + (p > 0.5f ? 2 : 0) ? 1 : 0;
    predictions.data<float>()[2 * i] = 1 - p;
    predictions.data<float>()[2 * i + 1] = p;
    scored.push_back({p, labels.data<int64_t>()[i] == 1});
  }
  const std::vector<Score> scores = scores_of(predictions, labels, {.draws = 1});
  ASSERT_EQ(scores[0].name, "auc");
  EXPECT_NEAR(threshold_curves(scored).area, scores[0].value, 1e-12);
}

TEST(Curves, CalibrationIsOffByWhatIsToldTooMuch) {
  Calibration c;
  for (int i = 0; i < 10; ++i) c.take(0.95f, i < 7);
  for (int i = 0; i < 30; ++i) c.take(0.1f, i < 3);
  c.take(1.0f, true);
  ASSERT_EQ(c.bins().size(), 2u);
  EXPECT_EQ(c.bins()[1].samples, 11) << "1 is in the last part";
  EXPECT_NEAR(c.bins()[0].found, 0.1, 1e-12);
  EXPECT_NEAR(c.error(), (11 * std::fabs((9.5 + 1) / 11 - 8.0 / 11)) / 41, 1e-6);
}

}  // namespace
}  // namespace freight::metrics
