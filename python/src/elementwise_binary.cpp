// The functions of two operands; see elementwise.h.
#include <cmath>
#include <complex>

#include "element_loops.h"

namespace freight::python {

namespace {

// Sums and products of bool, in which 2 is true, are those of NumPy: or and and.
#define FREIGHT_ARITHMETIC(name, op, Whole)                                              \
  struct name {                                                                          \
    template <Whole T>                                                                   \
    static T f(T a, T b) {                                                               \
      return static_cast<T>(static_cast<Wrapping<T>>(a) op static_cast<Wrapping<T>>(b)); \
    }                                                                                    \
    template <Floating T>                                                                \
    static T f(T a, T b) {                                                               \
      return a op b;                                                                     \
    }                                                                                    \
  };
FREIGHT_ARITHMETIC(add, +, Bits)
FREIGHT_ARITHMETIC(subtract, -, Int)
FREIGHT_ARITHMETIC(product, *, Bits)
#undef FREIGHT_ARITHMETIC

// The complex type is constrained: a parameter of type std::complex<double> would take integers, too.
struct multiply : product {
  using product::f;
  template <Complex T>
  static T f(T a, T b) {
    return T(std::complex<long double>(a) * std::complex<long double>(b));
  }
};
struct divide {
  static auto f(Float auto a, Float auto b) { return a / b; }
  template <Complex T>
  static T f(T a, T b) {
    return T(std::complex<long double>(a) / std::complex<long double>(b));
  }
};
struct floor_divide {
  template <Int T>
  static T f(T a, T b) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
    }
    const T q = static_cast<T>(a / b);
    return static_cast<T>(q - ((a % b != 0) && ((a < 0) != (b < 0))));
  }
  template <Float T>
  static T f(T a, T b) {
    if (a != a || b != b) return a + b;
    if (std::isinf(a))
      return std::isinf(b)                        ? std::numeric_limits<T>::quiet_NaN()
             : std::signbit(a) == std::signbit(b) ? std::fabs(a)
                                                  : -std::fabs(a);
    const T q = a / b, whole = std::floor(q);
    if (b == 0 || a == 0 || std::isinf(b) || std::fabs(q) >= 1 / std::numeric_limits<T>::epsilon()) return q;
    // The quotient may have been rounded up to a whole number. The remainder, whose sign is exact, tells.
    const T left = std::fma(-whole, b, a);
    return left != 0 && (left < 0) != (b < 0) ? whole - 1 : whole;
  }
};
struct remainder {
  template <Int T>
  static T f(T a, T b) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    const T left = static_cast<T>(a % b);
    return static_cast<T>(left != 0 && ((left < 0) != (b < 0)) ? left + b : left);
  }
  template <Float T>
  static T f(T a, T b) {
    const T left = std::fmod(a, b);
    if (left == 0) return std::copysign(T(0), b);
    return (b < 0) != (left < 0) ? left + b : left;
  }
};
struct power {
  static constexpr auto kFloatKernel = freight::Op::pow;
  template <Int T>
  static T f(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      if (b < 0) return static_cast<T>(a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0);
    }
    Wrapping<T> base = static_cast<Wrapping<T>>(a), y = 1;
    for (auto n = static_cast<std::make_unsigned_t<T>>(b); n; n = static_cast<decltype(n)>(n >> 1)) {
      if (n & 1) y *= base;
      base *= base;
    }
    return static_cast<T>(y);
  }
  static auto f(Float auto a, Float auto b) { return std::pow(a, b); }
  template <Complex T>
  static T f(T a, T b) {
    using R = typename T::value_type;
    if (b == T(0)) return 1;
    if (a == T(0) && b.imag() == 0 && b.real() > 0) return 0;
    // Small whole exponents are products, which is what their users expect of exactness.
    if (b.imag() == 0 && b.real() == std::floor(b.real()) && std::abs(b.real()) <= 64) {
      T base = b.real() < 0 ? T(1) / a : a, y = 1;
      for (auto n = static_cast<int>(std::abs(b.real())); n; n >>= 1) {
        if (n & 1) y *= base;
        base *= base;
      }
      return y;
    }
    // The logarithm's error grows with the exponent.
    const auto exact = std::pow(std::complex<long double>(a), std::complex<long double>(b));
    return {static_cast<R>(exact.real()), static_cast<R>(exact.imag())};
  }
};
struct atan2 {
  static constexpr auto kKernel = freight::Op::atan2;
  static auto f(Float auto a, Float auto b) { return std::atan2(a, b); }
};
struct hypot {
  static constexpr auto kKernel = freight::Op::hypot;
  static auto f(Float auto a, Float auto b) { return std::hypot(a, b); }
};
struct copysign {
  static auto f(Float auto a, Float auto b) { return std::copysign(a, b); }
};
struct nextafter {
  static constexpr bool kExactTypes = true;
  static auto f(Float auto a, Float auto b) { return std::nextafter(a, b); }
};
struct logaddexp {
  static constexpr auto kKernel = freight::Op::logaddexp;
  template <Float T>
  static T f(T a, T b) {
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;  // the terms may cancel
    if (a == b) return static_cast<T>(a + Wide(0.693147180559945309417232121458L));
    const Wide high = std::fmax(a, b), distance = std::fabs(Wide(a) - b);
    return static_cast<T>(a != a || b != b ? a + b : high + std::log1p(std::exp(-distance)));
  }
};
struct maximum {
  static auto f(Real auto a, Real auto b) { return a > b || a != a ? a : b; }
};
struct minimum {
  static auto f(Real auto a, Real auto b) { return a < b || a != a ? a : b; }
};

#define FREIGHT_ORDER(name, op)                                             \
  struct name {                                                             \
    template <class T>                                                      \
    requires(Real<T> || Bits<T>) static bool f(T a, T b) { return a op b; } \
  };
FREIGHT_ORDER(less, <)
FREIGHT_ORDER(less_equal, <=)
FREIGHT_ORDER(greater, >)
FREIGHT_ORDER(greater_equal, >=)
#undef FREIGHT_ORDER
struct equal {
  static bool f(auto a, auto b) { return a == b; }
};
struct not_equal {
  static bool f(auto a, auto b) { return a != b; }
};

template <class T>
concept Bool = std::is_same_v<T, bool>;
struct logical_and {
  static bool f(Bool auto a, Bool auto b) { return a && b; }
};
struct logical_or {
  static bool f(Bool auto a, Bool auto b) { return a || b; }
};
struct logical_xor {
  static bool f(Bool auto a, Bool auto b) { return a != b; }
};
struct bitwise_and {
  static auto f(Bits auto a, Bits auto b) { return static_cast<decltype(a)>(a & b); }
};
struct bitwise_or {
  static auto f(Bits auto a, Bits auto b) { return static_cast<decltype(a)>(a | b); }
};
struct bitwise_xor {
  static auto f(Bits auto a, Bits auto b) { return static_cast<decltype(a)>(a ^ b); }
};
struct left_shift {
  template <Int T>
  static T f(T a, T b) {
    if (b < 0 || static_cast<uint64_t>(b) >= sizeof(T) * 8) return 0;
    return static_cast<T>(static_cast<Wrapping<T>>(a) << b);
  }
};
struct right_shift {
  template <Int T>
  static T f(T a, T b) {
    if (b < 0 || static_cast<uint64_t>(b) >= sizeof(T) * 8) return a < 0 ? static_cast<T>(-1) : T(0);
    return static_cast<T>(a >> b);
  }
};

}  // namespace

namespace detail {
std::vector<Elementwise> binary_rows() {
  return rows_of(row<add>("add"), row<atan2>("atan2"), row<bitwise_and>("bitwise_and"),
                 row<left_shift>("bitwise_left_shift", "shift_left"), row<bitwise_or>("bitwise_or"),
                 row<right_shift>("bitwise_right_shift", "shift_right"), row<bitwise_xor>("bitwise_xor"),
                 row<copysign>("copysign"), row<divide>("divide"), row<equal>("equal"),
                 row<floor_divide>("floor_divide"), row<greater>("greater"), row<greater_equal>("greater_equal"),
                 row<hypot>("hypot"), row<less>("less"), row<less_equal>("less_equal"), row<logaddexp>("logaddexp"),
                 row<logical_and>("logical_and"), row<logical_or>("logical_or"), row<logical_xor>("logical_xor"),
                 row<maximum>("maximum"), row<minimum>("minimum"), row<multiply>("multiply"),
                 row<nextafter>("nextafter"), row<not_equal>("not_equal"), row<power>("pow"),
                 row<remainder>("remainder"), row<subtract>("subtract"));
}
}  // namespace detail

}  // namespace freight::python
