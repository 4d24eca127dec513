// Between f32 and bf16 in memory, as steps of tiles (kernels/tile_steps.h): dst[i] = a[i] for i < n. Rounds to nearest
// even; NaN stays NaN.
#pragma once
#include <cstddef>

namespace freight::cpu {

struct Bf16Conversion {
  using Step = void (*)(void* dst, const void* a, const void*, const void*, size_t n);
  Step load = nullptr, store = nullptr;
};
const Bf16Conversion& bf16_conversion();
// By the processor's own instructions, of a processor for which bf16_table() is not null.
Bf16Conversion native_conversion();

}  // namespace freight::cpu
