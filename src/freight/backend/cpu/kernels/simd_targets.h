// The instruction sets that Highway compiles every SIMD kernel for: the build's baseline, AVX2 and AVX-512. Included
// before foreach_target.h; fewer targets keep the build short.
#include "freight/backend/cpu/kernels/simd_tables.h"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

// Behind the loops of all targets: defines accessor(), which gives the table that `maker` makes for this CPU.
#undef FREIGHT_SIMD_TABLE
#define FREIGHT_SIMD_TABLE(Table, accessor, maker)                                                      \
  HWY_EXPORT(maker);                                                                                    \
  const Table& accessor() {                                                                             \
    static TablesByTarget<Table, HWY_MAX_DYNAMIC_TARGETS + 2> tables;                                   \
    return tables.get(hwy::GetChosenTarget().GetIndex(), [] { return HWY_DYNAMIC_DISPATCH(maker)(); }); \
  }
