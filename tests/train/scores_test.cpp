// Scores of answers: by hand, as scikit-learn defines them, and their intervals.
#include "freight/train/scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace freight::train {
namespace {

Array answers_of(const std::vector<float>& v, int64_t k) {
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
  const Array y = answers_of({0.9f, 0.1f, 0.6f, 0.4f, 0.65f, 0.35f, 0.2f, 0.8f, 0.6f, 0.4f}, 2);
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
  const Array y = answers_of({1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0}, 4);
  const auto scores = scores_of(y, classes_of({0, 1, 2, 2}));
  EXPECT_NEAR(score(scores, "macro_f1"), (2.0 / 3 + 2.0 / 3 + 0) / 3, 1e-12);
  EXPECT_TRUE(std::isnan(score(scores, "auc")));
}

TEST(Scores, OfValuesAreErrorsAndTheShareThatIsExplained) {
  Array labels(DType::f32, {4});
  const float told[] = {1, 2, 3, 6};
  std::copy_n(told, 4, labels.data<float>());
  const auto scores = scores_of(answers_of({1, 3, 3, 4}, 1), labels);
  EXPECT_NEAR(score(scores, "rmse"), std::sqrt(5.0 / 4), 1e-12);
  EXPECT_NEAR(score(scores, "mae"), 3.0 / 4, 1e-12);
  EXPECT_NEAR(score(scores, "r2"), 1 - 5.0 / 14, 1e-12);
  std::fill_n(labels.data<float>(), 4, 2.0f);
  EXPECT_TRUE(std::isnan(score(scores_of(answers_of({1, 3, 3, 4}, 1), labels), "r2")));
  EXPECT_TRUE(scores_of(Array(DType::f32, {0, 1}), Array(DType::f32, {0})).empty());
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
}  // namespace freight::train
