// `freight verify --world`: checks that several numbers of devices train the same model, byte for byte
// (docs/scaling.md).
#pragma once
#include "command.h"

namespace freight::app {

int verify_world(const Args& args);

}  // namespace freight::app
