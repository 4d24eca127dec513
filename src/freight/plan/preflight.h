// Preflight: does a run that was planned fit the memory there is, and if not, by which flags would it. And afterwards:
// what it took, against its plan.
#pragma once
#include <string>
#include <vector>

#include "freight/base/error.h"
#include "freight/plan/draft.h"

namespace freight::plan {

struct Fit {
  bool fits = true;
  double needed = 0, available = 0;  // bytes
  // What would fit, as changes of the configuration: the cheapest first tried; empty where nothing that is known helps.
  std::vector<std::string> flags;  // "--grad-accum", "4"
  DraftOptions options;            // the same
  double needed_then = 0;
  std::string changes;  // what of the results these flags change; empty where they stay, but for rounding
  Draft draft;
};

// Means are tried in the order of their cost, those that keep the results first: parts of the batch (but where
// statistics are taken over a batch), recomputation, both; then what changes the results: parts, a smaller batch.
Fit fit_within(Draft draft, const Subject& subject, double available);
// `available`: bytes; 0: what the machine, or its control group, has free now.
Fit check_fit(const train::Planned& planned, double available = 0);
// Error(capacity): needed, free, the largest tensors by layer, and the command that would fit.
Error refusal(const Fit& fit);

// A run that is over. Bytes beyond those that were resident before it; seconds of a step's computation; 0: not known.
struct Outcome {
  double planned_bytes = 0, measured_bytes = 0;
  double planned_seconds = 0, measured_seconds = 0;
};
// "memory  planned 9.6 GiB, measured 9.9 GiB (+3 %)", and the same of the time where it was planned. A difference of
// few bytes is told in bytes: the program's own pages are a large share of a small plan.
std::vector<std::string> comparison(const Outcome& outcome);
// Whether a run took so much more memory than its plan that it is a defect of Freight.
bool exceeds_plan(const Outcome& outcome);

}  // namespace freight::plan
