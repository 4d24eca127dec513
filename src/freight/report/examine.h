// Examines a saved model: it predicts the held-out part of its data sample by sample through deploy::Predictor, as it
// does for a user's inputs. For classes the result has the confusion matrix and the most confident errors; for a
// regression the errors of each output; for a table model also how it uses the columns.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/metrics/curves.h"
#include "freight/metrics/scores.h"
#include "freight/report/examine_table.h"

namespace freight::report {

struct ExamineOptions {
  std::string data = {};      // used instead of the data that the model was trained on
  std::string data_dir = {};  // directory that is searched first for built-in datasets
  std::string backend = "auto";
  int64_t batch_size = 64;
  int64_t samples = 0;    // at most, evenly spread over the held-out part; 0: all
  int64_t examples = 24;  // errors to keep
};

struct Mistake {
  int64_t sample = 0;     // the sample's number in the held-out part, from 0
  std::string file = {};  // the sample's file, if it has one
  int64_t truth = 0, predicted = 0;
  double certainty = 0, truth_probability = 0;  // probabilities of the predicted and of the true class
  Array image = {};  // u8 (C, H, W) with C 1 or 3, as the model saw it; undefined for other inputs
  std::string text = {};
};

// The curves of one class against all others.
struct ClassCurves {
  int64_t number = 0;
  metrics::ThresholdCurves curves;
};

struct Residual {
  float prediction = 0, target = 0;
};

// The errors of one output of a regression.
struct OutputErrors {
  double mean_absolute = 0, root_mean_square = 0;
  double explained = 0;  // explained fraction of the variance: 1 - MSE / variance of the targets
};

struct Examination {
  std::string data;
  std::string note;      // how the held-out part was chosen; often empty
  int64_t held_out = 0;  // number of samples in the held-out part
  int64_t count = 0;     // number of them that were predicted
  int64_t left_out = 0;  // number of them that could not be read
  int64_t parameters = 0;
  bool text = false;
  std::vector<std::string> classes;                          // a name for every class of the model
  std::map<std::pair<int64_t, int64_t>, int64_t> predicted;  // (true class, predicted class) to the number of samples
  std::vector<Mistake> mistakes;                             // the most confident first
  std::vector<ClassCurves> curves;  // of the second of two classes; otherwise of the most frequent classes
  std::vector<metrics::CalibrationBin> calibration;  // of that class; for more than two classes, of the predicted class
  double calibration_error = 0;                      // expected calibration error
  std::vector<metrics::Score> scores;                // of the whole part
  std::vector<std::string> score_notes;              // metrics that the labels do not allow
  std::vector<OutputErrors> outputs;                 // for a regression
  std::vector<std::string> output_names;             // often empty
  bool multilabel = false;                           // the classes are labels, of which a sample has any number
  std::vector<Residual> residuals;                   // of the first output
  std::optional<TableExamination> table;             // for a table model
  std::vector<std::pair<std::string, std::string>> provenance;  // as in the model file

  bool classification() const { return outputs.empty(); }
  int64_t right() const;
};

// `poll` is called with the number of completed samples; false ends the examination with Error(runtime). Throws Error:
// usage for a language model or data that does not fit the model, data if there is none, checkpoint for a damaged
// model.
Examination examine(const std::string& model_path, const ExamineOptions& options,
                    const std::function<bool(int64_t done, int64_t total)>& poll = {});

}  // namespace freight::report
