// All that a stored model gets right and wrong: it is run over the held-out part of its data, sample by sample through
// deploy::Predictor, as a user's inputs are. Of classes: confusions and the mistakes it was most certain of; of values
// to regress: the errors per output. Of a model of rows also what it makes of its columns.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/report/curves.h"
#include "freight/report/examine_table.h"

namespace freight::report {

struct ExamineOptions {
  std::string data = {};      // instead of what the model was trained on
  std::string data_dir = {};  // where named sets are looked for first
  std::string backend = "auto";
  int64_t batch_size = 64;
  int64_t samples = 0;    // at most, evenly spread over the held-out part; 0: all
  int64_t examples = 24;  // mistakes that are kept
};

struct Mistake {
  int64_t sample = 0;     // its number in the held-out part, from 0
  std::string file = {};  // where it lies in one
  int64_t truth = 0, told = 0;
  double certainty = 0, truth_probability = 0;  // of the class told, of the true one
  Array image = {};                             // u8 (C, H, W) with C 1 or 3, as the model saw it; undefined for others
  std::string text = {};
};

// A class against all others.
struct ClassCurves {
  int64_t number = 0;
  ThresholdCurves curves;
};

struct Residual {
  float answer = 0, target = 0;
};

// Errors of one output of a model that regresses.
struct OutputErrors {
  double mean_absolute = 0, root_mean_square = 0;
  double explained = 0;  // share of the variance: 1 - MSE / variance of the targets
};

struct Examination {
  std::string data, split;
  std::string note;      // how the part came about; often empty
  int64_t held_out = 0;  // samples in the part
  int64_t count = 0;     // of them that were run
  int64_t left_out = 0;  // that cannot be read
  int64_t parameters = 0;
  bool text = false;
  std::vector<std::string> classes;                             // a name for every class the model tells
  std::map<std::pair<int64_t, int64_t>, int64_t> told;          // (truth, told) to the number of samples
  std::vector<Mistake> mistakes;                                // the most certain first
  std::vector<ClassCurves> curves;                              // the second of two classes; of more the most frequent
  std::vector<CalibrationBin> calibration;                      // of that class; of more, of the class that is told
  double calibration_error = 0;                                 // expected calibration error
  std::vector<OutputErrors> outputs;                            // of a model that regresses
  std::vector<Residual> residuals;                              // of the first of them
  std::optional<TableExamination> table;                        // of a model of rows
  std::vector<std::pair<std::string, std::string>> provenance;  // as the model file has it

  bool classification() const { return outputs.empty(); }
  int64_t right() const;
};

// `poll` hears of the samples done; false ends the examination with Error(runtime). Throws Error: usage for a model
// that tells tokens or data that does not fit it, data where there is none, checkpoint for a damaged model.
Examination examine(const std::string& model_path, const ExamineOptions& options,
                    const std::function<bool(int64_t done, int64_t total)>& poll = {});

}  // namespace freight::report
