// The instruction sets that Highway compiles every SIMD kernel for: the build's baseline, AVX2 and AVX-512. Included
// before foreach_target.h; fewer targets keep the build short.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

// Behind the loops of all targets: defines accessor(), which gives the table that `maker` makes for this CPU.
#define FREIGHT_SIMD_TABLE(Table, accessor, maker)             \
  HWY_EXPORT(maker);                                           \
  const Table& accessor() {                                    \
    static const Table kTable = HWY_DYNAMIC_DISPATCH(maker)(); \
    return kTable;                                             \
  }
