// Choice between implementations of one step by measurement at plan time. Results are remembered in a file keyed by CPU
// model, library version and thread count, so that a second process plans at once and alike.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/backend/backend.h"

namespace freight::cpu {

struct Candidate {
  std::string name;
  std::function<std::unique_ptr<Kernel>()> make;
};

// A candidate with operands in layouts of its own.
struct Alternative {
  std::string name;
  StepSpec spec;
  std::function<std::unique_ptr<Kernel>()> make;
  int cold = -1;  // the operand that lies in no cache when the step runs, as the weights of a large net do not
};

// Which alternative is fastest, measured on zeros or remembered under `step`. The first one where FREIGHT_TUNE=0
// forbids measurement.
size_t fastest(const std::string& step, const std::vector<Alternative>& alternatives);

// The fastest candidate for the step, measured on zeros or remembered. The first one where spec.deterministic or
// FREIGHT_TUNE=0 forbids measurement. Candidates must compute the same from the same layouts.
std::unique_ptr<Kernel> choose(const StepSpec& spec, const std::vector<Candidate>& candidates);

}  // namespace freight::cpu
