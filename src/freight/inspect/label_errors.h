// Labels that are probably wrong, because out-of-fold predictions of a simple model (one that was fitted without the
// sample) contradict them: confident learning (Northcutt et al. 2021, arXiv:1911.00068).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace freight::inspect {

// Probabilities (N, classes) for samples, each from a model that was fitted on the other folds; one temperature for all
// makes them as certain as they are right.
struct OutOfFold {
  int64_t classes = 0;
  std::vector<float> probabilities;
  double accuracy = 0;  // of the most probable class
};
inline constexpr int64_t kFolds = 5;
// Linear discriminant analysis with a shrunk covariance. x: (N, size); labels: class numbers; a class may be empty.
OutOfFold predict_features(const std::vector<float>& x, int64_t size, const std::vector<int64_t>& labels,
                           int64_t classes, uint64_t seed);
// Naive Bayes on the set of words of each text.
OutOfFold predict_texts(const std::vector<std::string>& texts, const std::vector<int64_t>& labels, int64_t classes,
                        uint64_t seed);

struct Contradicted {
  int64_t sample = 0, label = 0, predicted = 0;
  double probability = 0, of_label = 0;  // of the predicted class, and of the label
};
// A label is contradicted if another class is at least as probable as that class is on average among the samples that
// are labeled with it, or has 90 %. The most certain contradictions come first.
std::vector<Contradicted> contradicted_labels(const OutOfFold& predictions, const std::vector<int64_t>& labels);

}  // namespace freight::inspect
