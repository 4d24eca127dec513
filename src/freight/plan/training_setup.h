// TrainingSetup: what is planned, a model with the types of its batches and the sizes of its data, from a configuration
// of training. Allocates no weights. Data are read only where neither the model nor the catalogue of data sets says
// their shape: folders, texts and files of the user's own. N samples, T tokens, K classes or values.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/data/tokens.h"
#include "freight/models/models.h"
#include "freight/train/config.h"

namespace freight::plan {

// Texts of one length among those of a data set.
struct LengthShare {
  int64_t tokens = 0;  // of each of them
  double steps = 0;    // share of the steps of an epoch
  double tested = 0;   // share of the test's documents
};

struct TrainingSetup {
  train::Config config;
  std::function<models::Model()> make_model;  // a fresh net each time
  Type input, target;                         // of one sample, without the batch axis
  int64_t train_count = 0, test_count = 0;    // samples, or windows of a corpus; 0: not known
  std::string data;                           // the set's name; "" without one
  bool images_in_files = false;               // each sample is decoded when it is read
  size_t kept_bytes = 0;                      // train::Task::kept_bytes
  const char* unit = "img";
  std::vector<std::string> notes;
  data::DocumentLengths lengths = {};  // train::Task::lengths
  // A sample of the test part, without the batch axis, where that is not like `input` and `target`: another size of
  // images, labels that are not mixed.
  std::optional<std::pair<Type, Type>> tested = {};

  // Inputs and targets of a batch: (N, ...) each; `tokens` of each text, 0: as many as the input has.
  std::pair<Type, Type> batch_types(int64_t batch, int64_t tokens = 0) const;
  // The same of a batch of the test part.
  std::pair<Type, Type> test_types(int64_t batch) const;
  // The lengths in training with batches of so many, rising, without those that do not come. Empty where nothing is
  // known.
  std::vector<LengthShare> length_shares(int64_t batch) const;
  // True of texts that nothing says the lengths of: all are taken for the longest.
  bool assumes_full_length() const { return data.empty() && unit == std::string("doc"); }
};

// `config.data` empty: the model alone, with its own input, or `input` of one sample: {3, 224, 224}, or {T}. Throws as
// training does where data and model do not fit each other.
TrainingSetup make_setup(const train::Config& config, const Shape& input = {});

// The setup of a run before its data are read: of a set that the catalogue or the data's first bytes describe, and of
// images and arrays wherever a spec says the input. Their number need not be known. Nothing where only reading tells.
std::optional<TrainingSetup> setup_before_data(const train::Config& config);

// "3x224x224" or "256" as a shape. Throws Error(usage).
Shape parse_input_shape(const std::string& text);

}  // namespace freight::plan
