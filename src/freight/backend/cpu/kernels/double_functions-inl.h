// Functions of vectors of f64, per target as Highway's own -inl headers are: for f64 itself, and for rare functions of
// f32, which they give rounded once. Special values as in C. Each is within 4 ulp.
#if defined(FREIGHT_DOUBLE_FUNCTIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FREIGHT_DOUBLE_FUNCTIONS_INL
#undef FREIGHT_DOUBLE_FUNCTIONS_INL
#else
#define FREIGHT_DOUBLE_FUNCTIONS_INL
#endif

#include <limits>

#include "freight/backend/cpu/kernels/trigonometry-inl.h"
#include "freight/backend/ref/scalar.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

// To the nearest, infinite where that is none of f32.
using HalfFloatTag = hn::Rebind<float, DoubleTag>;
HWY_INLINE hn::Vec<HalfFloatTag> to_floats(Doubles x) {
#if HWY_TARGET == HWY_SCALAR  // where DemoteTo gives the largest number
  return hn::Set(HalfFloatTag(), static_cast<float>(hn::GetLane(x)));
#else
  return hn::DemoteTo(HalfFloatTag(), x);
#endif
}

HWY_INLINE Doubles number(double v) { return hn::Set(DoubleTag(), v); }
HWY_INLINE Doubles infinity() { return hn::Inf(DoubleTag()); }
HWY_INLINE Doubles not_a_number() { return number(std::numeric_limits<double>::quiet_NaN()); }
HWY_INLINE Doubles nan_or(Doubles x, Doubles y) { return hn::IfThenElse(hn::IsNaN(x), x, y); }
HWY_INLINE Doubles sign_f64(Doubles x) {
  const auto zero = hn::Eq(x, hn::Zero(DoubleTag()));
  return nan_or(x, hn::IfThenZeroElse(zero, hn::CopySign(number(1.0), x)));
}

HWY_INLINE Doubles exp_f64(Doubles x) { return nan_or(x, hn::Exp(DoubleTag(), hn::Min(x, number(710.0)))); }
// y = log where x is positive and finite; pole: where it is -inf.
HWY_INLINE Doubles with_log_edges(Doubles x, double pole, Doubles y) {
  y = hn::IfThenElse(hn::Eq(x, number(pole)), hn::Neg(infinity()), y);
  y = hn::IfThenElse(hn::Lt(x, number(pole)), not_a_number(), y);
  return hn::IfThenElse(hn::Lt(x, infinity()), y, x);  // inf and NaN stay
}
HWY_INLINE Doubles log_f64(Doubles x) { return with_log_edges(x, 0.0, hn::Log(DoubleTag(), x)); }
HWY_INLINE Doubles log2_f64(Doubles x) { return with_log_edges(x, 0.0, hn::Log2(DoubleTag(), x)); }
HWY_INLINE Doubles log10_f64(Doubles x) { return with_log_edges(x, 0.0, hn::Log10(DoubleTag(), x)); }
HWY_INLINE Doubles log1p_f64(Doubles x) {
  return hn::CopySign(with_log_edges(x, -1.0, hn::Log1p(DoubleTag(), x)), x);  // of -0 it is -0
}
HWY_INLINE Doubles expm1_f64(Doubles x) {
  return nan_or(x, hn::CopySign(hn::Expm1(DoubleTag(), hn::Min(x, number(710.0))), x));
}

// With exp(|x| / 2) squared where exp(|x|) may be infinite.
HWY_INLINE Doubles half_of_large_exp(Doubles size) {
  const Doubles root = exp_f64(hn::Mul(size, number(0.5)));
  return hn::Mul(hn::Mul(root, number(0.5)), root);
}
HWY_INLINE Doubles cosh_f64(Doubles x) {
  const Doubles size = hn::Abs(x), e = exp_f64(size);
  const Doubles y = hn::MulAdd(e, number(0.5), hn::Div(number(0.5), e));
  const auto large = hn::Gt(size, number(700.0));
  if (HWY_LIKELY(hn::AllFalse(DoubleTag(), large))) return y;
  return hn::IfThenElse(large, half_of_large_exp(size), y);
}
HWY_INLINE Doubles sinh_f64(Doubles x) {
  const Doubles size = hn::Abs(x), t = expm1_f64(hn::Min(size, number(709.0)));
  const Doubles small = hn::Mul(number(0.5), hn::Add(t, hn::Div(t, hn::Add(t, number(1.0)))));
  const auto large = hn::Gt(size, number(700.0));
  Doubles y = small;
  if (HWY_UNLIKELY(!hn::AllFalse(DoubleTag(), large))) y = hn::IfThenElse(large, half_of_large_exp(size), small);
  return nan_or(x, hn::CopySign(y, x));
}
HWY_INLINE Doubles tanh_f64(Doubles x) {
  const Doubles limit = number(40.0);
  const Doubles y = hn::Tanh(DoubleTag(), hn::Max(hn::Min(x, limit), hn::Neg(limit)));
  return nan_or(x, hn::CopySign(y, x));
}
HWY_INLINE Doubles sigmoid_f64(Doubles x) {
  const Doubles e = exp_f64(hn::Neg(hn::Abs(x))), one = number(1.0);
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(DoubleTag())), e, one), hn::Add(one, e));
}

HWY_INLINE Doubles asin_f64(Doubles x) { return hn::CopySign(hn::Asin(DoubleTag(), x), x); }
HWY_INLINE Doubles acos_f64(Doubles x) { return hn::Acos(DoubleTag(), x); }
HWY_INLINE Doubles atan_f64(Doubles x) { return nan_or(x, hn::CopySign(hn::Atan(DoubleTag(), x), x)); }
HWY_INLINE Doubles asinh_f64(Doubles x) {
  const Doubles y = hn::CopySign(hn::Asinh(DoubleTag(), x), x);
  return hn::IfThenElse(hn::Lt(hn::Abs(x), infinity()), y, x);
}
HWY_INLINE Doubles acosh_f64(Doubles x) {
  const Doubles y = hn::IfThenElse(hn::Lt(x, number(1.0)), not_a_number(), hn::Acosh(DoubleTag(), x));
  return hn::IfThenElse(hn::Lt(x, infinity()), y, x);
}
HWY_INLINE Doubles atanh_f64(Doubles x) {
  const Doubles size = hn::Abs(x), one = number(1.0);
  Doubles y = hn::IfThenElse(hn::Eq(size, one), infinity(), hn::Atanh(DoubleTag(), size));
  y = hn::IfThenElse(hn::Gt(size, one), not_a_number(), y);
  return hn::CopySign(y, x);
}

// The angle of (x, y): that of its first-quadrant image, subtracted from pi on the left.
HWY_INLINE Doubles atan2_f64(Doubles y, Doubles x) {
  const DoubleTag d;
  const Doubles up = hn::Abs(y), right = hn::Abs(x);
  Doubles slope = hn::Div(up, right);
  slope = hn::IfThenElse(hn::And(hn::Eq(up, infinity()), hn::Eq(right, infinity())), number(1.0), slope);
  slope = hn::IfThenZeroElse(hn::Eq(hn::Max(up, right), hn::Zero(d)), slope);
  const Doubles angle = hn::Atan(d, slope);
  const auto left =
      hn::MaskFromVec(hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(hn::RebindToSigned<DoubleTag>(), x))));
  const Doubles turned = hn::Sub(number(0x1.921fb54442d18p+1), hn::Sub(angle, number(0x1.1a62633145c07p-53)));
  const Doubles result = hn::CopySign(hn::IfThenElse(left, turned, angle), y);
  return nan_or(x, nan_or(y, result));
}

HWY_INLINE Doubles hypot_f64(Doubles x, Doubles y) {
  const DoubleTag d;
  const Doubles a = hn::Abs(x), b = hn::Abs(y), most = hn::Max(a, b), least = hn::Min(a, b);
  const Doubles ratio = hn::IfThenZeroElse(hn::Eq(most, hn::Zero(d)), hn::Div(least, most));
  const Doubles length = hn::Mul(most, hn::Sqrt(hn::MulAdd(ratio, ratio, number(1.0))));
  const auto infinite = hn::Or(hn::Eq(a, infinity()), hn::Eq(b, infinity()));
  return hn::IfThenElse(infinite, infinity(), nan_or(x, nan_or(y, length)));
}

// The larger one and t = ln(1 + exp(-|x - y|)), whose error is about t (|x - y| + 3) units of 2^-53 by the rounding of
// x - y. Where that is more than 3 units of the sum, times 2^spare, the scalar function adds in long double.
template <int spare>
HWY_INLINE Doubles log_add_exp(Doubles x, Doubles y) {
  const DoubleTag d;
  const Doubles apart = hn::Abs(hn::Sub(x, y)), term = log1p_f64(exp_f64(hn::Neg(apart)));
  const Doubles sum = hn::Add(hn::Max(x, y), term);
  const auto equal = hn::Eq(x, y);  // also two infinities, whose difference is NaN
  const Doubles result = hn::IfThenElse(equal, hn::Add(x, number(0.69314718055994531)), sum);
  const Doubles error = hn::IfThenZeroElse(hn::Eq(term, hn::Zero(d)), hn::Mul(term, hn::Add(apart, number(3.0))));
  const auto good = hn::Or(equal, hn::Le(error, hn::Mul(hn::Abs(sum), number(3.0 * (1 << spare)))));
  if (HWY_LIKELY(hn::AllTrue(d, good))) return result;
  return hn::IfThenElse(good, result, by_element(x, y, ref::scalar_functions(Op::logaddexp).real));
}
HWY_INLINE Doubles logaddexp_f64(Doubles x, Doubles y) { return log_add_exp<0>(x, y); }
HWY_INLINE Doubles logaddexp_of_floats(Doubles x, Doubles y) { return log_add_exp<28>(x, y); }

// x^y of numbers that f32 holds, as exp(y log |x|): its error is 2^-44 of the result at most. Not for f64.
HWY_INLINE Doubles pow_of_floats(Doubles x, Doubles y) {
  const DoubleTag d;
  const Doubles zero = hn::Zero(d), one = number(1.0), size = hn::Abs(x);
  Doubles p = exp_f64(hn::Mul(y, log_f64(size)));
  const auto whole = hn::Eq(y, hn::Floor(y));  // infinities as well
  const Doubles half = hn::Mul(y, number(0.5));
  const auto odd = hn::AndNot(hn::Eq(half, hn::Floor(half)), whole);
  p = hn::IfThenElse(odd, hn::CopySign(p, x), p);
  const auto negative = hn::And(hn::Lt(x, zero), hn::Gt(x, hn::Neg(infinity())));
  p = hn::IfThenElse(hn::AndNot(whole, negative), not_a_number(), p);
  p = nan_or(x, nan_or(y, p));
  // (-1)^inf is 1 as well.
  const auto always_one =
      hn::Or(hn::Or(hn::Eq(y, zero), hn::Eq(x, one)), hn::And(hn::Eq(x, hn::Neg(one)), hn::Eq(hn::Abs(y), infinity())));
  return hn::IfThenElse(always_one, one, p);
}

// Returns the rest of the division of numbers that f32 holds. The quotient and its product with y are exact below 2^28:
// the distance of a quotient that is not whole from the next whole number is 2^-24 of it at least.
HWY_INLINE Doubles fmod_of_floats(Doubles x, Doubles y) {
  const DoubleTag d;
  const Doubles quotient = hn::Div(x, y);
  const Doubles y_or_zero = hn::IfThenZeroElse(hn::Eq(hn::Abs(y), infinity()), y);  // inf by 0 would be NaN
  const Doubles rest = hn::CopySign(hn::NegMulAdd(hn::Trunc(quotient), y_or_zero, x), x);
  const auto small = hn::Lt(hn::Abs(quotient), number(0x1p28));  // false for NaN
  if (HWY_LIKELY(hn::AllTrue(d, small))) return rest;
  return hn::IfThenElse(small, rest, by_element(x, y, [](double a, double b) { return std::fmod(a, b); }));
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
