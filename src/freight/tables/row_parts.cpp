// See row_parts.h.
#include "freight/tables/row_parts.h"

#include <algorithm>
#include <cmath>

#include "freight/metrics/folds.h"

namespace freight::tables {

namespace {

constexpr uint64_t kTenth = 1, kShare = 2;  // metrics::FoldOptions::division
constexpr int64_t kOneOfTen = 10;

metrics::FoldedSamples samples_of(const store::Rows& rows) { return {.labels = rows.labels, .groups = rows.groups}; }

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
          .held_out = held_out,
          .notes = {},
          .fingerprint = data.fingerprint,
          .together = data.together};
}

}  // namespace

std::vector<int64_t> folds_of(const store::Rows& rows, int64_t folds, uint64_t seed) {
  return metrics::folds_of(samples_of(rows), {.folds = folds, .seed = seed});
}

store::Rows rows_at(const store::Rows& rows, const std::vector<int64_t>& numbers) {
  store::Rows some{rows.values.at(numbers), taken(rows.labels, numbers)};
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
  store::Rows all{first.values.followed_by(second.values), joined({first.labels, second.labels})};
  if (first.weights && second.weights) all.weights = joined({*first.weights, *second.weights});
  if (first.groups && second.groups) all.groups = joined({*first.groups, *second.groups});
  all.ranked = first.ranked;
  return all;
}

RowData with_fold_out(const RowData& data, const std::vector<int64_t>& fold_of, int64_t fold, double share) {
  store::Rows train = rows_at(data.train, metrics::fold_samples(fold_of, fold, metrics::FoldSide::outside));
  const store::Rows held_out = rows_at(data.train, metrics::fold_samples(fold_of, fold, metrics::FoldSide::inside));
  const metrics::FoldedSamples samples = samples_of(train);
  const int64_t parts = std::min<int64_t>(std::llround(1 / share), samples.units());
  if (parts >= 2) {
    const std::vector<int64_t> part_of = metrics::folds_of(samples, {.folds = parts, .division = kShare});
    train = rows_at(train, metrics::fold_samples(part_of, 0, metrics::FoldSide::inside));
  }
  return parted(data, train, held_out);
}

RowData with_tenth_out(const RowData& data, uint64_t seed) {
  metrics::FoldedSamples samples = samples_of(data.train);
  if (samples.units() < 2) samples.groups.reset();  // a single group is divided by rows
  const std::vector<int64_t> part_of =
      metrics::folds_of(samples, {.folds = std::min(kOneOfTen, samples.units()), .seed = seed, .division = kTenth});
  return parted(data, rows_at(data.train, metrics::fold_samples(part_of, 0, metrics::FoldSide::outside)),
                rows_at(data.train, metrics::fold_samples(part_of, 0, metrics::FoldSide::inside)));
}

}  // namespace freight::tables
