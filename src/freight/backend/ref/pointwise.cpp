// Pointwise ops of the reference backend: one row per op with its scalar functions. Adding one is one row of kScalars.
// Floating results are computed in double. Comparisons and predicates give 0 or 1.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "freight/backend/ref/kernels.h"
#include "freight/backend/ref/scalar.h"
#include "freight/base/error.h"

namespace freight::ref {

namespace {

constexpr auto kNone = nullptr;

double max_nan(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : (a > b ? a : b); }
double min_nan(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : (a < b ? a : b); }

template <class I>
constexpr bool negative(I a) {
  if constexpr (std::is_signed_v<I>) return a < 0;
  return false;
}

template <class I>
I opposite(I a) {
  return static_cast<I>(uint64_t{0} - static_cast<uint64_t>(a));
}

// Division by zero gives 0, the most negative number by -1 wraps.
template <class I>
I divide(I a, I b) {
  if (b == 0) return 0;
  return negative(b) && wrap_add(b, I{1}) == 0 ? opposite(a) : a / b;
}
template <class I>
I modulus(I a, I b) {
  return b == 0 || (negative(b) && wrap_add(b, I{1}) == 0) ? 0 : a % b;
}

template <class I>
I power(I base, I exponent) {
  if (negative(exponent)) return base == 1 ? 1 : wrap_add(base, I{1}) == 0 ? (exponent % 2 ? base : 1) : 0;
  I result = 1;
  for (; exponent > 0; exponent >>= 1, base = wrap_mul(base, base)) {
    if (exponent & 1) result = wrap_mul(result, base);
  }
  return result;
}

double sigmoid(double a) {
  if (a >= 0) return 1 / (1 + std::exp(-a));
  const double e = std::exp(a);
  return e / (1 + e);
}

// A wider type has the accuracy that a double lacks where the two nearly cancel each other.
double log_add_exp(double a, double b) {
  if (a == b) return a + 0.69314718055994531;
  const long double least = std::fmin(a, b), most = std::fmax(a, b);
  return std::isnan(a) || std::isnan(b) ? NAN : static_cast<double>(most + std::log1p(std::exp(least - most)));
}

double next_after(double a, double b, DType t) {
  return t == DType::f64 ? std::nextafter(a, b) : std::nextafter(static_cast<float>(a), static_cast<float>(b));
}

// By a number of bits that is none of the type's: 0, or the sign. The caller cuts what is beyond a narrower type.
template <class I>
I shift_left(I a, I b) {
  return negative(b) || b > 63 ? 0 : static_cast<I>(static_cast<uint64_t>(a) << b);
}
template <class I>
I shift_right(I a, I b) {
  return negative(b) || b > 63 ? static_cast<I>(negative(a) ? -1 : 0) : a >> b;
}

using R = double;
constexpr ScalarFunctions kScalars[] = {
    {Op::neg, [](R a, R) { return -a; }, [](auto a, auto) { return opposite(a); }},
    {Op::abs, [](R a, R) { return std::fabs(a); }, [](auto a, auto) { return negative(a) ? opposite(a) : a; }},
    {Op::sign, [](R a, R) { return std::isnan(a) ? a : R(a > 0) - R(a < 0); },
     [](auto a, auto) { return (a > 0) - negative(a); }},
    {Op::exp, [](R a, R) { return std::exp(a); }, kNone},
    {Op::expm1, [](R a, R) { return std::expm1(a); }, kNone},
    {Op::log, [](R a, R) { return std::log(a); }, kNone},
    {Op::log1p, [](R a, R) { return std::log1p(a); }, kNone},
    {Op::log2, [](R a, R) { return std::log2(a); }, kNone},
    {Op::log10, [](R a, R) { return std::log10(a); }, kNone},
    {Op::sqrt, [](R a, R) { return std::sqrt(a); }, kNone},
    {Op::rsqrt, [](R a, R) { return 1 / std::sqrt(a); }, kNone},
    {Op::reciprocal, [](R a, R) { return 1 / a; }, kNone},
    {Op::square, [](R a, R) { return a * a; }, [](auto a, auto) { return wrap_mul(a, a); }},
    {Op::sin, [](R a, R) { return std::sin(a); }, kNone},
    {Op::cos, [](R a, R) { return std::cos(a); }, kNone},
    {Op::tan, [](R a, R) { return std::tan(a); }, kNone},
    {Op::tanh, [](R a, R) { return std::tanh(a); }, kNone},
    {Op::sinh, [](R a, R) { return std::sinh(a); }, kNone},
    {Op::cosh, [](R a, R) { return std::cosh(a); }, kNone},
    {Op::asin, [](R a, R) { return std::asin(a); }, kNone},
    {Op::acos, [](R a, R) { return std::acos(a); }, kNone},
    {Op::atan, [](R a, R) { return std::atan(a); }, kNone},
    {Op::asinh, [](R a, R) { return std::asinh(a); }, kNone},
    {Op::acosh, [](R a, R) { return std::acosh(a); }, kNone},
    {Op::atanh, [](R a, R) { return std::atanh(a); }, kNone},
    {Op::sigmoid, [](R a, R) { return sigmoid(a); }, kNone},
    {Op::softsign, [](R a, R) { return a / (1 + std::fabs(a)); }, kNone},
    {Op::erf, [](R a, R) { return std::erf(a); }, kNone},
    {Op::floor, [](R a, R) { return std::floor(a); }, kNone},
    {Op::ceil, [](R a, R) { return std::ceil(a); }, kNone},
    {Op::round, [](R a, R) { return std::nearbyint(a); }, kNone},  // half to even
    {Op::relu, [](R a, R) { return max_nan(a, 0); }, [](auto a, auto) { return a > 0 ? a : 0; }},
    {Op::logical_not, [](R a, R) { return R(a == 0); }, [](auto a, auto) { return a == 0; }},
    {Op::is_finite, [](R a, R) { return R(std::isfinite(a)); }, [](auto, auto) { return 1; }},
    {Op::stop_gradient, [](R a, R) { return a; }, [](auto a, auto) { return a; }},
    {Op::add, [](R a, R b) { return a + b; }, [](auto a, auto b) { return wrap_add(a, b); }},
    {Op::sub, [](R a, R b) { return a - b; }, [](auto a, auto b) { return wrap_add(a, opposite(b)); }},
    {Op::mul, [](R a, R b) { return a * b; }, [](auto a, auto b) { return wrap_mul(a, b); }},
    {Op::div, [](R a, R b) { return a / b; }, [](auto a, auto b) { return divide(a, b); }},
    {Op::pow, [](R a, R b) { return std::pow(a, b); }, [](auto a, auto b) { return power(a, b); }},
    {Op::maximum, max_nan, [](auto a, auto b) { return a > b ? a : b; }},
    {Op::minimum, min_nan, [](auto a, auto b) { return a < b ? a : b; }},
    {Op::fmod, [](R a, R b) { return std::fmod(a, b); }, [](auto a, auto b) { return modulus(a, b); }},
    {Op::atan2, [](R a, R b) { return std::atan2(a, b); }, kNone},
    {Op::hypot, [](R a, R b) { return std::hypot(a, b); }, kNone},
    {Op::logaddexp, log_add_exp, kNone},
    {Op::copysign, [](R a, R b) { return std::copysign(a, b); }, kNone},
    {Op::nextafter, [](R a, R b) { return std::nextafter(a, b); }, kNone, next_after},
    {Op::bitwise_and, kNone, [](auto a, auto b) { return a & b; }},
    {Op::bitwise_or, kNone, [](auto a, auto b) { return a | b; }},
    {Op::bitwise_xor, kNone, [](auto a, auto b) { return a ^ b; }},
    {Op::shift_left, kNone, [](auto a, auto b) { return shift_left(a, b); }},
    {Op::shift_right, kNone, [](auto a, auto b) { return shift_right(a, b); }},
    {Op::eq, [](R a, R b) { return R(a == b); }, [](auto a, auto b) { return a == b; }},
    {Op::ne, [](R a, R b) { return R(a != b); }, [](auto a, auto b) { return a != b; }},
    {Op::lt, [](R a, R b) { return R(a < b); }, [](auto a, auto b) { return a < b; }},
    {Op::le, [](R a, R b) { return R(a <= b); }, [](auto a, auto b) { return a <= b; }},
    {Op::gt, [](R a, R b) { return R(a > b); }, [](auto a, auto b) { return a > b; }},
    {Op::ge, [](R a, R b) { return R(a >= b); }, [](auto a, auto b) { return a >= b; }},
    {Op::logical_and, [](R a, R b) { return R(a != 0 && b != 0); }, [](auto a, auto b) { return a != 0 && b != 0; }},
    {Op::logical_or, [](R a, R b) { return R(a != 0 || b != 0); }, [](auto a, auto b) { return a != 0 || b != 0; }},
};

template <class C, class F>
void loop(const Call& call, F f) {
  const C* a = call.in[0].as<C>();
  const C* b = call.in.back().as<C>();  // equals a for unary ops, whose function ignores it
  const int64_t n = call.out[0].numel();
  by_kind(call.out[0], [&]<class D>(D) {
    D* y = call.out[0].as<D>();
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<D>(f(a[i], b[i]));
  });
}

// The ops of the table that take complex numbers, too.
void run_complex(const Call& call) {
  const std::complex<double>*a = call.in[0].as<std::complex<double>>(), *b = call.in.back().as<std::complex<double>>();
  const int64_t n = call.out[0].numel();
  if (call.op == Op::stop_gradient) {
    std::copy_n(a, n, call.out[0].as<std::complex<double>>());
    return;
  }
  if (call.op != Op::eq && call.op != Op::ne) {
    fail(ErrorKind::usage, name(call.op), "does not compute in complex numbers: got ", call.in[0].type);
  }
  for (int64_t i = 0; i < n; ++i) call.out[0].as<int64_t>()[i] = (a[i] == b[i]) == (call.op == Op::eq);
}

void run_scalar(const Call& call) {
  const ScalarFunctions& s = scalar_functions(call.op);
  if (is_complex(call.in[0].type.dtype)) {
    run_complex(call);
  } else if (s.typed) {
    loop<double>(call, [&](double a, double b) { return s.typed(a, b, call.in[0].type.dtype); });
  } else if (call.in[0].floating()) {
    loop<double>(call, s.real);
  } else if (s.integer) {
    by_kind(call.in[0], [&]<class C>(C) {
      if constexpr (std::is_integral_v<C>) loop<C>(call, s.integer);
    });
  } else {
    fail(ErrorKind::usage, name(call.op), "needs a floating type: got ", call.in[0].type);
  }
}

void where(const Call& call) {
  const int64_t* c = call.in[0].as<int64_t>();
  by_element(call.out[0], [&]<class C>(C) {
    const C *a = call.in[1].as<C>(), *b = call.in[2].as<C>();
    C* y = call.out[0].as<C>();
    for (int64_t i = 0; i < call.out[0].numel(); ++i) y[i] = c[i] ? a[i] : b[i];
  });
}

// An element as it is held here. Integers are rounded once, also on the way to 24 bits.
template <class D, class C>
D converted(C v, DType to) {
  if (to == DType::boolean) return D(v != C{});
  if constexpr (std::is_same_v<C, double> && std::is_same_v<D, int64_t>) {
    return truncate(v, to);
  } else if constexpr (std::is_integral_v<C> && !std::is_integral_v<D>) {
    const bool single = to == DType::f32 || to == DType::c64 || size_of(to) == 2;
    return D(single ? static_cast<double>(static_cast<float>(v)) : static_cast<double>(v));
  } else {
    return element_cast<D>(v);
  }
}

void cast(const Call& call) {
  const DType to = call.out[0].type.dtype;
  by_element(call.in[0], [&]<class C>(C) {
    by_element(call.out[0], [&]<class D>(D) {
      const C* a = call.in[0].as<C>();
      D* y = call.out[0].as<D>();
      for (int64_t i = 0; i < call.out[0].numel(); ++i) y[i] = converted<D>(a[i], to);
    });
  });
}

}  // namespace

int64_t truncate(double a, DType to) {
  int64_t whole = element_cast<int64_t>(a);
  dispatch(to, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T> && sizeof(T) < sizeof(int64_t))
      whole = std::clamp<int64_t>(whole, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  });
  return whole;
}

const ScalarFunctions& scalar_functions(Op op) {
  for (const ScalarFunctions& s : kScalars) {
    if (s.op == op) return s;
  }
  fail(ErrorKind::device, name(op), "the reference backend has no scalar function for this op");
}

KernelTable pointwise_kernels() {
  KernelTable table = {{Op::where, where}, {Op::cast, cast}};
  for (const ScalarFunctions& s : kScalars) table.push_back({s.op, run_scalar});
  return table;
}

}  // namespace freight::ref
