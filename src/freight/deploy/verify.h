// Verification: whether a saved model predicts the same wherever it is used: evaluation, prediction, the bare net, the
// reference backend, its file after another round trip, and ONNX Runtime. `freight verify` is a thin call of this.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "freight/data/catalog.h"
#include "freight/deploy/predictor.h"

namespace freight::deploy {

// Two ways to the same prediction.
struct Claim {
  enum class State { holds, fails, unchecked };
  std::string name;  // "eval", "batch", ...: stable
  std::string text;  // "predict gives the class its probability that eval gives it"
  State state = State::unchecked;
  double difference = 0, limit = 0;  // the largest over all samples: of probabilities, or of values over the largest
  std::string note = {};             // why it was not checked, or what was found
};

struct VerifyOptions {
  std::string data = {};  // a set with targets; empty: samples drawn from the seed, and no claim of evaluation
  data::LoadOptions load = {};
  int64_t samples = 32;
  uint64_t seed = 0;
  std::string backend = "auto";
  std::string python = {};  // with onnxruntime; empty: that claim is not checked
  // Asked between samples and claims; true ends with the claims so far.
  std::function<bool()> stop = [] { return false; };
  std::function<void(const Claim&)> heard = [](const Claim&) {};  // of each claim as soon as it is judged
};

// `evaluated` is what evaluation and the bare net use, `deployed` what predicts and is exported: two loads of one file.
// The second is enough of a model of rows, which is asked for the rows that are stored with it. The nets of both are
// left in evaluation mode. A language model has the claims that make sense for it. Throws Error(usage) where the
// data does not fit, and for a Python that cannot run ONNX Runtime; Error(data) where the data cannot be read.
std::vector<Claim> verify(store::Bundle evaluated, store::Bundle deployed, const VerifyOptions& options);

}  // namespace freight::deploy
