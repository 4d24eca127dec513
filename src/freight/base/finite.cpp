// See finite.h.
#include "freight/base/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace freight {

int64_t count_nonfinite(std::span<const float> values) {
  // All bits of the exponent are set in such numbers. The loop has no branch, so that it runs at the memory's rate.
  int64_t count = 0;
  for (const float v : values) count += (std::bit_cast<uint32_t>(v) & 0x7f800000u) == 0x7f800000u;
  return count;
}

int64_t count_nonfinite(const Array& array) {
  if (is_complex(array.dtype())) {
    const DType part = array.dtype() == DType::c64 ? DType::f32 : DType::f64;
    return count_nonfinite(Array(part, {array.numel() * 2}, array.storage()));
  }
  if (!is_floating(array.dtype())) return 0;
  const Array f32 = array.dtype() == DType::f32 ? array : array.cast(DType::f32);
  return count_nonfinite(std::span(f32.data<float>(), static_cast<size_t>(f32.numel())));
}

int64_t find_nonfinite(std::span<const float> values) {
  if (count_nonfinite(values) == 0) return -1;
  return std::find_if_not(values.begin(), values.end(), [](float v) { return std::isfinite(v); }) - values.begin();
}

}  // namespace freight
