// The flags of a training configuration, for commands with the flags of `freight train`.
#pragma once
#include <string>

#include "freight/train/config.h"
#include "options.h"

namespace freight::app {

// Declares a flag for every field (train/config_fields.h) but those of group `without`; its default is the value in
// `config`. Ranges and allowed words are checked by train::validate(), not by Options.
void declare_config(Options& options, train::Config& config, const std::string& without = {});

}  // namespace freight::app
