// The batch of `freight train --batch-size auto`: chosen from plans, tried with one real step.
#pragma once
#include <string>

#include "freight/plan/rates.h"
#include "freight/plan/step_plan.h"

namespace freight::plan {

struct GoodBatch {
  int64_t size = 1;
  std::string why;  // why not more: "it would not train faster"
};
// The largest power of two with which the run needs at most nine tenths of `available` bytes and an epoch still has 32
// steps; smaller if rates are known and half of it trains as fast, within 5 %. Only memory makes it smaller than 16, or
// fewer than 64 samples, of which an epoch has 4 steps. At least 1, even if that does not fit. If several ranks share
// the run, it is the batch of each.
GoodBatch good_batch(const train::Planned& planned, double available, const Rates* rates);

// Runs one real training step of such a run, with made-up data, on a rank's even share of the batch and a network of
// its own, and frees everything. Returns the seconds of a second step. Throws the errors of a run.
double try_step(const train::Planned& planned);

}  // namespace freight::plan
