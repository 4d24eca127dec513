// Pointwise functions and operators. Operands broadcast as in NumPy (explicit reshape and broadcast nodes); element
// types of tensors must be equal. What a number beside a tensor becomes, In says (trace/tensor.h): i32 * 2 is i32,
// i32 * 2.0 is f32. Errors: Error(usage) naming both types, or the number and the type that cannot hold it.
// Formulas are the `scalar` column of the op table.
#pragma once
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// Arithmetic: a, b broadcast to the result's shape. No bool.
Tensor operator+(const In& a, const In& b);
Tensor operator-(const In& a, const In& b);
Tensor operator*(const In& a, const In& b);
// Of integers f32, as in PyTorch.
Tensor operator/(const In& a, const In& b);
Tensor operator-(const In& a);
// a becomes a handle on the result; other handles on its old value keep that.
Tensor& operator+=(Tensor& a, const In& b);
Tensor& operator-=(Tensor& a, const In& b);
Tensor& operator*=(Tensor& a, const In& b);
Tensor& operator/=(Tensor& a, const In& b);
// a^b; floating.
Tensor pow(const In& a, const In& b);
// What a division leaves: with the sign of b, as % in Python and PyTorch's remainder; with the sign of a, as in C.
Tensor remainder(const In& a, const In& b);
Tensor fmod(const In& a, const In& b);
// The larger / smaller of two; ties give half of the gradient to each.
Tensor maximum(const In& a, const In& b);
Tensor minimum(const In& a, const In& b);
// min(max(x, lo), hi). Between numbers, only elements inside of (lo, hi) have a gradient.
Tensor clamp(const In& x, const In& lo, const In& hi);

// Comparisons give bool; of integers with a number they are exact, also where the type could not hold it. There is no
// operator==: handles would be compared by mistake.
Tensor operator<(const In& a, const In& b);
Tensor operator<=(const In& a, const In& b);
Tensor operator>(const In& a, const In& b);
Tensor operator>=(const In& a, const In& b);
Tensor equal(const In& a, const In& b);
Tensor not_equal(const In& a, const In& b);

// On bool.
Tensor logical_and(const In& a, const In& b);
Tensor logical_or(const In& a, const In& b);
Tensor logical_not(const In& a);
// The same as operators. Both sides are always computed.
Tensor operator&&(const Tensor& a, const Tensor& b);
Tensor operator||(const Tensor& a, const Tensor& b);
Tensor operator!(const Tensor& a);
// bool: neither infinite nor NaN.
Tensor is_finite(const In& x);

// condition ? a : b per element; condition bool, all three broadcast.
Tensor where(const In& condition, const In& a, const In& b);
// Converts the element type; float to integer truncates, bool is 0 or 1. No node when the type is that already.
Tensor cast(const In& x, DType dtype);
// The value as a constant for gradients: nothing flows back through it.
Tensor stop_gradient(const In& x);

// Unary, shape and type of x. All but neg, abs, sign, square, relu need a floating type.
Tensor abs(const In& x);
Tensor sign(const In& x);
Tensor exp(const In& x);
Tensor expm1(const In& x);
// Natural logarithm (`freight::log` is the namespace of log lines).
Tensor ln(const In& x);
Tensor log1p(const In& x);
Tensor sqrt(const In& x);
Tensor rsqrt(const In& x);
Tensor reciprocal(const In& x);
Tensor square(const In& x);
Tensor sin(const In& x);
Tensor cos(const In& x);
Tensor tan(const In& x);
Tensor tanh(const In& x);
Tensor sigmoid(const In& x);
Tensor softsign(const In& x);  // x / (1 + |x|)
Tensor erf(const In& x);
Tensor floor(const In& x);
Tensor ceil(const In& x);
Tensor round(const In& x);  // halves to even
Tensor relu(const In& x);

}  // namespace freight
