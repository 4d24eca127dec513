// A model of rows behind a Predictor: cells become rows of numbers, which it predicts all at once.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"
#include "freight/deploy/predictor_internal.h"
#include "freight/store/row_model.h"

namespace freight::deploy {

namespace {

struct RowState : Predictor::State {
  using State::State;

  bool probabilities() const override { return bundle.rows->predicts_classes(); }
  int64_t outputs() const override { return bundle.rows->outputs(); }
  // What is known of every learner is an upper bound: a row meets each fitted number once at most, in a product and a
  // sum, or in the comparison of a tree.
  double flops() override { return 2.0 * static_cast<double>(bundle.rows->parameters()); }
  Array sample_of_row(const std::vector<store::Cell>& cells, const std::string& name) const override {
    return store::row_of(bundle.columns, cells, name);
  }
  // Each column is told once.
  std::string range_warning(const Array& sample) const override {
    const std::lock_guard lock(guard);
    std::vector<std::string> fresh;
    for (const store::Beyond& beyond : store::beyond_training(bundle.columns, sample.data<double>())) {
      if (reported.insert(beyond.column).second) fresh.push_back(beyond.text);
    }
    return join(fresh, "; ");
  }
  Array run(const std::vector<Array>& samples, const PredictOptions& how) override {
    const auto start = std::chrono::steady_clock::now();
    const auto n = static_cast<int64_t>(samples.size()), width = static_cast<int64_t>(bundle.columns.size());
    Array rows(DType::f64, {n, width});
    for (int64_t i = 0; i < n; ++i) {
      const Array& one = samples[static_cast<size_t>(i)];
      if (one.dtype() != DType::f64 || one.shape() != Shape{width}) {
        fail(ErrorKind::data, "predict", "got a sample ", Type{one.dtype(), one.shape()},
             ", the model expects rows f64[", width, "]");
      }
      std::copy_n(one.data<double>(), width, rows.data<double>() + i * width);
    }
    Array predictions = bundle.rows->run(rows);
    if (how.ran) how.ran(n, seconds_since(start));
    return predictions;
  }
  std::string takes() const override {
    return cat("it expects rows of the columns ", excerpt(join(store::sources_of(bundle.columns), ", ")),
               ", as a .csv file");
  }

  mutable std::mutex guard;
  mutable std::set<size_t> reported;  // columns of which numbers beyond training were reported
};

}  // namespace

std::unique_ptr<Predictor::State> predict_by_rows(store::Bundle bundle, const PredictorOptions& options) {
  if (options.backend != "auto" && options.backend != "cpu") {
    refuse_value("--device", options.backend, cat("a model of ", bundle.learner, " runs on the CPU"));
  }
  if (options.precision != "fp32") {
    refuse_value("--precision", options.precision, cat("a model of ", bundle.learner, " computes in f64"));
  }
  return std::make_unique<RowState>(std::move(bundle), options);
}

}  // namespace freight::deploy
