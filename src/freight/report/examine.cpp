// See examine.h.
#include "freight/report/examine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "freight/base/error.h"
#include "freight/data/catalog.h"
#include "freight/data/resample.h"
#include "freight/deploy/predictor.h"
#include "freight/train/evaluate.h"
#include "freight/train/learner.h"
#include "freight/train/trained_on.h"

namespace freight::report {

namespace {

constexpr size_t kMostColumns = 100;   // labels or values whose scores are shown each
constexpr size_t kCurves = 6;          // whose curves are drawn, if there are more than two
constexpr int64_t kLargestSide = 160;  // of an image in the report

// The held-out part of a data set of any kind, one raw sample at a time.
class HeldOutPart {
 public:
  HeldOutPart(const store::Bundle& bundle, const std::string& name, const data::LoadOptions& trained_on,
              const ExamineOptions& options)
      : bundle_(bundle) {
    data::LoadOptions load = trained_on;
    load.data_dir = options.data_dir;
    load.text.bad = {.on_bad = data::OnBad::skip, .report = [this](const data::BadSample&) { ++left_out; }};
    if (!bundle.net()) {
      rows_ = train::learner_of(bundle).rows_to_measure(bundle, name,
                                                        {.data = name,
                                                         .data_dir = options.data_dir,
                                                         .on_bad = load.text.bad.on_bad,
                                                         .left_out = load.text.bad.report});
      labels_ = rows_->rows.labels;
    } else if (bundle.preprocessing.text()) {
      texts_ = data::load_text(name, load);
      labels_ = texts_.test.targets;
      if (!labels_.defined()) number_labels();
    } else {
      set_ = data::load(name, load).test;
      train::adapt(*set_, bundle);
      labels_ = set_->labels;
    }
  }

  int64_t count() const { return rows_ ? rows_->rows.count() : set_ ? set_->count() : texts_.test.count(); }
  std::string note() const {
    if (!rows_) return set_ ? set_->note : texts_.test.note;
    if (!rows_->rows.weights) return rows_->note;
    return cat(
        rows_->note, rows_->note.empty() ? "" : "; ",
        "counts and curves below count each row once; the run's own figures use sample weights (--weight-column)");
  }
  const Array& labels() const { return labels_; }
  // True if the sample has this label, where it has any number of them.
  bool has(int64_t i, int64_t label) const { return labels_.data<uint8_t>()[i * labels_.shape()[1] + label] != 0; }
  int64_t label(int64_t i) const { return labels_.data<int64_t>()[i]; }
  // f32, the target values of a sample.
  const float* values(int64_t i) const { return labels_.data<float>() + i * (labels_.numel() / count()); }
  std::string file(int64_t i) const { return set_ && set_->files ? set_->files->paths[static_cast<size_t>(i)] : ""; }
  const store::Rows* rows() const { return rows_ ? &rows_->rows : nullptr; }
  const std::string& text(int64_t i) const { return texts_.test.texts[static_cast<size_t>(i)]; }

  // Empty if the sample cannot be read.
  std::optional<Array> sample(int64_t i, const deploy::Predictor& predictor) {
    if (rows_) {
      const int64_t width = rows_->rows.values.width();
      Array row(DType::f64, {width});
      std::vector<double> room;
      std::memcpy(row.raw(), rows_->rows.values.read(i, i + 1, room), row.bytes());
      return row;
    }
    if (!set_) return predictor.sample_of_text(text(i), cat("document ", i));
    if (set_->files) {
      try {
        return predictor.sample_of_file(file(i));
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::data) throw;
        ++left_out;
        return std::nullopt;
      }
    }
    Array one(set_->images.dtype(), set_->sample_shape());
    std::memcpy(one.raw(), static_cast<const char*>(set_->images.raw()) + static_cast<size_t>(i) * one.bytes(),
                one.bytes());
    return one;
  }

  int64_t left_out = 0;

 private:
  // Maps the classes of the data set to the model's class numbers.
  void number_labels() {
    std::vector<int64_t> number;
    for (const std::string& name : texts_.classes) {
      const auto it = std::find(bundle_.classes.begin(), bundle_.classes.end(), name);
      if (it == bundle_.classes.end()) {
        fail(ErrorKind::data, texts_.name, "has class ", name, ", the model has ", join(bundle_.classes, ", "));
      }
      number.push_back(it - bundle_.classes.begin());
    }
    std::vector<int64_t> labels;
    for (const int64_t label : texts_.test.labels) labels.push_back(number[static_cast<size_t>(label)]);
    labels_ = Array::of<int64_t>(labels, {static_cast<int64_t>(labels.size())});
  }

  const store::Bundle& bundle_;
  std::optional<train::MeasuredRows> rows_;  // for a table model
  std::optional<data::Dataset> set_;
  data::TextSet texts_;
  Array labels_;
};

// A sample as an image of at most kLargestSide, u8 (C, H, W); undefined if it is not an image.
Array image_of(const Array& sample) {
  if (sample.shape().rank() != 3 || (sample.shape()[0] != 1 && sample.shape()[0] != 3)) return {};
  const int64_t channels = sample.shape()[0], rows = sample.shape()[1], columns = sample.shape()[2];
  Array out(DType::u8, sample.shape());
  if (sample.dtype() == DType::u8) {
    std::memcpy(out.raw(), sample.raw(), out.bytes());
  } else {  // the minimum becomes black, the maximum white
    const std::vector<float> values = sample.to_vector<float>();
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const float scale = *high > *low ? 255.0f / (*high - *low) : 0.0f;
    for (size_t i = 0; i < values.size(); ++i) {
      const float v = (values[i] - *low) * scale;
      out.data<uint8_t>()[i] = std::isfinite(v) ? static_cast<uint8_t>(std::clamp(v, 0.0f, 255.0f)) : 0;
    }
  }
  if (std::max(rows, columns) <= kLargestSide) return out;
  std::vector<uint8_t> pixels(out.bytes());  // (H, W, C)
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < rows * columns; ++i) {
      pixels[static_cast<size_t>(i * channels + c)] = out.data<uint8_t>()[c * rows * columns + i];
    }
  }
  const int64_t longer = std::max(rows, columns);
  const int64_t r = std::max<int64_t>(rows * kLargestSide / longer, 1);
  const int64_t s = std::max<int64_t>(columns * kLargestSide / longer, 1);
  Array small(DType::u8, {channels, r, s});
  data::Resampler().run({pixels.data(), rows, columns, channels},
                        {0, 0, static_cast<double>(rows), static_cast<double>(columns)}, data::Mirror::no, channels, r,
                        s, small.data<uint8_t>());
  return small;
}

// Sums over samples, for OutputErrors.
struct Sums {
  double absolute = 0, square = 0, target = 0, target_square = 0;
};

class Examiner {
 public:
  Examiner(const std::string& path, const ExamineOptions& options)
      : options_(options),
        predictor_(store::load_bundle(path), {.backend = options.backend, .batch_size = options.batch_size}) {
    const store::Bundle& bundle = predictor_.bundle();
    const train::TrainedOn trained_on = train::trained_on(bundle, path);
    e_.data = options.data.empty() ? trained_on.data : options.data;
    if (e_.data.empty()) {
      fail(ErrorKind::usage, path, "does not record its training data: --data names a dataset or a directory");
    }
    part_ = std::make_unique<HeldOutPart>(bundle, e_.data, trained_on.load, options);
    e_.note = part_->note();
    e_.held_out = part_->count();
    e_.parameters = bundle.parameters();
    e_.text = bundle.preprocessing.text();
    e_.multilabel = bundle.multilabel();
    e_.output_names = bundle.targets;
    e_.provenance.assign(bundle.provenance.begin(), bundle.provenance.end());
    if (predictor_.probabilities()) {
      for (int64_t i = 0; i < predictor_.outputs(); ++i) e_.classes.push_back(deploy::class_name(bundle, i));
      choose_curves();
    } else {
      sums_.resize(static_cast<size_t>(predictor_.outputs()));
    }
  }

  Examination run(const std::function<bool(int64_t, int64_t)>& poll) {
    const int64_t n = part_->count();
    const int64_t wanted = options_.samples > 0 ? std::min(options_.samples, n) : n;
    std::vector<Array> samples;
    std::vector<int64_t> numbers;
    for (int64_t k = 0; k < wanted; ++k) {
      const int64_t i = k * n / wanted;
      if (auto sample = part_->sample(i, predictor_)) {
        samples.push_back(*std::move(sample));
        numbers.push_back(i);
      }
      if (static_cast<int64_t>(samples.size()) < 4 * options_.batch_size && k + 1 < wanted) continue;
      take(numbers, predictor_.run(samples));
      samples.clear();
      numbers.clear();
      if (poll && !poll(k + 1, wanted)) fail(ErrorKind::runtime, "report", "stopped while the model was examined");
    }
    e_.left_out = part_->left_out;
    if (e_.count == 0) fail(ErrorKind::data, e_.data, "no sample of the validation set can be read");
    for (const Sums& s : sums_) {
      const auto count = static_cast<double>(e_.count);
      const double variance = s.target_square / count - s.target / count * (s.target / count);
      e_.outputs.push_back({.mean_absolute = s.absolute / count,
                            .root_mean_square = std::sqrt(s.square / count),
                            .explained = variance > 0 ? 1 - s.square / count / variance : 0});
    }
    for (size_t i = 0; i < e_.curves.size(); ++i)
      e_.curves[i].curves = metrics::threshold_curves(std::move(scored_[i]));
    if (sums_.size() <= kMostColumns) add_scores();
    e_.calibration = calibration_.bins();
    e_.calibration_error = calibration_.error();
    for (Mistake& m : e_.mistakes) show(m);
    if (const store::Rows* rows = part_->rows()) {
      e_.table =
          examine_table(predictor_.bundle(), *rows, options_.examples, [&] { return !poll || poll(wanted, wanted); });
      if (poll && !poll(wanted, wanted)) fail(ErrorKind::runtime, "report", "stopped while the model was examined");
    }
    return std::move(e_);
  }

 private:
  void take(const std::vector<int64_t>& numbers, const Array& results) {
    const int64_t k = predictor_.outputs();
    for (size_t row = 0; row < numbers.size(); ++row) {
      const float* y = results.data<float>() + static_cast<int64_t>(row) * k;
      ++e_.count;
      predictions_.insert(predictions_.end(), y, y + k);
      numbers_.push_back(numbers[row]);
      if (e_.multilabel) {
        take_labels(numbers[row], y, k);
      } else if (sums_.empty()) {
        take_class(numbers[row], y, k);
      } else {
        take_values(numbers[row], y);
      }
    }
  }

  // The metrics of all predictions with their intervals. Those of a ranking are the table's.
  void add_scores() {
    const int64_t k = predictor_.outputs(), n = e_.count;
    const store::Rows* const rows = part_->rows();
    if (rows && rows->ranked) return;
    Array predictions(DType::f32, {n, k}), weights(DType::f32, {n});
    std::copy(predictions_.begin(), predictions_.end(), predictions.data<float>());
    for (int64_t i = 0; i < n; ++i) {
      const int64_t number = numbers_[static_cast<size_t>(i)];
      weights.data<float>()[i] = rows ? static_cast<float>(rows->weight(number)) : 1.0f;
    }
    metrics::Truth truth(data::selected_rows(part_->labels(), numbers_));
    if (rows && rows->weights) truth.weights = weights;
    const store::Bundle& bundle = predictor_.bundle();
    metrics::ScoreOptions options{.thresholds = bundle.thresholds(),
                                  .first = metrics::read_metric(bundle.provenance).value_or(metrics::Metric())};
    if (static_cast<size_t>(k) <= kMostColumns) options.columns = e_.multilabel ? bundle.classes : bundle.targets;
    if (e_.multilabel && options.columns.empty()) options.draws = 0;  // intervals would take minutes
    e_.scores = metrics::scores_of(predictions, truth, options);
    e_.score_notes = metrics::notes_on_scores(predictions, truth, options);
  }

  // Chooses the second of two classes, or else the classes with the most samples.
  void choose_curves() {
    const int64_t k = predictor_.outputs();
    std::vector<int64_t> samples(static_cast<size_t>(k)), order;
    for (int64_t i = 0; i < part_->count(); ++i) {
      for (int64_t c = 0; e_.multilabel && c < k; ++c) samples[static_cast<size_t>(c)] += part_->has(i, c);
      if (!e_.multilabel && part_->label(i) < k) ++samples[static_cast<size_t>(part_->label(i))];
    }
    for (int64_t c = k == 2 && !e_.multilabel ? 1 : 0; c < k; ++c) order.push_back(c);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return samples[static_cast<size_t>(a)] > samples[static_cast<size_t>(b)];
    });
    order.resize(std::min(order.size(), kCurves));
    std::sort(order.begin(), order.end());
    for (const int64_t c : order) e_.curves.push_back({.number = c, .curves = {}});
    scored_.resize(order.size());
  }

  void take_labels(int64_t i, const float* y, int64_t k) {
    for (size_t c = 0; c < scored_.size(); ++c) {
      const int64_t label = e_.curves[c].number;
      scored_[c].push_back({y[label], part_->has(i, label)});
    }
    for (int64_t c = 0; c < k; ++c) calibration_.take(y[c], part_->has(i, c));
  }

  void take_class(int64_t i, const float* y, int64_t k) {
    const int64_t predicted = predictor_.bundle().predicted(y, k), truth = part_->label(i);
    if (truth >= k) fail(ErrorKind::data, e_.data, "sample ", i, " has class ", truth, ", the model predicts ", k);
    ++e_.predicted[{truth, predicted}];
    for (size_t c = 0; c < scored_.size(); ++c) {
      scored_[c].push_back({y[e_.curves[c].number], truth == e_.curves[c].number});
    }
    const int64_t calibrated = k == 2 ? 1 : predicted;
    calibration_.take(y[calibrated], truth == calibrated);
    if (predicted == truth || options_.examples < 1 || part_->rows()) return;
    const auto before = [](const Mistake& a, const Mistake& b) { return a.certainty > b.certainty; };
    Mistake m{
        .sample = i, .truth = truth, .predicted = predicted, .certainty = y[predicted], .truth_probability = y[truth]};
    const auto place = std::upper_bound(e_.mistakes.begin(), e_.mistakes.end(), m, before);
    e_.mistakes.insert(place, std::move(m));
    if (static_cast<int64_t>(e_.mistakes.size()) > options_.examples) e_.mistakes.pop_back();
  }

  void take_values(int64_t i, const float* y) {
    const float* target = part_->values(i);
    e_.residuals.push_back({y[0], target[0]});
    for (size_t o = 0; o < sums_.size(); ++o) {
      const double t = target[o], error = y[o] - t;
      sums_[o].absolute += std::fabs(error);
      sums_[o].square += error * error;
      sums_[o].target += t;
      sums_[o].target_square += t * t;
    }
  }

  void show(Mistake& m) {
    m.file = part_->file(m.sample);
    if (e_.text) {
      m.text = part_->text(m.sample);
    } else if (const auto sample = part_->sample(m.sample, predictor_)) {
      m.image = image_of(*sample);
    }
  }

  ExamineOptions options_;
  deploy::Predictor predictor_;
  std::unique_ptr<HeldOutPart> part_;
  Examination e_;
  std::vector<std::vector<metrics::Scored>> scored_;  // by curve
  std::vector<float> predictions_;                    // of all samples that were predicted
  std::vector<int64_t> numbers_;                      // of these samples
  metrics::Calibration calibration_;
  std::vector<Sums> sums_;  // per output of a regression
};

}  // namespace

int64_t Examination::right() const {
  int64_t n = 0;
  for (const auto& [pair, samples] : predicted) n += pair.first == pair.second ? samples : 0;
  return n;
}

Examination examine(const std::string& model_path, const ExamineOptions& options,
                    const std::function<bool(int64_t, int64_t)>& poll) {
  return Examiner(model_path, options).run(poll);
}

}  // namespace freight::report
