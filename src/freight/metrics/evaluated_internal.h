// Predictions beside their labels, as the metrics of scores.cpp read them: by class, by value, by query of a ranking,
// or column by column where a row has several labels or values.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "freight/metrics/ranking.h"
#include "freight/metrics/scores.h"

namespace freight::metrics {

using Times = std::vector<double>;

// One of several labels as two classes, without it and with it: probabilities f32 (N, 2), and which samples have it.
inline std::pair<Array, Truth> label_as_classes(const Array& predictions, const Truth& truth, int64_t label) {
  const int64_t n = predictions.shape()[0], k = predictions.shape()[1];
  Array two(DType::f32, {n, 2}), has(DType::i64, {n});
  for (int64_t i = 0; i < n; ++i) {
    const float p = predictions.data<float>()[i * k + label];
    two.data<float>()[2 * i] = 1 - p;
    two.data<float>()[2 * i + 1] = p;
    has.data<int64_t>()[i] = truth.labels.data<uint8_t>()[i * k + label];
  }
  return {two, Truth(has, truth.weights)};
}

// Predictions and labels, with what metrics share of them. `times[i]` says how often row i counts, of a ranking query
// i.
class Evaluated {
 public:
  Evaluated(const Array& predictions, const Truth& truth, const Thresholds& thresholds)
      : n_(predictions.shape()[0]), k_(predictions.shape()[1]), predictions_(predictions), labels_(truth.labels) {
    for (int64_t i = 0; i < n_; ++i) {
      weights_.push_back(truth.weights ? static_cast<double>(truth.weights->data<float>()[i]) : 1.0);
    }
    const bool labels = truth.labels.dtype() == DType::u8;
    if (labels || (truth.labels.dtype() != DType::i64 && k_ > 1 && !truth.queries)) {
      for (int64_t c = 0; c < k_; ++c) columns_.push_back(column(c, truth, thresholds));
      if (labels) return;
    }
    if (truth.labels.dtype() != DType::i64) {
      values_ = truth.labels.data<float>();
      if (truth.queries) part_in_queries(truth.queries->data<int64_t>());
      return;
    }
    classes_ = truth.labels.data<int64_t>();
    for (int64_t i = 0; i < n_; ++i) predicted_.push_back(predicted_class(row(i), k_, thresholds.second));
  }

  int64_t count() const { return n_; }
  // The labels, each as two classes, or the values if there are several; empty otherwise.
  const std::vector<Evaluated>& columns() const { return columns_; }
  bool several_labels() const { return labels_.dtype() == DType::u8; }
  bool ranking() const { return !queries_.empty(); }
  // The number of units that are sampled: rows, or whole queries of a ranking, whose rows belong together.
  int64_t units() const { return static_cast<int64_t>(weights_.size()); }
  // The number of times that each unit counts, from its weight.
  const Times& weights() const { return weights_; }
  int64_t classes() const { return classes_ || several_labels() ? k_ : 0; }
  const float* row(int64_t i) const { return predictions_.data<float>() + i * k_; }
  int64_t label(int64_t i) const { return classes_[i]; }
  int64_t predicted(int64_t i) const { return predicted_[static_cast<size_t>(i)]; }
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

  // The negative logarithm of the probability of each row's class; computed when first asked for.
  const std::vector<double>& losses() const {
    for (int64_t i = static_cast<int64_t>(losses_.size()); i < n_; ++i) {
      losses_.push_back(-std::log(static_cast<double>(std::max(row(i)[label(i)], std::numeric_limits<float>::min()))));
    }
    return losses_;
  }

  // The figure of each query, which is computed when first asked for.
  const std::vector<double>& by_query(const std::string& name, int64_t top,
                                      double (*of)(std::vector<RankedRow>, int64_t)) const {
    if (const auto known = by_query_.find(name); known != by_query_.end()) return known->second;
    std::vector<double>& figures = by_query_[name];
    for (const std::vector<RankedRow>& query : queries_) figures.push_back(of(query, top));
    return figures;
  }

 private:
  Evaluated column(int64_t c, const Truth& truth, const Thresholds& thresholds) const {
    if (truth.labels.dtype() == DType::u8) {
      const auto [two, has] = label_as_classes(predictions_, truth, c);
      return {two, has, Thresholds(thresholds.of_label(c))};
    }
    Array predictions(DType::f32, {n_, 1}), truths(DType::f32, {n_});
    for (int64_t i = 0; i < n_; ++i) {
      predictions.data<float>()[i] = row(i)[c];
      truths.data<float>()[i] = truth.labels.data<float>()[i * k_ + c];
    }
    return {predictions, Truth(truths, truth.weights), Thresholds()};
  }
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
  Array predictions_, labels_;
  std::vector<Evaluated> columns_;
  const int64_t* classes_ = nullptr;
  const float* values_ = nullptr;
  std::vector<int64_t> predicted_;
  Times weights_;
  std::vector<std::vector<RankedRow>> queries_;
  mutable std::vector<int64_t> ascending_;
  mutable std::vector<double> losses_;
  mutable std::map<std::string, std::vector<double>> by_query_;
};

}  // namespace freight::metrics
