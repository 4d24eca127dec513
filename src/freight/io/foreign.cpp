// See foreign_internal.h.
#include "freight/io/foreign_internal.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "freight/base/strings.h"

namespace freight::io {

// The product of the other extents of an array without elements. A header of a hundred bytes may say that it holds 2^40
// matrices of 0 rows, and each of them would be factorized.
constexpr int64_t kMostOfEmpty = int64_t{1} << 26;

// A float of 8 bits: sign, exponent of the bias, mantissa. Those that end in fn have no infinity and one NaN per sign,
// those in fnuz one NaN, the pattern of -0.
struct Float8 {
  char kind;
  int mantissa, bias;
  bool infinity, unsigned_zero;
};
constexpr Float8 kFloat8[] = {
    {'4', 3, 7, false, false}, {'5', 2, 15, true, false}, {'x', 3, 8, false, true}, {'y', 2, 16, false, true}};

static const Float8* float8_of(ForeignType t) {
  const auto* const at =
      std::find_if(std::begin(kFloat8), std::end(kFloat8), [&](const Float8& f) { return f.kind == t.kind; });
  return t.size == 1 && at != std::end(kFloat8) ? at : nullptr;
}

static float value_of(const Float8& f, uint8_t bits) {
  const int mantissa = bits & ((1 << f.mantissa) - 1), exponent = (bits & 0x7f) >> f.mantissa;
  const int largest = 0x7f >> f.mantissa, all = (1 << f.mantissa) - 1;
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (f.unsigned_zero && bits == 0x80) return kNaN;
  if (f.infinity && exponent == largest) return mantissa == 0 ? sign * std::numeric_limits<float>::infinity() : kNaN;
  if (!f.infinity && !f.unsigned_zero && exponent == largest && mantissa == all) return kNaN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa);
  return sign * std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa)), exponent - f.bias - f.mantissa);
}

std::optional<DType> dtype_of(ForeignType t) {
  if (float8_of(t)) return DType::f16;  // which has all their values
  struct Row {
    char kind;
    DType dtype;
  };
  constexpr Row kRows[] = {{'f', DType::f16},     {'f', DType::f32}, {'f', DType::f64}, {'B', DType::bf16},
                           {'b', DType::boolean}, {'i', DType::i8},  {'i', DType::i16}, {'i', DType::i32},
                           {'i', DType::i64},     {'u', DType::u8},  {'u', DType::u16}, {'u', DType::u32},
                           {'u', DType::u64},     {'c', DType::c64}, {'c', DType::c128}};
  for (const Row& row : kRows) {
    if (row.kind == t.kind && size_of(row.dtype) == t.size) return row.dtype;
  }
  return {};
}

bool keeps_bytes(ForeignType t, Endian endian) {
  return (endian == Endian::little || t.size == 1) && dtype_of(t) && t.kind != 'b' && !float8_of(t);
}

std::optional<Shape> checked_shape(const std::vector<int64_t>& dims, size_t element_size) {
  if (dims.size() > Shape::kMaxRank) return {};
  int64_t bytes = static_cast<int64_t>(element_size), n = 0;
  const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  // Zeros are left out of the product: (2^62, 2^62, 0) is refused, though it holds nothing, since Shape::numel
  // multiplies from the left and would overflow.
  for (const int64_t d : dims) {
    if (d < 0) return {};
    if (d == 0) continue;
    if (__builtin_mul_overflow(bytes, d, &n)) return {};
    bytes = n;
  }
  if (empty && bytes / static_cast<int64_t>(element_size) > kMostOfEmpty) return {};
  return Shape(dims);
}

std::string read_elements(ForeignType t, Endian endian, ByteView src, Array& out) {
  const size_t bytes = static_cast<size_t>(out.numel()) * t.size;
  auto* to = static_cast<uint8_t*>(out.raw());
  if (const Float8* const f = float8_of(t)) {
    Float16 values[256];
    for (int i = 0; i < 256; ++i) values[i] = Float16(value_of(*f, static_cast<uint8_t>(i)));
    for (size_t i = 0; i < bytes; ++i) std::memcpy(to + i * sizeof(Float16), &values[src[i]], sizeof(Float16));
    return {};
  }
  if (bytes > 0) std::memcpy(to, src.data(), bytes);
  if (t.kind == 'b') {
    for (size_t i = 0; i < bytes; ++i) {
      if (to[i] > 1) return cat("boolean element ", i, " is ", static_cast<int>(src[i]), ", expected 0 or 1");
    }
  } else if (!keeps_bytes(t, endian)) {
    const size_t part = t.kind == 'c' ? t.size / 2 : t.size;  // real and imaginary parts are turned each
    for (size_t i = 0; i < bytes; i += part) std::reverse(to + i, to + i + part);
  }
  return {};
}

}  // namespace freight::io
