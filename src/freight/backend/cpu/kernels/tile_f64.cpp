// Loops of tile steps on f64 registers, compiled per instruction set by Highway and chosen at run time. Knows nothing
// of programs. Special values follow the reference.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/tile_f64.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/double_functions-inl.h"

#include <cstring>

#include "freight/backend/cpu/kernels/tile_steps.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

using FloatTag = HalfFloatTag;
using Truth = hn::Mask<DoubleTag>;

// Elements i, i + 1, ... of an operand, or its only one; those behind the end are 0.
template <bool kOne, class Tag>
struct Elements {
  explicit Elements(const void* p)
      : at(static_cast<const hn::TFromD<Tag>*>(p)), all(kOne ? hn::Set(Tag(), *at) : hn::Zero(Tag())) {}
  HWY_INLINE hn::Vec<Tag> whole(size_t i) const { return kOne ? all : hn::LoadU(Tag(), at + i); }
  HWY_INLINE hn::Vec<Tag> part(size_t i, size_t n) const {
    if (kOne) return all;
    HWY_ALIGN hn::TFromD<Tag> some[hn::MaxLanes(Tag())] = {};
    std::memcpy(some, at + i, (n - i) * sizeof(*at));
    return hn::Load(Tag(), some);
  }
  const hn::TFromD<Tag>* at;
  hn::Vec<Tag> all;
};

// dst[i] = f(i'th elements of the operands).
template <class To, class F, class... Operands>
HWY_INLINE void each(void* dst_, size_t n, F f, const Operands&... operands) {
  auto* dst = static_cast<hn::TFromD<To>*>(dst_);
  const size_t lanes = hn::Lanes(DoubleTag());
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(operands.whole(i)...), To(), dst + i);
  if (i == n) return;
  HWY_ALIGN hn::TFromD<To> some[hn::MaxLanes(To())];
  hn::Store(f(operands.part(i, n)...), To(), some);
  std::memcpy(dst + i, some, (n - i) * sizeof(*dst));
}

// Truth is held in f32.
HWY_INLINE hn::Vec<FloatTag> held(Truth m) { return to_floats(hn::IfThenElseZero(m, number(1.0))); }

template <class F>
void unary(void* dst, const void* a, const void*, const void*, size_t n, int) {
  each<DoubleTag>(dst, n, F(), Elements<false, DoubleTag>(a));
}
template <class F>
void unary_test(void* dst, const void* a, const void*, const void*, size_t n, int) {
  each<FloatTag>(
      dst, n, [](Doubles x) HWY_ATTR { return held(F()(x)); }, Elements<false, DoubleTag>(a));
}
template <class To, class F>
HWY_INLINE void by_scalars(void* dst, const void* a, const void* b, size_t n, int scalars, F f) {
  if (scalars & 1) return each<To>(dst, n, f, Elements<true, DoubleTag>(a), Elements<false, DoubleTag>(b));
  if (scalars & 2) return each<To>(dst, n, f, Elements<false, DoubleTag>(a), Elements<true, DoubleTag>(b));
  each<To>(dst, n, f, Elements<false, DoubleTag>(a), Elements<false, DoubleTag>(b));
}
template <class F>
void binary(void* dst, const void* a, const void* b, const void*, size_t n, int scalars) {
  by_scalars<DoubleTag>(dst, a, b, n, scalars, F());
}
template <class F>
void binary_test(void* dst, const void* a, const void* b, const void*, size_t n, int scalars) {
  by_scalars<FloatTag>(dst, a, b, n, scalars, [](Doubles x, Doubles y) HWY_ATTR { return held(F()(x, y)); });
}

HWY_INLINE Doubles chosen(hn::Vec<FloatTag> condition, Doubles x, Doubles y) {
  const DoubleTag d;
  return hn::IfThenElse(hn::Ne(hn::PromoteTo(d, condition), hn::Zero(d)), x, y);
}
void where(void* dst, const void* condition, const void* a, const void* b, size_t n, int scalars) {
  const auto choose = [&]<bool kOneA, bool kOneB>() HWY_ATTR {
    each<DoubleTag>(
        dst, n, [](hn::Vec<FloatTag> c, Doubles x, Doubles y) HWY_ATTR { return chosen(c, x, y); },
        Elements<false, FloatTag>(condition), Elements<kOneA, DoubleTag>(a), Elements<kOneB, DoubleTag>(b));
  };
  const bool one_a = scalars & 2, one_b = scalars & 4;
  if (one_a && one_b) {
    choose.template operator()<true, true>();
  } else if (one_a) {
    choose.template operator()<true, false>();
  } else if (one_b) {
    choose.template operator()<false, true>();
  } else {
    choose.template operator()<false, false>();
  }
}

void from_f32(void* dst, const void* a, const void*, const void*, size_t n, int) {
  const auto promote = [](hn::Vec<FloatTag> x) HWY_ATTR { return hn::PromoteTo(DoubleTag(), x); };
  each<DoubleTag>(dst, n, promote, Elements<false, FloatTag>(a));
}
void to_f32(void* dst, const void* a, const void*, const void*, size_t n, int) {
  each<FloatTag>(
      dst, n, [](Doubles x) HWY_ATTR { return to_floats(x); }, Elements<false, DoubleTag>(a));
}

F64Table make_f64_table() {
  F64Table t{};
  const auto set = [&](Op op, F64Loop loop) { t.by_op[static_cast<size_t>(op)] = loop; };
#define UNARY(op, loop, expression)                                    \
  struct Unary_##op {                                                  \
    HWY_INLINE auto operator()(Doubles x) const { return expression; } \
  };                                                                   \
  set(Op::op, loop<Unary_##op>);
#define BINARY(op, loop, expression)                                              \
  struct Binary_##op {                                                            \
    HWY_INLINE auto operator()(Doubles x, Doubles y) const { return expression; } \
  };                                                                              \
  set(Op::op, loop<Binary_##op>);
  UNARY(neg, unary, hn::Neg(x))
  UNARY(abs, unary, hn::Abs(x))
  UNARY(sign, unary, sign_f64(x))
  UNARY(exp, unary, exp_f64(x))
  UNARY(expm1, unary, expm1_f64(x))
  UNARY(log, unary, log_f64(x))
  UNARY(log1p, unary, log1p_f64(x))
  UNARY(log2, unary, log2_f64(x))
  UNARY(log10, unary, log10_f64(x))
  UNARY(sqrt, unary, hn::Sqrt(x))
  UNARY(rsqrt, unary, hn::Div(number(1.0), hn::Sqrt(x)))
  UNARY(reciprocal, unary, hn::Div(number(1.0), x))
  UNARY(square, unary, hn::Mul(x, x))
  UNARY(sin, unary, sin_f64(x))
  UNARY(cos, unary, cos_f64(x))
  UNARY(tan, unary, tan_f64(x))
  UNARY(tanh, unary, tanh_f64(x))
  UNARY(sinh, unary, sinh_f64(x))
  UNARY(cosh, unary, cosh_f64(x))
  UNARY(asin, unary, asin_f64(x))
  UNARY(acos, unary, acos_f64(x))
  UNARY(atan, unary, atan_f64(x))
  UNARY(asinh, unary, asinh_f64(x))
  UNARY(acosh, unary, acosh_f64(x))
  UNARY(atanh, unary, atanh_f64(x))
  UNARY(sigmoid, unary, sigmoid_f64(x))
  UNARY(softsign, unary, hn::Div(x, hn::Add(number(1.0), hn::Abs(x))))
  UNARY(floor, unary, hn::Floor(x))
  UNARY(ceil, unary, hn::Ceil(x))
  UNARY(round, unary, hn::Round(x))
  UNARY(relu, unary, hn::IfThenZeroElse(hn::Le(x, hn::Zero(DoubleTag())), x))
  UNARY(is_finite, unary_test, hn::Lt(hn::Abs(x), infinity()))
  BINARY(add, binary, hn::Add(x, y))
  BINARY(sub, binary, hn::Sub(x, y))
  BINARY(mul, binary, hn::Mul(x, y))
  BINARY(div, binary, hn::Div(x, y))
  BINARY(maximum, binary, nan_or(x, hn::IfThenElse(hn::Gt(x, y), x, y)))
  BINARY(minimum, binary, nan_or(x, hn::IfThenElse(hn::Lt(x, y), x, y)))
  BINARY(copysign, binary, hn::CopySign(x, y))
  BINARY(atan2, binary, atan2_f64(x, y))
  BINARY(hypot, binary, hypot_f64(x, y))
  BINARY(logaddexp, binary, logaddexp_f64(x, y))
  BINARY(eq, binary_test, hn::Eq(x, y))
  BINARY(ne, binary_test, hn::Not(hn::Eq(x, y)))  // true for NaN
  BINARY(lt, binary_test, hn::Lt(x, y))
  BINARY(le, binary_test, hn::Le(x, y))
  BINARY(gt, binary_test, hn::Gt(x, y))
  BINARY(ge, binary_test, hn::Ge(x, y))
#undef UNARY
#undef BINARY
  set(Op::where, where);
  t.from_f32 = from_f32;
  t.to_f32 = to_f32;
  return t;
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(F64Table, f64_table, make_f64_table)

F64Loop f64_loop(const generic::Call& call) {
  const F64Table& table = f64_table();
  if (call.op == Op::cast) {
    if (call.in == Reg::f32 && call.out == Reg::f64) return table.from_f32;
    return call.in == Reg::f64 && call.dtype == DType::f32 ? table.to_f32 : nullptr;
  }
  // Of where, `in` is the type of what it chooses from. A scalar condition, or operand of a conversion, is rare.
  return call.in == Reg::f64 ? table.by_op[static_cast<size_t>(call.op)] : nullptr;
}
}  // namespace freight::cpu
#endif
