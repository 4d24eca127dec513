// See finite.h.
#include "freight/base/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace freight {

namespace {

// All bits of the exponent are set in such numbers. The loop has no branch, so that it runs at the memory's rate.
template <class Bits, class T>
int64_t count_with(Bits exponent, std::span<const T> values) {
  int64_t count = 0;
  for (const T v : values) count += (std::bit_cast<Bits>(v) & exponent) == exponent;
  return count;
}

}  // namespace

int64_t count_nonfinite(std::span<const float> values) { return count_with<uint32_t>(0x7f800000u, values); }

int64_t count_nonfinite(const Array& array) {
  if (is_complex(array.dtype())) {
    const DType part = array.dtype() == DType::c64 ? DType::f32 : DType::f64;
    return count_nonfinite(Array(part, {array.numel() * 2}, array.storage()));
  }
  if (!is_floating(array.dtype())) return 0;
  if (array.dtype() == DType::f64) {
    return count_with<uint64_t>(0x7ff0000000000000u,
                                std::span<const double>(array.data<double>(), static_cast<size_t>(array.numel())));
  }
  const Array f32 = array.dtype() == DType::f32 ? array : array.cast(DType::f32);
  return count_nonfinite(std::span(f32.data<float>(), static_cast<size_t>(f32.numel())));
}

int64_t find_nonfinite(std::span<const float> values) {
  if (count_nonfinite(values) == 0) return -1;
  return std::find_if_not(values.begin(), values.end(), [](float v) { return std::isfinite(v); }) - values.begin();
}

}  // namespace freight
