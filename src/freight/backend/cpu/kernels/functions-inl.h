// Functions that several SIMD kernels need, per target: included between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE's
// files as Highway's own -inl headers are. Infinities and NaN as in C.
#if defined(FREIGHT_FUNCTIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FREIGHT_FUNCTIONS_INL
#undef FREIGHT_FUNCTIONS_INL
#else
#define FREIGHT_FUNCTIONS_INL
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::Vec<hn::ScalableTag<float>>;

HWY_INLINE Floats sigmoid_f32(Floats x) {
  const hn::ScalableTag<float> d;
  // exp of -|x| cannot overflow.
  const Floats e = hn::Exp(d, hn::Neg(hn::Abs(x))), one = hn::Set(d, 1.0f);
  const Floats y = hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE Floats tanh_f32(Floats x) {
  const hn::ScalableTag<float> d;
  const Floats limit = hn::Set(d, 20.0f);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, hn::Max(hn::Min(x, limit), hn::Neg(limit))));
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
