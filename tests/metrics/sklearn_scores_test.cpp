// The metrics of 1,200 random cases against scikit-learn's (sklearn_scores.py): equal predictions, weights, one class,
// several labels or values per sample.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "freight/metrics/scores.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"

namespace freight::metrics {
namespace {

// The generator of sklearn_scores.py.
struct Draws {
  uint64_t state;
  uint64_t below(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  }
};

struct Case {
  int64_t classes = 0;
  bool labels = false;
  Array predictions, truths, weights;
};

Case case_of(uint64_t number) {
  Draws d{number};
  const auto n = static_cast<int64_t>(2 + d.below(38));
  const uint64_t kind = d.below(10);
  Case c;
  c.classes = kind < 5 ? 2 : kind < 9 ? static_cast<int64_t>(3 + d.below(5)) : 0;
  const bool one_class = d.below(12) == 0, one_prediction = d.below(12) == 0;
  const int64_t k = std::max<int64_t>(c.classes, 1);
  c.predictions = Array(DType::f32, {n, k});
  c.truths = Array(c.classes > 0 ? DType::i64 : DType::f32, {n});
  c.weights = Array(DType::f32, {n});
  for (int64_t i = 0; i < n; ++i) {
    float* const row = c.predictions.data<float>() + i * k;
    if (c.classes == 0) {
      row[0] = static_cast<float>(d.below(40)) / 4;
      c.truths.data<float>()[i] = static_cast<float>(d.below(40)) / 4;
    } else {
      for (int64_t j = 0; j < k; ++j) row[j] = static_cast<float>(1 + d.below(6));
      if (one_prediction) row[0] = 50;
      float sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += row[j];
      for (int64_t j = 0; j < k; ++j) row[j] /= sum;
      c.truths.data<int64_t>()[i] = one_class ? 0 : static_cast<int64_t>(d.below(static_cast<uint64_t>(k)));
    }
    c.weights.data<float>()[i] = number % 2 == 1 ? static_cast<float>(1 + d.below(8)) / 4 : 1;
  }
  return c;
}

Case case_of_several(uint64_t number) {
  Draws d{number};
  const auto n = static_cast<int64_t>(8 + d.below(32)), k = static_cast<int64_t>(2 + d.below(4));
  Case c;
  c.labels = d.below(2) == 0;
  const auto rare = static_cast<int64_t>(d.below(6));
  c.predictions = Array(DType::f32, {n, k});
  c.truths = Array(c.labels ? DType::u8 : DType::f32, {n, k});
  c.weights = Array(DType::f32, {n});
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      c.predictions.data<float>()[i * k + j] =
          c.labels ? static_cast<float>(1 + d.below(62)) / 64 : static_cast<float>(d.below(40)) / 4;
    }
    for (int64_t j = 0; j < k; ++j) {
      if (c.labels) {
        const bool has = d.below(3) == 0;
        c.truths.data<uint8_t>()[i * k + j] = has && j != rare ? 1 : 0;
      } else {
        c.truths.data<float>()[i * k + j] = static_cast<float>(d.below(40)) / 4;
      }
    }
    c.weights.data<float>()[i] = number % 2 == 1 ? static_cast<float>(1 + d.below(8)) / 4 : 1;
  }
  return c;
}

TEST(SklearnScores, AreEqualInRandomCases) {
  const auto expected =
      nlohmann::json::parse(freight::testing::read_text(source_dir() + "/tests/metrics/sklearn_scores.json"));
  constexpr uint64_t kCases = 1000;
  ASSERT_EQ(expected.size(), kCases + 200);
  int64_t compared = 0;
  for (uint64_t number = 0; number < expected.size(); ++number) {
    const Case c = number < kCases ? case_of(number) : case_of_several(number);
    Truth truth(c.truths);
    if (number % 2 == 1) truth.weights = c.weights;
    const Target target{.classes = static_cast<size_t>(c.classes), .labels = c.labels};
    for (const std::string& name : metric_names()) {
      if (name == "auto" || name.find("deviance") != std::string::npos || name == "quantile_loss") {
        continue;
      }
      Metric metric;
      try {
        metric = metric_named(name, target);
      } catch (const Error&) {  // of another kind of label
        continue;
      }
      const std::optional<double> got = score_of(metric, c.predictions, truth);
      const auto want = expected[number].find(name);
      ASSERT_EQ(got.has_value(), want != expected[number].end()) << "case " << number << ", " << name;
      if (!got) continue;
      ++compared;
      EXPECT_NEAR(*got, want->get<double>(), 1e-9 * std::max(1.0, std::fabs(*got)))
          << "case " << number << ", " << name;
    }
  }
  EXPECT_GT(compared, 7000);
}

}  // namespace
}  // namespace freight::metrics
