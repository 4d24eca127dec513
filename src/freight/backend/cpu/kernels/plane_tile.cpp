// See plane_tile.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/plane_tile.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/clip-inl.h"
#include "freight/backend/cpu/kernels/plane_tile.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// `B` vectors of pixels that begin at at[0..B): the sums of O outputs for each stay in registers.
template <int O, int B>
HWY_INLINE void tile(const PlaneRow& r, const int64_t* at) {
  const D d;
  V sum[B][O];
#pragma GCC unroll 8
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b) sum[b][o] = hn::Set(d, r.bias[o]);
  }
  const float* w = r.w;
  for (int64_t i = 0; i < r.kh; ++i) {
    const float* x = r.x + i * r.row;
    for (int64_t j = 0; j < r.kw; ++j, w += O) {
      V pixels[B];
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) pixels[b] = hn::LoadU(d, x + at[b] + j);
#pragma GCC unroll 8
      for (int o = 0; o < O; ++o) {
        const V weight = hn::Set(d, w[o]);
#pragma GCC unroll 2
        for (int b = 0; b < B; ++b) sum[b][o] = hn::MulAdd(pixels[b], weight, sum[b][o]);
      }
    }
  }
  HWY_ALIGN float lines[O * kLanes];
  const V most = hn::Set(d, r.most);
#pragma GCC unroll 2
  for (int b = 0; b < B; ++b) {
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) {
      const V v = r.relu ? at_least(hn::Zero(d), sum[b][o]) : sum[b][o];
      hn::Store(at_most(most, v), d, lines + o * kLanes);
    }
    float* y = r.y + at[b] * O;
    const int64_t pixels = std::min<int64_t>(kLanes, r.pixels);
    for (int64_t p = 0; p < pixels; ++p) {
#pragma GCC unroll 8
      for (int o = 0; o < O; ++o) y[p * O + o] = lines[o * kLanes + p];
    }
  }
}

// The last vector begins where it ends with the row; pixels that two share are computed twice.
template <int O>
void run(const PlaneRow& r) {
  constexpr bool kPairs = HWY_MAX_BYTES == 64 || O <= 6;  // what the registers hold
  const int64_t vectors = ceil_div(r.pixels, int64_t{kLanes});
  const auto begin = [&](int64_t v) { return std::max<int64_t>(0, std::min(v * kLanes, r.pixels - kLanes)); };
  int64_t v = 0;
  for (; kPairs && v + 2 <= vectors; v += 2) {
    const int64_t at[] = {begin(v), begin(v + 1)};
    tile<O, 2>(r, at);
  }
  for (; v < vectors; ++v) {
    const int64_t at = begin(v);
    tile<O, 1>(r, &at);
  }
}

PlaneTable make_plane_table() { return {kLanes, {run<1>, run<2>, run<3>, run<4>, run<5>, run<6>, run<7>, run<8>}}; }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(PlaneTable, plane_table, make_plane_table)
}  // namespace freight::cpu
#endif
