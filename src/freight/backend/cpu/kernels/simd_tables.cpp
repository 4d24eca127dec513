// See simd_tables.h.
#include "freight/backend/cpu/kernels/simd_tables.h"

#include "freight/backend/cpu/kernels/simd_targets.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "hwy/targets.h"

namespace freight::cpu {

namespace {

bool asked_without_avx512() {
  static const bool without = env::get("FREIGHT_AVX512") == "0";
  return without;
}

// A bit for each set that kernels are compiled for, a lower one for a wider set.
std::vector<int64_t> target_bits() {
  int64_t left = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  // Clang 14 has no names for lzcnt and f16c, which the sets need as well: processors with avx2 have them.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && !asked_without_avx512() && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
  left |= ((avx2 ? HWY_AVX2 : 0) | (avx512 ? HWY_AVX3 : 0)) & HWY_TARGETS;
#endif
  std::vector<int64_t> bits;
  for (; left != 0; left &= left - 1) bits.push_back(left & -left);
  return bits;
}

int64_t& chosen() {
  static int64_t bit = target_bits().front();
  return bit;
}

}  // namespace

size_t simd_target() { return chosen() == HWY_AVX3 ? 0 : chosen() == HWY_AVX2 ? 1 : 2; }

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const int64_t bit : target_bits()) names.emplace_back(hwy::TargetName(bit));
  return names;
}

ForcedSimdTarget::ForcedSimdTarget(const std::string& name) {
  int64_t forced = 0;
  for (const int64_t bit : target_bits()) {
    if (name == hwy::TargetName(bit)) forced = bit;
  }
  FREIGHT_CHECK(forced != 0, "this CPU has no instruction set ", name);
  chosen() = forced;
}
ForcedSimdTarget::~ForcedSimdTarget() { chosen() = target_bits().front(); }
bool ForcedSimdTarget::allows_avx512() {
  return !asked_without_avx512() && (chosen() == HWY_AVX3 || chosen() == target_bits().front());
}

}  // namespace freight::cpu
