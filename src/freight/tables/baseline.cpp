// See baseline.h.
#include "freight/tables/baseline.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/tables/table.h"

namespace freight::tables {

namespace {
constexpr const char* kBaselinePrediction = "baseline.answer";
}

Array Baseline::run(const Array& rows) const {
  const int64_t n = rows.shape()[0], k = outputs();
  Array out(DType::f32, {n, k});
  for (int64_t i = 0; i < n; ++i) std::copy_n(prediction_.data<float>(), k, out.data<float>() + i * k);
  return out;
}

std::vector<std::string> Baseline::lines() const {
  std::string text = classes_ ? "always predicts the class frequencies" : "always predicts the mean";
  for (int64_t i = 0; i < std::min<int64_t>(outputs(), 10); ++i) text += cat(" ", prediction_.data<float>()[i]);
  return {outputs() > 10 ? text + " ..." : text};
}

void Baseline::write(io::SafeTensors& file) const { file.tensors.emplace_back(kBaselinePrediction, prediction_); }

std::shared_ptr<const store::RowModel> read_baseline(const io::SafeTensors& file, const std::string& path,
                                                     const store::RowShape& shape) {
  const Array* prediction = file.find(kBaselinePrediction);
  const int64_t need = std::max<int64_t>(static_cast<int64_t>(shape.classes.size()), 1);
  if (!prediction || prediction->dtype() != DType::f32 || prediction->shape() != Shape{need}) {
    fail(ErrorKind::checkpoint, path, "the tensor ", kBaselinePrediction, " is missing, or not f32[", need, "]");
  }
  return std::make_shared<Baseline>(*prediction, !shape.classes.empty());
}

RowData BaselineLearner::read(const RowSource& source) const { return read_table(source); }

train::Cost BaselineLearner::cost(const train::Config&, const RowData& data) const {
  const double outputs = static_cast<double>(std::max<size_t>(data.shape.classes.size(), 1));
  constexpr double kRowsPerSecond = 1e8;  // one pass over labels in memory
  return {.bytes = outputs * (sizeof(double) + sizeof(float)),
          .seconds = static_cast<double>(data.train.count()) / kRowsPerSecond};
}

std::shared_ptr<const store::RowModel> BaselineLearner::fit(const train::Config&, const RowData& data,
                                                            const std::function<bool(const Round&)>& on_round) const {
  const bool classes = data.train.classification();
  const auto k = std::max<int64_t>(static_cast<int64_t>(data.shape.classes.size()), 1);
  std::vector<double> sums(static_cast<size_t>(k));
  double all = 0;
  for (int64_t i = 0; i < data.train.count(); ++i) {
    const double weight = data.train.weight(i);
    all += weight;
    if (classes) {
      sums[static_cast<size_t>(data.train.labels.data<int64_t>()[i])] += weight;
    } else {
      sums[0] += weight * static_cast<double>(data.train.labels.data<float>()[i]);
    }
  }
  Array prediction(DType::f32, {k});
  for (int64_t i = 0; i < k; ++i) {
    prediction.data<float>()[i] = static_cast<float>(sums[static_cast<size_t>(i)] / all);
  }
  auto model = std::make_shared<const Baseline>(prediction, classes);
  on_round({.loss = evaluate(*model, data.train).loss, .model = model.get()});
  return model;
}

}  // namespace freight::tables
