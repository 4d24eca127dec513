// One model behind the server: its name, what it takes and gives in the words of the protocol, how tensors become
// samples and results answers, and its card for the page. Running it is engine.h's.
#pragma once
#include <string>
#include <vector>

#include "freight/deploy/predictor.h"
#include "freight/serve/metrics.h"
#include "freight/serve/protocol.h"

namespace freight::serve {

class ServedModel {
 public:
  // `name` "": the model's own. Throws Error(usage) for a name that is no part of a path.
  // A request may hold `max_samples`, and a full batch always.
  ServedModel(std::string name, store::Bundle bundle, const deploy::PredictorOptions& options, int64_t max_samples);

  const std::string& name() const { return name_; }
  bool text() const { return predictor_.bundle().preprocessing.text(); }
  bool reads_rows() const { return !predictor_.bundle().net(); }
  deploy::Predictor& predictor() { return predictor_; }
  ModelMetrics& metrics() { return metrics_; }

  // JSON texts of the protocol: /v2/models/M, and /config as Triton gives it.
  const std::string& metadata() const { return metadata_; }
  const std::string& config() const { return config_; }
  // {"name", "architecture", "kind": "picture" | "text" | "array" | "rows", "input" or "columns", "outputs",
  // "probabilities", "parameters", "classes", "provenance"}: what the page shows. Of rows also "fields": of each column
  // {"name", "kind": "numbers" | "categories" | "yes or no" | "date", "categories": how many there are, "levels": the
  // first 200}.
  const std::string& card() const { return card_; }

  // Samples of an infer request: the input "input" (FP32 0..1, or UINT8 0..255, both (N, ...)), or "text" (BYTES (N))
  // or "tokens" (INT32 (N, T), from a 0 on padding), or of a model of rows an input (N) per column, by its name. Throws
  // Error(usage or data) that begins with `name`.
  std::vector<Array> samples(InferRequest& request, const std::string& name) const;
  // A model of rows takes cells of a table with a header, or of a JSON object {"column": number, text or null}.
  Array sample_of_table(const std::string& text, const std::string& name) const;
  Array sample_of_json(const std::string& text, const std::string& name) const;
  // What training did not have of such a sample: a category, a number so large, a cell that is missing.
  std::vector<std::string> row_warnings(const Array& sample) const;
  // Throws where a result is NaN or infinite, which no JSON says: of a model of rows Error(data) with the column that
  // made it so, as any number is taken there; of others Error(diverged). `samples` gave the results, in their order;
  // they may be left out where the model takes no rows.
  void check_results(const Array& results, const std::vector<Array>& samples) const;
  // The outputs that a request wants of f32 (N, K).
  std::vector<Output> outputs(const InferRequest& request, const Array& results) const;
  // Refuses wanted outputs that there are not, before anything is run.
  void check_outputs(const InferRequest& request, const std::string& name) const;
  // The answer of /predict on one sample, `row` of K numbers: {"model", "class", "index", "probability", "top":
  // [{"class", "index", "probability"}], "milliseconds"}, or {"model", "values", "milliseconds"}.
  // Behind the model stand "warnings" where there are some.
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
  std::string metadata_, config_, card_;
};

}  // namespace freight::serve
