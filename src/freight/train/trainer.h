// train: prepares a run and runs it, in one call. The two steps apart are in prepare.h; what a run tells is in
// observer.h.
#pragma once
#include <string>
#include <vector>

#include "freight/train/observer.h"
#include "freight/train/prepare.h"

namespace freight::train {

// Runs to the end. Throws what prepare() and PreparedRun::run() throw. Of samples that cannot be read the observer
// hears at once, unless the options name another. `argv` is recorded in run.json.
Result train(const Config& config, Observer& observer, PrepareOptions options = {},
             const std::vector<std::string>& argv = {});

}  // namespace freight::train
