// See folds.h.
#include "freight/train/folds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/philox.h"

namespace freight::train {

namespace {

constexpr uint32_t kFoldStream = 0x464f4c44;  // "FOLD"
constexpr uint64_t kTenth = 1, kShare = 2;    // steps of the generator, so that divisions differ
constexpr int64_t kOneOfTen = 10;

template <class Iterator>
void shuffle_range(Iterator first, Iterator last, PhiloxStream& random) {
  for (auto left = last - first; left > 1; --left)
    std::swap(first[left - 1], first[random.below(static_cast<uint32_t>(left))]);
}

// Rows, or groups of rows, that a division may part.
int64_t units_of(const store::Rows& rows) {
  if (!rows.groups) return rows.count();
  const auto* group = rows.groups->data<int64_t>();
  return static_cast<int64_t>(std::set<int64_t>(group, group + rows.count()).size());
}

// Whole groups, the largest first, each to the fold that has the fewest rows by then; equally large ones in an order
// that the seed chooses.
std::vector<int64_t> divided_groups(const store::Rows& rows, int64_t folds, PhiloxStream& random) {
  const auto* group = rows.groups->data<int64_t>();
  std::map<int64_t, int64_t> size_of, fold_of_group;
  for (int64_t i = 0; i < rows.count(); ++i) ++size_of[group[i]];
  std::vector<std::pair<int64_t, int64_t>> groups(size_of.begin(), size_of.end());
  shuffle_range(groups.begin(), groups.end(), random);
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<int64_t> filled(static_cast<size_t>(folds));
  for (const auto& [number, size] : groups) {
    const auto least = std::min_element(filled.begin(), filled.end());
    fold_of_group[number] = least - filled.begin();
    *least += size;
  }
  std::vector<int64_t> fold_of(static_cast<size_t>(rows.count()));
  for (size_t i = 0; i < fold_of.size(); ++i) fold_of[i] = fold_of_group.at(group[i]);
  return fold_of;
}

std::vector<int64_t> divided(const store::Rows& rows, int64_t folds, uint64_t seed, uint64_t step) {
  const int64_t n = rows.count(), units = units_of(rows);
  if (folds < 2 || folds > units) {
    fail(ErrorKind::usage, "--folds", "got ", folds, " for ", units, rows.groups ? " groups of" : "",
         " training rows: expected 2 to ", units);
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  PhiloxStream random(seed, step, kFoldStream);
  if (rows.groups) return divided_groups(rows, folds, random);
  shuffle_range(order.begin(), order.end(), random);
  // Rows of like labels stand together, and each run of `folds` of them is dealt in an order of its own.
  if (rows.classification()) {
    const auto* label = rows.labels.data<int64_t>();
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return label[a] < label[b]; });
  } else {
    const auto* label = rows.labels.data<float>();
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

Array taken(const Array& all, const std::vector<int64_t>& numbers) {
  Shape shape = all.shape();
  shape[0] = static_cast<int64_t>(numbers.size());
  Array out(all.dtype(), shape);
  const size_t row = all.shape()[0] > 0 ? all.bytes() / static_cast<size_t>(all.shape()[0]) : 0;
  const auto* from = static_cast<const char*>(all.raw());
  auto* to = static_cast<char*>(out.raw());
  for (const int64_t i : numbers) to = std::copy_n(from + static_cast<size_t>(i) * row, row, to);
  return out;
}

RowData parted(const RowData& data, const store::Rows& train, const store::Rows& held_out) {
  return {.shape = data.shape,
          .target = data.target,
          .train = train,
          .test = held_out,
          .notes = {},
          .fingerprint = data.fingerprint,
          .together = data.together};
}

std::vector<int64_t> numbers_of(const std::vector<int64_t>& fold_of, int64_t fold, bool in) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < fold_of.size(); ++i) {
    if ((fold_of[i] == fold) == in) numbers.push_back(static_cast<int64_t>(i));
  }
  return numbers;
}

}  // namespace

std::vector<int64_t> folds_of(const store::Rows& rows, int64_t folds, uint64_t seed) {
  return divided(rows, folds, seed, 0);
}

store::Rows rows_at(const store::Rows& rows, const std::vector<int64_t>& numbers) {
  store::Rows some{taken(rows.values, numbers), taken(rows.labels, numbers)};
  if (rows.weights) some.weights = taken(*rows.weights, numbers);
  if (rows.groups) some.groups = taken(*rows.groups, numbers);
  some.ranked = rows.ranked;
  return some;
}

Array joined(const std::vector<Array>& parts) {
  Shape shape = parts.front().shape();
  shape[0] = 0;
  for (const Array& part : parts) shape[0] += part.shape()[0];
  Array all(parts.front().dtype(), shape);
  auto* to = static_cast<char*>(all.raw());
  for (const Array& part : parts) to = std::copy_n(static_cast<const char*>(part.raw()), part.bytes(), to);
  return all;
}

store::Rows joined(const store::Rows& first, const store::Rows& second) {
  store::Rows all{joined({first.values, second.values}), joined({first.labels, second.labels})};
  if (first.weights && second.weights) all.weights = joined({*first.weights, *second.weights});
  if (first.groups && second.groups) all.groups = joined({*first.groups, *second.groups});
  all.ranked = first.ranked;
  return all;
}

RowData with_fold_out(const RowData& data, const std::vector<int64_t>& fold_of, int64_t fold, double share) {
  store::Rows train = rows_at(data.train, numbers_of(fold_of, fold, false));
  const store::Rows held_out = rows_at(data.train, numbers_of(fold_of, fold, true));
  const int64_t parts = std::min<int64_t>(std::llround(1 / share), units_of(train));
  if (parts >= 2) train = rows_at(train, numbers_of(divided(train, parts, 0, kShare), 0, true));
  return parted(data, train, held_out);
}

RowData with_tenth_out(const RowData& data, uint64_t seed) {
  store::Rows rows = data.train;
  if (units_of(rows) < 2) rows.groups.reset();  // a single group is divided by rows
  const std::vector<int64_t> part = divided(rows, std::min(kOneOfTen, units_of(rows)), seed, kTenth);
  return parted(data, rows_at(data.train, numbers_of(part, 0, false)), rows_at(data.train, numbers_of(part, 0, true)));
}

}  // namespace freight::train
