// The line of the start block that says how a batch is shared.
#pragma once
#include <string>

#include "freight/train/observer.h"

namespace freight::app {

// "64 = 2 devices x 32 x accum 2"; "10 = 4 devices x 2 or 3" where the parts of a batch differ. `devices`: as the run
// names them, which are one where its processes share the shards of a device.
std::string batch_product(const train::RunSummary& summary, int64_t devices);

}  // namespace freight::app
