// Pointwise functions and operators. Operands broadcast as in NumPy (explicit reshape and broadcast nodes); element
// types of tensors must be equal. What a number beside a tensor becomes, In says (trace/tensor.h): i32 * 2 is i32,
// i32 * 2.0 is f32. Errors: Error(usage) naming both types, or the number and the type that cannot hold it.
// Formulas are the `scalar` column of the op table.
#pragma once
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// a + b. Operands of arithmetic broadcast to the result's shape; none may be bool.
Tensor operator+(const In& a, const In& b);
Tensor operator-(const In& a, const In& b);  // a - b
Tensor operator*(const In& a, const In& b);  // a times b
// a / b; f32 for integers, as in PyTorch.
Tensor operator/(const In& a, const In& b);
Tensor operator-(const In& a);  // the negative
// a = a + b: a becomes a handle on the result; other handles on its old value keep that.
Tensor& operator+=(Tensor& a, const In& b);
Tensor& operator-=(Tensor& a, const In& b);  // a = a - b
Tensor& operator*=(Tensor& a, const In& b);  // a = a * b
Tensor& operator/=(Tensor& a, const In& b);  // a = a / b
// a to the power b; of integers wraps, and of a negative b is 0, but for a of 1 and -1.
Tensor pow(const In& a, const In& b);
// The remainder of a division, with the sign of b, as % in Python and PyTorch's remainder.
Tensor remainder(const In& a, const In& b);
Tensor fmod(const In& a, const In& b);  // the remainder with the sign of a, as in C
// a / b rounded down, as // in Python; of integers too. By 0 it is infinite, or NaN, and 0 in integers.
Tensor floor_divide(const In& a, const In& b);
// The angle of the point (b, a) in radians, from -pi to pi: a is its height.
Tensor atan2(const In& a, const In& b);
Tensor hypot(const In& a, const In& b);      // sqrt(a^2 + b^2) without overflow
Tensor logaddexp(const In& a, const In& b);  // ln(exp(a) + exp(b)) without overflow
Tensor copysign(const In& a, const In& b);   // |a| with the sign of b, which may be that of -0
Tensor nextafter(const In& a, const In& b);  // the next number of the type after a, towards b; f32 and f64
// Bits of integers (of bool: logical_and, logical_or, logical_xor, logical_not).
Tensor bitwise_and(const In& a, const In& b);
Tensor bitwise_or(const In& a, const In& b);   // bits that one or both have
Tensor bitwise_xor(const In& a, const In& b);  // bits that one of them has
Tensor bitwise_invert(const In& x);            // the other bits: -x - 1
Tensor shift_left(const In& a, const In& b);   // a times 2 to the power b; 0 where b is none of the bits
Tensor shift_right(const In& a, const In& b);  // a divided by 2 to the power b, rounded down
// The larger of two; ties give half of the gradient to each.
Tensor maximum(const In& a, const In& b);
Tensor minimum(const In& a, const In& b);  // the smaller of two; ties as above
// min(max(x, lo), hi). Between numbers, only elements inside of (lo, hi) have a gradient.
Tensor clamp(const In& x, const In& lo, const In& hi);

// a < b. Comparisons give bool; of integers with a number they are exact, also where the type could not hold it.
Tensor operator<(const In& a, const In& b);
Tensor operator<=(const In& a, const In& b);  // a <= b
Tensor operator>(const In& a, const In& b);   // a > b
Tensor operator>=(const In& a, const In& b);  // a >= b
Tensor equal(const In& a, const In& b);       // a = b
Tensor not_equal(const In& a, const In& b);   // a differs from b
// Refused when the program is compiled: it might mean the handles, or one answer for all elements.
FREIGHT_REFUSED(
    "tensors are compared element by element by equal(a, b), which gives a tensor of bool; all() makes one of it")
inline bool operator==(const Tensor&, const In&) { return false; }

// Both hold; operands are bool.
Tensor logical_and(const In& a, const In& b);
Tensor logical_or(const In& a, const In& b);   // one or both hold
Tensor logical_xor(const In& a, const In& b);  // one holds, not both
Tensor logical_not(const In& a);               // a does not hold
// logical_and as an operator: both sides are always computed.
Tensor operator&&(const Tensor& a, const Tensor& b);
Tensor operator||(const Tensor& a, const Tensor& b);  // logical_or as an operator
Tensor operator!(const Tensor& a);                    // logical_not as an operator
// bool: neither infinite nor NaN.
Tensor is_finite(const In& x);
Tensor is_inf(const In& x);   // bool: infinite
Tensor is_nan(const In& x);   // bool: not a number
Tensor signbit(const In& x);  // bool: negative, or -0, or a NaN with that sign

// condition ? a : b per element; condition bool, all three broadcast.
Tensor where(const In& condition, const In& a, const In& b);
// Converts the element type; float to integer truncates, bool is 0 or 1. No node when the type is that already.
Tensor cast(const In& x, DType dtype);
// The value as a constant for gradients: nothing flows back through it.
Tensor stop_gradient(const In& x);

Tensor positive(const In& x);  // x itself; no bool
// |x|. Functions of one tensor keep its shape and type. All but neg, abs, sign, square, relu need a floating type.
Tensor abs(const In& x);
Tensor sign(const In& x);   // -1, 0 or 1
Tensor exp(const In& x);    // e to the power x
Tensor expm1(const In& x);  // exp(x) - 1 without cancellation
// The natural logarithm.
Tensor log(const In& x);
Tensor log1p(const In& x);       // log(1 + x) without cancellation
Tensor log2(const In& x);        // the logarithm to base 2
Tensor log10(const In& x);       // the logarithm to base 10
Tensor sqrt(const In& x);        // the square root
Tensor rsqrt(const In& x);       // 1 / sqrt(x)
Tensor reciprocal(const In& x);  // 1 / x
Tensor square(const In& x);      // x times x
Tensor sin(const In& x);         // the sine of x in radians
Tensor cos(const In& x);         // the cosine of x in radians
Tensor tan(const In& x);         // the tangent of x in radians
Tensor tanh(const In& x);        // the hyperbolic tangent
Tensor sinh(const In& x);        // the hyperbolic sine
Tensor cosh(const In& x);        // the hyperbolic cosine
Tensor asin(const In& x);        // the angle of a sine, in radians
Tensor acos(const In& x);        // the angle of a cosine
Tensor atan(const In& x);        // the angle of a tangent
Tensor asinh(const In& x);       // the inverse of sinh
Tensor acosh(const In& x);       // the inverse of cosh
Tensor atanh(const In& x);       // the inverse of tanh
Tensor sigmoid(const In& x);     // 1 / (1 + exp(-x))
Tensor softsign(const In& x);    // x / (1 + |x|)
Tensor erf(const In& x);         // the error function
Tensor floor(const In& x);       // the largest whole number not above x
Tensor ceil(const In& x);        // the smallest whole number not below x
Tensor round(const In& x);       // halves to even
Tensor trunc(const In& x);       // toward zero
Tensor relu(const In& x);        // max(x, 0); NaN stays

}  // namespace freight
