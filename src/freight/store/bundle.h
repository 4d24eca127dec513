// The saved model: one safetensors file with everything that a prediction needs. A network's file has its weights as
// tensors and, in the metadata, spec, input preprocessing and class names; a tokenizer is a tensor of bytes. A file of
// another learner (as the metadata say) has its columns, class names and what the learner wrote (row_model.h). `eval`,
// `predict` and `serve` start from this file alone.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/data/tokenizer.h"
#include "freight/data/tokens.h"
#include "freight/io/safetensors.h"
#include "freight/models/models.h"
#include "freight/store/row_model.h"
#include "freight/store/row_samples.h"

namespace freight::store {

// The steps from raw input to the network's input. Images are resized and cropped as data::ImageGeometry says, arrays
// are interpreted as data::ArrayMeaning says, and pixels and scaled values become 0 to 1; then each channel becomes (x
// - mean) / std. Texts become tokens, and their batches have one of `lengths`.
struct Preprocessing {
  Shape input;                   // of one sample, (C, H, W); for text (T), the length to which it is truncated
  std::vector<float> mean, std;  // per channel, finite, std above 0; empty: no normalization
  int64_t resize = 0;            // shorter side of an image before the center crop; 0: the whole image is stretched
  io::Orientation orientation = io::Orientation::exif;  // for image files

  std::shared_ptr<const data::Tokenizer> tokenizer = {};  // for text; else null
  std::vector<int64_t> lengths = {};    // for text: the lengths of batches, ascending (data::document_feed)
  data::Keep keep = data::Keep::start;  // for text that is truncated

  data::ArrayMeaning arrays = {};  // for inputs that are arrays; images are bytes

  bool text() const { return tokenizer != nullptr; }
  // True if an image file, grayscale or color, can be a sample.
  bool pictures() const {
    return !text() && input.rank() == 3 && (input[0] == 1 || input[0] == 3) && arrays.takes_pictures();
  }
  data::ImageGeometry geometry() const;  // for an input of rank 3
};

struct Bundle {
  models::Model model;          // of a network
  Preprocessing preprocessing;  // of a network
  std::vector<std::string> classes;
  std::map<std::string, std::string> provenance;    // data, metrics, version: shown, but not needed
  std::string learner = kNet;                       // the learner that fitted it; files without this entry are networks
  std::vector<Column> columns = {};                 // of other learners
  std::vector<IgnoredColumn> ignored_columns = {};  // of other learners: columns that are not features
  std::shared_ptr<const RowModel> rows = {};        // of other learners; null for a network
  RowSamples samples = {};                          // of other learners, if there are any
  // For two classes, see metrics::predicted_class; empty: the more probable class is predicted.
  std::optional<double> threshold = {};
  std::vector<double> label_thresholds = {};  // of a network with several labels, each above 0 and below 1; empty: 0.5
  std::vector<std::string> targets = {};      // of a network: names of the values that it predicts; often empty

  bool net() const { return rows == nullptr; }
  // The network predicts any number of the classes, which are labels then: those that labels_in() has.
  bool multilabel() const { return net() && model.loss == models::Loss::multilabel; }
  const std::string& name() const { return net() ? model.name : learner; }
  int64_t predicted(const float* probabilities, int64_t of) const {
    return metrics::predicted_class(probabilities, of, threshold);
  }
  metrics::Thresholds thresholds() const { return {threshold, label_thresholds}; }
  std::vector<int64_t> labels_in(const float* probabilities, int64_t of) const {
    const metrics::Thresholds least = thresholds();
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < of; ++i) {
      if (static_cast<double>(probabilities[i]) > least.of_label(i)) labels.push_back(i);
    }
    return labels;
  }
  int64_t parameters() const { return net() ? model.net->parameter_count() : rows->parameters(); }
};

// "spam above 0.1807", "beach above 0.31, city above 0.5": the decision thresholds that a model has; "" without any.
std::string thresholds_text(const Bundle& bundle);

// The contents of the saved file; its arrays are those of the model. For a network without a spec these are the weights
// alone, which load_weights accepts and load_bundle refuses.
io::SafeTensors to_file(const Bundle& bundle);
// Adds a hash of all contents to the metadata, which load_bundle and load_weights verify.
io::SafeTensors sealed(io::SafeTensors file);
// Saves the model with its hash. The file is written under another name, synced and renamed: the previous file survives
// a failure. Tied weights are stored under each of their names, as in PyTorch's state_dict, and are tied again when the
// file is loaded. Throws Error(usage) for a network that could not be loaded again (models::check_spec), such as one
// with layers that were not declared.
void save_bundle(const std::string& path, const Bundle& bundle);
// Throws Error(checkpoint) that names the file if it is damaged, is not a Freight model, or has weights that do not fit
// the spec or are not finite.
Bundle load_bundle(const std::string& path);
// Loads a network. For another model it throws Error(usage) that names the learner and `what` ("export to ONNX"), which
// is for networks only.
Bundle load_net(const std::string& path, const std::string& what);
void need_net(const Bundle& bundle, const std::string& path, const std::string& what);
// The contents of a file of io/weights_file.h, with its hash verified if it has one.
io::SafeTensors load_sealed(const std::string& path);
// The bundle in a file's contents; `path` names it in messages. A network takes over the memory of contents that are
// given away.
Bundle from_file(const io::SafeTensors& file, const std::string& path);
Bundle from_file(io::SafeTensors&& file, const std::string& path);
// Loads weights by name into a model from a file of io/weights_file.h (a bundle, or names of torchvision, timm or
// Hugging Face). Throws Error(checkpoint) like load_bundle, and if the file contains a tokenizer other than `tokens`,
// which makes the model's inputs: its token numbers would mean other words.
void load_weights(models::Model& model, const std::string& path, const data::Tokenizer* tokens = nullptr);
// The weights of such a file under the names that `net` gives them (models/weight_names.h), verified, with the same
// errors. What does not fit the network is among them, too.
std::vector<nn::NamedArray> read_weights(const nn::Module& net, const std::string& path,
                                         const data::Tokenizer* tokens = nullptr);
inline constexpr const char* kPreprocessing = "preprocessing";  // its place in the metadata of a network's file
inline constexpr const char* kNotes = "freight.python";         // what the program notes of it, Model::notes
inline constexpr const char* kTokenizer = "freight.tokenizer";  // the tensor u8 that has the tokenizer
// The preprocessing that the network in a file was trained with; nothing for weights alone. `path` names the file.
std::optional<Preprocessing> preprocessing_in(const io::SafeTensors& file, const std::string& path);
// Loads weights into a network made in C++, by the names of its state_dict.
void load_weights(nn::Module& net, const std::string& path, const data::Tokenizer* tokens = nullptr);
// Loads weights from a file's contents, even if they are not finite.
void load_weights(models::Model& model, const io::SafeTensors& file, const std::string& path);
// Saves all parameters and statistics by the names of state_dict, for load_weights, as safely as save_bundle. The file
// cannot predict by itself; that needs save_bundle. `metadata` is added to that of the file, for other programs.
void save_weights(const models::Model& model, const std::string& path);
void save_weights(const nn::Module& net, const std::string& path,
                  const std::map<std::string, std::string>& metadata = {});  // for a network made in C++
Preprocessing preprocessing_of(const data::Dataset& set);

}  // namespace freight::store
