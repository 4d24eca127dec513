// See convert.h. The loops for processors without an instruction that rounds; the others are in blocks.cpp.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/bf16/convert.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/functions-inl.h"

#include <bit>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/bf16/convert.h"
#include "freight/base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

void load(void* dst, const void* a, const void*, const void*, size_t n) {
  auto* to = static_cast<float*>(dst);
  const auto* from = static_cast<const uint16_t*>(a);
  size_t i = 0;
  for (; i + hn::Lanes(D()) <= n; i += hn::Lanes(D())) hn::StoreU(from_bf16(hn::LoadU(D16(), from + i)), D(), to + i);
  for (; i < n; ++i) to[i] = static_cast<float>(std::bit_cast<BFloat16>(from[i]));
}

void store(void* dst, const void* a, const void*, const void*, size_t n) {
  auto* to = static_cast<uint16_t*>(dst);
  const auto* from = static_cast<const float*>(a);
  size_t i = 0;
  for (; i + hn::Lanes(D()) <= n; i += hn::Lanes(D())) hn::StoreU(to_bf16(hn::LoadU(D(), from + i)), D16(), to + i);
  for (; i < n; ++i) to[i] = BFloat16(from[i]).bits;
}

Bf16Conversion make_conversion() { return bf16_table() ? native_conversion() : Bf16Conversion{load, store}; }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(Bf16Conversion, bf16_conversion, make_conversion)
}  // namespace freight::cpu
#endif
