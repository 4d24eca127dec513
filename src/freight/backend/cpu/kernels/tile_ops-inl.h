// Tile steps compute these per element, on vectors of f32: functions for loops (tile_f32.cpp) and for chains of steps
// (tile_chain.cpp), per target as Highway's own -inl headers are. Special values follow the reference: NaN
// propagates, log of 0 is -inf, max and min keep NaN.
#if defined(FREIGHT_TILE_OPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FREIGHT_TILE_OPS_INL
#undef FREIGHT_TILE_OPS_INL
#else
#define FREIGHT_TILE_OPS_INL
#endif

#include <limits>

#include "freight/backend/cpu/kernels/activations.h"
#include "freight/backend/cpu/kernels/double_functions-inl.h"
#include "freight/backend/cpu/kernels/functions-inl.h"
#include "freight/ir/op.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// F of the elements in f64, rounded once.
template <class F, class... Vs>
HWY_NOINLINE V in_doubles(Vs... vs) {
  const DoubleTag wide;
#if HWY_TARGET == HWY_SCALAR
  return to_floats(F()(hn::PromoteTo(wide, vs)...));
#else
  const hn::Half<D> half;
  const auto low = F()(hn::PromoteTo(wide, hn::LowerHalf(half, vs))...);
  const auto high = F()(hn::PromoteTo(wide, hn::UpperHalf(half, vs))...);
  return hn::Combine(D(), to_floats(high), to_floats(low));
#endif
}

template <Wave W>
struct WaveF64 {
  HWY_INLINE Doubles operator()(Doubles x) const { return wave_f64<W>(x); }
};
template <Wave W>
HWY_INLINE V wave_f32(V x) {
#if HWY_NATIVE_FMA
  const D d;
  const auto small = reducible(d, x);
  const V y = wave_of_reducible<W>(d, x);
  if (HWY_LIKELY(hn::AllTrue(d, small))) return y;
  return hn::IfThenElse(small, y, in_doubles<WaveF64<W>>(x));
#else
  return in_doubles<WaveF64<W>>(x);
#endif
}

HWY_INLINE V constant(float v) { return hn::Set(D(), v); }
HWY_INLINE V truth(hn::Mask<D> m) { return hn::IfThenElseZero(m, constant(1.0f)); }

#define UNARY(Name, op, expression)                           \
  struct Name {                                               \
    static constexpr Op kOp = Op::op;                         \
    HWY_INLINE V operator()(V x) const { return expression; } \
  };
#define BINARY(Name, op, expression)                               \
  struct Name {                                                    \
    static constexpr Op kOp = Op::op;                              \
    HWY_INLINE V operator()(V x, V y) const { return expression; } \
  };
// Functions of f64 that f32 takes as well.
#define UNARY_BY_DOUBLES(Name, op, function)                               \
  struct Name##F64 {                                                       \
    static constexpr Op kOp = Op::op;                                      \
    HWY_INLINE Doubles operator()(Doubles x) const { return function(x); } \
  };                                                                       \
  UNARY(Name, op, in_doubles<Name##F64>(x))
#define BINARY_BY_DOUBLES(Name, op, function)                                            \
  struct Name##F64 {                                                                     \
    static constexpr Op kOp = Op::op;                                                    \
    HWY_INLINE Doubles operator()(Doubles x, Doubles y) const { return function(x, y); } \
  };                                                                                     \
  BINARY(Name, op, (in_doubles<Name##F64>(x, y)))

HWY_INLINE V expm1_f32(V x) {
  const V y = hn::Expm1(D(), hn::Min(x, constant(89.0f)));
  const V top = hn::IfThenElse(hn::Gt(x, constant(88.722839f)), hn::Inf(D()), y);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(top, x));  // of -0 it is -0
}
HWY_INLINE V log_edges(V x, V pole, V y) {  // y = log; pole: where log is -inf
  const V inf = constant(std::numeric_limits<float>::infinity());
  y = hn::IfThenElse(hn::Eq(x, pole), hn::Neg(inf), y);
  y = hn::IfThenElse(hn::Lt(x, pole), constant(std::numeric_limits<float>::quiet_NaN()), y);
  return hn::IfThenElse(hn::Lt(x, inf), y, x);  // inf and NaN stay
}
HWY_INLINE V max_nan(V x, V y) { return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::Gt(x, y), x, y)); }
HWY_INLINE V min_nan(V x, V y) { return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::Lt(x, y), x, y)); }

UNARY(Neg, neg, hn::Neg(x))
UNARY(Abs, abs, hn::Abs(x))
UNARY(Sign, sign,
      hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(hn::Eq(x, hn::Zero(D())), hn::CopySign(constant(1.0f), x))))
UNARY(Exp, exp, exp_f32(x))
UNARY(Expm1, expm1, expm1_f32(x))
UNARY(Log, log, log_edges(x, hn::Zero(D()), hn::Log(D(), x)))
UNARY(Log1p, log1p, hn::CopySign(log_edges(x, constant(-1.0f), hn::Log1p(D(), x)), x))  // of -0 it is -0
UNARY(Sqrt, sqrt, hn::Sqrt(x))
UNARY(Rsqrt, rsqrt, hn::Div(constant(1.0f), hn::Sqrt(x)))
UNARY(Reciprocal, reciprocal, hn::Div(constant(1.0f), x))
UNARY(Square, square, hn::Mul(x, x))
UNARY(Sin, sin, wave_f32<Wave::sine>(x))
UNARY(Cos, cos, wave_f32<Wave::cosine>(x))
UNARY_BY_DOUBLES(Tan, tan, tan_f64)
UNARY_BY_DOUBLES(Sinh, sinh, sinh_f64)
UNARY_BY_DOUBLES(Cosh, cosh, cosh_f64)
UNARY_BY_DOUBLES(Asin, asin, asin_f64)
UNARY_BY_DOUBLES(Acos, acos, acos_f64)
UNARY_BY_DOUBLES(Atan, atan, atan_f64)
UNARY_BY_DOUBLES(Asinh, asinh, asinh_f64)
UNARY_BY_DOUBLES(Acosh, acosh, acosh_f64)
UNARY_BY_DOUBLES(Atanh, atanh, atanh_f64)
UNARY(Tanh, tanh, tanh_f32(x))
UNARY(Sigmoid, sigmoid, sigmoid_f32(x))
UNARY(Erf, erf, erf_f32(x))
UNARY(Floor, floor, hn::Floor(x))
UNARY(Ceil, ceil, hn::Ceil(x))
UNARY(Round, round, hn::Round(x))
UNARY(Relu, relu, hn::IfThenZeroElse(hn::Le(x, hn::Zero(D())), x))
UNARY(Not, logical_not, truth(hn::Eq(x, hn::Zero(D()))))
UNARY(IsFinite, is_finite, truth(hn::Lt(hn::Abs(x), constant(std::numeric_limits<float>::infinity()))))
// (1 + erf(x / sqrt(2))) / 2, (1 + tanh(u)) / 2, and the derivatives of their products with x; SiLU.
template <TileFunction F>
struct Activation {
  HWY_INLINE V operator()(V x) const {
    if constexpr (F == TileFunction::silu) return silu_f32(x);
    if constexpr (F == TileFunction::silu_slope) return silu_slope_f32(x);
    const V half = constant(0.5f), square = hn::Mul(x, x);
    if constexpr (F == TileFunction::gelu_erf || F == TileFunction::gelu_erf_slope) {
      const V factor = hn::MulAdd(erf_f32(hn::Mul(x, constant(0.70710678f))), half, half);
      if constexpr (F == TileFunction::gelu_erf) return factor;
      const V density = hn::Mul(exp_f32(hn::Mul(square, constant(-0.5f))), constant(0.39894228f));
      return hn::MulAdd(x, density, factor);
    } else {
      const V inner = hn::Mul(hn::MulAdd(hn::Mul(square, x), constant(0.044715f), x), constant(0.79788456f));
      const V factor = hn::MulAdd(tanh_f32(inner), half, half);
      if constexpr (F == TileFunction::gelu_tanh) return factor;
      const V s = hn::Mul(x, hn::NegMulAdd(factor, factor, factor));
      return hn::MulAdd(hn::Mul(hn::Mul(s, x), x), constant(0.21406445f), hn::MulAdd(s, constant(1.5957691f), factor));
    }
  }
};
// f32 to bool; casts to 16 bits are RoundToBf16 and RoundToF16, others of f32 registers do nothing.
UNARY(ToBool, cast, truth(hn::Not(hn::Eq(x, hn::Zero(D())))))
BINARY(Add, add, hn::Add(x, y))
BINARY(Sub, sub, hn::Sub(x, y))
BINARY(Mul, mul, hn::Mul(x, y))
BINARY(Div, div, hn::Div(x, y))
BINARY(Maximum, maximum, max_nan(x, y))
BINARY(Minimum, minimum, min_nan(x, y))
BINARY(CopySign, copysign, hn::CopySign(x, y))
BINARY_BY_DOUBLES(Pow, pow, pow_of_floats)
BINARY_BY_DOUBLES(Fmod, fmod, fmod_of_floats)
BINARY_BY_DOUBLES(Atan2, atan2, atan2_f64)
BINARY_BY_DOUBLES(Hypot, hypot, hypot_f64)
BINARY_BY_DOUBLES(LogAddExp, logaddexp, logaddexp_of_floats)
BINARY(EqOp, eq, truth(hn::Eq(x, y)))
BINARY(NeOp, ne, truth(hn::Not(hn::Eq(x, y))))  // true for NaN
BINARY(LtOp, lt, truth(hn::Lt(x, y)))
BINARY(LeOp, le, truth(hn::Le(x, y)))
BINARY(GtOp, gt, truth(hn::Gt(x, y)))
BINARY(GeOp, ge, truth(hn::Ge(x, y)))
BINARY(AndOp, logical_and, truth(hn::Ne(hn::Mul(x, y), hn::Zero(D()))))
BINARY(OrOp, logical_or, truth(hn::Ne(hn::Add(x, y), hn::Zero(D()))))
// To 8 bits, to nearest even; NaN stays NaN.
struct RoundToBf16 {
  HWY_INLINE V operator()(V x) const {
    const auto u = hn::BitCast(DU(), x), odd = hn::And(hn::ShiftRight<16>(u), hn::Set(DU(), 1));
    const auto up = hn::Add(u, hn::Add(odd, hn::Set(DU(), 0x7fff)));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::BitCast(D(), hn::AndNot(hn::Set(DU(), 0xffff), up)));
  }
};
// This rounds as Float16 of base/dtype.h: to 11 bits where the result is normal, else to multiples of 2^-24, the
// spacing of floats from 0.5 to 1.
struct RoundToF16 {
  HWY_INLINE V operator()(V x) const {
    const V size = hn::Abs(x);
    const auto u = hn::BitCast(DU(), size), odd = hn::And(hn::ShiftRight<13>(u), hn::Set(DU(), 1));
    const auto up = hn::Add(u, hn::Add(odd, hn::Set(DU(), 0xfff)));
    V y = hn::BitCast(D(), hn::AndNot(hn::Set(DU(), 0x1fff), up));
    y = hn::IfThenElse(hn::Ge(y, constant(65536.0f)), constant(std::numeric_limits<float>::infinity()), y);
    const V half = constant(0.5f);
    y = hn::IfThenElse(hn::Lt(size, constant(0x1p-14f)), hn::Sub(hn::Add(size, half), half), y);
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
  }
};
struct Where {
  HWY_INLINE V operator()(V x, V y, V z) const { return hn::IfThenElse(hn::Ne(x, hn::Zero(D())), y, z); }
};
struct MulAddOp {
  HWY_INLINE V operator()(V x, V y, V z) const { return hn::MulAdd(x, y, z); }
};
struct KeepWherePositive {
  HWY_INLINE V operator()(V x, V y) const { return hn::IfThenElseZero(hn::Gt(x, hn::Zero(D())), y); }
};
struct MulSubFrom {
  HWY_INLINE V operator()(V x, V y, V z) const { return hn::NegMulAdd(x, y, z); }
};

#undef UNARY
#undef BINARY
#undef UNARY_BY_DOUBLES
#undef BINARY_BY_DOUBLES

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
