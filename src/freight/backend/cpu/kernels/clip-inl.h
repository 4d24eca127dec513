// Bounds of a vector that let NaN through, per target: included as Highway's own -inl headers are.
#if defined(FREIGHT_CLIP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FREIGHT_CLIP_INL
#undef FREIGHT_CLIP_INL
#else
#define FREIGHT_CLIP_INL
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

// Of a number and NaN, x86's instructions give the second operand, Highway's code for single numbers the number.
template <class V>
HWY_INLINE V at_least(V least, V x) {
#if HWY_TARGET == HWY_SCALAR
  return hwy::HWY_NAMESPACE::IfThenElse(hwy::HWY_NAMESPACE::Lt(x, least), least, x);
#else
  return hwy::HWY_NAMESPACE::Max(least, x);
#endif
}
template <class V>
HWY_INLINE V at_most(V most, V x) {
#if HWY_TARGET == HWY_SCALAR
  return hwy::HWY_NAMESPACE::IfThenElse(hwy::HWY_NAMESPACE::Gt(x, most), most, x);
#else
  return hwy::HWY_NAMESPACE::Min(most, x);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
