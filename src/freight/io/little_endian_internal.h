// Little-endian integers of up to 8 bytes, as archives and files of tensors have them.
#pragma once
#include <cstdint>
#include <string>

#include "freight/io/file.h"

namespace freight::io {

// The integer in these bytes.
inline uint64_t little_endian(ByteView bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}
// Appends the lowest `size` bytes of an integer.
inline void put_little_endian(std::string& out, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace freight::io
