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

constexpr const char* kSampleRows = "samples.rows";        // f64 (N, columns), 0 for missing values
constexpr const char* kSampleGaps = "samples.missing";     // u8 (N, columns): 1 for missing values
constexpr const char* kSampleAnswers = "samples.answers";  // f32 (N, outputs)
constexpr int64_t kSamples = 64, kSampleCells = 1 << 16;   // at most; wide tables have fewer rows
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
  const Array rows = drawn_rows(columns, seen), answers = model.run(rows);
  const int64_t width = rows.shape()[1], outputs = answers.shape()[1];
  // Random rows may have a prediction that is not finite, which a saved file must not contain.
  std::vector<int64_t> finite;
  for (int64_t i = 0; i < rows.shape()[0]; ++i) {
    const float* const row = answers.data<float>() + i * outputs;
    if (std::all_of(row, row + outputs, [](float v) { return std::isfinite(v); })) finite.push_back(i);
  }
  if (finite.empty()) return {};
  const auto n = static_cast<int64_t>(finite.size());
  RowSamples out{.rows = Array(DType::f64, {n, width}), .answers = Array(DType::f32, {n, outputs})};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = finite[static_cast<size_t>(i)];
    std::copy_n(rows.data<double>() + from * width, width, out.rows.data<double>() + i * width);
    std::copy_n(answers.data<float>() + from * outputs, outputs, out.answers.data<float>() + i * outputs);
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
  file.tensors.emplace_back(kSampleAnswers, samples.answers);
}

RowSamples read_samples(const io::SafeTensors& file, const std::string& path, const std::vector<Column>& columns,
                        int64_t outputs) {
  const Array *rows = file.find(kSampleRows), *gaps = file.find(kSampleGaps), *answers = file.find(kSampleAnswers);
  if (!rows && !gaps && !answers) return {};
  const int64_t n = rows && rows->shape().rank() == 2 ? rows->shape()[0] : 0;
  const auto width = static_cast<int64_t>(columns.size());
  const bool right = rows && gaps && answers && n > 0 && rows->dtype() == DType::f64 && gaps->dtype() == DType::u8 &&
                     answers->dtype() == DType::f32 && rows->shape() == Shape{n, width} &&
                     gaps->shape() == rows->shape() && answers->shape() == Shape{n, outputs};
  if (!right) {
    fail(ErrorKind::checkpoint, path, "the tensors ", kSampleRows, ", ", kSampleGaps, " and ", kSampleAnswers,
         " are not f64 and u8 (N, ", width, ") and f32 (N, ", outputs, ")");
  }
  RowSamples out{.rows = Array(DType::f64, rows->shape()), .answers = *answers};
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
