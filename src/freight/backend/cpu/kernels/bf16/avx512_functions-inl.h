// exp, erf and the functions of GELU and SiLU by instructions that only AVX-512 has: scaling by a power of two, tables
// of 32. functions-inl.h, which includes this per target, has them for all others.
#if defined(FREIGHT_AVX512_FUNCTIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FREIGHT_AVX512_FUNCTIONS_INL
#undef FREIGHT_AVX512_FUNCTIONS_INL
#else
#define FREIGHT_AVX512_FUNCTIONS_INL
#endif

#include "freight/backend/cpu/kernels/activations.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::Vec<hn::ScalableTag<float>>;

#if HWY_TARGET == HWY_AVX3
HWY_INLINE Floats exp_avx512(Floats x) {
  const hn::ScalableTag<float> d;
  // 2^n e^r with |r| <= ln(2) / 2 (Highway's polynomial); scaling rounds as it must at both ends. The second operand of
  // min and max is the one that may be NaN.
  x = {_mm512_max_ps(_mm512_set1_ps(-104.0f), _mm512_min_ps(_mm512_set1_ps(89.0f), x.raw))};
  const Floats n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  const Floats r = hn::MulAdd(n, hn::Set(d, -1.428606765330187e-6f), hn::MulAdd(n, hn::Set(d, -0.693145751953125f), x));
  Floats p = hn::Set(d, 0.000198527617612853646f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00139304355252534151f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.00833336077630519867f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416664853692054749f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166666671633720398f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  return {_mm512_scalef_ps(p.raw, n.raw)};
}

// erf(x) = |x| g(|x|) with the sign of x: g by polynomials of degree 4 around multiples of 1/8, whose coefficients two
// tables of 16 hold (Chebyshev interpolation; the relative error is 1.6e-7 with rounding). 1 from 3.925 on.
HWY_INLINE Floats erf_avx512(Floats x) {
  const hn::ScalableTag<float> d;
  HWY_ALIGN static constexpr float kPowers[5][32] = {
      {1.12837923f,  1.12252963f,  1.10530555f,  1.07764506f,  1.04099977f,  0.997185409f, 0.948207498f, 0.896085799f,
       0.842700779f, 0.789678454f, 0.738320112f, 0.689578235f, 0.644070089f, 0.602119207f, 0.563812375f, 0.529061377f,
       0.497661144f, 0.469339281f, 0.44379434f,  0.420722961f, 0.399837226f, 0.380874157f, 0.363599777f, 0.347809434f,
       0.333325982f, 0.319996834f, 0.307690978f, 0.296295762f, 0.28571406f,  0.275861979f, 0.266666651f, 0.258064508f},
      {3.19312828e-33f, -0.0931548551f, -0.181165561f, -0.259445876f, -0.324434102f, -0.373897165f,  -0.407035083f,
       -0.424389303f,   -0.427593231f,  -0.419026196f, -0.40143922f,  -0.377613485f, -0.350093275f,  -0.3210136f,
       -0.292021424f,   -0.264275014f,  -0.238497123f, -0.215058133f, -0.194067582f, -0.175459579f,  -0.159063578f,
       -0.144657627f,   -0.132004902f,  -0.120876245f, -0.111062236f, -0.102378257f, -0.0946651623f, -0.0877875537f,
       -0.0816310495f,  -0.0760992467f, -0.071110867f, -0.0665972009f},
      {-0.37612626f,   -0.365645558f, -0.335351139f, -0.288496524f, -0.229913875f, -0.165263727f, -0.100217462f,
       -0.0397286527f, 0.0124857165f, 0.0541937016f, 0.0846301764f, 0.104268149f,  0.114465177f,  0.117074527f,
       0.114094369f,   0.107400835f,  0.0985815749f, 0.0888630077f, 0.0791099444f, 0.0698712468f, 0.061447151f,
       0.0539597943f,  0.0474155098f, 0.0417536832f, 0.0368814915f, 0.0326962844f, 0.0290985536f, 0.0259983763f,
       0.0233177561f,  0.020990679f,  0.0189620163f, 0.0171860345f},
      {-9.04112484e-31f, 0.0552828461f,   0.10454648f,     0.142760739f,   0.166655928f,    0.175119042f,
       0.169156983f,     0.151477456f,    0.125822365f,    0.0962269232f,  0.0663665682f,   0.0391031839f,
       0.0162746664f,    -0.00129178271f, -0.0136049865f,  -0.0212529134f, -0.0251360182f,  -0.0262420382f,
       -0.0254876595f,   -0.0236300863f,  -0.0212367177f,  -0.0186946448f, -0.016241705f,   -0.014004644f,
       -0.0120351017f,   -0.0103387916f,  -0.00889665913f, -0.0076787835f, -0.00665264158f, -0.00578746619f,
       -0.00505613908f,  -0.00443568733f},
      {0.112706833f,   0.106509604f,   0.0889466032f,  0.0628752112f,  0.0323592387f,   0.00182248582f,
       -0.0248015765f, -0.0447217748f, -0.0566153526f, -0.0606025606f, -0.0579376556f,  -0.0505423024f,
       -0.0405194685f, -0.0297579728f, -0.0196876824f, -0.0111930119f, -0.00465334207f, -6.00739295e-05f,
       0.0028400505f,  0.00441333838f, 0.00504027307f, 0.0050550024f,  0.00471836282f,  0.00421471847f,
       0.00366236572f, 0.00312928203f, 0.00264886208f, 0.00223294203f, 0.00188129814f,  0.00158789079f,
       0.00134458765f, 0.00114315108f},
  };
  // The second operand of min is the one that may be NaN. A sum with 1.5 * 2^20 is a multiple of 1/8, whose number are
  // its last bits.
  const Floats u = {_mm512_min_ps(_mm512_set1_ps(3.925f), hn::Abs(x).raw)}, to_eighths = hn::Set(d, 0x1.8p20f);
  const Floats shifted = hn::Add(u, to_eighths), t = hn::Sub(u, hn::Sub(shifted, to_eighths));
  const __m512i segment = _mm512_castps_si512(shifted.raw);
  const auto coefficient = [&](int power) HWY_ATTR {
    return Floats{_mm512_permutex2var_ps(_mm512_load_ps(kPowers[power]), segment, _mm512_load_ps(kPowers[power] + 16))};
  };
  Floats g = hn::MulAdd(coefficient(4), t, coefficient(3));
  g = hn::MulAdd(g, t, coefficient(2));
  g = hn::MulAdd(g, t, coefficient(1));
  g = hn::MulAdd(g, t, coefficient(0));
  return hn::CopySign({_mm512_min_ps(_mm512_set1_ps(1.0f), hn::Mul(u, g).raw)}, x);
}

// exp(-x) = 2^n 2^f with n + f = -x log2(e), |f| <= 1/2 (minimax polynomial, relative error 1.4e-7). The product is
// rounded, which leaves a relative error of up to 8e-8 |x|: where it is large, either exp(-x) is small next to 1 or
// SiLU is small itself. Infinities need no limits: vreduceps makes f = 0 of them.
HWY_INLINE Floats exp_of_silu_avx512(Floats x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const hn::ScalableTag<float> d;
  const Floats y = hn::Mul(x, hn::Set(d, -1.44269504f)), f = {_mm512_reduce_ps(y.raw, kNearest)};
  Floats p = hn::Set(d, 0.00136502262f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00968467724f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.05549711f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.240219206f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693147421f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.00000012f));
  return {_mm512_scalef_ps(p.raw, _mm512_roundscale_ps(y.raw, kNearest))};
}

// A function of GELU by the table's polynomials, of four vectors, so that each coefficient is loaded once for them.
template <TileFunction F>
HWY_INLINE void gelu_avx512(Floats (&x)[4]) {
  constexpr bool kSlope = F == TileFunction::gelu_erf_slope || F == TileFunction::gelu_tanh_slope;
  const GeluTable& table = kGeluTables[static_cast<int>(F)];
  const hn::ScalableTag<float> d;
  const Floats to_whole = hn::Set(d, 0x1.8p23f);
  const Floats first = hn::Set(d, GeluTable::kFirst), last = hn::Set(d, GeluTable::kLast);
  Floats t[4], y[4];
  __m512i segment[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    // The second operand of min and max is the one that may be NaN; the last bits of the sum with 1.5 * 2^23 are those
    // of the whole number.
    const Floats scaled = hn::MulAdd(x[i], hn::Set(d, GeluTable::kScale), hn::Set(d, GeluTable::kShift));
    const Floats at = {_mm512_max_ps(first.raw, _mm512_min_ps(last.raw, scaled.raw))}, shifted = hn::Add(at, to_whole);
    t[i] = hn::Sub(at, hn::Sub(shifted, to_whole));
    segment[i] = _mm512_castps_si512(shifted.raw);
  }
#pragma GCC unroll 6
  for (int power = GeluTable::kDegree; power >= 0; --power) {
    const __m512 low = _mm512_load_ps(table.power[power]), high = _mm512_load_ps(table.power[power] + 16);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Floats coefficient = {_mm512_permutex2var_ps(low, segment[i], high)};
      y[i] = power == GeluTable::kDegree ? coefficient : hn::MulAdd(y[i], t[i], coefficient);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) x[i] = kSlope ? hn::MulAdd(x[i], hn::Zero(d), y[i]) : y[i];  // 0 times infinity is NaN
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
