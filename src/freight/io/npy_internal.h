// Internal to readers and writers of npy and npz files: the bytes before the elements.
#pragma once
#include <string>
#include <utility>

#include "freight/base/dtype.h"
#include "freight/base/shape.h"
#include "freight/io/file.h"

namespace freight::io {

// Magic, version 1.0 and header dictionary of a C-order array, padded to a multiple of 64 bytes. bf16 has no npy name.
std::string npy_header(DType dtype, const Shape& shape);

inline constexpr size_t kMaxNpyHeader = 1 << 20;  // one of a plain array is under 200 bytes
// The type and shape that a file says in its first bytes, a MiB and 12 at most, whether the elements are there or not.
// Throws Error(data) that begins with `name`.
std::pair<DType, Shape> npy_type(ByteView first, const std::string& name);

}  // namespace freight::io
