// See row_samples.h.
#include "freight/store/row_samples.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/printable.h"

namespace freight::store {

namespace {

constexpr const char* kSampleRows = "samples.rows";            // f64 (N, columns), 0 for missing values
constexpr const char* kSampleGaps = "samples.missing";         // u8 (N, columns): 1 for missing values
constexpr const char* kSamplePredictions = "samples.answers";  // f32 (N, outputs)
constexpr int64_t kSamples = 64, kSampleCells = 1 << 16;       // at most; wide tables have fewer rows
constexpr uint32_t kMissingOneIn = 16;

}  // namespace

Array drawn_rows(const std::vector<Column>& columns, const RowValues& seen) {
  const auto width = static_cast<int64_t>(columns.size());
  const int64_t n = std::clamp<int64_t>(kSampleCells / std::max<int64_t>(width, 1), 1, kSamples);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Array rows(DType::f64, {n, width});
  PhiloxStream random(0, 0, 0);
  for (int64_t c = 0; c < width; ++c) {
    const Column& column = columns[static_cast<size_t>(c)];
    double least = kNone, most = kNone;
    for (const double v : column.words ? std::vector<double>() : seen.column(c)) {
      if (!std::isfinite(v)) continue;
      least = std::isnan(least) ? v : std::min(least, v);
      most = std::isnan(most) ? v : std::max(most, v);
    }
    for (int64_t i = 0; i < n; ++i) {
      double& cell = rows.data<double>()[i * width + c];
      const bool missing = random.below(kMissingOneIn) == 0;
      const auto share = static_cast<double>(random.uniform(0, 1));
      cell = least * (1 - share) + most * share;  // stays between the two even if their difference would overflow
      if (column.form != CellForm::number && column.form != CellForm::seconds) cell = std::round(cell);
      if (column.words) cell = static_cast<double>(random.below(static_cast<uint32_t>(column.levels.size() + 1))) - 1;
      if (missing) cell = kNone;
    }
  }
  return rows;
}

RowSamples sampled(const RowModel& model, const std::vector<Column>& columns, const RowValues& seen) {
  const Array rows = drawn_rows(columns, seen), predictions = model.run(rows);
  const int64_t width = rows.shape()[1], outputs = predictions.shape()[1];
  // Random rows may have a prediction that is not finite, which a saved file must not contain.
  std::vector<int64_t> finite;
  for (int64_t i = 0; i < rows.shape()[0]; ++i) {
    const float* const row = predictions.data<float>() + i * outputs;
    if (std::all_of(row, row + outputs, [](float v) { return std::isfinite(v); })) finite.push_back(i);
  }
  if (finite.empty()) return {};
  const auto n = static_cast<int64_t>(finite.size());
  RowSamples out{.rows = Array(DType::f64, {n, width}), .predictions = Array(DType::f32, {n, outputs})};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = finite[static_cast<size_t>(i)];
    std::copy_n(rows.data<double>() + from * width, width, out.rows.data<double>() + i * width);
    std::copy_n(predictions.data<float>() + from * outputs, outputs, out.predictions.data<float>() + i * outputs);
  }
  return out;
}

void write_samples(const RowSamples& samples, io::SafeTensors& file) {
  if (!samples.there()) return;
  Array rows(DType::f64, samples.rows.shape()), gaps(DType::u8, samples.rows.shape());
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const double v = samples.rows.data<double>()[i];
    gaps.data<uint8_t>()[i] = std::isnan(v) ? 1 : 0;
    rows.data<double>()[i] = std::isnan(v) ? 0 : v;
  }
  file.tensors.emplace_back(kSampleRows, rows);
  file.tensors.emplace_back(kSampleGaps, gaps);
  file.tensors.emplace_back(kSamplePredictions, samples.predictions);
}

RowSamples read_samples(const io::SafeTensors& file, const std::string& path, const std::vector<Column>& columns,
                        int64_t outputs) {
  const Array *rows = file.find(kSampleRows), *gaps = file.find(kSampleGaps),
              *predictions = file.find(kSamplePredictions);
  if (!rows && !gaps && !predictions) return {};
  const int64_t n = rows && rows->shape().rank() == 2 ? rows->shape()[0] : 0;
  const auto width = static_cast<int64_t>(columns.size());
  const bool right = rows && gaps && predictions && n > 0 && rows->dtype() == DType::f64 &&
                     gaps->dtype() == DType::u8 && predictions->dtype() == DType::f32 &&
                     rows->shape() == Shape{n, width} && gaps->shape() == rows->shape() &&
                     predictions->shape() == Shape{n, outputs};
  if (!right) {
    fail(ErrorKind::checkpoint, path, "the tensors ", kSampleRows, ", ", kSampleGaps, " and ", kSamplePredictions,
         " are not f64 and u8 (N, ", width, ") and f32 (N, ", outputs, ")");
  }
  RowSamples out{.rows = Array(DType::f64, rows->shape()), .predictions = *predictions};
  for (int64_t i = 0; i < rows->numel(); ++i) {
    const bool missing = gaps->data<uint8_t>()[i] != 0;
    const double v = rows->data<double>()[i];
    const Column& column = columns[static_cast<size_t>(i % width)];
    const auto words = static_cast<double>(column.levels.size());
    if (column.words && !missing && v != kUnknownWord && !(v == std::floor(v) && v >= 0 && v < words)) {
      fail(ErrorKind::checkpoint, path, "the tensor ", kSampleRows, " holds ", v, " in column ", excerpt(column.name),
           ", which has ", words, " categories");
    }
    out.rows.data<double>()[i] = missing ? std::numeric_limits<double>::quiet_NaN() : v;
  }
  return out;
}

}  // namespace freight::store
