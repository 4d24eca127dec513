// Makes loops over elements of a functor: Op::f(a), or Op::f(a, b), constrained to the element types that it takes. The
// 16-bit floating types are computed in float, complex64 in complex128.
#pragma once
#include <cmath>
#include <concepts>
#include <optional>
#include <type_traits>

#include "elementwise.h"
#include "freight/backend/cpu/kernels/pointwise.h"

namespace freight::python {

template <class T>
concept Int = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class T>
concept Float = std::is_floating_point_v<T>;
template <class T>
concept Complex = kIsComplex<T>;
template <class T>
concept Real = Int<T> || Float<T>;
template <class T>
concept Floating = Float<T> || Complex<T>;
template <class T>
concept Number = Real<T> || Complex<T>;
template <class T>
concept Bits = Int<T> || std::is_same_v<T, bool>;

template <class T>
using ComputedIn =
    std::conditional_t<kIsHalf<T>, float,
                       std::conditional_t<std::is_same_v<T, std::complex<float>>, std::complex<double>, T>>;
// Integer arithmetic wraps around.
template <Bits T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Functors that have a meaning in the 16 bits themselves have no loops for them (nextafter).
template <class Op, class T>
inline constexpr bool kTakes = !(kIsHalf<T> && requires { Op::kExactTypes; });

template <class Op, class T>
concept UnaryOn = kTakes<Op, T> && requires(ComputedIn<T> a) {
  Op::f(a);
};
template <class Op, class T>
concept BinaryOn = kTakes<Op, T> && requires(ComputedIn<T> a) {
  Op::f(a, a);
};

// The stored type of a result: the operands', or that of their parts, where it was computed in a wider one for them.
template <class T, class R>
struct StoredAs {
  using type = std::conditional_t<kIsHalf<T> && std::is_same_v<R, float>, T, R>;
};
template <>
struct StoredAs<std::complex<float>, std::complex<double>> {
  using type = std::complex<float>;
};
template <>
struct StoredAs<std::complex<float>, double> {
  using type = float;
};
template <class T, class R>
using Stored = typename StoredAs<T, R>::type;

template <class T>
ComputedIn<T> load(const char* at) {
  return static_cast<ComputedIn<T>>(*reinterpret_cast<const T*>(at));
}

// The library's op of the same values for floating elements, whose SIMD loops are faster; f64 has not all of them.
template <class Op, class T>
constexpr std::optional<freight::Op> kernel_of() {
  if constexpr (Float<ComputedIn<T>> && requires { Op::kKernel; }) return Op::kKernel;
  if constexpr (std::is_same_v<ComputedIn<T>, float> && requires { Op::kFloatKernel; }) return Op::kFloatKernel;
  return {};
}

template <class Op, class T>
void unary_loop(int64_t n, char** at, const int64_t* steps) {
  if constexpr (constexpr auto op = kernel_of<Op, T>(); op.has_value())
    return cpu::run_pointwise({*op, DTypeOf<T>::value, 1, n, at, steps});
  using R = decltype(Op::f(ComputedIn<T>{}));
  using S = Stored<T, R>;
  if (steps[0] == sizeof(S) && steps[1] == sizeof(T)) {
    S* __restrict y = reinterpret_cast<S*>(at[0]);
    const T* x = reinterpret_cast<const T*>(at[1]);
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<S>(Op::f(static_cast<ComputedIn<T>>(x[i])));
    return;
  }
  char* y = at[0];
  const char* x = at[1];
  for (int64_t i = 0; i < n; ++i, y += steps[0], x += steps[1]) {
    *reinterpret_cast<S*>(y) = static_cast<S>(Op::f(load<T>(x)));
  }
}

template <class Op, class T>
void binary_loop(int64_t n, char** at, const int64_t* steps) {
  if constexpr (constexpr auto op = kernel_of<Op, T>(); op.has_value())
    return cpu::run_pointwise({*op, DTypeOf<T>::value, 2, n, at, steps});
  using R = decltype(Op::f(ComputedIn<T>{}, ComputedIn<T>{}));
  using S = Stored<T, R>;
  constexpr int64_t kSize = sizeof(T);
  if (steps[0] == sizeof(S) && (steps[1] == kSize || steps[1] == 0) && (steps[2] == kSize || steps[2] == 0)) {
    S* y = reinterpret_cast<S*>(at[0]);
    const T* a = reinterpret_cast<const T*>(at[1]);
    const T* b = reinterpret_cast<const T*>(at[2]);
    using C = ComputedIn<T>;
    if (steps[1] && steps[2]) {
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<S>(Op::f(static_cast<C>(a[i]), static_cast<C>(b[i])));
    } else if (steps[1]) {
      const C right = static_cast<C>(*b);
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<S>(Op::f(static_cast<C>(a[i]), right));
    } else {
      const C left = static_cast<C>(*a);
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<S>(Op::f(left, static_cast<C>(b[i * (steps[2] != 0)])));
    }
    return;
  }
  char* y = at[0];
  const char *a = at[1], *b = at[2];
  for (int64_t i = 0; i < n; ++i, y += steps[0], a += steps[1], b += steps[2]) {
    *reinterpret_cast<S*>(y) = static_cast<S>(Op::f(load<T>(a), load<T>(b)));
  }
}

template <class Op, class T>
void add_loop(Elementwise& row) {
  constexpr auto kAt = static_cast<size_t>(DTypeOf<T>::value);
  if constexpr (UnaryOn<Op, T>) {
    row.loops[kAt] = unary_loop<Op, T>;
    row.results[kAt] = DTypeOf<Stored<T, decltype(Op::f(ComputedIn<T>{}))>>::value;
  } else if constexpr (BinaryOn<Op, T>) {
    row.loops[kAt] = binary_loop<Op, T>;
    row.results[kAt] = DTypeOf<Stored<T, decltype(Op::f(ComputedIn<T>{}, ComputedIn<T>{}))>>::value;
  }
}

template <class Op>
Elementwise row(const char* name, const char* library = nullptr) {
  Elementwise made{name, library ? library : name,
                   BinaryOn<Op, bool> || BinaryOn<Op, int32_t> || BinaryOn<Op, float> ? 2 : 1};
  [&]<class... T>(std::type_identity<T>...) {
    (add_loop<Op, T>(made), ...);
  }(std::type_identity<float>{}, std::type_identity<double>{}, std::type_identity<BFloat16>{},
    std::type_identity<Float16>{}, std::type_identity<int8_t>{}, std::type_identity<int16_t>{},
    std::type_identity<int32_t>{}, std::type_identity<int64_t>{}, std::type_identity<uint8_t>{},
    std::type_identity<uint16_t>{}, std::type_identity<uint32_t>{}, std::type_identity<uint64_t>{},
    std::type_identity<bool>{}, std::type_identity<std::complex<float>>{}, std::type_identity<std::complex<double>>{});
  made.floating = !made.loops[static_cast<size_t>(DType::i32)] && made.loops[static_cast<size_t>(DType::f32)];
  return made;
}

template <class... Rows>
std::vector<Elementwise> rows_of(const Rows&... rows) {
  return {rows...};
}

}  // namespace freight::python
