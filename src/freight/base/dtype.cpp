// The table of element types.
#include "freight/base/dtype.h"

namespace freight {

namespace {
constexpr DTypeInfo kTable[kDTypeCount] = {
    {"f32", 4, true, "F32", "<f4", "float"}, {"f64", 8, true, "F64", "<f8", "double"},
    {"bf16", 2, true, "BF16", "", "bf16"},   {"f16", 2, true, "F16", "<f2", "half"},
    {"i32", 4, false, "I32", "<i4", "int"},  {"i64", 8, false, "I64", "<i8", "long"},
    {"u8", 1, false, "U8", "|u1", "uchar"},  {"bool", 1, false, "BOOL", "|b1", "uchar"},
};
struct Alias {
  const char* name;
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"fp32", DType::f32},    {"float32", DType::f32}, {"float", DType::f32},       {"fp64", DType::f64},
    {"float64", DType::f64}, {"double", DType::f64},  {"bfloat16", DType::bf16},   {"int32", DType::i32},
    {"int64", DType::i64},   {"uint8", DType::u8},    {"boolean", DType::boolean}, {"fp16", DType::f16},
    {"float16", DType::f16}, {"half", DType::f16},
};
}  // namespace

const DTypeInfo& info(DType dtype) { return kTable[static_cast<int>(dtype)]; }
std::string to_string(DType dtype) { return info(dtype).name; }

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
