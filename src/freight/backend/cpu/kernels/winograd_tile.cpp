// See winograd_tile.h. The interpolation points are 0, 1, -1, 2, -2 and infinity.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/winograd_tile.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"

#include "freight/backend/cpu/kernels/winograd_tile.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V times(float c, V v) { return hn::Mul(hn::Set(D(), c), v); }
HWY_INLINE V plus(float c, V v, V w) { return hn::MulAdd(hn::Set(D(), c), v, w); }  // c v + w

// Each takes elements in[0], in[step], ... and writes out[0], out[to], ...
struct InputTransform {  // B^T
  static constexpr int kIn = 6, kOut = 6;
  static HWY_INLINE void run(const V* in, int step, V* out, int to) {
    const V d0 = in[0], d1 = in[step], d2 = in[2 * step], d3 = in[3 * step], d4 = in[4 * step], d5 = in[5 * step];
    const V a = plus(-4, d2, d4), b = plus(-4, d1, d3), c = hn::Sub(d4, d2), e = times(2, hn::Sub(d3, d1));
    out[0] = plus(4, d0, plus(-5, d2, d4));
    out[to] = hn::Add(a, b);
    out[2 * to] = hn::Sub(a, b);
    out[3 * to] = hn::Add(c, e);
    out[4 * to] = hn::Sub(c, e);
    out[5 * to] = plus(4, d1, plus(-5, d3, d5));
  }
};

struct OutputTransform {  // A^T
  static constexpr int kIn = 6, kOut = 4;
  static HWY_INLINE void run(const V* in, int step, V* out, int to) {
    const V m0 = in[0], m1 = in[step], m2 = in[2 * step], m3 = in[3 * step], m4 = in[4 * step], m5 = in[5 * step];
    const V a = hn::Add(m1, m2), b = hn::Sub(m1, m2), c = hn::Add(m3, m4), e = hn::Sub(m3, m4);
    out[0] = hn::Add(m0, hn::Add(a, c));
    out[to] = plus(2, e, b);
    out[2 * to] = plus(4, c, a);
    out[3 * to] = hn::Add(plus(8, e, b), m5);
  }
};

struct GradientTransform {  // A
  static constexpr int kIn = 4, kOut = 6;
  static HWY_INLINE void run(const V* in, int step, V* out, int to) {
    const V y0 = in[0], y1 = in[step], y2 = in[2 * step], y3 = in[3 * step];
    const V a = hn::Add(y0, y2), b = hn::Add(y1, y3), c = plus(4, y2, y0), e = plus(8, y3, times(2, y1));
    out[0] = y0;
    out[to] = hn::Add(a, b);
    out[2 * to] = hn::Sub(a, b);
    out[3 * to] = hn::Add(c, e);
    out[4 * to] = hn::Sub(c, e);
    out[5 * to] = y3;
  }
};

struct FilterTransform {  // G
  static constexpr int kIn = 3, kOut = 6;
  static HWY_INLINE void run(const V* in, int step, V* out, int to) {
    const V g0 = in[0], g1 = in[step], g2 = in[2 * step];
    const V a = times(-1.0f / 6, hn::Add(g0, g2)), b = times(1.0f / 6, g1);
    const V c = plus(1.0f / 6, g2, times(1.0f / 24, g0)), e = times(1.0f / 12, g1);
    out[0] = times(0.25f, g0);
    out[to] = hn::Sub(a, b);
    out[2 * to] = hn::Add(a, b);
    out[3 * to] = hn::Add(c, e);
    out[4 * to] = hn::Sub(c, e);
    out[5 * to] = g2;
  }
};

struct FilterGradientTransform {  // G^T
  static constexpr int kIn = 6, kOut = 3;
  static HWY_INLINE void run(const V* in, int step, V* out, int to) {
    const V u0 = in[0], u1 = in[step], u2 = in[2 * step], u3 = in[3 * step], u4 = in[4 * step], u5 = in[5 * step];
    const V a = hn::Add(u1, u2), b = hn::Add(u3, u4);
    out[0] = plus(0.25f, u0, plus(1.0f / 24, b, times(-1.0f / 6, a)));
    out[to] = plus(1.0f / 12, hn::Sub(u3, u4), times(1.0f / 6, hn::Sub(u2, u1)));
    out[2 * to] = hn::Add(plus(1.0f / 6, b, times(-1.0f / 6, a)), u5);
  }
};

// T x T^T of a square x (kIn x kIn); the result (kOut x kOut) goes to out.
template <class T>
HWY_INLINE void both_sides(const V* x, V* out) {
  V half[T::kIn * T::kOut];  // (kOut, kIn)
#pragma GCC unroll 6
  for (int j = 0; j < T::kIn; ++j) T::run(x + j, T::kIn, half + j, T::kIn);
#pragma GCC unroll 6
  for (int i = 0; i < T::kOut; ++i) T::run(half + i * T::kIn, 1, out + i * T::kOut, 1);
}

template <class T>
void patch(const WinogradPatch& p, int64_t channels, const WinogradTable::Out& out) {
  const D d;
  constexpr int kSide = T::kIn;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool whole = p.row0 == 0 && p.row1 == kSide && p.col0 == 0 && p.col1 == kSide;
  V x[kSide * kSide], y[36];
  for (int64_t c = 0; c < channels; c += lanes) {
    if (whole) {
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) {
#pragma GCC unroll 6
        for (int j = 0; j < kSide; ++j) x[i * kSide + j] = hn::LoadU(d, p.pixels + i * p.row + j * p.col + c);
      }
    } else {
      for (V& v : x) v = hn::Zero(d);
      for (int i = p.row0; i < p.row1; ++i) {
        for (int j = p.col0; j < p.col1; ++j) x[i * kSide + j] = hn::LoadU(d, p.pixels + i * p.row + j * p.col + c);
      }
    }
    both_sides<T>(x, y);
    float* dst = out.dst + (c / out.width) * out.panel + c % out.width;
#pragma GCC unroll 36
    for (int e = 0; e < 36; ++e) hn::StoreU(y[e], d, dst + e * out.element);
  }
}

void output(const float* m, ptrdiff_t element, int64_t channels, const WinogradTable::Finish& finish, float* pixels,
            ptrdiff_t row, ptrdiff_t col, int rows, int cols) {
  const D d;
  V x[36], y[16];
  for (int64_t c = 0; c < channels; c += static_cast<int64_t>(hn::Lanes(d))) {
#pragma GCC unroll 36
    for (int e = 0; e < 36; ++e) x[e] = hn::LoadU(d, m + e * element + c);
    both_sides<OutputTransform>(x, y);
    const V b = finish.bias ? hn::LoadU(d, finish.bias + c) : hn::Zero(d);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < cols; ++j) {
        V v = hn::Add(y[i * 4 + j], b);
        if (finish.residual) v = hn::Add(v, hn::LoadU(d, finish.residual + i * row + j * col + c));
        if (finish.relu) v = hn::IfThenZeroElse(hn::Le(v, hn::Zero(d)), v);
        hn::StoreU(v, d, pixels + i * row + j * col + c);
      }
    }
  }
}

void filter(const float* w, ptrdiff_t tap, ptrdiff_t lane, float* dst, ptrdiff_t element) {
  const D d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  HWY_ALIGN float taps[9 * HWY_MAX_BYTES / 4];
  for (int t = 0; t < 9; ++t) {
    for (int l = 0; l < lanes; ++l) taps[t * lanes + l] = w[t * tap + l * lane];
  }
  V x[9], y[36];
  for (int t = 0; t < 9; ++t) x[t] = hn::Load(d, taps + t * lanes);
  both_sides<FilterTransform>(x, y);
  for (int e = 0; e < 36; ++e) hn::StoreU(y[e], d, dst + e * element);
}

void filter_gradient(const float* u, ptrdiff_t element, float* w, ptrdiff_t lane) {
  const D d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  V x[36], y[9];
  for (int e = 0; e < 36; ++e) x[e] = hn::LoadU(d, u + e * element);
  both_sides<FilterGradientTransform>(x, y);
  HWY_ALIGN float taps[9 * HWY_MAX_BYTES / 4];
  for (int t = 0; t < 9; ++t) hn::Store(y[t], d, taps + t * lanes);
  for (int l = 0; l < lanes; ++l) {
    for (int t = 0; t < 9; ++t) w[t + l * lane] = taps[t * lanes + l];
  }
}

WinogradTable make_winograd_table() {
  return {static_cast<int>(hn::Lanes(D())),
          patch<InputTransform>,
          patch<GradientTransform>,
          output,
          filter,
          filter_gradient};
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(WinogradTable, winograd_table, make_winograd_table)
}  // namespace freight::cpu
#endif
