// 95 % intervals hold the true figure in 93 to 97 % of 1,000 simulated sets; of too few samples there are none.
#include "freight/metrics/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "freight/base/philox.h"
#include "freight/metrics/scores.h"

namespace freight::metrics {
namespace {

// Samples whose probabilities are the true ones: of a score that is normal around `apart` in the second class.
struct Population {
  double rare = 0.2, apart = 1.5;

  // The predictions f32 (N, 2) and labels of so many samples.
  std::pair<Array, Array> draw(uint64_t seed, int64_t n) const {
    PhiloxStream random(seed, 1, 2);
    Array predictions(DType::f32, {n, 2}), labels(DType::i64, {n});
    for (int64_t i = 0; i < n; ++i) {
      const bool second = random.below(1000000) < static_cast<uint32_t>(1e6 * rare);
      const double score = static_cast<double>(random.normal()) + (second ? apart : 0);
      const double logit = apart * score - apart * apart / 2 + std::log(rare / (1 - rare));
      const double p = 1 / (1 + std::exp(-logit));
      predictions.data<float>()[2 * i] = static_cast<float>(1 - p);
      predictions.data<float>()[2 * i + 1] = static_cast<float>(p);
      labels.data<int64_t>()[i] = second ? 1 : 0;
    }
    return {predictions, labels};
  }
};

int64_t rarer(const Array& labels) {
  int64_t second = 0;
  for (int64_t i = 0; i < labels.numel(); ++i) second += labels.data<int64_t>()[i];
  return std::min(second, labels.numel() - second);
}

void expect_coverage(const Population& population, int64_t n, int draws) {
  std::map<std::string, double> truth;
  const auto [all, all_labels] = population.draw(99, 400000);
  for (const Score& s : scores_of(all, all_labels, {.first = {.name = "mcc", .higher = true}, .draws = 0})) {
    truth[s.name] = s.value;
  }
  std::map<std::string, int> held;
  constexpr int kSets = 1000;
  uint64_t seed = 1000;
  for (int set = 0; set < kSets;) {
    const auto [predictions, labels] = population.draw(seed++, n);
    if (rarer(labels) < 20) continue;
    ++set;
    for (const Score& s : scores_of(predictions, labels, {.first = {.name = "mcc", .higher = true}, .draws = draws})) {
      if (s.interval == Score::Interval::none) continue;
      ASSERT_EQ(s.interval, Score::Interval::known) << s.name;
      held[s.name] += s.low <= truth[s.name] && truth[s.name] <= s.high;
    }
  }
  for (const char* name :
       {"auc", "average_precision", "f1", "precision", "recall", "accuracy", "balanced_accuracy", "mcc", "log_loss"}) {
    EXPECT_GE(held[name], 0.93 * kSets) << name << " of " << n;
    EXPECT_LE(held[name], 0.97 * kSets) << name << " of " << n;
  }
}

TEST(Intervals, HoldTheTruthInNineteenOfTwentySetsOfTwoHundred) { expect_coverage({}, 200, 400); }
TEST(Intervals, HoldTheTruthInNineteenOfTwentySetsOfAThousand) {
  expect_coverage({.rare = 0.1, .apart = 2}, 1000, 200);
}

TEST(Intervals, ThereIsNoneOfTooFewSamples) {
  const auto [predictions, labels] = Population{.rare = 0.05}.draw(5, 200);
  ASSERT_LT(rarer(labels), 20);
  for (const Score& s : scores_of(predictions, labels)) {
    const bool of_all = s.name == "accuracy" || s.name == "log_loss";
    if (of_all || s.name == "ece") continue;
    EXPECT_EQ(s.interval, Score::Interval::too_few) << s.name;
    EXPECT_NE(interval_text(s).find("too few samples"), std::string::npos);
  }
}

TEST(Intervals, OfSharesAreWilsons) {
  const Bounds b = share_bounds(0.9, 20);  // 0.699 to 0.972 in Newcombe's tables
  EXPECT_NEAR(b.low, 0.6990, 5e-4);
  EXPECT_NEAR(b.high, 0.9721, 5e-4);
  EXPECT_EQ(share_bounds(1, 10).high, 1);
  EXPECT_NEAR(share_bounds(1, 10).low, 0.7225, 5e-4);
  EXPECT_NEAR(mean_bounds({{0.9, 20}}).low, b.low, 1e-12);
}

}  // namespace
}  // namespace freight::metrics
