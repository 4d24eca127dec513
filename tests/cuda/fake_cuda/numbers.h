// Elements of the types that NVIDIA's libraries know, as numbers (cudaDataType).
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "freight/base/dtype.h"

namespace fake {

constexpr int kF32 = 0, kF64 = 1, kF16 = 2, kBF16 = 14;

inline size_t size_of(int type) { return type == kF64 ? 8 : type == kF32 ? 4 : 2; }

inline double load(int type, const void* p, size_t at) {
  switch (type) {
    case kF64: return static_cast<const double*>(p)[at];
    case kF32: return static_cast<const float*>(p)[at];
    case kF16: return static_cast<float>(static_cast<const freight::Float16*>(p)[at]);
    default: return static_cast<float>(static_cast<const freight::BFloat16*>(p)[at]);
  }
}

inline void store(int type, void* p, size_t at, double value) {
  switch (type) {
    case kF64: static_cast<double*>(p)[at] = value; break;
    case kF32: static_cast<float*>(p)[at] = static_cast<float>(value); break;
    case kF16: static_cast<freight::Float16*>(p)[at] = freight::Float16(static_cast<float>(value)); break;
    default: static_cast<freight::BFloat16*>(p)[at] = freight::BFloat16(static_cast<float>(value));
  }
}

// To nearest, ties to even, in 10 bits of mantissa.
inline double rounded_to_tf32(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu);
}

}  // namespace fake
