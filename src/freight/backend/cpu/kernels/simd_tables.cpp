// See simd_tables.h.
#include "freight/backend/cpu/kernels/simd_tables.h"

#include "freight/backend/cpu/kernels/simd_targets.h"
#include "freight/base/error.h"
#include "hwy/targets.h"

namespace freight::cpu {

namespace {

bool avx512_allowed = true;

// A bit for each set, a lower one for a wider set.
std::vector<int64_t> target_bits() {
  std::vector<int64_t> bits;
  for (int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) bits.push_back(left & -left);
  return bits;
}

}  // namespace

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
  hwy::GetChosenTarget().Update(forced);
  avx512_allowed = forced <= HWY_AVX3;
}
ForcedSimdTarget::~ForcedSimdTarget() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  avx512_allowed = true;
}
bool ForcedSimdTarget::allows_avx512() { return avx512_allowed; }

}  // namespace freight::cpu
