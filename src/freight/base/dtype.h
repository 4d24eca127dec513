// Element types: one enum and one table. bf16 and f16 are stored as their 16 bits; arithmetic on them happens in f32.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace freight {

enum class DType : uint8_t { f32, f64, bf16, f16, i32, i64, u8, boolean };
inline constexpr int kDTypeCount = 8;

struct DTypeInfo {
  const char* name;  // Freight's text form
  size_t size;       // bytes
  bool floating;
  const char* safetensors;  // name in safetensors files
  const char* npy;          // descr in npy files ("" where npy has none)
  const char* c_name;       // in generated C, CUDA C++ and OpenCL C
};
const DTypeInfo& info(DType dtype);
inline size_t size_of(DType dtype) { return info(dtype).size; }
inline bool is_floating(DType dtype) { return info(dtype).floating; }
// What sums and statistics of `dtype` are held in: f32 for the 16-bit types, else itself.
inline DType wide(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype; }
std::string to_string(DType dtype);
// Accepts Freight's names and "fp32", "float32" and the like. Returns false for an unknown name.
bool parse_dtype(std::string_view name, DType& out);

// The upper half of an IEEE binary32; conversion rounds to nearest even, NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    bits = f != f ? static_cast<uint16_t>((u >> 16) | 0x40u)
                  : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// An IEEE binary16; conversion rounds to nearest even, from 65,520 on to infinity, NaN stays NaN.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float f) {
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
  explicit operator float() const {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, mantissa = bits & 0x3ffu;
    if (exponent == 0) {
      const float v = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -v : v;
    }
    return std::bit_cast<float>(sign | (exponent == 31 ? 0xffu : exponent + 112) << 23 | mantissa << 13);
  }
};

// Calls f with a value-initialised element of the C++ type of `dtype`: dispatch(t, [&]<class T>(T) { ... }).
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
    case DType::boolean: break;
  }
  return f(bool{});
}

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// One element converted; the 16-bit types through float.
template <class To, class From>
To element_cast(From v) {
  if constexpr (kIsHalf<From> || kIsHalf<To>) {
    return static_cast<To>(static_cast<float>(v));
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
struct DTypeOf<bool> : std::integral_constant<DType, DType::boolean> {};

}  // namespace freight
