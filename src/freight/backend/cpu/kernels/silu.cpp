// See silu.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/silu.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/functions-inl.h"

#include "freight/backend/cpu/kernels/silu.h"

#ifndef FREIGHT_SILU_TYPES
#define FREIGHT_SILU_TYPES
namespace freight::cpu {
struct SiluTable {
  void (*run)(float* v, int64_t n) = nullptr;
};
}  // namespace freight::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace silu {

// x / (1 + exp(-x)): where exp overflows, x / infinity is the 0 that it should be.
HWY_INLINE Floats of(Floats x) {
  const hn::ScalableTag<float> d;
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp_f32(hn::Neg(x))));
}

void run(float* v, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(of(hn::LoadU(d, v + i)), d, v + i);
  if (i == n) return;
  const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
  hn::BlendedStore(of(hn::MaskedLoad(rest, d, v + i)), rest, d, v + i);
}

}  // namespace silu

SiluTable make_silu_table() { return {silu::run}; }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {

FREIGHT_SIMD_TABLE(SiluTable, silu_table, make_silu_table)

void silu_in_place(float* v, int64_t n) { silu_table().run(v, n); }

}  // namespace freight::cpu
#endif
