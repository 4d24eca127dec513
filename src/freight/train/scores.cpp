// See scores.h.
#include "freight/train/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "freight/base/philox.h"

namespace freight::train {

namespace {

struct Named {
  const char* name;
  std::optional<double> value;
};

// Computes scores where row i counts `times[i]` times; what does not depend on these is prepared once.
class Scorer {
 public:
  Scorer(const Array& answers, const Array& labels)
      : n_(answers.shape()[0]), k_(answers.shape()[1]), answers_(answers) {
    if (labels.dtype() != DType::i64) {
      values_ = labels.data<float>();
      return;
    }
    classes_ = labels.data<int64_t>();
    for (int64_t i = 0; i < n_; ++i) {
      const float* const y = row(i);
      told_.push_back(std::max_element(y, y + k_) - y);
    }
    if (k_ != 2) return;
    ascending_.resize(static_cast<size_t>(n_));
    std::iota(ascending_.begin(), ascending_.end(), int64_t{0});
    std::stable_sort(ascending_.begin(), ascending_.end(), [&](int64_t a, int64_t b) { return row(a)[1] < row(b)[1]; });
  }

  std::vector<Named> at(const std::vector<int>& times) const {
    if (!classes_) return of_values(times);
    const double total = std::accumulate(times.begin(), times.end(), 0.0);
    double right = 0, loss = 0;
    for (int64_t i = 0; i < n_; ++i) {
      const auto count = static_cast<double>(times[static_cast<size_t>(i)]);
      right += told_[static_cast<size_t>(i)] == classes_[i] ? count : 0;
      loss -= count * std::log(static_cast<double>(std::max(row(i)[classes_[i]], std::numeric_limits<float>::min())));
    }
    std::vector<Named> scores;
    if (k_ == 2) scores.push_back({"auc", area(times)});
    scores.push_back(f1(times));
    scores.push_back({"accuracy", right / total});
    scores.push_back({"log_loss", loss / total});
    return scores;
  }

 private:
  const float* row(int64_t i) const { return answers_.data<float>() + i * k_; }

  // The share of pairs of one row of either class in which the second class is thought more likely in its own; equal
  // ones count half.
  std::optional<double> area(const std::vector<int>& times) const {
    double below = 0, pairs = 0, positive = 0;
    for (size_t first = 0; first < ascending_.size();) {
      double equal[2] = {};
      size_t last = first;
      for (; last < ascending_.size() && row(ascending_[last])[1] == row(ascending_[first])[1]; ++last) {
        equal[classes_[ascending_[last]]] += times[static_cast<size_t>(ascending_[last])];
      }
      pairs += equal[1] * (below + equal[0] / 2);
      below += equal[0];
      positive += equal[1];
      first = last;
    }
    if (below == 0 || positive == 0) return std::nullopt;
    return pairs / below / positive;
  }

  // The harmonic mean of precision and recall: of the second of two classes, or the mean over all that are there.
  Named f1(const std::vector<int>& times) const {
    std::vector<double> right(static_cast<size_t>(k_)), told(right), there(right);
    for (int64_t i = 0; i < n_; ++i) {
      const auto count = static_cast<double>(times[static_cast<size_t>(i)]);
      const auto said = static_cast<size_t>(told_[static_cast<size_t>(i)]), is = static_cast<size_t>(classes_[i]);
      told[said] += count;
      there[is] += count;
      if (said == is) right[is] += count;
    }
    const auto of = [&](size_t c) -> std::optional<double> {
      if (told[c] + there[c] == 0) return std::nullopt;
      return 2 * right[c] / (told[c] + there[c]);
    };
    if (k_ == 2) return {"f1", of(1)};
    double sum = 0;
    int count = 0;
    for (size_t c = 0; c < right.size(); ++c) {
      const std::optional<double> one = of(c);
      sum += one.value_or(0);
      count += one.has_value();
    }
    return {"macro_f1", sum / std::max(count, 1)};
  }

  std::vector<Named> of_values(const std::vector<int>& times) const {
    double total = 0, sum = 0, squares = 0, wrong = 0, absolute = 0;
    for (int64_t i = 0; i < n_; ++i) {
      const auto count = static_cast<double>(times[static_cast<size_t>(i)]), v = static_cast<double>(values_[i]);
      const double error = static_cast<double>(row(i)[0]) - v;
      total += count;
      sum += count * v;
      wrong += count * error * error;
      absolute += count * std::fabs(error);
    }
    for (int64_t i = 0; i < n_; ++i) {
      const double away = static_cast<double>(values_[i]) - sum / total;
      squares += static_cast<double>(times[static_cast<size_t>(i)]) * away * away;
    }
    const std::optional<double> explained = squares > 0 ? std::optional(1 - wrong / squares) : std::nullopt;
    return {{"rmse", std::sqrt(wrong / total)}, {"mae", absolute / total}, {"r2", explained}};
  }

  int64_t n_, k_;
  const Array& answers_;
  const int64_t* classes_ = nullptr;
  const float* values_ = nullptr;
  std::vector<int64_t> told_;       // the likeliest class of each row
  std::vector<int64_t> ascending_;  // rows by the probability of the second of two classes
};

// Drawn numbers that leave out so much on either side have 95 % between.
constexpr double kTail = 0.025;

}  // namespace

std::vector<Score> scores_of(const Array& answers, const Array& labels, int draws) {
  const int64_t n = answers.shape()[0];
  std::vector<Score> scores;
  if (n == 0) return scores;
  const Scorer scorer(answers, labels);
  const std::vector<Named> whole = scorer.at(std::vector<int>(static_cast<size_t>(n), 1));
  std::vector<std::vector<double>> drawn(whole.size());
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<int> times(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      const auto u = static_cast<double>(random_uniform(0, static_cast<uint64_t>(draw), 0, static_cast<uint64_t>(i)));
      ++times[static_cast<size_t>(std::min(static_cast<int64_t>(u * static_cast<double>(n)), n - 1))];
    }
    const std::vector<Named> again = scorer.at(times);
    for (size_t s = 0; s < again.size(); ++s) {
      if (again[s].value) drawn[s].push_back(*again[s].value);
    }
  }
  for (size_t s = 0; s < whole.size(); ++s) {
    if (!whole[s].value) continue;
    Score score{.name = whole[s].name, .value = *whole[s].value, .low = *whole[s].value, .high = *whole[s].value};
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

}  // namespace freight::train
