// See number.h.
#include "freight/trace/number.h"

#include <cmath>
#include <limits>

#include "freight/trace/tracer.h"

namespace freight::trace {

namespace {

struct Range {
  int64_t least, most;
};
Range range_of(DType integer) {
  if (integer == DType::u8) return {0, 255};
  if (integer == DType::boolean) return {0, 1};
  if (integer == DType::i32) return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
}

// The largest finite element; beyond it, from half a step on, lies infinity.
double largest(DType floating) {
  switch (floating) {
    case DType::f16: return 65519.99;
    case DType::bf16: return 0x1.FEFFFFp127;
    case DType::f32: return 0x1.FFFFFEFFFFFFFp127;
    default: return std::numeric_limits<double>::max();
  }
}

std::string text(const In& n) { return n.is_integer ? cat(n.integer) : cat(n.scalar); }

[[noreturn]] void refuse(const In& n, DType dtype, const std::string& what, const char* op) {
  const Range r = range_of(dtype);
  if (is_floating(dtype)) {
    fail_here(op, "number ", text(n), " does not fit ", what, ": the largest ", dtype, " is ",
              dtype == DType::f16 ? 65504.0 : largest(dtype), "; cast to a wider type first");
  }
  fail_here(op, "number ", text(n), " does not fit ", what, ": ", dtype, " holds whole numbers from ", r.least, " to ",
            r.most, "; cast to a wider type first");
}

}  // namespace

DType beside(DType dtype, const In& n) {
  const bool counts = dtype == DType::u8 || dtype == DType::i32 || dtype == DType::i64;
  return counts && !n.is_integer ? DType::f32 : dtype;
}

bool holds(DType dtype, const In& n) {
  if (is_floating(dtype)) return !std::isfinite(n.scalar) || std::fabs(n.scalar) <= largest(dtype);
  const Range r = range_of(dtype);
  if (n.is_integer) return n.integer >= r.least && n.integer <= r.most;
  // 2^63 is a double, the largest i64 is not.
  return n.scalar == std::floor(n.scalar) && n.scalar >= static_cast<double>(r.least) &&
         (dtype == DType::i64 ? n.scalar < 0x1p63 : n.scalar <= static_cast<double>(r.most));
}

Tensor constant_of(const In& n, const Type& type, const char* op) {
  if (!holds(type.dtype, n)) refuse(n, type.dtype, cat("beside ", type), op);
  if (!n.is_integer || type.dtype != DType::i64 || std::fabs(n.scalar) <= 0x1p53) return constant(n.scalar, type);
  // A double does not hold it: the elements come from an array.
  const Shape thin = Shape::filled(type.shape.rank(), 1);
  const Tensor one_element =
      one(Op::constant, ConstantAttrs{{DType::i64, thin}, 0, Array::of<int64_t>({n.integer}, thin)}, {});
  return thin == type.shape ? one_element : one(Op::broadcast, ShapeAttrs{type.shape}, {one_element});
}

double attribute_of(const In& n, DType dtype, const char* op) {
  if (!n.is_number) fail_here(op, "needs a number here: got ", n.tensor.type());
  if (!holds(dtype, n)) refuse(n, dtype, cat("into ", dtype), op);
  if (n.is_integer && std::fabs(n.scalar) > 0x1p53)
    fail_here(op, "number ", text(n), " is beyond 2^53, up to which it is exact here");
  return n.scalar;
}

}  // namespace freight::trace
