// The table of element types.
#include "freight/base/dtype.h"

#include <ostream>

#include "freight/base/error.h"

namespace freight {

namespace {
constexpr bool kComputes = true, kCarries = false;
// Generated kernels see i64, u64 and the small integers under names of their own, complex numbers not at all.
constexpr DTypeInfo kTable[kDTypeCount] = {
    {"f32", 4, NumberKind::floating, kComputes, "F32", "<f4", "float"},
    {"f64", 8, NumberKind::floating, kComputes, "F64", "<f8", "double"},
    {"bf16", 2, NumberKind::floating, kComputes, "BF16", "", "bf16"},
    {"f16", 2, NumberKind::floating, kComputes, "F16", "<f2", "half"},
    {"i32", 4, NumberKind::signed_integer, kComputes, "I32", "<i4", "int"},
    {"i64", 8, NumberKind::signed_integer, kComputes, "I64", "<i8", "i64"},
    {"u8", 1, NumberKind::unsigned_integer, kComputes, "U8", "|u1", "uchar"},
    {"bool", 1, NumberKind::boolean, kComputes, "BOOL", "|b1", "uchar"},
    {"i8", 1, NumberKind::signed_integer, kComputes, "I8", "|i1", "i8"},
    {"i16", 2, NumberKind::signed_integer, kComputes, "I16", "<i2", "i16"},
    {"u16", 2, NumberKind::unsigned_integer, kComputes, "U16", "<u2", "ushort"},
    {"u32", 4, NumberKind::unsigned_integer, kComputes, "U32", "<u4", "uint"},
    {"u64", 8, NumberKind::unsigned_integer, kComputes, "U64", "<u8", "u64"},
    {"c64", 8, NumberKind::complex, kCarries, "C64", "<c8", ""},
    {"c128", 16, NumberKind::complex, kCarries, "", "<c16", ""},
};
struct Alias {
  const char* name;
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"fp32", DType::f32},        {"float32", DType::f32}, {"float", DType::f32},       {"fp64", DType::f64},
    {"float64", DType::f64},     {"double", DType::f64},  {"bfloat16", DType::bf16},   {"int32", DType::i32},
    {"int64", DType::i64},       {"uint8", DType::u8},    {"boolean", DType::boolean}, {"fp16", DType::f16},
    {"float16", DType::f16},     {"half", DType::f16},    {"int8", DType::i8},         {"int16", DType::i16},
    {"uint16", DType::u16},      {"uint32", DType::u32},  {"uint64", DType::u64},      {"complex64", DType::c64},
    {"complex128", DType::c128},
};
}  // namespace

const DTypeInfo& info(DType dtype) { return kTable[static_cast<int>(dtype)]; }
std::string to_string(DType dtype) { return info(dtype).name; }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }

void refuse_real_of_complex() {
  fail(ErrorKind::usage, "cast",
       "complex elements cannot be converted to a real type: the imaginary part would be lost");
}

bool parse_dtype(std::string_view name, DType& out) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name == kTable[i].name) {
      out = static_cast<DType>(i);
      return true;
    }
  }
  for (const Alias& a : kAliases) {
    if (name == a.name) {
      out = a.dtype;
      return true;
    }
  }
  return false;
}

}  // namespace freight
