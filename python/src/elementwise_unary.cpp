// The functions of one operand; see elementwise.h.
#include <bit>
#include <cmath>
#include <complex>

#include "element_loops.h"

namespace freight::python {

namespace {

// Functions that the C library has for real and complex numbers.
#define FREIGHT_MATH(name)                                                            \
  struct name {                                                                       \
    static constexpr auto kKernel = freight::Op::name;                                \
    static auto f(Floating auto a) { return static_cast<decltype(a)>(std::name(a)); } \
  };
FREIGHT_MATH(acos)
FREIGHT_MATH(acosh)
FREIGHT_MATH(asin)
FREIGHT_MATH(asinh)
FREIGHT_MATH(atan)
FREIGHT_MATH(atanh)
FREIGHT_MATH(cos)
FREIGHT_MATH(cosh)
FREIGHT_MATH(exp)
FREIGHT_MATH(log)
FREIGHT_MATH(sin)
FREIGHT_MATH(sinh)
FREIGHT_MATH(tan)
#undef FREIGHT_MATH

struct sqrt {
  static constexpr auto kKernel = freight::Op::sqrt;
  static auto f(Float auto a) { return std::sqrt(a); }
  template <Complex T>
  static T f(T a) {
    return T(std::sqrt(std::complex<long double>(a)));
  }
};
struct tanh {
  static constexpr auto kKernel = freight::Op::tanh;
  static auto f(Float auto a) { return std::tanh(a); }
  template <Complex T>
  static T f(T a) {
    using R = typename T::value_type;
    // The C library's zero has the sign of sin(2 imag), the standard's that of imag.
    if (std::isinf(a.real()) && std::isfinite(a.imag()))
      return {std::copysign(R(1), a.real()), std::copysign(R(0), a.imag())};
    return T(std::tanh(std::complex<long double>(a)));  // in double by up to 5 units wrong
  }
};

template <class T>
bool is_finite(const std::complex<T>& z) {
  return std::isfinite(z.real()) && std::isfinite(z.imag());
}

#define FREIGHT_LOGARITHM(name, of_base)                                 \
  struct name {                                                          \
    static constexpr auto kKernel = freight::Op::name;                   \
    static auto f(Float auto a) { return std::name(a); }                 \
    template <Complex T>                                                 \
    static T f(T a) {                                                    \
      return std::log(a) / static_cast<typename T::value_type>(of_base); \
    }                                                                    \
  };
FREIGHT_LOGARITHM(log2, 0.693147180559945309417232121458L)
FREIGHT_LOGARITHM(log10, 2.302585092994045684017991454684L)
#undef FREIGHT_LOGARITHM
struct expm1 {
  static constexpr auto kKernel = freight::Op::expm1;
  static auto f(Float auto a) { return std::expm1(a); }
  template <Complex T>
  static T f(T a) {
    using R = typename T::value_type;
    if (!is_finite(a)) {
      const T e = std::exp(a);
      return {e.real() - 1, e.imag()};
    }
    const R half = std::sin(a.imag() / 2);
    return {std::expm1(a.real()) * std::cos(a.imag()) - 2 * half * half + R(0),
            std::exp(a.real()) * std::sin(a.imag())};
  }
};
struct log1p {
  static constexpr auto kKernel = freight::Op::log1p;
  static auto f(Float auto a) { return std::log1p(a); }
  template <Complex T>
  static T f(T a) {
    using R = typename T::value_type;
    const R x = a.real(), y = a.imag();
    if (!is_finite(a) || std::abs(x) > R(0.5) || std::abs(y) > R(0.5)) return std::log(T(1 + x, y));
    return {std::log1p(x * (2 + x) + y * y) / 2, std::atan2(y, 1 + x)};
  }
};

struct absolute {
  template <Int T>
  static T f(T a) {
    return a < 0 ? static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a)) : a;
  }
  static auto f(Float auto a) { return std::fabs(a); }
  static auto f(Complex auto a) { return std::abs(a); }
};
struct negative {
  template <Int T>
  static T f(T a) {
    return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
  }
  static auto f(Floating auto a) { return -a; }
};
struct positive {
  static auto f(Number auto a) { return a; }
};
struct square {
  template <Int T>
  static T f(T a) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(a));
  }
  static auto f(Floating auto a) { return a * a; }
};
struct reciprocal {
  template <Floating T>
  static T f(T a) {
    return T(1) / a;
  }
};
struct sign {
  template <Int T>
  static T f(T a) {
    return static_cast<T>((a > 0) - (a < 0));
  }
  template <Float T>
  static T f(T a) {
    return a != a ? a : static_cast<T>((a > 0) - (a < 0));
  }
  template <Complex T>
  static T f(T a) {
    if (a == T(0)) return 0;
    const auto size = std::abs(a);
    if (std::isinf(size)) {  // the direction of infinite parts
      const auto part = [](auto v) { return std::isinf(v) ? std::copysign(decltype(v)(1), v) : v * 0; };
      const T d(part(a.real()), part(a.imag()));
      return d / std::abs(d);
    }
    return a / size;
  }
};
struct conj {
  static auto f(Real auto a) { return a; }
  static auto f(Complex auto a) { return std::conj(a); }
};

// Rounding leaves integers as they are.
struct ceil {
  static constexpr auto kKernel = freight::Op::ceil;
  static auto f(Int auto a) { return a; }
  static auto f(Float auto a) { return std::ceil(a); }
};
struct floor {
  static constexpr auto kKernel = freight::Op::floor;
  static auto f(Int auto a) { return a; }
  static auto f(Float auto a) { return std::floor(a); }
};
struct trunc {
  static auto f(Int auto a) { return a; }
  static auto f(Float auto a) { return std::trunc(a); }
};
struct round {
  static constexpr auto kKernel = freight::Op::round;
  static auto f(Int auto a) { return a; }
  static auto f(Float auto a) { return std::nearbyint(a); }
  static auto f(Complex auto a) { return decltype(a)(std::nearbyint(a.real()), std::nearbyint(a.imag())); }
};

struct isfinite {
  static bool f(Int auto) { return true; }
  static bool f(Float auto a) { return std::isfinite(a); }
  static bool f(Complex auto a) { return is_finite(a); }
};
struct isinf {
  static bool f(Int auto) { return false; }
  static bool f(Float auto a) { return std::isinf(a); }
  static bool f(Complex auto a) { return std::isinf(a.real()) || std::isinf(a.imag()); }
};
struct isnan {
  static bool f(Int auto) { return false; }
  static bool f(Float auto a) { return std::isnan(a); }
  static bool f(Complex auto a) { return std::isnan(a.real()) || std::isnan(a.imag()); }
};
struct signbit {
  static bool f(float a) { return std::bit_cast<int32_t>(a) < 0; }
  static bool f(double a) { return std::bit_cast<int64_t>(a) < 0; }
};
struct logical_not {
  static bool f(std::same_as<bool> auto a) { return !a; }
};
struct bitwise_invert {
  template <Bits T>
  static T f(T a) {
    if constexpr (std::is_same_v<T, bool>) {
      return !a;
    } else {
      return static_cast<T>(~a);
    }
  }
};

}  // namespace

namespace detail {
std::vector<Elementwise> unary_rows() {
  return rows_of(row<absolute>("abs"), row<acos>("acos"), row<acosh>("acosh"), row<asin>("asin"), row<asinh>("asinh"),
                 row<atan>("atan"), row<atanh>("atanh"), row<bitwise_invert>("bitwise_invert"), row<ceil>("ceil"),
                 row<conj>("conj", ""), row<cos>("cos"), row<cosh>("cosh"), row<exp>("exp"), row<expm1>("expm1"),
                 row<floor>("floor"), row<isfinite>("isfinite", "is_finite"), row<isinf>("isinf", "is_inf"),
                 row<isnan>("isnan", "is_nan"), row<log>("log"), row<log10>("log10"), row<log1p>("log1p"),
                 row<log2>("log2"), row<logical_not>("logical_not"), row<negative>("negative"),
                 row<positive>("positive"), row<reciprocal>("reciprocal"), row<round>("round"), row<sign>("sign"),
                 row<signbit>("signbit"), row<sin>("sin"), row<sinh>("sinh"), row<sqrt>("sqrt"), row<square>("square"),
                 row<tan>("tan"), row<tanh>("tanh"), row<trunc>("trunc"));
}
}  // namespace detail

}  // namespace freight::python
