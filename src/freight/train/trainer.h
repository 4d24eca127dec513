// train: prepares a run and runs it in one call. prepare.h has the two steps separately; observer.h has what a run
// reports.
#pragma once
#include <string>
#include <vector>

#include "freight/train/observer.h"
#include "freight/train/prepare.h"

namespace freight::train {

// Trains to the end. Throws the errors of prepare() and PreparedRun::run(). Samples that cannot be read are reported to
// the observer at once, unless the options have another callback. `argv` is recorded in run.json.
Result train(const Config& config, Observer& observer, PrepareOptions options = {},
             const std::vector<std::string>& argv = {});

}  // namespace freight::train
