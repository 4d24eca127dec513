// See number.h.
#include "freight/trace/number.h"

#include <cmath>
#include <limits>

#include "freight/trace/tracer.h"

namespace freight::trace {

namespace {

struct IntegerRange {
  int64_t least;
  uint64_t most;
};
IntegerRange range_of(DType integer) {
  IntegerRange range{0, 1};
  dispatch(integer, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>)
      range = {static_cast<int64_t>(std::numeric_limits<T>::min()), std::numeric_limits<T>::max()};
  });
  return range;
}

// The largest finite element; beyond it, from half a step on, lies infinity.
double largest(DType floating) {
  switch (floating) {
    case DType::f16: return 65519.99;
    case DType::bf16: return 0x1.FEFFFFp127;
    case DType::f32:
    case DType::c64: return 0x1.FFFFFEFFFFFFFp127;
    default: return std::numeric_limits<double>::max();
  }
}

[[noreturn]] void refuse(const In& n, DType dtype, const std::string& what, const char* op) {
  const IntegerRange r = range_of(dtype);
  if (is_floating(dtype) || is_complex(dtype)) {
    fail_here(op, "number ", number_text(n), " does not fit ", what, ": the largest ", dtype, " is ",
              dtype == DType::f16 ? 65504.0 : largest(dtype), "; cast to a wider type first");
  }
  fail_here(op, "number ", number_text(n), " does not fit ", what, ": ", dtype, " holds whole numbers from ", r.least,
            " to ", r.most, "; cast to a wider type first");
}

// From 2^53 on the double of an integer may be that of its neighbor, too: 2^53 + 1 is rounded to 2^53.
bool exact_as_double(const In& n) { return !n.is_integer || std::fabs(n.scalar) < 0x1p53; }

}  // namespace

std::string number_text(const In& n) {
  if (!n.is_integer) return cat(n.scalar);
  return n.beyond_i64 ? cat(static_cast<uint64_t>(n.integer)) : cat(n.integer);
}

DType beside(DType dtype, const In& n) { return is_integer(dtype) && !n.is_integer ? DType::f32 : dtype; }

bool holds(DType dtype, const In& n) {
  if (is_floating(dtype) || is_complex(dtype)) return !std::isfinite(n.scalar) || std::fabs(n.scalar) <= largest(dtype);
  const IntegerRange r = range_of(dtype);
  if (n.beyond_i64) return static_cast<uint64_t>(n.integer) <= r.most;
  if (n.is_integer) return n.integer >= r.least && (n.integer < 0 || static_cast<uint64_t>(n.integer) <= r.most);
  // 2^63 and 2^64 are doubles, the largest i64 and u64 are not.
  const double most = static_cast<double>(r.most);
  return n.scalar == std::floor(n.scalar) && n.scalar >= static_cast<double>(r.least) &&
         (size_of(dtype) == 8 ? n.scalar < most : n.scalar <= most);
}

void need_held(const In& n, DType dtype, const std::string& what, const char* op) {
  if (!holds(dtype, n)) refuse(n, dtype, what, op);
}

Tensor constant_of(const In& n, const Type& type, const char* op) {
  need_held(n, type.dtype, cat("next to ", type), op);
  const bool wide_integer = type.dtype == DType::i64 || type.dtype == DType::u64;
  if (!wide_integer || exact_as_double(n)) return constant(n.scalar, type);
  // A double does not hold it: the elements come from an array. As u64 the bits of an i64 are what beyond_i64 promises.
  const Shape thin = Shape::filled(type.shape.rank(), 1);
  const Tensor one_element = one(
      Op::constant, ConstantAttrs{{type.dtype, thin}, 0, Array::of<int64_t>({n.integer}, thin).cast(type.dtype)}, {});
  return thin == type.shape ? one_element : one(Op::broadcast, ShapeAttrs{type.shape}, {one_element});
}

double attribute_of(const In& n, DType dtype, const char* op) {
  if (!n.is_number) fail_here(op, "needs a number here: got ", n.tensor.type());
  need_held(n, dtype, cat("into ", dtype), op);
  if (is_integer(dtype) && !exact_as_double(n)) {
    fail_here(op, "number ", number_text(n),
              " may be rounded here: expected less than 2^53 in size; concat a full() of it");
  }
  return n.scalar;
}

}  // namespace freight::trace
