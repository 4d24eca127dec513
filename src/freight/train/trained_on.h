// The record in a saved model of the data that it was trained on, for eval, verify and report.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "freight/data/catalog.h"
#include "freight/store/bundle.h"
#include "freight/train/config.h"
#include "freight/train/evaluate.h"

namespace freight::train {

inline constexpr const char* kValidationPart = "val";  // the name of a validation set in files; "test" of a test set

// The provenance that a run writes into its models: the data's name and fingerprint, the steps done and the metrics of
// an evaluation on this part of the data.
std::map<std::string, std::string> provenance(const Config& config, uint64_t fingerprint, int64_t steps,
                                              const Evaluation& evaluation, const std::string& part);

// The reading of the targets of a list, for --task, --label-column and --group-column.
data::TargetOptions target_options(const std::string& task, const std::string& label_column,
                                   const std::string& group_column);
// Takes the labels or targets of a list or text file from these columns (--label-column) in place of others.
void set_label_column(data::LoadOptions& load, const std::string& label_column);

struct TrainedOn {
  std::string data;         // a built-in dataset or a path; empty if the file does not have it
  data::LoadOptions load;   // columns of a text file, fraction and seed of the held-out set
  std::string target;       // for a table: the target column
  std::string test;         // for a table: the file of its test set, if it has one
  std::string fingerprint;  // of the training set; empty in early files
  // Settings of evaluation in training, which `eval` uses as well: views of a sample, precision, and the treatment of
  // samples that cannot be read.
  std::string tta = "none", precision = "fp32";
  data::OnBad on_bad = data::OnBad::error;
};
// Reads the provenance; missing entries keep the defaults of LoadOptions. A saved model only has the name of its data;
// the path is in the config.json of the run that `path`, the model's file, belongs to.
TrainedOn trained_on(const store::Bundle& bundle, const std::string& path);

// The requested data, or else the training data. Throws Error(usage) if neither is known; `path`: the model's file.
std::string data_to_measure(const std::string& asked, const TrainedOn& on, const std::string& path);

// The data to evaluate a model on. The training data, in its place or a copy, is split as in training; other data
// without a held-out set is used whole, which `divide` prevents.
struct Measured {
  data::TrainTest samples;  // for arrays and images
  data::TextSet texts;      // for text
};
enum class Division { as_fits, divide };
Measured load_to_measure(const TrainedOn& on, const std::string& data, const data::LoadOptions& load, bool text,
                         Division division);

}  // namespace freight::train
