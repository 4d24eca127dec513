// The decision thresholds of a classifier.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace freight::metrics {

// Probabilities above which the second of two classes is predicted, or each of several labels. Where there are none,
// the likelier class is predicted, and labels are above 0.5.
struct Thresholds {
  std::optional<double> second = {};  // for the second of two classes
  std::vector<double> labels = {};    // one for each label

  Thresholds() = default;
  Thresholds(double of_second) : second(of_second) {}
  Thresholds(std::optional<double> of_second, std::vector<double> of_labels = {})
      : second(of_second), labels(std::move(of_labels)) {}
  // True if there is a threshold.
  bool any() const { return second || !labels.empty(); }
  // The threshold of a label, 0.5 if there are none.
  double of_label(int64_t label) const { return labels.empty() ? 0.5 : labels[static_cast<size_t>(label)]; }
};

}  // namespace freight::metrics
