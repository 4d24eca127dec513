// train: prepares a run and runs it, in one call. The two steps apart are in prepare.h; what a run tells is in
// observer.h.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/train/observer.h"
#include "freight/train/prepare.h"

namespace freight::train {

// Runs to the end. Throws what prepare() and PreparedRun::run() throw. `argv` is recorded in run.json. `found` is what
// config.resume leads to, where that has been looked for already.
Result train(const Config& config, Observer& observer, const std::vector<std::string>& argv = {},
             std::optional<Found> found = {});

}  // namespace freight::train
