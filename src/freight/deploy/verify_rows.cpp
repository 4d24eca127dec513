// The claims about a model of rows: the predictions that were saved with it are reproduced one by one, from texts of
// cells, from its file, and by ONNX Runtime; and what the columns add is the prediction. See verify.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/deploy/onnx.h"
#include "freight/deploy/onnx_rows_internal.h"
#include "freight/deploy/verify_internal.h"
#include "freight/io/file.h"

namespace freight::deploy {

namespace {

constexpr double kRowLimit = 1e-5;       // of probabilities, or of values over the largest
constexpr const char* kNoWord = "\x01";  // stands for one that training did not see

class RowVerifier {
 public:
  RowVerifier(store::Bundle bundle, const VerifyOptions& options)
      : options_(options), samples_(bundle.samples), predictor_(std::move(bundle), {.batch_size = options.samples}) {
    rows_ =
        samples_.there() ? samples_.rows : store::drawn_rows(this->bundle().columns, Array(DType::f64, {0, width()}));
    predictions_ = model().run(rows_);
  }

  std::vector<Claim> run() {
    const std::function<Claim()> all[] = {[&] { return replayed(); },  [&] { return singly(); },
                                          [&] { return from_text(); }, [&] { return again(); },
                                          [&] { return added_up(); },  [&] { return exported(); }};
    return judged_in_turn(all, options_);
  }

 private:
  const store::Bundle& bundle() const { return predictor_.bundle(); }
  const store::RowModel& model() const { return *bundle().rows; }
  int64_t width() const { return static_cast<int64_t>(bundle().columns.size()); }

  double difference(const Array& got, const Array& need) const {
    if (got.shape() != need.shape()) return INFINITY;
    double far = 0, largest = 0;
    for (int64_t i = 0; i < got.numel(); ++i) {
      const auto a = static_cast<double>(got.data<float>()[i]), b = static_cast<double>(need.data<float>()[i]);
      if (std::isnan(a - b)) return INFINITY;
      far = std::max(far, std::fabs(a - b));
      largest = std::max(largest, std::fabs(b));
    }
    return !model().predicts_classes() && largest > 0 ? far / largest : far;
  }

  Claim replayed() {
    Claim c{.name = "replay", .text = "the predictions that were saved with the model are reproduced"};
    if (!samples_.there()) {
      c.note = "its file contains none: it was written before they were saved";
      return c;
    }
    c.difference = difference(predictions_, samples_.predictions);
    return judged(c, kRowLimit);
  }

  Claim singly() {
    Claim c{.name = "batch", .text = "single rows give bitwise the same predictions as one batch"};
    Array got(DType::f32, predictions_.shape());
    const int64_t k = model().outputs();
    for (int64_t i = 0; i < rows_.shape()[0]; ++i) {
      Array one(DType::f64, {1, width()});
      std::copy_n(rows_.data<double>() + i * width(), width(), one.data<double>());
      std::copy_n(model().run(one).data<float>(), k, got.data<float>() + i * k);
    }
    c.difference = difference(got, predictions_);
    return judged(c, 0);
  }

  // Asks by the cells of a file or of a request. Parts of a date are no cells of their own: they are missing here.
  Claim from_text() {
    Claim c{.name = "cells", .text = "rows that are written as text and read back give bitwise the same predictions"};
    std::vector<Array> samples;
    Array rows(DType::f64, rows_.shape());
    for (int64_t i = 0; i < rows.numel(); ++i) {
      const bool date = bundle().columns[static_cast<size_t>(i % width())].date();
      rows.data<double>()[i] = date ? std::numeric_limits<double>::quiet_NaN() : rows_.data<double>()[i];
    }
    for (int64_t i = 0; i < rows_.shape()[0]; ++i) {
      std::vector<store::Cell> cells;
      for (int64_t k = 0; k < width(); ++k) {
        const store::Column& column = bundle().columns[static_cast<size_t>(k)];
        const double v = rows.data<double>()[i * width() + k];
        std::string cell = std::isnan(v) ? "" : column.style.plain() ? cat(v) : data::in_style(cat(v), column.style);
        if (column.words && !std::isnan(v)) cell = v < 0 ? kNoWord : column.levels[static_cast<size_t>(v)];
        cells.emplace_back(std::move(cell));
      }
      samples.push_back(predictor_.sample_of_row(cells, cat("row ", i)));
    }
    c.difference = difference(predictor_.run(samples), model().run(rows));
    return judged(c, 0);
  }

  Claim again() {
    Claim c{.name = "file", .text = "saved and loaded again, predictions are bitwise identical"};
    const io::ScratchDir dir;
    const std::string path = dir.path() + "/model.safetensors";
    store::save_bundle(path, bundle());
    c.difference = difference(store::load_bundle(path).rows->run(rows_), predictions_);
    return judged(c, 0);
  }

  // Sums to predictions; link as the model's form has it.
  Claim added_up() {
    Claim c{.name = "shap", .text = "the contributions of the columns (predict --explain) add up to the prediction"};
    const store::RowForm form = model().form();
    const auto* forest = std::get_if<store::ForestForm>(&form);
    const auto* linear = std::get_if<store::LinearForm>(&form);
    if (!model().explains() || (!forest && !linear)) {
      c.note = cat("a model of ", bundle().learner, " does not attribute predictions to columns");
      return c;
    }
    const store::RowLink link = forest ? forest->link : linear->link;
    const Array added = model().contributions(rows_);
    const int64_t groups = added.shape()[1], k = model().outputs();
    Array got(DType::f32, predictions_.shape());
    for (int64_t i = 0; i < rows_.shape()[0]; ++i) {
      std::vector<double> sums;
      for (int64_t g = 0; g < groups; ++g) {
        const double* from = added.data<double>() + (i * groups + g) * (width() + 1);
        sums.push_back(std::accumulate(from, from + width() + 1, 0.0));
      }
      store::apply_link(link, sums);
      for (int64_t j = 0; j < k; ++j) got.data<float>()[i * k + j] = static_cast<float>(sums[static_cast<size_t>(j)]);
    }
    c.difference = difference(got, predictions_);
    return judged(c, kRowLimit);
  }

  Claim exported() {
    Claim c{.name = "onnx", .text = "ONNX Runtime gives the same results (export)"};
    if (std::holds_alternative<std::monostate>(model().form())) {
      c.note = cat("a model of ", bundle().learner, " has no form there");
      return c;
    }
    if (options_.python.empty()) {
      c.note = kNeedsPython;
      return c;
    }
    const io::ScratchDir dir;
    const std::string file = dir.path() + "/model.onnx";
    export_onnx(bundle(), file);
    return through_runtime(c, options_.python, file, dir.path(), {onnx::features_of(bundle(), rows_)},
                           [&](const std::vector<Array>& results) { return difference(results[0], predictions_); });
  }

  VerifyOptions options_;
  store::RowSamples samples_;
  Predictor predictor_;
  Array rows_, predictions_;
};

}  // namespace

std::vector<Claim> verify_rows(store::Bundle bundle, const VerifyOptions& options) {
  if (!options.data.empty())
    refuse_flag_of("--data", "networks",
                   cat("a model of ", bundle.learner, " is verified with rows that are saved in it"));
  return RowVerifier(std::move(bundle), options).run();
}

}  // namespace freight::deploy
