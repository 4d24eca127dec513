// See foreign_internal.h.
#include "freight/io/foreign_internal.h"

#include <bit>
#include <cstring>
#include <limits>

#include "freight/base/strings.h"

namespace freight::io {

namespace {
// The unsigned integer of `size` bytes at p.
uint64_t load_word(const uint8_t* p, size_t size, Endian endian) {
  uint64_t v = 0;
  for (size_t i = 0; i < size; ++i) {
    const size_t at = endian == Endian::little ? size - 1 - i : i;
    v = v << 8 | p[at];
  }
  return v;
}

int64_t sign_extend(uint64_t v, size_t size) {
  const int shift = static_cast<int>(64 - 8 * size);
  return static_cast<int64_t>(v << shift) >> shift;
}
}  // namespace

std::optional<DType> widened(ForeignType t) {
  switch (t.kind) {
    case 'f':
      if (t.size == 2) return DType::f16;
      if (t.size == 4) return DType::f32;
      if (t.size == 8) return DType::f64;
      return {};
    case 'B': return t.size == 2 ? std::optional(DType::bf16) : std::nullopt;
    case 'b': return t.size == 1 ? std::optional(DType::boolean) : std::nullopt;
    case 'i':
      if (t.size == 1 || t.size == 2 || t.size == 4) return DType::i32;
      if (t.size == 8) return DType::i64;
      return {};
    case 'u':
      if (t.size == 1) return DType::u8;
      if (t.size == 2) return DType::i32;
      if (t.size == 4 || t.size == 8) return DType::i64;
      return {};
    default: return {};
  }
}

bool keeps_bytes(ForeignType t, Endian endian) {
  const bool native = endian == Endian::little || t.size == 1;
  const std::optional<DType> type = widened(t);
  return native && type && t.size == size_of(*type) && !(t.kind == 'u' && t.size == 8) && t.kind != 'b';
}

std::optional<Shape> checked_shape(const std::vector<int64_t>& dims, size_t element_size) {
  if (dims.size() > Shape::kMaxRank) return {};
  int64_t bytes = static_cast<int64_t>(element_size), n = 0;
  // Zeros are left out of the product: (2^62, 2^62, 0) is refused, though it holds nothing, since Shape::numel
  // multiplies from the left and would overflow.
  for (const int64_t d : dims) {
    if (d < 0) return {};
    if (d == 0) continue;
    if (__builtin_mul_overflow(bytes, d, &n)) return {};
    bytes = n;
  }
  return Shape(dims);
}

std::string widen(ForeignType t, Endian endian, ByteView src, Array& out) {
  const auto n = static_cast<size_t>(out.numel());
  if (keeps_bytes(t, endian)) {
    if (n > 0) std::memcpy(out.raw(), src.data(), n * t.size);
    return {};
  }
  const uint8_t* p = src.data();
  for (size_t i = 0; i < n; ++i, p += t.size) {
    const uint64_t w = load_word(p, t.size, endian);
    switch (out.dtype()) {
      case DType::f32: out.data<float>()[i] = std::bit_cast<float>(static_cast<uint32_t>(w)); break;
      case DType::f64: out.data<double>()[i] = std::bit_cast<double>(w); break;
      case DType::bf16: out.data<BFloat16>()[i].bits = static_cast<uint16_t>(w); break;
      case DType::f16: out.data<Float16>()[i].bits = static_cast<uint16_t>(w); break;
      case DType::u8: out.data<uint8_t>()[i] = static_cast<uint8_t>(w); break;
      case DType::boolean:
        if (w > 1) return cat("boolean element ", i, " is ", w, ", need 0 or 1");
        out.data<bool>()[i] = w != 0;
        break;
      case DType::i32:
        out.data<int32_t>()[i] = static_cast<int32_t>(t.kind == 'i' ? sign_extend(w, t.size) : static_cast<int64_t>(w));
        break;
      case DType::i64:
        if (t.kind == 'u' && w > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
          return cat("unsigned element ", i, " is ", w, ", above the range of i64");
        }
        out.data<int64_t>()[i] = t.kind == 'i' ? sign_extend(w, t.size) : static_cast<int64_t>(w);
        break;
    }
  }
  return {};
}

}  // namespace freight::io
