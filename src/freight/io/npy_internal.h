// Internal to the npy and npz writers: the bytes before the elements.
#pragma once
#include <string>

#include "freight/base/dtype.h"
#include "freight/base/shape.h"

namespace freight::io {

// Magic, version 1.0 and header dictionary of a C-order array, padded to a multiple of 64 bytes. bf16 has no npy name.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace freight::io
