// See folds.h.
#include "freight/metrics/folds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"

namespace freight::metrics {

namespace {

constexpr uint32_t kFoldStream = 0x464f4c44;  // "FOLD"

template <class Iterator>
void shuffle_range(Iterator first, Iterator last, PhiloxStream& random) {
  for (auto left = last - first; left > 1; --left)
    std::swap(first[left - 1], first[random.below(static_cast<uint32_t>(left))]);
}

// Whole groups, the largest first, each to the fold that has the fewest rows by then; equally large ones in an order
// that the seed chooses.
std::vector<int64_t> divided_groups(const FoldedSamples& samples, int64_t folds, PhiloxStream& random) {
  const auto* group = samples.groups->data<int64_t>();
  std::map<int64_t, int64_t> size_of, fold_of_group;
  for (int64_t i = 0; i < samples.count(); ++i) ++size_of[group[i]];
  std::vector<std::pair<int64_t, int64_t>> groups(size_of.begin(), size_of.end());
  shuffle_range(groups.begin(), groups.end(), random);
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<int64_t> filled(static_cast<size_t>(folds));
  for (const auto& [number, size] : groups) {
    const auto least = std::min_element(filled.begin(), filled.end());
    fold_of_group[number] = least - filled.begin();
    *least += size;
  }
  std::vector<int64_t> fold_of(static_cast<size_t>(samples.count()));
  for (size_t i = 0; i < fold_of.size(); ++i) fold_of[i] = fold_of_group.at(group[i]);
  return fold_of;
}

}  // namespace

int64_t FoldedSamples::units() const {
  if (!groups) return count();
  const auto* group = groups->data<int64_t>();
  return static_cast<int64_t>(std::set<int64_t>(group, group + count()).size());
}

std::vector<int64_t> folds_of(const FoldedSamples& samples, const FoldOptions& options) {
  const int64_t n = samples.count(), units = samples.units(), folds = options.folds;
  if (folds < 2 || folds > units) {
    refuse_value("--folds", cat(folds, " for ", units, samples.groups ? " groups of" : "", " training rows"),
                 cat("expected 2 to ", units));
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  PhiloxStream random(options.seed, options.division, kFoldStream);
  if (samples.groups) return divided_groups(samples, folds, random);
  shuffle_range(order.begin(), order.end(), random);
  // Samples of like labels stand together, and each run of `folds` of them is dealt in an order of its own.
  if (samples.labels.dtype() == DType::i64) {
    const auto* label = samples.labels.data<int64_t>();
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return label[a] < label[b]; });
  } else {
    const auto* label = samples.labels.data<float>();
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return label[a] < label[b]; });
  }
  std::vector<int64_t> fold_of(static_cast<size_t>(n)), deal(static_cast<size_t>(folds));
  std::iota(deal.begin(), deal.end(), int64_t{0});
  for (int64_t i = 0; i < n; ++i) {
    if (i % folds == 0) shuffle_range(deal.begin(), deal.end(), random);
    fold_of[static_cast<size_t>(order[static_cast<size_t>(i)])] = deal[static_cast<size_t>(i % folds)];
  }
  return fold_of;
}

std::vector<int64_t> fold_samples(const std::vector<int64_t>& fold_of, int64_t fold, FoldSide side) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < fold_of.size(); ++i) {
    if ((fold_of[i] == fold) == (side == FoldSide::inside)) numbers.push_back(static_cast<int64_t>(i));
  }
  return numbers;
}

}  // namespace freight::metrics
