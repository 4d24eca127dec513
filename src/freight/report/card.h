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
  const RunRecord* run = nullptr;           // null for a model without its run: the card then has what the file says
  std::string file;                         // of the model, as its commands name it: "model.safetensors", "model.onnx"
  std::vector<metrics::Score> scores = {};  // with their intervals; empty: the accuracy of the run with its interval
};
std::string model_card(const CardFacts& facts);

// Writes README.md into a folder; false where there is one that is not a card of Freight's, which stays.
bool write_card(const std::string& folder, const std::string& card);
// The card of a saved model, with the figures of its run if the file is in a run's directory. Models of tables are
// measured on their validation set for the intervals; what fails in that is left out. `file`: as in CardFacts.
std::string card_of(const store::Bundle& model, const std::string& path, const std::string& file);
// That of a run that is complete, into its directory; false as write_card.
bool write_run_card(const std::string& run);

// The 95 % interval of a share, by the score method (Wilson 1927): right also for small counts, near 0 and near 1.
struct Interval {
  double low = 0, high = 0;
};
Interval share_interval(double share, int64_t count);

}  // namespace freight::report
