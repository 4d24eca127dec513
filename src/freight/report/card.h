// The model card: README.md of a run or an export, with the fields of Hugging Face's cards at its head. It has the data
// and their hash, metrics with 95 % intervals, hours and energy as planned and as measured, the license, and limits.
#pragma once
#include <string>
#include <vector>

#include "freight/metrics/scores.h"
#include "freight/report/run_record.h"
#include "freight/store/bundle.h"

namespace freight::report {

struct CardFacts {
  const store::Bundle* model = nullptr;
  const RunRecord* run = nullptr;  // null for a model without its run: the card then has only what the file says
  std::string file;                // the model's file as shown in its commands: "model.safetensors", "model.onnx"
  std::vector<metrics::Score> scores =
      {};  // with intervals; empty: the metrics of the run, an interval for the accuracy
};
std::string model_card(const CardFacts& facts);

// Writes README.md into a folder. Returns false, and keeps the file, if there is one that Freight did not write.
bool write_card(const std::string& folder, const std::string& card);
// The card of a saved model, with the figures of its run if the file is in a run's directory. Table models are
// evaluated on their validation set for the intervals; if that fails, the intervals are left out. `file`: as in
// CardFacts.
std::string card_of(const store::Bundle& model, const std::string& path, const std::string& file);
// Writes the card of a completed run into its directory. The result is that of write_card.
bool write_run_card(const std::string& run);

// The 95 % confidence interval of a fraction by the score method (Wilson 1927), which also holds for small counts and
// near 0 and 1.
struct Interval {
  double low = 0, high = 0;
};
Interval share_interval(double share, int64_t count);

}  // namespace freight::report
