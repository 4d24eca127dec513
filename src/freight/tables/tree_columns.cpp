// See tree_columns.h.
#include "freight/tables/tree_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight::tables {

namespace {

constexpr const char* kOrigins = "origins";        // f64 (columns)
constexpr const char* kCategories = "categories";  // i32 (words of all columns)
constexpr double kMostOfRange = 1e-3;  // the largest fraction of a column's range by which f32 may move its numbers

}  // namespace

TreeColumns::TreeColumns(const std::vector<store::Column>& columns) {
  for (const store::Column& c : columns) {
    ColumnEncoding reading{.words = c.words};
    for (size_t i = 0; i < c.levels.size(); ++i) reading.categories.push_back(static_cast<int32_t>(i));
    columns_.push_back(std::move(reading));
  }
}

TreeColumns::TreeColumns(const std::vector<store::Column>& columns, const store::Rows& rows) : TreeColumns(columns) {
  for (int64_t c = 0; c < count(); ++c) {
    const std::vector<double> values = rows.values.column(c);
    if (words(c)) {
      count_words(c, rows, values);
    } else {
      find_origin(c, values);
    }
  }
}

bool TreeColumns::words(int64_t column) const {
  const ColumnEncoding& c = columns_[static_cast<size_t>(column)];
  return c.words && std::any_of(c.categories.begin(), c.categories.end(), [](int32_t k) { return k >= 0; });
}

std::vector<const char*> TreeColumns::kinds() const {
  std::vector<const char*> all;
  for (int64_t c = 0; c < count(); ++c) all.push_back(words(c) ? "c" : "q");
  return all;
}

// A row of weight 3 counts as three rows; a weight below 1 counts as one.
void TreeColumns::count_words(int64_t column, const store::Rows& rows, const std::vector<double>& values) {
  std::vector<int32_t>& categories = columns_[static_cast<size_t>(column)].categories;
  std::vector<double> seen(categories.size());
  for (int64_t i = 0; i < rows.count(); ++i) {
    const double v = values[static_cast<size_t>(i)];
    if (v >= 0 && rows.weight(i) > 0) seen[static_cast<size_t>(v)] += std::max(rows.weight(i), 1.0);  // false for NaN
  }
  int32_t next = 0;
  for (size_t i = 0; i < seen.size(); ++i) categories[i] = seen[i] < kLeastRows ? -1 : next++;
}

void TreeColumns::find_origin(int64_t column, const std::vector<double>& values) {
  double least = std::numeric_limits<double>::infinity(), most = -least, moved = 0;
  for (const double v : values) {
    if (std::isnan(v)) continue;
    least = std::min(least, v);
    most = std::max(most, v);
    moved = std::max(moved, std::fabs(v - static_cast<double>(static_cast<float>(v))));
  }
  const bool all_missing = least > most;
  if (!all_missing && std::isfinite(moved) && moved > kMostOfRange * (most - least)) {
    columns_[static_cast<size_t>(column)].origin = least;
  }
}

TreeColumns::TreeColumns(const std::vector<store::Column>& columns, const io::SafeTensors& file,
                         const std::string& path, const std::string& prefix)
    : TreeColumns(columns) {
  int64_t all = 0;
  for (const ColumnEncoding& c : columns_) all += static_cast<int64_t>(c.categories.size());
  if (const Array* origins = file.find(prefix + kOrigins)) {
    if (origins->dtype() != DType::f64 || origins->shape() != Shape{count()}) {
      fail(ErrorKind::checkpoint, path, "the tensor ", prefix, kOrigins, " is not f64[", count(), "]");
    }
    for (int64_t c = 0; c < count(); ++c) columns_[static_cast<size_t>(c)].origin = origins->data<double>()[c];
  }
  if (const Array* categories = file.find(prefix + kCategories)) {
    if (categories->dtype() != DType::i32 || categories->shape() != Shape{all}) {
      fail(ErrorKind::checkpoint, path, "the tensor ", prefix, kCategories, " is not i32[", all, "]");
    }
    const int32_t* from = categories->data<int32_t>();
    for (ColumnEncoding& c : columns_) {
      for (int32_t& category : c.categories) {
        category = *from++;
        if (category < -1 || category >= static_cast<int64_t>(c.categories.size())) {
          fail(ErrorKind::checkpoint, path, "the tensor ", prefix, kCategories, " holds ", category,
               ": expected -1 to ", c.categories.size() - 1);
        }
      }
    }
  }
}

void TreeColumns::write(io::SafeTensors& file, const std::string& prefix) const {
  Array origins(DType::f64, {count()});
  std::vector<int32_t> all;
  bool shifted = false, others = false;
  for (int64_t i = 0; i < count(); ++i) {
    const ColumnEncoding& c = columns_[static_cast<size_t>(i)];
    origins.data<double>()[i] = c.origin;
    shifted = shifted || c.origin != 0;
    for (size_t k = 0; k < c.categories.size(); ++k) others = others || c.categories[k] != static_cast<int32_t>(k);
    all.insert(all.end(), c.categories.begin(), c.categories.end());
  }
  if (shifted) file.tensors.emplace_back(prefix + kOrigins, origins);
  if (!others) return;
  Array categories(DType::i32, {static_cast<int64_t>(all.size())});
  std::copy(all.begin(), all.end(), categories.data<int32_t>());
  file.tensors.emplace_back(prefix + kCategories, categories);
}

Array TreeColumns::features(const store::RowValues& rows, int64_t begin, int64_t end) const {
  constexpr double kMost = std::numeric_limits<float>::max();
  constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
  constexpr int64_t kChunk = 1024;  // rows
  const int64_t width = count(), n = end - begin;
  std::vector<double> origins;
  std::vector<int64_t> of_words;
  for (int64_t c = 0; c < width; ++c) {
    origins.push_back(columns_[static_cast<size_t>(c)].origin);
    if (columns_[static_cast<size_t>(c)].words) of_words.push_back(c);
  }
  Array out(DType::f32, {n, width});
  float* const to = out.data<float>();
  // XGBoost predicts on all threads, so one thread should not delay it here.
  parallel_for((n + kChunk - 1) / kChunk, n > kChunk, [&](int64_t chunk) {
    const int64_t first = chunk * kChunk, last = std::min(n, first + kChunk);
    std::vector<double> room;
    const double* const from = rows.read(begin + first, begin + last, room) - first * width;
    for (int64_t i = first; i < last; ++i) {
      // Treats all columns as numbers: this loop has no branches, and NaN stays NaN.
      for (int64_t c = 0; c < width; ++c) {
        to[i * width + c] =
            static_cast<float>(std::clamp(from[i * width + c] - origins[static_cast<size_t>(c)], -kMost, kMost));
      }
      for (const int64_t c : of_words) {
        const std::vector<int32_t>& categories = columns_[static_cast<size_t>(c)].categories;
        const double v = from[i * width + c];
        const bool known = v >= 0 && v < static_cast<double>(categories.size());  // false for NaN
        const int32_t category = known ? categories[static_cast<size_t>(v)] : -1;
        to[i * width + c] = category < 0 ? kMissing : static_cast<float>(category);
      }
    }
  });
  return out;
}

}  // namespace freight::tables
