// The flags of a training configuration, for the commands that take what `freight train` takes.
#pragma once
#include "freight/train/config.h"
#include "options.h"

namespace freight::app {

// Declares a flag for every field (train/config_fields.h), on top of what `config` holds.
void declare_config(Options& options, train::Config& config);

}  // namespace freight::app
