// A model behind the server: its name, its inputs and outputs in the terms of the protocol, the conversion of tensors
// to samples and of results to responses, and the description that the page shows. engine.h runs it.
#pragma once
#include <string>
#include <vector>

#include "freight/deploy/predictor.h"
#include "freight/serve/metrics.h"
#include "freight/serve/protocol.h"

namespace freight::serve {

class ServedModel {
 public:
  // An empty `name` stands for the model's own. Throws Error(usage) for a name that cannot be part of a path. A request
  // may have `max_samples` samples, and always at least a full batch.
  ServedModel(std::string name, store::Bundle bundle, const deploy::PredictorOptions& options, int64_t max_samples);

  const std::string& name() const { return name_; }
  bool text() const { return predictor_.bundle().preprocessing.text(); }
  bool reads_rows() const { return !predictor_.bundle().net(); }
  deploy::Predictor& predictor() { return predictor_; }
  ModelMetrics& metrics() { return metrics_; }

  // The JSON texts of the protocol: /v2/models/M, and /config in Triton's form.
  const std::string& metadata() const { return metadata_; }
  const std::string& config() const { return config_; }
  // {"name", "architecture", "kind": "picture" | "text" | "array" | "rows", "input" or "columns", "outputs",
  // "probabilities", "parameters", "classes", "provenance"}: what the page shows. Of rows also "fields": of each column
  // {"name", "kind": "numbers" | "categories" | "yes or no" | "date", "categories": how many there are, "levels": the
  // first 200}.
  const std::string& page_json() const { return page_json_; }

  // The samples of an infer request: the input "input" (FP32 0..1, or UINT8 0..255, both (N, ...)), "text" (BYTES (N))
  // or "tokens" (INT32 (N, T), padded with 0); for a table model an input (N) per column, by its name. Throws
  // Error(usage or data) that begins with `name`.
  std::vector<Array> samples(InferRequest& request, const std::string& name) const;
  // The sample of a table with a header and one row, or of a JSON object {"column": number, text or null}, for a model
  // of tables.
  Array sample_of_table(const std::string& text, const std::string& name) const;
  Array sample_of_json(const std::string& text, const std::string& name) const;
  // Warnings about what did not occur in training: a category, a number so large, a missing value.
  std::vector<std::string> row_warnings(const Array& sample) const;
  // Throws if a result is NaN or infinite, which JSON cannot express: for a table model Error(data) that names the
  // column responsible, since any number is accepted there; for others Error(diverged). `results` are those of
  // `samples`, in order; samples may be empty for models that are not of tables.
  void check_results(const Array& results, const std::vector<Array>& samples) const;
  // The outputs that a request asks for, from results f32 (N, K).
  std::vector<Output> outputs(const InferRequest& request, const Array& results) const;
  // Refuses a request for outputs that do not exist, before anything is run.
  void check_outputs(const InferRequest& request, const std::string& name) const;
  // The response of /predict for one sample, whose results are the K numbers of `row`: {"model", "class", "index",
  // "probability", "top": [{"class", "index", "probability"}], "milliseconds"}, or {"model", "values", "milliseconds"}.
  // If there are warnings, "warnings" follows "model".
  std::string prediction(const float* row, int64_t top, double seconds,
                         const std::vector<std::string>& warnings = {}) const;

 private:
  const char* output_name() const { return predictor_.probabilities() ? "probabilities" : "values"; }
  std::vector<Array> rows(const InferRequest& request, const std::string& name) const;
  void check_count(int64_t samples, const std::string& name) const;
  std::string largest_part(const Array& sample) const;
  std::vector<int64_t> best(const float* row, int64_t k) const;
  void describe();

  std::string name_;
  deploy::Predictor predictor_;
  int64_t max_samples_;
  ModelMetrics metrics_;
  std::string metadata_, config_, page_json_;
};

}  // namespace freight::serve
