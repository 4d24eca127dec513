// `freight data check`: what commonly goes wrong with data sets of images and texts, found before training.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "freight/data/source.h"
#include "freight/inspect/duplicates.h"
#include "freight/inspect/label_errors.h"

namespace freight::inspect {

struct CheckOptions {
  data::LoadOptions load = {};
  std::string group_column = {};  // column of a list or text file: rows with the same value belong in one split
  bool labels = true;             // look for labels that out-of-fold predictions contradict
  // Called regularly; if it returns false, the check stops with Error(runtime).
  std::function<bool(const std::string& what, int64_t done, int64_t all)> poll = {};
};

// A split of the data: training, validation, and the test set if it differs from the validation set.
struct CheckedPart {
  std::string name;
  int64_t count = 0;
  std::vector<int64_t> per_class;    // samples of each class
  std::vector<std::string> samples;  // the path or text of each, shown in messages
};
// Two samples of different splits that are the same or nearly the same.
struct Leak {
  std::string part, sample;              // of the validation or test set
  std::string other_part, other_sample;  // "train"
  bool same = false;
  double similarity = 1;
  bool other_label = false;  // they have different labels
};
struct CrossingGroup {
  std::string group;
  std::vector<int64_t> per_part;  // its samples in each split
};
struct LabelError {
  std::string part, sample, label, predicted;
  double probability = 0, of_label = 0;
};
struct DataCheck {
  std::string where;
  std::vector<std::string> classes;
  std::vector<CheckedPart> parts;
  std::vector<float> mean, std;      // of the training set's pixels, 0 to 1, per channel; empty for texts
  std::vector<data::BadSample> bad;  // files that cannot be read
  std::vector<std::string> notes;    // files skipped by their endings, and how the data was divided
  std::vector<Leak> leaks;
  int64_t repeated = 0;               // training samples that are the same as an earlier one, or nearly
  std::vector<Leak> conflicts;        // repeated samples whose labels differ
  std::vector<CrossingGroup> groups;  // groups that are in several splits
  int64_t groups_all = 0;             // the number of all groups
  std::vector<LabelError> label_errors;
  double predicted_right = 0;         // fraction that out-of-fold predictions get right; 0: not predicted
  bool labels_checked = false;        // predictions were right often enough
  std::vector<std::string> warnings;  // about rare and missing classes
  // False if a sample or group is in several splits, or a file cannot be read.
  bool ok() const { return leaks.empty() && groups.empty() && bad.empty(); }
};
// Throws Error(data) if the data cannot be opened, and Error(usage) for tables, which `freight data info` describes.
DataCheck check_data(const data::Source& source, const CheckOptions& options = {});

}  // namespace freight::inspect
