// Models: nets with their input shape, made by C++ builders, by name, or from JSON specs. A builder's model prints as
// the spec file of the same name under models/. Spec form: docs of from_spec; listing: summary.h.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/nn/module.h"

namespace freight::models {

// The figure that training minimizes. Results are logits and targets classes: cross_entropy; focal, which weighs the
// cross-entropy of a sample by (1 - p)^2, p the probability of its class (Lin et al., Focal loss, ICCV 2017); bce, the
// sum of a binary cross-entropy per class. Results and targets are values, (N, K) each: mse; huber, quadratic for
// errors up to 1 and linear beyond; mae, the mean absolute error. Results are logits of labels that do not exclude each
// other, and targets (N, K) are 1 for each label that a sample has: multilabel, the mean of a binary cross-entropy per
// label.
enum class Loss { cross_entropy, mse, focal, bce, huber, mae, multilabel };
std::vector<std::string> loss_names();  // of all losses, those of classes first
std::string to_string(Loss loss);       // "cross_entropy", "mse"
// True for losses of values, false for those of classes and labels.
bool regresses(Loss loss);
// False for an unknown name.
bool parse_loss(const std::string& name, Loss& out);

// The loss and metric that a program minimizes and reports in place of what Loss says: functions of the net's outputs
// and the targets. Each gives a number per sample, f32 (N), or their mean over the batch, a scalar: parts of a batch
// and the batches of an evaluation are weighed by their samples. Stored models do not have them. They get outputs and
// targets as they are: outputs (N, 1) less targets (N) would be (N, N), as everywhere.
struct Objective {
  // (outputs, targets) -> f32 (N), or a scalar
  using Function = std::function<Tensor(const Tensor& outputs, const Tensor& targets)>;
  Function loss = {};                  // empty: that of Model::loss
  Function metric = {};                // reported in place of top1, and what says which weights are the best
  std::string metric_name = "metric";  // in reports
  bool higher_is_better = true;        // of the metric
  // For further figures: called where a batch of training or of an evaluation is scored.
  std::function<void(const Tensor& outputs, const Tensor& targets)> observe = {};
  // Called behind an evaluation of the held-out samples. Returns their metric, whose name is metric_name, or nothing,
  // and metric_name is empty.
  std::function<std::optional<double>()> evaluated = {};
  // True if evaluations have a metric of the program.
  bool reports() const { return metric || (evaluated && !metric_name.empty()); }
};

// The mean and standard deviation of each value of the training targets. The net's results are (value - mean) /
// deviation, by which the loss is computed, so that all values count alike and the learning rate does not depend on
// their units. Empty: the results are the values.
struct TargetScale {
  std::vector<float> mean, deviation;  // by value

  bool any() const { return !mean.empty(); }  // true if there is a scale
};

// A net with what it is for.
struct Model {
  std::string name;                 // of the builder or spec
  Type input;                       // of one sample, without the batch axis: f32[1,28,28]
  std::shared_ptr<nn::Module> net;  // its layers
  Loss loss = Loss::cross_entropy;  // beside a loss of `own`: what the outputs are, logits of classes or values
  Objective own = {};               // empty for nets of specs
  // Logits are divided by it before they become probabilities (Guo et al., On calibration of modern neural networks,
  // ICML 2017). A stored model has its own; specs do not state it.
  double temperature = 1;
  // For losses of values. A stored model has its own.
  TargetScale target_scale = {};
  // A text of the program for its stored files (store::kNotes); loaded models have none.
  std::string notes = {};

  // Type of the net's input for a batch.
  Type batch_type(int64_t batch) const;
  // The net's result for a batch of the input; traced, never run.
  Type output_type(int64_t batch) const;
  // Extent of the last axis of the result: classes, or values to regress.
  int64_t classes() const;
  // Reads tokens i32 (N, T).
  bool reads_tokens() const { return input.dtype == DType::i32 && input.shape.rank() == 1; }
  // Reads tokens and tells the next one at every place: the result is (N, T, V).
  bool language_model() const;
  // True where the net takes samples of this shape.
  bool takes(const Shape& sample) const;
  // Tokens that the first embedding knows; 0 where there is none.
  int64_t vocabulary() const;
};

// Zero or empty: the model's default.
struct Options {
  int64_t classes = 0;         // outputs of the last layer
  Shape input = {};            // of one sample: {1, 28, 28}
  Shape size = {};             // {H, W} instead of those of `input`
  int64_t vocabulary = 0;      // of nets that read tokens: how many there are, padding (0) among them
  int64_t length = 0;          // of those: tokens per sample
  int64_t layers = 0;          // of recurrent nets and transformers: how many
  int64_t width = 0;           // of those: of the tokens' vectors and hidden states; of a transformer a multiple of 64
  bool bidirectional = false;  // of recurrent nets
  double dropout = 0;          // of nets that read tokens: in blocks, between layers, before the last layer

  // True where a setting of nets that read tokens is given.
  bool of_tokens() const {
    return vocabulary != 0 || length != 0 || layers != 0 || width != 0 || bidirectional || dropout != 0;
  }
};
// "224" or "224x192" as {H, W}. Throws Error(usage).
Shape parse_size(const std::string& text);

// A model that `create` knows by name.
struct Entry {
  const char* name;                 // for --model
  const char* description;          // one line for listings
  Shape input;                      // of one sample
  int64_t classes;                  // or values to regress
  Loss loss = Loss::cross_entropy;  // that training minimizes
  int64_t vocabulary = 0;           // of nets that read tokens, i32 of shape `input`; else 0
  int64_t resize = 0;               // of nets for photographs: shorter side before the center crop of `input`; else 0
};
// The named models. Those that torchvision has carry its parameter names, shapes and initial values, so that its
// weights fit; resnet20, 32 and 56 are those of He et al. 2016, section 4.2, with projection shortcuts.
const std::vector<Entry>& registry();

// A named model. Throws Error(usage) naming the nearest name, or the layer that the input does not fit.
Model create(const std::string& name, const Options& options = {});

// Builds a model from a spec, {"format": "freight-model-1", "name": ..., "input": [1,28,28], "net": LAYER}. A LAYER is
// an object with a "type" and that type's settings, or a list (Sequential). Sizes that follow from the input ("in",
// "channels") may be left out. "defs" names layers that {"ref": NAME} repeats with parameters of their own.
// Throws Error(usage) with the layer path and `source` for unknown layers or keys (the nearest is named), missing keys,
// cycles, and shapes that do not fit (both are named). Grammar: docs/model-spec.md.
Model from_spec(const std::string& text, const std::string& source = "spec");
// Reads a file and builds from it; throws Error(usage) when it cannot be read.
Model from_spec_file(const std::string& path);
// Which of the sizes that from_spec would infer from the input a printed spec states.
enum class SpecSizes {
  all,      // every size, so that the spec fits no other input: what a saved model records
  required  // none of them, so that another "input" suffices to adapt the spec
};
// The spec of a model; from_spec(to_spec(m)) is equal to m. A net whose sizes cannot all be inferred is printed with
// all of them. Throws Error(usage) for modules without a spec form.
std::string to_spec(const Model& model, SpecSizes sizes = SpecSizes::all);
// The same net with weights of its own, as its spec makes it, and the same objective and scales. Throws as to_spec.
Model again(const Model& model);
// The model with a net that computes the same and has a spec form, whatever the layers are: a graph that is traced for
// samples of the model's input, and shares the variables (nn::trace_module, which has `untrained` and what is thrown).
// The objective is not taken over.
Model as_graph(const Model& model, std::string* untrained = nullptr);
// True where every layer of the net is declared (nn/layer_type.h), so that it has a spec form.
bool has_spec(const Model& model);
// True where the spec, which is from `source`, makes the same net, whatever lines of a program their graphs note: an
// edit shifts them. Throws as from_spec and to_spec.
bool is_of_spec(const Model& model, const std::string& spec, const std::string& source);
// Throws Error(usage) where from_spec(to_spec(m)) has other variables than m, or computes something else: a layer whose
// declaration leaves something out would be stored without a word, and be another one when it is loaded.
void check_spec(const Model& model);
// A registered name, or the path of a spec file (anything with a slash or ending in .json). Throws Error(usage) for
// options beside a file: it says all itself.
Model load(const std::string& name_or_file, const Options& options = {});

}  // namespace freight::models
