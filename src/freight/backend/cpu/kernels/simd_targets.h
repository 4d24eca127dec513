// The instruction sets that Highway compiles every SIMD kernel for: the build's baseline, AVX2 and AVX-512. Included
// before foreach_target.h; fewer targets keep the build short.
#include "freight/backend/cpu/kernels/simd_tables.h"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_IS_DEBUG_BUILD
#define HWY_IS_DEBUG_BUILD 0  // its assertions call Highway's library, which is not linked

// Behind the loops of all targets: defines accessor(), which gives the table that `maker` makes for this CPU.
#undef FREIGHT_SIMD_TABLE
#define FREIGHT_SIMD_TABLE(Table, accessor, maker)                                                                   \
  const Table& accessor() {                                                                                          \
    static TablesByTarget<Table> tables{HWY_CHOOSE_AVX3(maker), HWY_CHOOSE_AVX2(maker), HWY_CHOOSE_FALLBACK(maker)}; \
    return tables.get(simd_target());                                                                                \
  }
