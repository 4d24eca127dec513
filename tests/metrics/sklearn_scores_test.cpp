// The metrics of 1,000 random cases against scikit-learn's (sklearn_scores.py): equal answers, weights, one class.
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
  Array answers, labels, weights;
};

Case case_of(uint64_t number) {
  Draws d{number};
  const auto n = static_cast<int64_t>(2 + d.below(38));
  const uint64_t kind = d.below(10);
  Case c;
  c.classes = kind < 5 ? 2 : kind < 9 ? static_cast<int64_t>(3 + d.below(5)) : 0;
  const bool one_class = d.below(12) == 0, one_answer = d.below(12) == 0;
  const int64_t k = std::max<int64_t>(c.classes, 1);
  c.answers = Array(DType::f32, {n, k});
  c.labels = Array(c.classes > 0 ? DType::i64 : DType::f32, {n});
  c.weights = Array(DType::f32, {n});
  for (int64_t i = 0; i < n; ++i) {
    float* const row = c.answers.data<float>() + i * k;
    if (c.classes == 0) {
      row[0] = static_cast<float>(d.below(40)) / 4;
      c.labels.data<float>()[i] = static_cast<float>(d.below(40)) / 4;
    } else {
      for (int64_t j = 0; j < k; ++j) row[j] = static_cast<float>(1 + d.below(6));
      if (one_answer) row[0] = 50;
      float sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += row[j];
      for (int64_t j = 0; j < k; ++j) row[j] /= sum;
      c.labels.data<int64_t>()[i] = one_class ? 0 : static_cast<int64_t>(d.below(static_cast<uint64_t>(k)));
    }
    c.weights.data<float>()[i] = number % 2 == 1 ? static_cast<float>(1 + d.below(8)) / 4 : 1;
  }
  return c;
}

TEST(SklearnScores, AreEqualInAThousandRandomCases) {
  const auto expected =
      nlohmann::json::parse(freight::testing::read_text(source_dir() + "/tests/metrics/sklearn_scores.json"));
  ASSERT_EQ(expected.size(), 1000u);
  int64_t compared = 0;
  for (uint64_t number = 0; number < expected.size(); ++number) {
    const Case c = case_of(number);
    Truth truth(c.labels);
    if (number % 2 == 1) truth.weights = c.weights;
    const Target target{.classes = static_cast<size_t>(c.classes)};
    for (const std::string& name : metric_names()) {
      if (name == "auto" || name == "ece" || name.find("deviance") != std::string::npos || name == "quantile_loss") {
        continue;
      }
      Metric metric;
      try {
        metric = metric_named(name, target);
      } catch (const Error&) {  // of another kind of label
        continue;
      }
      const std::optional<double> got = score_of(metric, c.answers, truth);
      const auto want = expected[number].find(name);
      ASSERT_EQ(got.has_value(), want != expected[number].end()) << "case " << number << ", " << name;
      if (!got) continue;
      ++compared;
      EXPECT_NEAR(*got, want->get<double>(), 1e-9 * std::max(1.0, std::fabs(*got)))
          << "case " << number << ", " << name;
    }
  }
  EXPECT_GT(compared, 6000);
}

}  // namespace
}  // namespace freight::metrics
