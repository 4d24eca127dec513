// The stored model: one safetensors file with everything a prediction needs. Of a net that are the weights as tensors
// and, in the metadata, spec, input preprocessing and class names; a tokenizer is a tensor of bytes. Of another learner
// (the metadata say which) they are its columns, class names and what it wrote (row_model.h). `eval`, `predict` and
// `serve` start from this file alone.
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

// How raw input becomes the network's input: images resized and cut as data::ImageGeometry says, arrays read as
// data::ArrayMeaning says, pixels and scaled values brought to 0 to 1, then (x - mean) / std per channel. Texts become
// tokens, and their batches one of `lengths` long.
struct Preprocessing {
  Shape input;                   // of one sample, (C, H, W); of text (T), the length at which it is cut off
  std::vector<float> mean, std;  // per channel, finite, the latter above 0; empty: no normalisation
  int64_t resize = 0;            // shorter side of an image before the middle is cut out; 0: the whole is stretched
  io::Orientation orientation = io::Orientation::exif;  // of images in files

  std::shared_ptr<const data::Tokenizer> tokenizer = {};  // of text; else null
  std::vector<int64_t> lengths = {};                      // of text: the buckets, rising (data::document_feed)
  data::Keep keep = data::Keep::start;                    // of text that is longer

  data::ArrayMeaning arrays = {};  // of inputs that are arrays; pictures are bytes

  bool text() const { return tokenizer != nullptr; }
  // True where a file of a picture can be a sample, grey or in colours.
  bool pictures() const {
    return !text() && input.rank() == 3 && (input[0] == 1 || input[0] == 3) && arrays.takes_pictures();
  }
  data::ImageGeometry geometry() const;  // of an input of rank 3
};

struct Bundle {
  models::Model model;          // of a net
  Preprocessing preprocessing;  // of a net
  std::vector<std::string> classes;
  std::map<std::string, std::string> provenance;    // data, metrics, version: shown, not needed
  std::string learner = kNet;                       // what fitted it; files that do not say hold nets
  std::vector<Column> columns = {};                 // of every other learner's
  std::vector<IgnoredColumn> ignored_columns = {};  // of every other learner's: what it did not learn from
  std::shared_ptr<const RowModel> rows = {};        // of every other learner's; null: a net
  RowSamples samples = {};                          // of every other learner's, where there are some
  std::optional<double> threshold = {};             // of two classes, see told_class; empty: the likelier is told

  bool net() const { return rows == nullptr; }
  const std::string& name() const { return net() ? model.name : learner; }
  int64_t told(const float* probabilities, int64_t of) const { return told_class(probabilities, of, threshold); }
  int64_t parameters() const { return net() ? model.net->parameter_count() : rows->parameters(); }
};

// The file that is stored; its arrays are those of the model. Of a net without a spec form these are the weights alone,
// which load_weights takes and load_bundle refuses.
io::SafeTensors to_file(const Bundle& bundle);
// With a hash of all that the file holds among its metadata, which load_bundle and load_weights check.
io::SafeTensors sealed(io::SafeTensors file);
// Sealed, written aside, synced and renamed: the previous file survives a failure. Weights that are tied stand under
// each of their names, as in PyTorch's state_dict, and are tied again when the file is loaded. Throws Error(usage) for
// a net that would not be loaded as what it is (models::check_spec): one whose layers nobody declared has no spec form.
void save_bundle(const std::string& path, const Bundle& bundle);
// Throws Error(checkpoint) naming the file: damaged, not a Freight model, weights that do not fit the spec or are not
// finite.
Bundle load_bundle(const std::string& path);
// The same of a net. Throws Error(usage) naming the learner of what is none: `what` ("export to ONNX") is of nets.
Bundle load_net(const std::string& path, const std::string& what);
void need_net(const Bundle& bundle, const std::string& path, const std::string& what);
// The same of what a file held; `path` names it in messages.
Bundle from_file(const io::SafeTensors& file, const std::string& path);
// Loads weights by name into a model from any safetensors file (a bundle, or torchvision names). Throws
// Error(checkpoint) like load_bundle, and where the file stores a tokenizer that is not `tokens`, by which the model's
// inputs are made: its numbers would mean other words.
void load_weights(models::Model& model, const std::string& path, const data::Tokenizer* tokens = nullptr);
// The same of a net that is made in C++, by the names of its state_dict.
void load_weights(nn::Module& net, const std::string& path, const data::Tokenizer* tokens = nullptr);
// load_weights of what a file held, whatever its numbers.
void load_weights(models::Model& model, const io::SafeTensors& file, const std::string& path);
// Writes all parameters and statistics by their names, as state_dict lists them, for load_weights; written as
// save_bundle writes. The file is none that predicts by itself: that needs save_bundle.
void save_weights(const models::Model& model, const std::string& path);
void save_weights(const nn::Module& net, const std::string& path);  // of a net that is made in C++
Preprocessing preprocessing_of(const data::Dataset& set);

}  // namespace freight::store
