// See verify.h. Samples are raw inputs; every way prepares them by itself. The bare net's are prepared here, by the
// definition in docs/deploy.md and not by the code of training, so that an error there shows.
#include "freight/deploy/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/usage.h"
#include "freight/deploy/onnx.h"
#include "freight/deploy/onnx_runtime_internal.h"
#include "freight/deploy/verify_internal.h"
#include "freight/io/file.h"
#include "freight/models/loss.h"
#include "freight/models/summary.h"
#include "freight/trace/compile.h"
#include "freight/train/evaluate.h"
#include "freight/train/text.h"

namespace freight::deploy {

namespace {

constexpr double kLimit = kVerifyLimit;
constexpr int64_t kReferenceSamples = 4;
constexpr double kReferenceFlops = 1e10;  // what the naive loops of `ref` do in some seconds

// Evaluation measures this of one sample: the probability of its class, or its mean squared error.
struct Sample {
  Array raw;
  std::optional<double> score = {};
  std::vector<double> target = {};  // its class, or values
};

class Verifier {
 public:
  Verifier(store::Bundle evaluated, store::Bundle deployed, const VerifyOptions& o)
      : options_(o),
        evaluated_(std::move(evaluated)),
        predictor_(std::move(deployed), {.backend = o.backend, .deterministic = true, .batch_size = o.samples}) {
    evaluated_.model.net->eval();
  }

  std::vector<Claim> run() {
    if (options_.data.empty()) {
      draw(-2, 2);
    } else if (evaluated_.preprocessing.text()) {
      read_texts();
    } else {
      read_arrays();
    }
    if (options_.stop()) return {};
    try {
      predict();
    } catch (const Error&) {  // maybe of a network with tokens among numbers: 0 is one of any vocabulary
      if (!options_.data.empty()) throw;
      draw(0, 1);
      predict();
    }
    const bool images = evaluated_.preprocessing.input.rank() == 3 && !evaluated_.preprocessing.text();
    const std::function<Claim()> all[] = {
        [&] { return evaluation(); },
        [&] {
          return compare("forward", "predict equals the network on inputs that are prepared by the definition", kLimit,
                         [&] { return forward(); });
        },
        [&] {
          return compare("batch", "single samples give the same predictions as one batch", kLimit,
                         [&] { return singly(); });
        },
        [&] { return reference(); },
        [&] {
          return compare("file", "saved and loaded again, predictions are bitwise identical", 0,
                         [&] { return again(); });
        },
        [&] { return exported(false); },
        [&] { return exported(true); },
    };
    return judged_in_turn(std::span(all).first(std::size(all) - (images ? 0 : 1)), options_);
  }

 private:
  const store::Preprocessing& preprocessing() const { return evaluated_.preprocessing; }
  bool values() const { return !predictor_.probabilities(); }

  // --- samples ------------------------------------------------------------------------------------------------------

  void predict() {
    raw_.clear();
    for (const Sample& s : samples_) raw_.push_back(s.raw);
    predictions_ = predictor_.run(raw_);
  }

  // Numbers between these.
  void draw(float low, float high) {
    PhiloxStream random(options_.seed, 0, 0);
    samples_.clear();
    const Shape& shape = preprocessing().input;
    for (int64_t i = 0; i < options_.samples; ++i) {
      if (preprocessing().text()) {
        const int64_t vocabulary = preprocessing().tokenizer->size();
        Array tokens(DType::i32, {1 + static_cast<int64_t>(random.below(static_cast<uint32_t>(shape[0])))});
        for (int64_t k = 0; k < tokens.numel(); ++k) {
          tokens.data<int32_t>()[k] = 1 + static_cast<int32_t>(random.below(static_cast<uint32_t>(vocabulary - 1)));
        }
        samples_.push_back({tokens});
        continue;
      }
      Array a(shape.rank() == 3 ? DType::u8 : DType::f32, shape);
      for (int64_t k = 0; k < a.numel(); ++k) {
        if (a.dtype() == DType::u8) {
          a.data<uint8_t>()[k] = static_cast<uint8_t>(random.below(256));
        } else {
          a.data<float>()[k] = random.uniform(low, high);
        }
      }
      samples_.push_back({a});
    }
  }

  // Numbers of samples, evenly over a part of `count`, since files are often sorted by class.
  std::vector<int64_t> chosen(int64_t count) const {
    const int64_t n = std::min(options_.samples, count);
    std::vector<int64_t> out;
    for (int64_t i = 0; i < n; ++i) out.push_back(i * count / n);
    return out;
  }

  train::Evaluator evaluator() {
    return {evaluated_.model,
            {.backend = options_.backend == "auto" ? std::string() : options_.backend, .deterministic = true},
            1,
            train::TestViews::one,
            train::Evaluator::Keep::predictions};
  }
  // The error of values, or the probability of the true class, as the evaluator has just measured it on one sample.
  double score(const train::Evaluation& e, const train::Evaluator& evaluator) const {
    if (values() || evaluated_.multilabel()) return e.loss;
    const int64_t label = evaluator.predictions().targets.data<int64_t>()[0];
    return static_cast<double>(evaluator.predictions().outputs.data<float>()[label]);
  }

  void read_arrays() {
    data::Dataset set = data::load(options_.data, options_.load).test;
    train::adapt(set, evaluated_);
    train::Evaluator evaluator{this->evaluator()};
    for (const int64_t i : chosen(set.count())) {
      if (options_.stop()) return;
      const data::Dataset one = set.slice(i, 1);
      Sample s;
      s.score = score(evaluator.run(one, {}, {.workers = 0}), evaluator);
      s.target = one.labels.to_vector<double>();
      s.raw = one.files ? predictor_.sample_of_file(one.files->paths[0]) : one.images.reshaped(set.sample_shape());
      samples_.push_back(s);
    }
  }

  void read_texts() {
    const data::TextSet set = data::load_text(options_.data, options_.load);
    train::Evaluator evaluator{this->evaluator()};
    for (const int64_t i : chosen(set.test.count())) {
      if (options_.stop()) return;
      data::TextPart one;
      const auto at = static_cast<size_t>(i);
      one.texts = {set.test.texts[at]};
      if (set.classification()) one.labels = {set.test.labels[at]};
      if (set.test.targets.defined()) one.targets = data::selected_rows(set.test.targets, {i});
      Sample s;
      const auto feed = train::evaluation_feed(set, one, evaluated_, 1);
      s.score = score(evaluator.run(*feed, options_.data), evaluator);
      s.raw = predictor_.sample_of_text(one.texts[0], options_.data);
      samples_.push_back(s);
      if (one.targets.defined()) {
        samples_.back().target = one.targets.to_vector<double>();
        continue;
      }
      const auto& names = evaluated_.classes;
      const auto name = std::find(names.begin(), names.end(), set.classes[static_cast<size_t>(one.labels[0])]);
      samples_.back().target = {static_cast<double>(name - names.begin())};
    }
  }

  // --- ways to predict: f32 (samples, outputs) -----------------------------------------------------------------------

  // The tokens of a text, padded with 0 to `length`.
  static void pad(const Array& tokens, int64_t length, int32_t* row) {
    std::fill(std::copy_n(tokens.data<int32_t>(), tokens.numel(), row), row + length, 0);
  }
  int64_t bucket(const Array& tokens) const {
    const auto& lengths = preprocessing().lengths;
    return *std::lower_bound(lengths.begin(), lengths.end(), tokens.numel());
  }
  // (value / 255 where u8 - mean) / std; axis 0 of the sample is the channel.
  static Array normalized(const Array& raw, const store::Preprocessing& p) {
    Array x(DType::f32, raw.shape());
    const std::vector<double> from = raw.to_vector<double>();
    const int64_t plane = raw.shape()[0] == 0 ? 0 : raw.numel() / raw.shape()[0];
    for (int64_t i = 0; i < x.numel(); ++i) {
      double v = from[static_cast<size_t>(i)];
      if (raw.dtype() == DType::u8) v /= 255;
      if (!p.mean.empty()) {
        const auto channel = static_cast<size_t>(i / plane);
        v = (v - static_cast<double>(p.mean[channel])) / static_cast<double>(p.std[channel]);
      }
      x.data<float>()[i] = static_cast<float>(v);
    }
    return x;
  }
  // A batch (1, ...) of one sample as a net takes it.
  Array prepared(const Array& raw, int64_t length, const store::Preprocessing& p) const {
    if (p.text()) {
      Array x(DType::i32, {1, length});
      pad(raw, length, x.data<int32_t>());
      return x;
    }
    const Array x = normalized(raw, p);
    Shape shape = x.shape();
    shape.insert(0, 1);
    return x.reshaped(shape);
  }

  Array forward() {
    Array out(DType::f32, predictions_.shape());
    const models::Model& model = evaluated_.model;
    auto step =
        compile([&](const Tensor& x) { return models::tempered(model, (*model.net)(x)); },
                {.backend = options_.backend == "auto" ? std::string() : options_.backend, .deterministic = true});
    const int64_t k = out.shape()[1];
    for (size_t i = 0; i < raw_.size(); ++i) {
      const int64_t length = preprocessing().text() ? bucket(raw_[i]) : 0;
      std::vector<double> y = step(prepared(raw_[i], length, preprocessing())).array().to_vector<double>();
      if (values()) {
        const models::TargetScale& scale = model.target_scale;
        for (size_t j = 0; j < scale.mean.size(); ++j) {
          y[j] = y[j] * static_cast<double>(scale.deviation[j]) + static_cast<double>(scale.mean[j]);
        }
      } else if (evaluated_.multilabel()) {
        for (double& v : y) v = 1 / (1 + std::exp(-v));
      } else {
        const double peak = *std::max_element(y.begin(), y.end());
        const bool each = model.loss == models::Loss::bce;
        double total = 0;
        for (double& v : y) total += v = each ? 1 / (1 + std::exp(-v)) : std::exp(v - peak);
        for (double& v : y) v /= total;
      }
      std::copy(y.begin(), y.end(), out.data<float>() + static_cast<int64_t>(i) * k);
    }
    return out;
  }

  Array singly() {
    Array out(DType::f32, predictions_.shape());
    for (size_t i = 0; i < raw_.size(); ++i) put(predictor_.run({raw_[i]}), {i}, out);
    return out;
  }

  static void put(const Array& rows, const std::vector<size_t>& places, Array& out) {
    const int64_t k = out.shape()[1];
    for (size_t i = 0; i < places.size(); ++i) {
      std::copy_n(rows.data<float>() + static_cast<int64_t>(i) * k, k,
                  out.data<float>() + static_cast<int64_t>(places[i]) * k);
    }
  }

  Array again() {
    const io::ScratchDir dir;
    const std::string path = dir.path() + "/model.safetensors";
    store::save_bundle(path, predictor_.bundle());
    return Predictor(store::load_bundle(path), predictor_.options()).run(raw_);
  }

  // --- claims -------------------------------------------------------------------------------------------------------

  // The largest difference of probabilities; of values over the largest of them. NaN is infinitely far off.
  double difference(const Array& got, const Array& need) const {
    if (got.shape() != need.shape()) return INFINITY;
    const std::vector<double> a = got.to_vector<double>(), b = need.to_vector<double>();
    double far = 0, largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double d = std::abs(a[i] - b[i]);
      if (std::isnan(d)) return INFINITY;
      far = std::max(far, d);
      largest = std::max(largest, std::abs(b[i]));
    }
    return values() && largest > 0 ? far / largest : far;
  }

  template <class Way>
  Claim compare(const char* name, const char* text, double limit, Way way) {
    Claim c{.name = name, .text = text};
    c.difference = difference(way(), predictions_);
    return judged(c, limit);
  }

  // The part of an error of one value in the loss, by its definition.
  double error_of(double d) const {
    const double far = std::abs(d);
    if (evaluated_.model.loss == models::Loss::mae) return far;
    if (evaluated_.model.loss == models::Loss::huber) return far < 1 ? d * d / 2 : far - 0.5;
    return d * d;
  }

  // The loss of one value, in the scale of the target, or of the probability of one label.
  double loss_of(double prediction, double target, size_t number) const {
    constexpr double kLeast = 1e-12;
    if (evaluated_.multilabel()) return -std::log(std::max(target > 0 ? prediction : 1 - prediction, kLeast));
    const models::TargetScale& scale = evaluated_.model.target_scale;
    return error_of((prediction - target) / (scale.any() ? static_cast<double>(scale.deviation[number]) : 1));
  }

  Claim evaluation() {
    Claim c{.name = "eval",
            .text = values()                  ? "predict has the error that eval measures, sample by sample"
                    : evaluated_.multilabel() ? "predict has the loss that eval measures, sample by sample"
                                              : "predict and eval give each sample's true class the same probability"};
    if (options_.data.empty()) {
      c.note = "needs samples with targets: --data";
      return c;
    }
    const int64_t k = predictions_.shape()[1];
    for (size_t i = 0; i < samples_.size(); ++i) {
      const Sample& s = samples_[i];
      const float* row = predictions_.data<float>() + static_cast<int64_t>(i) * k;
      double mine = 0, largest = 1;
      if (values() || evaluated_.multilabel()) {
        for (int64_t j = 0; j < k; ++j) {
          mine += loss_of(static_cast<double>(row[j]), s.target[static_cast<size_t>(j)], static_cast<size_t>(j)) /
                  static_cast<double>(k);
        }
        largest = std::max(1.0, std::abs(*s.score));
      } else {
        mine = static_cast<double>(row[static_cast<int64_t>(s.target[0])]);
      }
      const double d = std::abs(mine - *s.score) / largest;
      c.difference = std::isnan(d) ? INFINITY : std::max(c.difference, d);
    }
    return judged(c);
  }

  Claim reference() {
    const double flops = models::summarize(evaluated_.model).flops;
    const auto affordable = static_cast<int64_t>(kReferenceFlops / std::max(flops, 1.0));
    const auto n = static_cast<size_t>(
        std::min<int64_t>(std::clamp<int64_t>(affordable, 1, kReferenceSamples), static_cast<int64_t>(raw_.size())));
    Claim c{.name = "reference", .text = "the naive loops of the reference backend give the same results"};
    Predictor naive(predictor_.bundle(), {.backend = "ref", .deterministic = true});
    const Array got = naive.run({raw_.begin(), raw_.begin() + static_cast<int64_t>(n)});
    Array need(DType::f32, got.shape());
    std::copy_n(predictions_.data<float>(), need.numel(), need.data<float>());
    c.difference = difference(got, need);
    c.note = cat(n, n == 1 ? " sample" : " samples");
    return judged(c);
  }

  // Through ONNX Runtime; pixels: the file prepares its inputs itself.
  Claim exported(bool pixels) {
    Claim c{.name = pixels ? "onnx-pixels" : "onnx",
            .text = pixels ? "ONNX Runtime gives the same results on raw pixels (export --preprocessing)"
                           : "ONNX Runtime gives the same results on prepared inputs (export)"};
    if (options_.python.empty()) {
      c.note = kNeedsPython;
      return c;
    }
    if (pixels && raw_[0].dtype() != DType::u8) {
      c.note = cat("the samples are ", to_string(raw_[0].dtype()), ", no pixels");
      return c;
    }
    const io::ScratchDir dir;
    const std::string file = dir.path() + "/model.onnx";
    const OnnxSummary summary = export_onnx(predictor_.bundle(), file, {.preprocessing = pixels});
    std::map<int64_t, std::vector<size_t>> groups;  // samples by length
    for (size_t i = 0; i < raw_.size(); ++i) {
      const bool text = preprocessing().text();
      groups[!text ? 0 : summary.any_length ? bucket(raw_[i]) : preprocessing().input[0]].push_back(i);
    }
    std::vector<Array> inputs;
    for (const auto& [length, places] : groups) {
      const store::Preprocessing& p = predictor_.bundle().preprocessing;
      std::vector<Array> rows;
      for (const size_t i : places) {
        rows.push_back(pixels ? raw_[i] : prepared(raw_[i], length, p));
      }
      Shape shape = rows[0].shape();
      if (!pixels) shape.erase(0);
      shape.insert(0, static_cast<int64_t>(rows.size()));
      const Array all(rows[0].dtype(), shape);
      for (size_t i = 0; i < rows.size(); ++i) {
        std::memcpy(static_cast<char*>(all.raw()) + i * rows[i].bytes(), rows[i].raw(), rows[i].bytes());
      }
      inputs.push_back(all);
    }
    Array out(DType::f32, predictions_.shape());
    return through_runtime(c, options_.python, file, dir.path(), inputs, [&](const std::vector<Array>& results) {
      size_t next = 0;
      for (const auto& [length, places] : groups) put(results[next++], places, out);
      return difference(out, predictions_);
    });
  }

  VerifyOptions options_;
  store::Bundle evaluated_;
  Predictor predictor_;
  std::vector<Sample> samples_;
  std::vector<Array> raw_;
  Array predictions_;  // of predict
};

}  // namespace

Claim judged(Claim c, double limit) {
  c.limit = limit;
  c.state = c.difference <= limit ? Claim::State::holds : Claim::State::fails;
  return c;
}

std::vector<Claim> judged_in_turn(std::span<const std::function<Claim()>> all, const VerifyOptions& options) {
  std::vector<Claim> claims;
  for (const auto& claim : all) {
    if (options.stop()) break;
    claims.push_back(claim());
    options.heard(claims.back());
  }
  return claims;
}

Claim through_runtime(Claim c, const std::string& python, const std::string& file, const std::string& scratch_dir,
                      const std::vector<Array>& inputs,
                      const std::function<double(const std::vector<Array>& results)>& difference) {
  try {
    const bool checked = onnx::check_in_python(python, file, scratch_dir);
    if (!checked) c.note = "without ONNX's checker: that Python has no package onnx";
    c.difference = difference(onnx::run_in_python(python, file, inputs, scratch_dir));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::verification) throw;
    c.note = e.what();
    c.difference = INFINITY;
  }
  return judged(c);
}

std::vector<Claim> verify(store::Bundle evaluated, store::Bundle deployed, const VerifyOptions& options) {
  need_at_least("samples", {}, static_cast<double>(options.samples), 1);
  if (!options.python.empty()) onnx::need_python(options.python);  // before claims that take long
  if (!deployed.net()) return verify_rows(std::move(deployed), options);
  if (evaluated.model.language_model()) return verify_language(std::move(evaluated), std::move(deployed), options);
  return Verifier(std::move(evaluated), std::move(deployed), options).run();
}

}  // namespace freight::deploy
