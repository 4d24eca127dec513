// sin, cos and tan of vectors of f32 and f64, per target as Highway's own -inl headers are. Arguments are reduced with
// three parts of pi, exactly where the processor has fused multiply-add; those that are too large for that, and all
// where it has none, are computed by the C library. Within 3 ulp; infinities and NaN as in C.
#if defined(FREIGHT_TRIGONOMETRY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FREIGHT_TRIGONOMETRY_INL
#undef FREIGHT_TRIGONOMETRY_INL
#else
#define FREIGHT_TRIGONOMETRY_INL
#endif

#include <cmath>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DoubleTag = hn::ScalableTag<double>;
using Doubles = hn::Vec<DoubleTag>;

// f of each element, one after the other.
template <class F>
HWY_NOINLINE Doubles by_element(Doubles x, F f) {
  const DoubleTag d;
  HWY_ALIGN double all[hn::MaxLanes(DoubleTag())];
  hn::Store(x, d, all);
  for (size_t i = 0; i < hn::Lanes(d); ++i) all[i] = f(all[i]);
  return hn::Load(d, all);
}
template <class F>
HWY_NOINLINE Doubles by_element(Doubles x, Doubles y, F f) {
  const DoubleTag d;
  HWY_ALIGN double all[hn::MaxLanes(DoubleTag())], second[hn::MaxLanes(DoubleTag())];
  hn::Store(x, d, all);
  hn::Store(y, d, second);
  for (size_t i = 0; i < hn::Lanes(d); ++i) all[i] = f(all[i], second[i]);
  return hn::Load(d, all);
}

// c[0] + c[1] u + ... + c[n - 1] u^(n - 1).
template <class D, size_t n>
HWY_INLINE hn::Vec<D> polynomial(D d, hn::Vec<D> u, const hn::TFromD<D> (&c)[n]) {
  hn::Vec<D> p = hn::Set(d, c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) p = hn::MulAdd(p, u, hn::Set(d, c[i]));
  return p;
}

// By element type: the parts of pi, the largest argument that they reduce, and (sin(r) / r - 1) / r^2 as a polynomial
// in r^2 for |r| up to pi / 2 (minimax of the relative error of sin, 7e-9 and 3e-19).
template <class T>
struct Sine;
template <>
struct Sine<float> {
  static constexpr float kPi[] = {0x1.921fb4p+1f, 0x1.4442d0p-23f, 0x1.846988p-47f};
  static constexpr float kInversePi = 0.318309886f, kToWhole = 0x1.8p23f, kLargest = 1e5f;
  static constexpr float kPowers[] = {-0.166666589443f, 0.00833304950824f, -0.000198083048555f, 2.60277493959e-6f};
};
template <>
struct Sine<double> {
  static constexpr double kPi[] = {0x1.921fb54442d18p+1, 0x1.1a62633145c06p-53, 0x1.c1cd129024e08p-106};
  static constexpr double kInversePi = 0.31830988618379067154, kToWhole = 0x1.8p52, kLargest = 0x1p38;
  static constexpr double kPowers[] = {
      -0.16666666666666665567,   0.0083333333333331940591,  -0.00019841269841209133225, 2.7557319211122814384e-6,
      -2.5052106871486975519e-8, 1.6058939639752445826e-10, -7.6429897596619618703e-13, 2.72115661131396312e-15};
};

// x less n times pi: the first difference is exact, since both are multiples of the unit in which pi is rounded. The
// parts are positive, so that nothing is subtracted from -0 but 0.
template <class D>
HWY_INLINE hn::Vec<D> less_multiple(D d, hn::Vec<D> x, hn::Vec<D> n, hn::TFromD<D> scale) {
  using S = Sine<hn::TFromD<D>>;
  for (const auto part : S::kPi) x = hn::NegMulAdd(n, hn::Set(d, part * scale), x);
  return x;
}

enum class Wave : uint8_t { sine, cosine };

// sin(x) = (-1)^k sin(x - k pi), cos(x) = (-1)^k sin(x - (k - 1/2) pi).
template <Wave W, class D>
HWY_INLINE hn::Vec<D> wave_of_reducible(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  using S = Sine<T>;
  const hn::RebindToUnsigned<D> du;
  const auto half = hn::Set(d, static_cast<T>(0.5)), to_whole = hn::Set(d, S::kToWhole);
  const auto turns = hn::Mul(x, hn::Set(d, S::kInversePi));
  // The last bits of the sum are those of the whole number k.
  const auto shifted = hn::Add(W == Wave::sine ? turns : hn::Add(turns, half), to_whole);
  auto n = hn::Sub(shifted, to_whole);
  if (W == Wave::cosine) n = hn::Sub(n, half);
  const auto r = less_multiple(d, x, n, 1), u = hn::Mul(r, r);
  const auto one = hn::Set(d, static_cast<T>(1));
  auto y = hn::Mul(r, hn::MulAdd(u, polynomial(d, u, S::kPowers), one));
  y = hn::Max(hn::Min(y, one), hn::Neg(one));  // which rounding may exceed
  return hn::Xor(y, hn::BitCast(d, hn::ShiftLeft<sizeof(T) * 8 - 1>(hn::BitCast(du, shifted))));
}

template <class D>
HWY_INLINE hn::Mask<D> reducible(D d, hn::Vec<D> x) {  // false for NaN
  return hn::Le(hn::Abs(x), hn::Set(d, Sine<hn::TFromD<D>>::kLargest));
}

template <Wave W>
HWY_INLINE Doubles wave_f64(Doubles x) {
  const auto exact = [](double v) { return W == Wave::sine ? std::sin(v) : std::cos(v); };
#if HWY_NATIVE_FMA
  const DoubleTag d;
  const auto small = reducible(d, x);
  const Doubles y = wave_of_reducible<W>(d, x);
  if (HWY_LIKELY(hn::AllTrue(d, small))) return y;
  return hn::IfThenElse(small, y, by_element(x, exact));
#else
  return by_element(x, exact);
#endif
}
HWY_INLINE Doubles sin_f64(Doubles x) { return wave_f64<Wave::sine>(x); }
HWY_INLINE Doubles cos_f64(Doubles x) { return wave_f64<Wave::cosine>(x); }

// tan(x) = s / c or -c / s, of the sine and cosine of r = x - n pi / 2, for n even or odd; |r| is at most pi / 4, for
// which the polynomials are minimax (relative errors 4e-18 and 6e-20).
HWY_INLINE Doubles tan_f64(Doubles x) {
  const auto exact = [](double v) { return std::tan(v); };
#if HWY_NATIVE_FMA
  static constexpr double kSine[] = {-0.16666666666666630673,  0.0083333333333221047182,  -0.0001984126982957843842,
                                     2.7557313617503423161e-6, -2.5050747147381480522e-8, 1.589619395320599726e-10};
  static constexpr double kCosine[] = {0.041666666666666592839,    -0.0013888888888873041415,
                                       0.000024801587288841972803, -2.7557314176391870386e-7,
                                       2.0875700435380704236e-9,   -1.1358514895305626244e-11};
  const DoubleTag d;
  const hn::RebindToUnsigned<DoubleTag> du;
  const Doubles to_whole = hn::Set(d, Sine<double>::kToWhole), one = hn::Set(d, 1.0);
  const Doubles shifted = hn::MulAdd(x, hn::Set(d, 2 * Sine<double>::kInversePi), to_whole);
  const Doubles r = less_multiple(d, x, hn::Sub(shifted, to_whole), 0.5), u = hn::Mul(r, r);
  const Doubles s = hn::MulAdd(hn::Mul(r, u), polynomial(d, u, kSine), r);
  const Doubles c = hn::MulAdd(hn::Mul(u, u), polynomial(d, u, kCosine), hn::NegMulAdd(u, hn::Set(d, 0.5), one));
  const auto last_bit = hn::ShiftLeft<63>(hn::BitCast(du, shifted));
  const auto odd = hn::MaskFromVec(hn::BitCast(d, hn::Sub(hn::Zero(du), hn::ShiftRight<63>(last_bit))));
  const Doubles top = hn::IfThenElse(odd, c, s), bottom = hn::IfThenElse(odd, s, c);
  Doubles y = hn::Xor(hn::Div(top, bottom), hn::BitCast(d, last_bit));
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);  // of -0 it is -0
  const auto small = reducible(d, x);
  if (HWY_LIKELY(hn::AllTrue(d, small))) return y;
  return hn::IfThenElse(small, y, by_element(x, exact));
#else
  return by_element(x, exact);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
