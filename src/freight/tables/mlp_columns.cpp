// See mlp_columns.h.
#include "freight/tables/mlp_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/error.h"

namespace freight::tables {

namespace {

constexpr size_t kMlpBins = 48;  // of a column, where it has many values
// A column of few different values, with some rows for each, has a bin between each two of them, so that the network
// distinguishes them as trees do (the column `vacuum` of UCI's ccpp has 634 values).
constexpr size_t kFewMlpValues = 640, kRowsOfMlpValue = 10;

struct WeightedCell {
  double value = 0;
  double count = 1;  // how often it counts: once, or as its row's weight says
};

// Ascending numbers with about equally many cells between each two. A number in many cells counts at most as often as
// fills one bin; otherwise a column that is mostly 0 would have few bins for its other values.
std::vector<float> quantiles(std::vector<WeightedCell> cells) {
  std::sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  std::vector<WeightedCell> numbers;  // each different one, with how often it counts
  double all = 0;
  for (const WeightedCell& cell : cells) {
    all += cell.count;
    if (numbers.empty() || cell.value > numbers.back().value) {
      numbers.push_back(cell);
    } else {
      numbers.back().count += cell.count;
    }
  }
  // Weights below 1 on average say which rows count more, not that there are few.
  const double scale = std::max(all, static_cast<double>(cells.size())) / all;
  all *= scale;
  const auto few = static_cast<size_t>(std::clamp(all / static_cast<double>(kRowsOfMlpValue),
                                                  static_cast<double>(kMlpBins), static_cast<double>(kFewMlpValues)));
  std::vector<float> values;
  for (size_t i = 0; i < numbers.size() && values.size() <= few; ++i) {
    const auto value = static_cast<float>(numbers[i].value);
    if (values.empty() || value > values.back()) values.push_back(value);
  }
  if (values.size() <= few) return values;
  const double most = std::max(std::floor(all / static_cast<double>(kMlpBins)), 1.0);
  double kept = 0;
  for (WeightedCell& number : numbers) kept += number.count = std::min(number.count * scale, most);
  std::vector<float> edges;
  double passed = numbers[0].count;
  for (size_t i = 0, at = 0; i <= kMlpBins; ++i) {
    const double wanted = std::floor((kept - 1) * static_cast<double>(i) / static_cast<double>(kMlpBins));
    while (passed <= wanted && at + 1 < numbers.size()) passed += numbers[++at].count;
    const auto edge = static_cast<float>(numbers[at].value);
    if (edges.empty() || edge > edges.back()) edges.push_back(edge);
  }
  return edges;
}

}  // namespace

MlpColumns::MlpColumns(const std::vector<store::Column>& columns, TreeColumns features)
    : features_(std::move(features)) {
  for (int64_t c = 0; c < features_.count(); ++c) {
    if (!columns[static_cast<size_t>(c)].words) {
      numbers_.push_back(c);
      continue;
    }
    const std::vector<int32_t>& categories = features_.categories(c);
    words_.push_back(c);
    first_.push_back(embeddings_);
    const auto last = std::max_element(categories.begin(), categories.end());
    embeddings_ += 2 + (last == categories.end() ? -1 : *last);
  }
}

Array MlpColumns::encode(const store::RowValues& rows, int64_t begin, int64_t end, int64_t count) const {
  const Array features = features_.features(rows, begin, end);
  Array out(DType::f32, {count, width()});
  std::fill_n(out.data<float>(), out.numel(), 0.0f);
  for (int64_t i = 0; i < end - begin; ++i) {
    const float* const from = features.data<float>() + i * features_.count();
    float* to = out.data<float>() + i * width();
    for (const int64_t c : numbers_) *to++ = std::isnan(from[c]) ? 0.0f : from[c];
    for (const int64_t c : numbers_) *to++ = std::isnan(from[c]) ? 0.0f : 1.0f;
    for (size_t w = 0; w < words_.size(); ++w) {
      const float category = from[words_[w]];
      *to++ = static_cast<float>(first_[w]) + (std::isnan(category) ? 0.0f : 1.0f + category);
    }
  }
  return out;
}

MlpBins mlp_bins(const MlpColumns& columns, const std::vector<store::Column>& named, const Array& encoded,
                 const store::Rows& rows) {
  const auto f = static_cast<int64_t>(columns.numbers().size());
  const int64_t width = columns.width();
  MlpBins out{.mean = Array(DType::f32, {f}), .slope = Array(DType::f32, {f}), .bin_start = {}, .bin_slope = {}};
  std::vector<std::vector<float>> edges;  // of the scaled numbers, by column
  size_t most = 2;
  for (int64_t c = 0; c < f; ++c) {
    std::vector<WeightedCell> cells;
    double sum = 0, squares = 0, count = 0;
    for (int64_t i = 0; i < rows.count(); ++i) {
      const float* const row = encoded.data<float>() + i * width;
      if (rows.weight(i) == 0 || row[f + c] == 0) continue;
      if (std::fabs(row[c]) >= std::numeric_limits<float>::max()) {
        fail(ErrorKind::data, named[static_cast<size_t>(columns.numbers()[static_cast<size_t>(c)])].name,
             "numbers of this column are infinite or beyond f32: --model mlp needs finite ones");
      }
      cells.push_back({static_cast<double>(row[c]), rows.weight(i)});
      sum += cells.back().count * cells.back().value;
      count += cells.back().count;
    }
    const double mean = count > 0 ? sum / count : 0;
    for (const WeightedCell& cell : cells) squares += cell.count * (cell.value - mean) * (cell.value - mean);
    const bool differs =
        std::any_of(cells.begin(), cells.end(), [&](const auto& x) { return x.value != cells[0].value; });
    float& m = out.mean.data<float>()[c] = static_cast<float>(mean);
    float& s = out.slope.data<float>()[c] = differs ? static_cast<float>(std::sqrt(count / squares)) : 0;
    // Scaled in f32, as the network does it.
    for (WeightedCell& cell : cells) {
      cell.value =
          static_cast<double>(std::clamp((static_cast<float>(cell.value) - m) * s, -kMlpFarthest, kMlpFarthest));
    }
    edges.push_back(cells.empty() ? std::vector<float>{0} : quantiles(std::move(cells)));
    most = std::max(most, edges.back().size());
  }
  const auto bins = static_cast<int64_t>(most) - 1;
  out.bin_start = Array(DType::f32, {f, bins});
  out.bin_slope = Array(DType::f32, {f, bins});
  float *start = out.bin_start.data<float>(), *slope = out.bin_slope.data<float>();
  for (const std::vector<float>& e : edges) {
    for (size_t b = 0; b < static_cast<size_t>(bins); ++b) {
      *start++ = e[std::min(b, e.size() - 1)];
      *slope++ = b + 1 < e.size() ? 1 / std::max(e[b + 1] - e[b], 1e-30f) : 0;
    }
  }
  return out;
}

}  // namespace freight::tables
