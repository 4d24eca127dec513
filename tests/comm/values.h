// Values of ranks that any process can compute again, and the sum that they must have.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "freight/base/dtype.h"

namespace freight::test {

// Numbers of very different sizes and both signs, so that another order of adding shows in the bits.
template <class T>
T value_of(int rank, int64_t i) {
  uint64_t x =
      static_cast<uint64_t>(rank + 1) * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(i) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 31)) * 0x94d049bb133111ebULL;
  x ^= x >> 29;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x);  // sums overflow
  } else {
    const double mantissa = 1 + static_cast<double>(x >> 12 & 0xffffff) / 0x1000000;
    return static_cast<T>((x & 1 ? -1 : 1) * std::ldexp(mantissa, static_cast<int>(x >> 40 & 15) - 8));
  }
}

template <class T>
std::vector<T> values_of(int rank, int64_t count, int64_t from = 0) {
  std::vector<T> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) all[static_cast<size_t>(i)] = value_of<T>(rank, from + i);
  return all;
}

template <class T>
T plain_plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

// The tree, written down level by level: neighbors are added, then neighbors of these; one without a neighbor moves
// up as it is.
template <class T>
T expected_sum(int world, int64_t i) {
  std::array<T, 32> level{};
  for (int r = 0; r < world; ++r) level[static_cast<size_t>(r)] = value_of<T>(r, i);
  for (auto n = static_cast<size_t>(world); n > 1; n = (n + 1) / 2) {
    for (size_t k = 0; k < n / 2; ++k) level[k] = plain_plus(level[2 * k], level[2 * k + 1]);
    if (n % 2 == 1) level[n / 2] = level[n - 1];
  }
  return level[0];
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

}  // namespace freight::test
