// See mlp_columns.h.
#include "freight/tables/mlp_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/error.h"
#include "freight/base/strings.h"

namespace freight::tables {

namespace {

constexpr size_t kMlpBins = 48;  // of a column, where it has many values
// A column of few different values, with some rows for each, has a bin between each two of them, so that the net tells
// them apart as trees do: ccpp's vacuum has 634.
constexpr size_t kFewMlpValues = 640, kRowsOfMlpValue = 10;
constexpr int64_t kLeastMlpRows = 5;  // of a word: names and numbers of tickets tell a row and not the next one
constexpr double kFarthest = 1e6;     // deviations from the mean; numbers beyond count as that far
constexpr const char* kMlpNumberColumns = "mlp.number_columns";  // i64 (F)
constexpr const char* kMlpScales = "mlp.scales";                 // f64 (F, 2): mean, scale
constexpr const char* kMlpEdges = "mlp.edges";  // f32 (F, bins + 1), the last one again where a column has fewer
constexpr const char* kMlpWordColumns = "mlp.word_columns";  // i64 (C)
constexpr const char* kMlpWords = "mlp.words";               // i32 (levels of all columns of words)

struct WeightedCell {
  double value = 0;
  double count = 1;  // how often it counts: once, or as its row's weight says
};

// Rising numbers with about equally many cells between each two. A number that many cells have counts as often as would
// fill a bin: else a column that is mostly 0 would have few bins for all that differs.
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

const Array* find_mlp(const io::SafeTensors& file, const char* name, DType dtype, int rank) {
  const Array* const found = file.find(name);
  return found && found->dtype() == dtype && found->shape().rank() == rank ? found : nullptr;
}

}  // namespace

MlpColumns::MlpColumns(const store::RowShape& shape, const store::Rows& rows) {
  for (size_t c = 0; c < shape.columns.size(); ++c) {
    const store::Column& column = shape.columns[c];
    if (column.words) {
      add_words(column, static_cast<int64_t>(c), rows);
    } else {
      add_number(column.name, static_cast<int64_t>(c), rows);
    }
  }
  count();
}

void MlpColumns::add_number(const std::string& name, int64_t column, const store::Rows& rows) {
  const int64_t width = rows.values.shape()[1];
  std::vector<WeightedCell> cells;
  bool lacks = false;  // some cells are missing
  for (int64_t i = 0; i < rows.count(); ++i) {
    const double v = rows.values.data<double>()[i * width + column];
    if (rows.weight(i) == 0) continue;
    if (std::isnan(v)) {
      lacks = true;
    } else {
      cells.push_back({v, rows.weight(i)});
    }
  }
  if (cells.empty()) return;
  double sum = 0, squares = 0, count = 0;
  for (const WeightedCell& cell : cells) {
    sum += cell.count * cell.value;
    count += cell.count;
  }
  const double mean = sum / count;
  for (const WeightedCell& cell : cells) squares += cell.count * (cell.value - mean) * (cell.value - mean);
  const double scale = std::sqrt(squares / count);
  if (!std::isfinite(scale)) {
    fail(ErrorKind::data, name,
         "numbers of this column, or their squares, are beyond f64: --model mlp needs finite ones");
  }
  Number number{.column = column, .mean = mean, .scale = scale > 0 ? scale : 1, .edges = {}};
  for (WeightedCell& cell : cells) {
    cell.value = std::clamp((cell.value - number.mean) / number.scale, -kFarthest, kFarthest);
  }
  number.edges = quantiles(std::move(cells));
  if (number.edges.size() < 2) {
    if (!lacks) return;  // all cells are alike
    number.edges = {0, 1};
  }
  numbers_.push_back(std::move(number));
}

void MlpColumns::add_words(const store::Column& from, int64_t column, const store::Rows& rows) {
  const int64_t width = rows.values.shape()[1];
  std::vector<double> seen(from.levels.size());  // a row of weight 3 counts as three; one below 1 is a row nonetheless
  double lacking = 0;
  for (int64_t i = 0; i < rows.count(); ++i) {
    const double v = rows.values.data<double>()[i * width + column];
    const double count = rows.weight(i) > 0 ? std::max(rows.weight(i), 1.0) : 0;
    (v >= 0 ? seen[static_cast<size_t>(v)] : lacking) += count;
  }
  Words words{.column = column, .numbers = {}};
  int32_t last = 0;
  for (const double n : seen) {
    words.numbers.push_back(n < kLeastMlpRows ? 0 : ++last);
    if (n < kLeastMlpRows) lacking += n;
  }
  if (last + (lacking > 0) < 2) return;  // the same in all rows
  words_.push_back(std::move(words));
}

void MlpColumns::count() {
  embeddings_ = bins_ = 0;
  for (Words& w : words_) {
    w.first = embeddings_;
    embeddings_ += 1 + *std::max_element(w.numbers.begin(), w.numbers.end());
  }
  for (const Number& n : numbers_) bins_ = std::max(bins_, static_cast<int64_t>(n.edges.size()) - 1);
}

Array MlpColumns::bin_starts() const {
  Array out(DType::f32, {numbers(), bins_});
  float* to = out.data<float>();
  for (const Number& n : numbers_) {
    for (size_t b = 0; b < static_cast<size_t>(bins_); ++b) *to++ = n.edges[std::min(b, n.edges.size() - 1)];
  }
  return out;
}

Array MlpColumns::bin_slopes() const {
  Array out(DType::f32, {numbers(), bins_});
  float* to = out.data<float>();
  for (const Number& n : numbers_) {
    for (size_t b = 0; b < static_cast<size_t>(bins_); ++b) {
      *to++ = b + 1 < n.edges.size() ? 1 / std::max(n.edges[b + 1] - n.edges[b], 1e-30f) : 0;
    }
  }
  return out;
}

MlpColumns::Encoded MlpColumns::encode(const Array& rows, int64_t begin, int64_t end, int64_t count) const {
  Encoded out{.numbers = Array(DType::f32, {count, numbers()}), .words = Array(DType::i32, {count, words()})};
  const int64_t width = rows.shape()[1];
  float* number = out.numbers.data<float>();
  int32_t* word = out.words.data<int32_t>();
  for (int64_t i = begin; i < begin + count; ++i) {
    const double* const cells = i < end ? rows.data<double>() + i * width : nullptr;
    for (const Number& n : numbers_) {
      const double v = cells ? cells[n.column] : std::numeric_limits<double>::quiet_NaN();
      *number++ = std::isnan(v) ? std::numeric_limits<float>::quiet_NaN()
                                : static_cast<float>(std::clamp((v - n.mean) / n.scale, -kFarthest, kFarthest));
    }
    for (const Words& w : words_) {
      const double v = cells ? cells[w.column] : store::kUnknownWord;
      const bool known = v >= 0 && v < static_cast<double>(w.numbers.size());  // false of NaN
      *word++ = static_cast<int32_t>(w.first) + (known ? w.numbers[static_cast<size_t>(v)] : 0);
    }
  }
  return out;
}

void MlpColumns::write(io::SafeTensors& file) const {
  Array number_columns(DType::i64, {numbers()}), scales(DType::f64, {numbers(), 2}),
      edges(DType::f32, {numbers(), bins_ + 1}), word_columns(DType::i64, {words()});
  float* edge = edges.data<float>();
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const Number& n = numbers_[i];
    number_columns.data<int64_t>()[i] = n.column;
    scales.data<double>()[2 * i] = n.mean;
    scales.data<double>()[2 * i + 1] = n.scale;
    for (size_t b = 0; b <= static_cast<size_t>(bins_); ++b) *edge++ = n.edges[std::min(b, n.edges.size() - 1)];
  }
  std::vector<int32_t> all;
  for (size_t i = 0; i < words_.size(); ++i) {
    word_columns.data<int64_t>()[i] = words_[i].column;
    all.insert(all.end(), words_[i].numbers.begin(), words_[i].numbers.end());
  }
  const auto levels = static_cast<int64_t>(all.size());
  file.tensors.emplace_back(kMlpNumberColumns, number_columns);
  file.tensors.emplace_back(kMlpScales, scales);
  file.tensors.emplace_back(kMlpEdges, edges);
  file.tensors.emplace_back(kMlpWordColumns, word_columns);
  file.tensors.emplace_back(kMlpWords, Array::of(all, {levels}));
}

MlpColumns::MlpColumns(const store::RowShape& shape, const io::SafeTensors& file, const std::string& path) {
  const auto damaged = [&](const char* name, const auto&... why) {
    fail(ErrorKind::checkpoint, path, "the tensor ", name, " ", why...);
  };
  const Array* const columns = find_mlp(file, kMlpNumberColumns, DType::i64, 1);
  if (!columns) damaged(kMlpNumberColumns, "is missing, or not i64[F]");
  const int64_t n = columns->shape()[0];
  const Array* const scales = find_mlp(file, kMlpScales, DType::f64, 2);
  if (!scales || scales->shape() != Shape{n, 2}) damaged(kMlpScales, "is missing, or not f64[", n, ",2]");
  const Array* const edges = find_mlp(file, kMlpEdges, DType::f32, 2);
  if (!edges || edges->shape()[0] != n || edges->shape()[1] < 1) {
    damaged(kMlpEdges, "is missing, or not f32[", n, ",B]");
  }
  const auto column_of = [&](const Array& from, int64_t i, bool words, const char* name) {
    const int64_t c = from.data<int64_t>()[i];
    const bool there = c >= 0 && c < static_cast<int64_t>(shape.columns.size());
    if (!there || shape.columns[static_cast<size_t>(c)].words != words) {
      damaged(name, "holds ", c, ", which is no column of ", words ? "words" : "numbers");
    }
    return c;
  };
  const int64_t width = edges->shape()[1];
  for (int64_t i = 0; i < n; ++i) {
    Number number{.column = column_of(*columns, i, false, kMlpNumberColumns),
                  .mean = scales->data<double>()[2 * i],
                  .scale = scales->data<double>()[2 * i + 1],
                  .edges = {}};
    if (!std::isfinite(number.mean) || !(number.scale > 0) || !std::isfinite(number.scale)) {
      damaged(kMlpScales, "holds numbers that are NaN or infinite, or scales of 0 or less");
    }
    const float* const row = edges->data<float>() + i * width;
    for (int64_t b = 0; b < width && (b == 0 || row[b] > row[b - 1]); ++b) number.edges.push_back(row[b]);
    const bool same =
        std::all_of(row + number.edges.size(), row + width, [&](float e) { return e == number.edges.back(); });
    const bool finite = std::all_of(row, row + width, [](float e) { return std::isfinite(e); });
    if (!same || !finite || number.edges.size() < 2) damaged(kMlpEdges, "holds edges of bins that do not rise");
    numbers_.push_back(std::move(number));
  }
  const Array* const word_columns = find_mlp(file, kMlpWordColumns, DType::i64, 1);
  if (!word_columns) damaged(kMlpWordColumns, "is missing, or not i64[C]");
  const Array* const all = find_mlp(file, kMlpWords, DType::i32, 1);
  int64_t at = 0;
  for (int64_t i = 0; i < word_columns->shape()[0]; ++i) {
    Words words{.column = column_of(*word_columns, i, true, kMlpWordColumns), .numbers = {}};
    const auto levels = static_cast<int64_t>(shape.columns[static_cast<size_t>(words.column)].levels.size());
    for (int64_t k = 0; k < levels && all && at < all->shape()[0]; ++k) {
      words.numbers.push_back(all->data<int32_t>()[at++]);
      if (words.numbers.back() < 0 || words.numbers.back() > levels) {
        damaged(kMlpWords, "holds ", words.numbers.back(), ": expected 0 to ", levels);
      }
    }
    if (levels == 0 || static_cast<int64_t>(words.numbers.size()) != levels) {
      damaged(kMlpWords, "is missing, not i32, or too short for the words of ",
              shape.columns[static_cast<size_t>(words.column)].name);
    }
    words_.push_back(std::move(words));
  }
  if (!all || at != all->shape()[0]) damaged(kMlpWords, "is missing, or not i32[", at, "]");
  count();
}

}  // namespace freight::tables
