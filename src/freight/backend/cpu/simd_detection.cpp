// The two functions of Highway's library that the SIMD kernels need (kernels/simd_tables.h), for x86. With them the
// library is not linked: when it is loaded, it measures a clock for 4 ms, as long as the loader takes for all other
// libraries.
#include "hwy/targets.h"

#if HWY_ARCH_X86

namespace hwy {

int64_t SupportedTargets() {
  static const int64_t kSupported = [] {
    // Every processor that has FMA and BMI2 also has LZCNT and F16C, which older compilers cannot ask for.
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512cd");
    return HWY_ENABLED_BASELINE | (avx2 ? HWY_AVX2 : 0) | (avx512 ? HWY_AVX3 : 0);
  }();
  return kSupported;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy

#endif
