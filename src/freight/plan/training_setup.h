// TrainingSetup: a model with the types of its batches and the sizes of its data, from a configuration of training;
// plans are made from it. It allocates no weights. It reads data only if neither the model nor the catalog of data sets
// knows their shape: folders, texts and the user's own files. N samples, T tokens, K classes or values.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/data/tokens.h"
#include "freight/models/models.h"
#include "freight/train/config.h"
#include "freight/train/net_training.h"

namespace freight::plan {

// The number of texts of a data set that have one length.
struct LengthShare {
  int64_t tokens = 0;  // tokens of each text
  double steps = 0;    // fraction of an epoch's steps
  double tested = 0;   // fraction of the test's documents
};

struct TrainingSetup {
  train::Config config;
  std::function<models::Model()> make_model;  // makes a new network each time
  Type input, target;                         // of one sample, without the batch axis
  int64_t train_count = 0, test_count = 0;    // samples, or windows of a corpus; 0: not known
  std::string data;                           // the name of the data set; "" without data
  bool images_in_files = false;               // each sample is decoded when it is read
  size_t kept_bytes = 0;                      // train::Task::kept_bytes
  const char* unit = "img";
  std::vector<std::string> notes;
  data::DocumentLengths lengths = {};  // train::Task::lengths
  // The types of a test sample, without the batch axis, if they differ from `input` and `target`: images of another
  // size, labels that are not mixed.
  std::optional<std::pair<Type, Type>> tested = {};
  std::vector<std::string> frozen = {};  // lines on frozen layers
  // Set where frozen layers are computed once: `input` is of the features of these samples. `uncached` is the run that
  // computes them in every epoch.
  std::optional<train::FeatureSamples> features = {};
  std::shared_ptr<const TrainingSetup> uncached = {};

  // The types of a batch's inputs and targets, (N, ...) each. `tokens`: of each text; 0: as many as the input has.
  std::pair<Type, Type> batch_types(int64_t batch, int64_t tokens = 0) const;
  // The types of a test batch.
  std::pair<Type, Type> test_types(int64_t batch) const;
  // The lengths of texts that occur in training with this batch size, ascending. Empty if they are not known.
  std::vector<LengthShare> length_shares(int64_t batch) const;
  // True for texts whose lengths are not known: all are assumed to be as long as the longest.
  bool assumes_full_length() const { return data.empty() && unit == std::string("doc"); }
};

// If `config.data` is empty, the setup is that of the model alone, with its own input or with samples of shape `input`:
// {3, 224, 224}, or {T}. Throws the errors of training if data and model do not fit each other.
TrainingSetup make_setup(const train::Config& config, const Shape& input = {}, data::Source source = {});

// The setup of a run before its data are read: for data sets that the catalog or the first bytes of the files describe,
// and for images and arrays if a spec gives the input. Their number may be unknown. Empty if the data must be read.
std::optional<TrainingSetup> setup_before_data(const train::Config& config, const data::Source& source);

// Parses "3x224x224" or "256" as a shape. Throws Error(usage).
Shape parse_input_shape(const std::string& text);

}  // namespace freight::plan
