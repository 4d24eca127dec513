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
  std::string group_column = {};  // of lists and files of texts: rows of a group belong on one side of the split
  bool labels = true;             // look for labels that out-of-fold predictions contradict
  // Called now and then: false stops with Error(runtime).
  std::function<bool(const std::string& what, int64_t done, int64_t all)> poll = {};
};

// A part of the data: training, validation, and the test set where it is another.
struct CheckedPart {
  std::string name;
  int64_t count = 0;
  std::vector<int64_t> per_class;    // samples
  std::vector<std::string> samples;  // the path or text of each, shown in messages
};
// Two samples of different parts that are the same or nearly so.
struct Leak {
  std::string part, sample;              // the later part: validation or test
  std::string other_part, other_sample;  // "train"
  bool same = false;
  double similarity = 1;
  bool other_label = false;  // they have different labels
};
struct CrossingGroup {
  std::string group;
  std::vector<int64_t> per_part;  // samples of it in each part
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
  int64_t repeated = 0;               // training samples that equal, or nearly, an earlier one
  std::vector<Leak> conflicts;        // those of them with another label
  std::vector<CrossingGroup> groups;  // groups that are in several parts
  int64_t groups_all = 0;             // of all groups
  std::vector<LabelError> label_errors;
  double predicted_right = 0;         // by the out-of-fold predictions; 0: not predicted
  std::vector<std::string> warnings;  // on classes
  // True if training would be misled: a sample or group in two parts, or files that cannot be read.
  bool ok() const { return leaks.empty() && groups.empty() && bad.empty(); }
};
// Throws Error(data) for data that cannot be opened, Error(usage) for tables, which `freight data info` describes.
DataCheck check_data(const data::Source& source, const CheckOptions& options = {});

}  // namespace freight::inspect
