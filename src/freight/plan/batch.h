// The batch of `freight train --batch-size auto`: chosen from plans, tried with one real step.
#pragma once
#include <string>

#include "freight/plan/rates.h"
#include "freight/plan/step_plan.h"

namespace freight::plan {

struct GoodBatch {
  int64_t size = 1;
  std::string why;  // what would be with more: "it would not train faster"
};
// The largest power of two with which the run takes at most nine tenths of `available` bytes and an epoch still has 32
// steps; smaller where rates are known and half of it trains as fast, within 5 %. At least 1, whether that fits or not.
// It is the batch of each rank where several share the run.
GoodBatch good_batch(const train::Planned& planned, double available, const Rates* rates);

// One real training step of such a run, on a rank's even share of the batch and on a net of its own with made-up data,
// all dropped again; the second's seconds. Throws what a run would.
double try_step(const train::Planned& planned);

}  // namespace freight::plan
