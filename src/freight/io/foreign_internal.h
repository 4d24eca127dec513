// Elements of files: which type they are, and reading them where they are not as in memory (big-endian, checked bools).
// Shared by the readers of npy, safetensors and PyTorch's files.
#pragma once
#include <optional>
#include <string>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::io {

enum class Endian { little, big };

struct ForeignType {
  // 'f' float, 'i' signed, 'u' unsigned, 'b' boolean, 'c' complex, 'B' bfloat16; of one byte, which are read as f16:
  // '4' e4m3fn, '5' e5m2, 'x' e4m3fnuz, 'y' e5m2fnuz (the OCP and Graphcore forms that PyTorch has)
  char kind;
  size_t size;  // bytes per element
};

// None when Freight has no such type.
std::optional<DType> dtype_of(ForeignType type);

// True where the bytes of such elements are those in memory, and every pattern of bits is a value.
bool keeps_bytes(ForeignType type, Endian endian);

// `dims` as a shape; none on overflow, for a negative extent, more axes than Shape can hold, or an array without
// elements whose other extents multiply to more than 67,108,864.
std::optional<Shape> checked_shape(const std::vector<int64_t>& dims, size_t element_size);

// Fills `out`, whose type is dtype_of(type), from src, which holds out.numel() foreign elements; returns an empty
// string or what is wrong with the values.
std::string read_elements(ForeignType type, Endian endian, ByteView src, Array& out);

}  // namespace freight::io
