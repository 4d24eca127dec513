// Element types of files that Freight has no arrays of (small and unsigned integers, big-endian data): how they
// widen. Shared by the npy and safetensors readers.
#pragma once
#include <optional>
#include <string>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::io {

enum class Endian { little, big };

struct ForeignType {
  char kind;    // 'f' float, 'i' signed, 'u' unsigned, 'b' boolean, 'B' bfloat16
  size_t size;  // bytes per element
};

// The Freight type that holds every value: i8, i16, u16 -> i32; u32 -> i64; u64 -> i64 (values above 2^63-1
// are refused at conversion). None when the type is unknown.
std::optional<DType> widened(ForeignType type);

// Whether the bytes of such elements are those of the Freight type, and every pattern of bits is a value.
bool keeps_bytes(ForeignType type, Endian endian);

// Number of elements of `dims`; none on overflow, a negative extent or more axes than Shape can hold.
std::optional<Shape> checked_shape(const std::vector<int64_t>& dims, size_t element_size);

// Fills `out`, whose type is widened(type), from src, which holds out.numel() foreign elements; returns an empty
// string or what is wrong with the values.
std::string widen(ForeignType type, Endian endian, ByteView src, Array& out);

}  // namespace freight::io
