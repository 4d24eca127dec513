// The reference backend: every primitive as naive loops, the oracle of all tests. Never fast, but right: floating
// values are computed and accumulated in double and rounded once per node, integers in 64 bits that wrap to their type.
#pragma once
#include <memory>

#include "freight/backend/backend.h"

namespace freight {

std::unique_ptr<Backend> make_ref_backend();

}  // namespace freight
