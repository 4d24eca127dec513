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

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
