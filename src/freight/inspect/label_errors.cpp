// See label_errors.h.
#include "freight/inspect/label_errors.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>

#include "freight/base/philox.h"
#include "freight/ops/linalg.h"
#include "freight/ops/ops.h"

namespace freight::inspect {

namespace {

// The fold of each sample: every class is spread evenly over the folds.
std::vector<int64_t> folds_of(const std::vector<int64_t>& labels, int64_t classes, uint64_t seed) {
  PhiloxStream random(seed, 0, 0);
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  std::vector<int64_t> folds(labels.size()), seen(static_cast<size_t>(classes));
  for (const size_t i : order) folds[i] = seen[static_cast<size_t>(labels[i])]++ % kFolds;
  return folds;
}

// Scores of the classes become probabilities.
void softmax(const float* scores, float scale, int64_t classes, float* out) {
  const float most = *std::max_element(scores, scores + classes);
  float sum = 0;
  for (int64_t k = 0; k < classes; ++k) sum += out[k] = std::exp((scores[k] - most) * scale);
  for (int64_t k = 0; k < classes; ++k) out[k] /= sum;
}

// Simple models are far too certain. Scores are divided by the temperature at which the labels are the most probable
// (Guo et al. 2017, arXiv:1706.04599), which is one number for all samples: each of them hardly has a say in it.
float best_scale(const std::vector<float>& scores, const std::vector<int64_t>& labels, int64_t classes) {
  constexpr float kLeast = 1.0f / 1024, kMost = 4, kFactor = 1.15f;
  std::vector<float> p(static_cast<size_t>(classes));
  double best_loss = 0;
  float best = 0;
  for (float scale = kLeast; scale < kMost; scale *= kFactor) {
    double loss = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      softmax(scores.data() + static_cast<int64_t>(i) * classes, scale, classes, p.data());
      loss -= std::log(std::max(p[static_cast<size_t>(labels[i])], 1e-30f));
    }
    if (best == 0 || loss < best_loss) best = scale, best_loss = loss;
  }
  return best;
}

// `out` has scores, which become probabilities.
void finish(OutOfFold& out, const std::vector<int64_t>& labels) {
  const float scale = best_scale(out.probabilities, labels, out.classes);
  int64_t right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    float* const p = out.probabilities.data() + static_cast<int64_t>(i) * out.classes;
    softmax(p, scale, out.classes, p);
    right += std::max_element(p, p + out.classes) - p == labels[i] ? 1 : 0;
  }
  out.accuracy = labels.empty() ? 0 : static_cast<double>(right) / static_cast<double>(labels.size());
}

constexpr float kNever = -1e30f;  // the score of a class without samples

// Sums over samples, from which means and covariance follow. Those of some folds are differences.
struct Moments {
  Tensor square, sums;              // (size, size), (classes, size)
  std::vector<double> counts = {};  // of each class
};
Moments moments_of(const Tensor& x, const std::vector<int64_t>& labels, int64_t classes) {
  Array chosen(DType::f32, {static_cast<int64_t>(labels.size()), classes});  // (N, classes): 1 at the label
  std::fill_n(chosen.data<float>(), chosen.numel(), 0.0f);
  std::vector<double> counts(static_cast<size_t>(classes));
  for (size_t i = 0; i < labels.size(); ++i) {
    chosen.data<float>()[static_cast<int64_t>(i) * classes + labels[i]] = 1;
    counts[static_cast<size_t>(labels[i])] += 1;
  }
  const Tensor one_hot(chosen);
  return {matmul(transpose(x), x), matmul(transpose(one_hot), x), counts};
}

// The weights (size, classes) and offsets (classes) of the discriminants.
struct Discriminants {
  Array weights;
  std::vector<float> offsets;
};
Discriminants fit(const Moments& m, int64_t size, int64_t classes) {
  constexpr double kShrink = 0.1;        // towards the mean variance in all directions
  Array means = m.sums.array().clone();  // (classes, size)
  double n = 0;
  for (int64_t k = 0; k < classes; ++k) {
    const double count = m.counts[static_cast<size_t>(k)];
    n += count;
    for (int64_t i = 0; i < size; ++i) means.data<float>()[k * size + i] /= static_cast<float>(std::max(count, 1.0));
  }
  Array covariance = m.square.array().clone();
  float* const c = covariance.data<float>();
  for (int64_t k = 0; k < classes; ++k) {
    const float* const mean = means.data<float>() + k * size;
    const auto count = static_cast<float>(m.counts[static_cast<size_t>(k)]);
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j < size; ++j) c[i * size + j] -= count * mean[i] * mean[j];
    }
  }
  double trace = 0;
  for (int64_t i = 0; i < size; ++i) trace += c[i * size + i];
  const double freedom = std::max(n - static_cast<double>(classes), 1.0);
  const double mean_variance = std::max(trace / freedom / static_cast<double>(size), 1e-12);
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j) c[i * size + j] *= static_cast<float>((1 - kShrink) / freedom);
    c[i * size + i] += static_cast<float>(kShrink * mean_variance);
  }
  Discriminants d{.weights = solve(Tensor(covariance), transpose(Tensor(means))).array(), .offsets = {}};
  for (int64_t k = 0; k < classes; ++k) {
    const double count = m.counts[static_cast<size_t>(k)];
    double square = 0;
    for (int64_t i = 0; i < size; ++i)
      square += means.data<float>()[k * size + i] * d.weights.data<float>()[i * classes + k];
    d.offsets.push_back(count == 0 ? kNever : static_cast<float>(std::log(count / n) - square / 2));
  }
  return d;
}

// The words of a text, each once.
std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 128 || std::isalnum(byte) != 0) {
      word += static_cast<char>(std::tolower(byte));
    } else if (!word.empty()) {
      words.insert(std::move(word));
      word.clear();
    }
  }
  return words;
}

}  // namespace

OutOfFold predict_features(const std::vector<float>& x, int64_t size, const std::vector<int64_t>& labels,
                           int64_t classes, uint64_t seed) {
  const auto n = static_cast<int64_t>(labels.size());
  OutOfFold out{.classes = classes, .probabilities = std::vector<float>(static_cast<size_t>(n * classes))};
  const std::vector<int64_t> folds = folds_of(labels, classes, seed);
  std::vector<Array> rows;                                             // of each fold
  std::vector<std::vector<int64_t>> numbers(kFolds), of_fold(kFolds);  // samples of a fold, and their labels
  for (int64_t i = 0; i < n; ++i) {
    const auto f = static_cast<size_t>(folds[static_cast<size_t>(i)]);
    numbers[f].push_back(i);
    of_fold[f].push_back(labels[static_cast<size_t>(i)]);
  }
  std::vector<Moments> moments;
  for (size_t f = 0; f < kFolds; ++f) {
    rows.emplace_back(DType::f32, Shape{static_cast<int64_t>(numbers[f].size()), size});
    for (size_t r = 0; r < numbers[f].size(); ++r) {
      std::copy_n(x.data() + numbers[f][r] * size, size, rows[f].data<float>() + static_cast<int64_t>(r) * size);
    }
    moments.push_back(moments_of(Tensor(rows[f]), of_fold[f], classes));
  }
  for (size_t f = 0; f < kFolds; ++f) {
    if (numbers[f].empty()) continue;
    Moments others{.square = zeros({size, size}),
                   .sums = zeros({classes, size}),
                   .counts = std::vector<double>(static_cast<size_t>(classes))};
    for (size_t other = 0; other < kFolds; ++other) {
      if (other == f) continue;
      others.square = others.square + moments[other].square;
      others.sums = others.sums + moments[other].sums;
      for (size_t k = 0; k < others.counts.size(); ++k) others.counts[k] += moments[other].counts[k];
    }
    const Discriminants d = fit(others, size, classes);
    const Array scores = matmul(Tensor(rows[f]), Tensor(d.weights)).array();
    for (size_t r = 0; r < numbers[f].size(); ++r) {
      for (int64_t k = 0; k < classes; ++k) {
        out.probabilities[static_cast<size_t>(numbers[f][r] * classes + k)] =
            scores.data<float>()[static_cast<int64_t>(r) * classes + k] + d.offsets[static_cast<size_t>(k)];
      }
    }
  }
  finish(out, labels);
  return out;
}

OutOfFold predict_texts(const std::vector<std::string>& texts, const std::vector<int64_t>& labels, int64_t classes,
                        uint64_t seed) {
  const auto n = static_cast<int64_t>(labels.size());
  OutOfFold out{.classes = classes, .probabilities = std::vector<float>(static_cast<size_t>(n * classes))};
  const std::vector<int64_t> folds = folds_of(labels, classes, seed);
  std::unordered_map<std::string, size_t> numbers;
  std::vector<std::vector<size_t>> words(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const std::string& word : words_of(texts[i]))
      words[i].push_back(numbers.try_emplace(word, numbers.size()).first->second);
  }
  // Texts with a word, by fold, word and class: those of the other folds are the sum without one.
  const size_t vocabulary = numbers.size(), wide = static_cast<size_t>(classes);
  std::vector<std::vector<float>> with_word(kFolds, std::vector<float>(vocabulary * wide)),
      texts_of(kFolds, std::vector<float>(wide));
  std::vector<float> all_with(vocabulary * wide), all_texts(wide);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto f = static_cast<size_t>(folds[i]), k = static_cast<size_t>(labels[i]);
    texts_of[f][k] += 1;
    all_texts[k] += 1;
    for (const size_t word : words[i]) {
      with_word[f][word * wide + k] += 1;
      all_with[word * wide + k] += 1;
    }
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto f = static_cast<size_t>(folds[i]);
    float* const scores = out.probabilities.data() + i * wide;
    for (size_t k = 0; k < wide; ++k) {
      const float count = all_texts[k] - texts_of[f][k];
      scores[k] = count == 0 ? kNever : std::log(count);
      for (const size_t word : words[i]) {
        if (count > 0)
          scores[k] += std::log((all_with[word * wide + k] - with_word[f][word * wide + k] + 1) / (count + 2));
      }
    }
  }
  finish(out, labels);
  return out;
}

std::vector<Contradicted> contradicted_labels(const OutOfFold& predictions, const std::vector<int64_t>& labels) {
  const int64_t classes = predictions.classes;
  const auto p = [&](size_t i, int64_t k) {
    return static_cast<double>(predictions.probabilities[i * static_cast<size_t>(classes) + static_cast<size_t>(k)]);
  };
  std::vector<double> usual(static_cast<size_t>(classes)), counts(static_cast<size_t>(classes));
  for (size_t i = 0; i < labels.size(); ++i) {
    usual[static_cast<size_t>(labels[i])] += p(i, labels[i]);
    counts[static_cast<size_t>(labels[i])] += 1;
  }
  for (size_t k = 0; k < usual.size(); ++k) usual[k] /= std::max(counts[k], 1.0);
  constexpr double kCertain = 0.9;
  std::vector<Contradicted> out;
  for (size_t i = 0; i < labels.size(); ++i) {
    int64_t best = 0;
    for (int64_t k = 1; k < classes; ++k) {
      if (p(i, k) > p(i, best)) best = k;
    }
    if (best == labels[i] || p(i, best) < std::min(usual[static_cast<size_t>(best)], kCertain)) continue;
    out.push_back({static_cast<int64_t>(i), labels[i], best, p(i, best), p(i, labels[i])});
  }
  std::stable_sort(out.begin(), out.end(), [](const Contradicted& a, const Contradicted& b) {
    return a.probability - a.of_label > b.probability - b.of_label;
  });
  return out;
}

}  // namespace freight::inspect
