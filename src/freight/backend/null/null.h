// The null backend accepts every node, every fusion and every epilogue, and computes nothing: for tests of tracing,
// passes and plans that must not depend on a device.
#pragma once
#include <memory>

#include "freight/backend/backend.h"

namespace freight {

std::unique_ptr<Backend> make_null_backend();

}  // namespace freight
