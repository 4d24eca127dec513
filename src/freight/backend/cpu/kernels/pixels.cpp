// See pixels.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/pixels.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/functions-inl.h"

#include "freight/backend/cpu/kernels/pixels.h"

#ifndef FREIGHT_PIXELS_TYPES
#define FREIGHT_PIXELS_TYPES
namespace freight::cpu {
struct PixelsTable {
  void (*silu)(float* v, int64_t n);
  void (*sigmoid)(float* v, int64_t n);
  void (*add)(float* sums, const float* v, int64_t n);
  void (*scale)(float* v, const float* by, int64_t n);
};
}  // namespace freight::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace pixels {

// v[i] = f(v[i], x[i])
template <class F>
HWY_INLINE void each(float* v, const float* x, int64_t n, const F& f) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, v + i), hn::LoadU(d, x + i)), d, v + i);
  if (i == n) return;
  const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
  hn::BlendedStore(f(hn::MaskedLoad(rest, d, v + i), hn::MaskedLoad(rest, d, x + i)), rest, d, v + i);
}

void silu(float* v, int64_t n) {
  each(v, v, n, [&](Floats x, Floats) HWY_ATTR { return silu_f32(x); });
}
void sigmoid(float* v, int64_t n) {
  each(v, v, n, [&](Floats x, Floats) HWY_ATTR { return sigmoid_f32(x); });
}
void add(float* sums, const float* v, int64_t n) {
  each(sums, v, n, [&](Floats sum, Floats x) HWY_ATTR { return hn::Add(sum, x); });
}
void scale(float* v, const float* by, int64_t n) {
  each(v, by, n, [&](Floats x, Floats factor) HWY_ATTR { return hn::Mul(x, factor); });
}

}  // namespace pixels

PixelsTable make_pixels_table() { return {pixels::silu, pixels::sigmoid, pixels::add, pixels::scale}; }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace freight::cpu {

FREIGHT_SIMD_TABLE(PixelsTable, pixels_table, make_pixels_table)

void silu_in_place(float* v, int64_t n) { pixels_table().silu(v, n); }
void silu_in_place(const Pixels& p) {
  if (p.end - p.first == p.channels) return silu_in_place(p.v, p.pixels * p.channels);
  for (int64_t i = 0; i < p.pixels; ++i) silu_in_place(p.v + i * p.channels + p.first, p.end - p.first);
}
void sigmoid_in_place(float* v, int64_t n) { pixels_table().sigmoid(v, n); }
void sum_pixels(const Pixels& p, float* sums) {
  std::fill(sums + p.first, sums + p.end, 0.0f);
  for (int64_t i = 0; i < p.pixels; ++i)
    pixels_table().add(sums + p.first, p.v + i * p.channels + p.first, p.end - p.first);
}
void scale_pixels(const Pixels& p, const float* by) {
  for (int64_t i = 0; i < p.pixels; ++i)
    pixels_table().scale(p.v + i * p.channels + p.first, by + p.first, p.end - p.first);
}

}  // namespace freight::cpu
#endif
