// Predictor: a saved model of any learner that predicts from raw inputs (images, texts, arrays, rows of a table) with
// class probabilities or regressed values. Everything that deploys a model goes through it (`predict`, `serve`,
// `verify`), and it prepares its inputs with the code that training and evaluation use, so that no two of them can
// drift apart.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/io/file.h"
#include "freight/store/bundle.h"

namespace freight::deploy {

// Settings of a Predictor.
struct PredictorOptions {
  std::string backend = "auto";    // auto, cpu, ref, cuda:N or opencl:N
  std::string precision = "fp32";  // store::precision_names()
  bool deterministic = false;      // equal bits on every run
  int64_t batch_size = 64;         // samples per step, at most
};

// Settings of one call of Predictor::run.
struct PredictOptions {
  // The values were checked when the samples were made (Predictor::sample_of_...), or by check_values.
  bool values_checked = false;
  // Hears of each step that has run: of how many samples, and how long it took.
  std::function<void(int64_t samples, double seconds)> ran = {};
};

// Any number of threads may ask one predictor; their batches are run one after the other. For more at a time make
// several predictors.
class Predictor {
 public:
  // Puts the bundle's net, which it shares with whoever made the bundle, into evaluation: train() before training goes
  // on. Throws Error(usage) for a model that tells tokens (train::generate continues a text with it).
  explicit Predictor(store::Bundle bundle, const PredictorOptions& options = {});
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  const store::Bundle& bundle() const;      // the stored model
  const PredictorOptions& options() const;  // as given
  // Probabilities, or the values of a model that regresses.
  bool probabilities() const;
  int64_t outputs() const;  // classes, or values
  // FLOPs of one sample, of a text of full length, before any plan is made. Nothing is run.
  double flops() const;
  // False where the prediction for a sample may depend on the others of its batch (BatchNorm2d without running
  // statistics, a softmax along axis 0), as far as the ops of the net tell: such batches are neither filled up nor, by
  // freight serve, put together from several requests. Traces a net; nothing is run.
  bool keeps_samples_apart() const;

  // Raw inputs as samples of the model. A file is an image (as io/image.h reads them; made gray or RGB, resized and cut
  // as evaluation does it): u8 (C, H, W), or f32 where the model was trained on another range; or an npy in the
  // model's input shape, taken as it is. A text is tokens i32 (T), cut off at the model's length. Throw Error(data)
  // that names the file, or `name`, for values that check_values refuses, too.
  Array sample_of_file(const std::string& path) const;
  // A file's content as a sample; `name` stands in messages.
  Array sample_of_bytes(io::ByteView bytes, const std::string& name) const;
  // Numbers of any type as a sample, as store::Preprocessing::arrays says; undefined where the shape fits no layout.
  Array sample_of_values(const Array& values, const std::string& name) const;
  // data::range_warning of a sample.
  std::string range_warning(const Array& sample) const;
  // A text as tokens i32 (T); of a blank one the token for unknown words.
  Array sample_of_text(const std::string& text, const std::string& name = "text") const;
  // A row of a table, its cells in the order of bundle().columns (store::places_of finds them by name): f64 (columns).
  Array sample_of_row(const std::vector<store::Cell>& cells, const std::string& name) const;
  // Throws Error(data) that begins with `name` where a sample of floats holds what no input is: NaN, infinity, numbers
  // that overflow within a net (beyond 1e15 once normalized), or, of a model of pixels, numbers outside of 0 to 1.
  void check_values(const Array& sample, const std::string& name) const;

  // f32 (N, outputs) for samples as made above, in their order. Throws Error(data) for a sample of another shape or of
  // values that check_values refuses. For networks this is the one place that groups samples by shape, pads texts and
  // fills up batches: where samples keep apart, steps take 1, 2, 4, ... samples up to the batch size, the last one
  // repeated, so that plans are few. Rows of a table run in one call, however many.
  Array run(const std::vector<Array>& samples, const PredictOptions& options = {});
  // Plans the steps that `run` takes for samples of these types and runs each once. Nothing where that was done.
  void warm(const std::vector<Array>& samples);
  // The same for batches of these sizes; of texts at every padded length.
  void warm(const std::vector<int64_t>& batch_sizes);
  // The same for all steps that `run` can take. Calls `warmed` after each (plans done, of how many); if that returns
  // false, stops and returns false.
  bool warm_all(const std::function<bool(int64_t done, int64_t all)>& warmed);

  struct State;  // predictor_internal.h

 private:
  std::unique_ptr<State> state_;
};

// The name of a class; its number where the bundle has no names.
std::string class_name(const store::Bundle& bundle, int64_t number);

}  // namespace freight::deploy
