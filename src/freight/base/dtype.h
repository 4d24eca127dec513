// Element types: one enum and one table. bf16 and f16 are stored as their 16 bits; arithmetic on them happens in f32.
// Integers wrap, as NumPy's do. Complex numbers are kept, moved, converted and compared for equality; ops that do more
// refuse them by name (infer_types in ir/infer.h).
#pragma once
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace freight {

// Their numbers are part of hashes and files: new ones go to the end.
enum class DType : uint8_t { f32, f64, bf16, f16, i32, i64, u8, boolean, i8, i16, u16, u32, u64, c64, c128 };
inline constexpr int kDTypeCount = 15;  // the number of element types

enum class NumberKind : uint8_t { floating, signed_integer, unsigned_integer, boolean, complex };  // kinds

struct DTypeInfo {          // The row of an element type.
  const char* name;         // Freight's text form
  size_t size;              // bytes
  NumberKind kind;          // floating, integer, ...
  bool computes;            // whether there is arithmetic in this type
  const char* safetensors;  // name in safetensors files ("" where they have none)
  const char* npy;          // descr in npy files ("" where npy has none)
  const char* c_name;       // in generated C, CUDA C++ and OpenCL C
};
const DTypeInfo& info(DType dtype);                                                        // the row of a type
inline size_t size_of(DType dtype) { return info(dtype).size; }                            // bytes of one element
inline bool is_floating(DType dtype) { return info(dtype).kind == NumberKind::floating; }  // f32, f64, bf16, f16
inline bool is_complex(DType dtype) { return info(dtype).kind == NumberKind::complex; }    // true for c64, c128
inline bool is_integer(DType dtype) {  // true for integers of any width, with a sign or without
  return info(dtype).kind == NumberKind::signed_integer || info(dtype).kind == NumberKind::unsigned_integer;
}
inline bool computes(DType dtype) { return info(dtype).computes; }  // whether there is arithmetic in this type
// The type that sums and statistics of `dtype` are held in: f32 for the 16-bit types, else itself.
inline DType wide(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype; }
std::string to_string(DType dtype);                        // "f32"
std::ostream& operator<<(std::ostream& out, DType dtype);  // the same
// Accepts Freight's names and "fp32", "float32" and the like. Returns false for an unknown name.
bool parse_dtype(std::string_view name, DType& out);

// The upper half of an IEEE binary32; conversion rounds to nearest even, NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;  // as stored
  BFloat16() = default;
  explicit BFloat16(float f) {  // rounds to nearest even
    const uint32_t u = std::bit_cast<uint32_t>(f);
    bits = f != f ? static_cast<uint16_t>((u >> 16) | 0x40u)
                  : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }  // exact
};

// An IEEE binary16; conversion rounds to nearest even, from 65,520 on to infinity, NaN stays NaN.
struct Float16 {
  uint16_t bits = 0;  // as stored
  Float16() = default;
  explicit Float16(float f) {  // rounds to nearest even
    const uint32_t u = std::bit_cast<uint32_t>(f), magnitude = u & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {
      half = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // subnormal: multiples of 2^-24, the spacing of floats from 0.5 to 1
      half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    } else {
      half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    bits = static_cast<uint16_t>((u >> 16 & 0x8000u) | half);
  }
  explicit operator float() const {  // exact
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, mantissa = bits & 0x3ffu;
    if (exponent == 0) {
      const float v = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -v : v;
    }
    return std::bit_cast<float>(sign | (exponent == 31 ? 0xffu : exponent + 112) << 23 | mantissa << 13);
  }
};

// Calls f with a value-initialized element of the C++ type of `dtype`: dispatch(t, [&]<class T>(T) { ... }).
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::bf16: return f(BFloat16{});
    case DType::f16: return f(Float16{});
    case DType::i32: return f(int32_t{});
    case DType::i64: return f(int64_t{});
    case DType::u8: return f(uint8_t{});
    case DType::i8: return f(int8_t{});
    case DType::i16: return f(int16_t{});
    case DType::u16: return f(uint16_t{});
    case DType::u32: return f(uint32_t{});
    case DType::u64: return f(uint64_t{});
    case DType::c64: return f(std::complex<float>{});
    case DType::c128: return f(std::complex<double>{});
    case DType::boolean: break;
  }
  return f(bool{});
}

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;  // the types of 16 bits

template <class T>  // the complex types
inline constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Throws Error(usage): complex numbers have no order and no single real number beside the imaginary part.
[[noreturn]] void refuse_real_of_complex();

// A floating number as an integer: toward zero; NaN gives 0, what lies outside of the type its nearest end.
template <class To, class From>
To truncated(From v) {
  constexpr From kEnd = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;  // exact, one above the largest
  if (v != v) return 0;
  if (v >= kEnd) return std::numeric_limits<To>::max();
  if (v <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return static_cast<To>(v);
}

// One element converted as NumPy's astype does, but for floating numbers out of an integer type's range, which NumPy
// leaves to the processor (truncated() above); the 16-bit types through float. Of complex numbers only whether they
// are zero (bool) and other complex types can be had: a real type is refused.
template <class To, class From>
To element_cast(From v) {
  if constexpr (kIsComplex<From>) {
    if constexpr (kIsComplex<To>) {
      return static_cast<To>(v);
    } else if constexpr (std::is_same_v<To, bool>) {
      return v != From{};
    } else {
      refuse_real_of_complex();
    }
  } else if constexpr (kIsComplex<To>) {
    return To(element_cast<typename To::value_type>(v));
  } else if constexpr (kIsHalf<To>) {
    return static_cast<To>(static_cast<float>(v));
  } else if constexpr (kIsHalf<From>) {
    return element_cast<To>(static_cast<float>(v));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    return truncated<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

// DTypeOf<float>::value is DType::f32.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct DTypeOf<BFloat16> : std::integral_constant<DType, DType::bf16> {};
template <>
struct DTypeOf<Float16> : std::integral_constant<DType, DType::f16> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::i64> {};
template <>
struct DTypeOf<uint8_t> : std::integral_constant<DType, DType::u8> {};
template <>
struct DTypeOf<int8_t> : std::integral_constant<DType, DType::i8> {};
template <>
struct DTypeOf<int16_t> : std::integral_constant<DType, DType::i16> {};
template <>
struct DTypeOf<uint16_t> : std::integral_constant<DType, DType::u16> {};
template <>
struct DTypeOf<uint32_t> : std::integral_constant<DType, DType::u32> {};
template <>
struct DTypeOf<uint64_t> : std::integral_constant<DType, DType::u64> {};
// The one of long and long long that int64_t is not.
using OtherInt64 = std::conditional_t<std::is_same_v<int64_t, long>, long long, long>;
template <>
struct DTypeOf<OtherInt64> : std::integral_constant<DType, sizeof(OtherInt64) == 8 ? DType::i64 : DType::i32> {};
template <>
struct DTypeOf<std::complex<float>> : std::integral_constant<DType, DType::c64> {};
template <>
struct DTypeOf<std::complex<double>> : std::integral_constant<DType, DType::c128> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::boolean> {};

}  // namespace freight
