// The CPU backend: fused regions in a tile interpreter, oneDNN and own SIMD kernels for contractions, one OpenMP pool.
#pragma once
#include <memory>

#include "freight/backend/backend.h"

namespace freight {

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace freight
