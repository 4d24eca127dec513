// The line of the start block that shows how a batch is split.
#pragma once
#include <string>

#include "freight/train/observer.h"

namespace freight::app {

// "64 = 2 devices x 32 x accum 2"; "10 = 4 devices x 2 or 3" if the parts of a batch differ. `devices`: as the run
// counts them, which is one if its processes share the shards of a device.
std::string batch_product(const train::RunSummary& summary, int64_t devices);

}  // namespace freight::app
