// See folds.h.
#include "freight/train/folds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/philox.h"

namespace freight::train {

namespace {

constexpr uint32_t kFoldStream = 0x464f4c44;  // "FOLD"
constexpr uint64_t kTenth = 1, kShare = 2;    // steps of the generator, so that divisions differ
constexpr int64_t kOneOfTen = 10;

std::vector<int64_t> divided(const store::Rows& rows, int64_t folds, uint64_t seed, uint64_t step) {
  const int64_t n = rows.count();
  if (folds < 2 || folds > n) {
    fail(ErrorKind::usage, "--folds", "got ", folds, " for ", n, " training rows: need 2 to ", n);
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  PhiloxStream random(seed, step, kFoldStream);
  const auto shuffle = [&](auto first, auto last) {
    for (auto left = last - first; left > 1; --left)
      std::swap(first[left - 1], first[random.below(static_cast<uint32_t>(left))]);
  };
  shuffle(order.begin(), order.end());
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
    if (i % folds == 0) shuffle(deal.begin(), deal.end());
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
          .fingerprint = data.fingerprint};
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
  return {taken(rows.values, numbers), taken(rows.labels, numbers)};
}

RowData with_fold_out(const RowData& data, const std::vector<int64_t>& fold_of, int64_t fold, double share) {
  store::Rows train = rows_at(data.train, numbers_of(fold_of, fold, false));
  const store::Rows held_out = rows_at(data.train, numbers_of(fold_of, fold, true));
  const int64_t parts = std::min<int64_t>(std::llround(1 / share), train.count());
  if (parts >= 2) train = rows_at(train, numbers_of(divided(train, parts, 0, kShare), 0, true));
  return parted(data, train, held_out);
}

RowData with_tenth_out(const RowData& data, uint64_t seed) {
  const std::vector<int64_t> part = divided(data.train, std::min(kOneOfTen, data.train.count()), seed, kTenth);
  return parted(data, rows_at(data.train, numbers_of(part, 0, false)), rows_at(data.train, numbers_of(part, 0, true)));
}

}  // namespace freight::train
