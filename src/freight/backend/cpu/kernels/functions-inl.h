// Functions that several SIMD kernels need, per target: included between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE's
// files as Highway's own -inl headers are. Infinities and NaN as in C.
#if defined(FREIGHT_FUNCTIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FREIGHT_FUNCTIONS_INL
#undef FREIGHT_FUNCTIONS_INL
#else
#define FREIGHT_FUNCTIONS_INL
#endif

#include "freight/backend/cpu/kernels/bf16/avx512_functions-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::Vec<hn::ScalableTag<float>>;

// exp(x), infinities and NaN as in C.
HWY_INLINE Floats exp_f32(Floats x) {
#if HWY_TARGET == HWY_AVX3
  return exp_avx512(x);
#else
  const hn::ScalableTag<float> d;
  const Floats y = hn::Exp(d, hn::Min(x, hn::Set(d, 89.0f)));  // which handles the underflow
  const Floats top = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.722839f)), hn::Inf(d), y);
  return hn::IfThenElse(hn::IsNaN(x), x, top);
#endif
}

HWY_INLINE Floats sigmoid_f32(Floats x) {
  const hn::ScalableTag<float> d;
  // exp of -|x| cannot overflow.
  const Floats e = exp_f32(hn::Neg(hn::Abs(x))), one = hn::Set(d, 1.0f);
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));  // of NaN, e is NaN
}

// exp(-x) for SiLU, whose denominator is 1 + exp(-x).
HWY_INLINE Floats exp_of_silu(Floats x) {
#if HWY_TARGET == HWY_AVX3
  return exp_of_silu_avx512(x);
#else
  return exp_f32(hn::Neg(x));
#endif
}
// x sigmoid(x). Where exp overflows, its size is below 3e-37, and it becomes 0.
HWY_INLINE Floats silu_f32(Floats x) {
  return hn::Div(x, hn::Add(hn::Set(hn::ScalableTag<float>(), 1.0f), exp_of_silu(x)));
}
// Its derivative s (1 + x (1 - s)) with s = sigmoid(x); NaN for an infinity, as 0 times infinity. The difference 1 - s
// would have the rounding error of s, times x; it is e s with e = exp(-x), of any value where e overflows and s is 0.
HWY_INLINE Floats silu_slope_f32(Floats x) {
  const hn::ScalableTag<float> d;
  const Floats e = exp_of_silu(x), one = hn::Set(d, 1.0f), s = hn::Div(one, hn::Add(one, e));
  return hn::Mul(hn::MulAdd(x, hn::IfThenElseZero(hn::Lt(e, hn::Inf(d)), hn::Mul(e, s)), one), s);
}

// tanh(x) = (1 - e) / (1 + e) with e = exp(-2 |x|), of which e - 1 = 2^n (exp(r) - 1) + (2^n - 1) without cancellation.
// exp(r) - 1 for |r| up to ln(2) / 2 is a minimax polynomial (relative error 1.3e-8).
HWY_INLINE Floats tanh_f32(Floats x) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<hn::ScalableTag<float>> du;
  const Floats one = hn::Set(d, 1.0f), to_whole = hn::Set(d, 0x1.8p23f);
  const Floats z = hn::Mul(hn::Min(hn::Abs(x), hn::Set(d, 10.0f)), hn::Set(d, -2.0f));  // beyond, tanh is 1
  const Floats shifted = hn::MulAdd(z, hn::Set(d, 1.44269504f), to_whole), n = hn::Sub(shifted, to_whole);
  const Floats r = hn::MulAdd(n, hn::Set(d, -1.428606765330187e-6f), hn::MulAdd(n, hn::Set(d, -0.693145751953125f), z));
  Floats p = hn::Set(d, 0.00138825432757f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00836671306707f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416672051912f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665421937f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.499999981238f));
  p = hn::MulAdd(p, hn::Mul(r, r), r);
  // The last bits of the sum are those of n, which is the exponent of 2^n.
  const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(du, shifted)), hn::BitCast(du, one));
  const Floats scale = hn::BitCast(d, exponent), e = hn::MulAdd(p, scale, hn::Sub(scale, one));  // exp(z) - 1
  const Floats y = hn::CopySign(hn::Div(e, hn::Add(e, hn::Set(d, 2.0f))), x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// erf(x) = x P(x^2) / Q(x^2) on |x| < 3.95, fitted for equal relative error (2e-8 before rounding); 1 beyond in f32.
HWY_INLINE Floats erf_f32(Floats x) {
#if HWY_TARGET == HWY_AVX3
  return erf_avx512(x);
#else
  const hn::ScalableTag<float> d;
  const Floats t = hn::Max(hn::Min(x, hn::Set(d, 3.95f)), hn::Set(d, -3.95f)), u = hn::Mul(t, t);
  Floats p = hn::Set(d, 2.0259092252672417e-06f);
  p = hn::MulAdd(p, u, hn::Set(d, 0.000284686655504629f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.0038081305101513863f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.05287535488605499f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.1915496438741684f));
  p = hn::MulAdd(p, u, hn::Set(d, 1.1283791065216064f));
  Floats q = hn::Set(d, 3.783175634453073e-05f);
  q = hn::MulAdd(q, u, hn::Set(d, 0.0011707174126058817f));
  q = hn::MulAdd(q, u, hn::Set(d, 0.015055030584335327f));
  q = hn::MulAdd(q, u, hn::Set(d, 0.1145593449473381f));
  q = hn::MulAdd(q, u, hn::Set(d, 0.5030891299247742f));
  q = hn::MulAdd(q, u, hn::Set(d, 1.0f));
  const Floats y = hn::Max(hn::Min(hn::Div(hn::Mul(t, p), q), hn::Set(d, 1.0f)), hn::Set(d, -1.0f));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
#endif
}

using DI = hn::RebindToSigned<hn::ScalableTag<float>>;
using DU = hn::RebindToUnsigned<hn::ScalableTag<float>>;
using D16 = hn::Rebind<uint16_t, hn::ScalableTag<float>>;  // bits of bf16

HWY_INLINE Floats from_bf16(hn::Vec<D16> v) {
  return hn::BitCast(hn::ScalableTag<float>(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), v)));
}
// To nearest even; NaN stays NaN.
HWY_INLINE hn::Vec<D16> to_bf16(Floats v) {
  const DU du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
  return hn::DemoteTo(D16(), hn::BitCast(DI(), hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded)));
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
