// Front ends of pointwise ops: broadcasting and numbers beside tensors. See elementwise.h.
#include "freight/ops/elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/ops/common.h"
#include "freight/ops/shape.h"
#include "freight/trace/number.h"

namespace freight {

namespace ops {

int axis_of(int64_t axis, const Type& type, const char* op) {
  const int rank = type.shape.rank();
  const int64_t i = axis < 0 ? axis + rank : axis;
  if (i < 0 || i >= rank) {
    if (rank == 0) fail_here(op, "a tensor of rank 0 has no axes: got axis ", axis, " for ", type);
    fail_here(op, "axis out of range: expected ", -rank, " to ", rank - 1, " for ", type, ", got ", axis);
  }
  return static_cast<int>(i);
}

Shape axes_of(const Axes& axes, const Type& type, const char* op) {
  std::vector<int64_t> list;
  if (axes.list.empty()) {
    for (int i = 0; i < type.shape.rank(); ++i) list.push_back(i);
  }
  for (int64_t a : axes.list) list.push_back(axis_of(a, type, op));
  std::sort(list.begin(), list.end());
  if (std::adjacent_find(list.begin(), list.end()) != list.end()) {
    fail_here(op, "an axis is given twice: got ", Shape(axes.list), " for ", type);
  }
  return Shape(list);
}

Tensor exact(const Tensor& x, const char* op) {
  need_types(x, dtypes::kReal, op);
  return is_floating(x.dtype()) || x.dtype() == DType::u64 ? x : cast(x, DType::i64);
}

Tensor reshaped(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : one(Op::reshape, ShapeAttrs{shape}, {x});
}

Tensor expanded(const Tensor& x, const Shape& shape, const char* op) {
  if (x.shape() == shape) return x;
  Shape result;
  if (!broadcast_shapes(x.shape(), shape, result) || result != shape) {
    fail_here(op, "cannot broadcast ", x.type(), " to ", shape);
  }
  Shape padded = Shape::filled(shape.rank() - x.rank(), 1);
  for (int64_t d : x.shape()) padded.push_back(d);
  const Tensor r = reshaped(x, padded);
  return padded == shape ? r : one(Op::broadcast, ShapeAttrs{shape}, {r});
}

Tensor per_channel(const Tensor& c, const Tensor& like, const char* op) {
  if (c.rank() != 1 || c.dim(0) != like.dim(1)) {
    fail_here(op, "expected one number per channel, got ", c.type(), " for ", like.type(), " with ", like.dim(1),
              " channels");
  }
  Shape s = Shape::filled(like.rank(), 1);
  s[1] = c.dim(0);
  return expanded(reshaped(c, s), like.shape(), op);
}

namespace {

// Brings operands to one shape and type; numbers become constants (trace/number.h).
struct Pair {
  Tensor a, b;
};
Pair align(const char* op, const In& a, const In& b) {
  if (a.is_number == b.is_number && (a.is_number || !a.tensor.defined() || !b.tensor.defined())) {
    return {get(a, op), get(b, op)};  // two numbers; or get says that a tensor is undefined
  }
  if (a.is_number || b.is_number) {
    const In& number = a.is_number ? a : b;
    const Tensor given = get(a.is_number ? b : a, op);
    const Tensor x = cast(given, trace::beside(given.dtype(), number));
    const Tensor n = trace::constant_of(number, x.type(), op);
    return a.is_number ? Pair{n, x} : Pair{x, n};
  }
  const Type &ta = a.tensor.type(), &tb = b.tensor.type();
  if (ta.dtype != tb.dtype) fail_here(op, "element types differ: lhs ", ta, ", rhs ", tb, "; cast one of them");
  Shape shape;
  if (!broadcast_shapes(ta.shape, tb.shape, shape)) fail_here(op, "shapes do not broadcast: lhs ", ta, ", rhs ", tb);
  return {expanded(a.tensor, shape, op), expanded(b.tensor, shape, op)};
}

// `called` is the function's public name, which is not that of the op for what C++ writes as an operator.
Tensor unary(Op op, const char* called, const In& x) {
  const Frame frame(x.where, called);
  return one(op, NoAttrs{}, {get(x, called)});
}

Tensor binary(Op op, const char* called, const In& a, const In& b) {
  const Frame frame(a.is_number ? b.where : a.where, called);
  const Pair p = align(called, a, b);
  return one(op, NoAttrs{}, {p.a, p.b});
}

// A comparison of integers with a number is exact, whatever the number: 255 < 256 in u8, 16,777,217 > 16,777,216.5.
Tensor compare_with_number(Op op, const char* called, const Tensor& x, const In& n) {
  const bool less = op == Op::lt || op == Op::le, greater = op == Op::gt || op == Op::ge;
  if (trace::holds(x.dtype(), n)) return one(op, NoAttrs{}, {x, trace::constant_of(n, x.type(), called)});
  const double below = std::floor(n.scalar);
  const In whole(std::isfinite(n.scalar) && std::fabs(below) < 0x1p62 ? static_cast<int64_t>(below) : int64_t{0});
  const bool between = below != n.scalar && std::isfinite(n.scalar) && trace::holds(x.dtype(), whole);
  if (between && (less || greater)) {  // x < 1.5 is x <= 1, x > 1.5 is x > 1
    return one(less ? Op::le : Op::gt, NoAttrs{}, {x, trace::constant_of(whole, x.type(), called)});
  }
  // The number lies beyond all elements, or between two, or is none.
  const bool all = op == Op::ne || (n.scalar > 0 && less) || (n.scalar < 0 && greater);
  return trace::constant(all ? 1 : 0, {DType::boolean, x.shape()});
}

// b op a for a op b.
Op mirrored(Op op) {
  switch (op) {
    case Op::lt: return Op::gt;
    case Op::le: return Op::ge;
    case Op::gt: return Op::lt;
    case Op::ge: return Op::le;
    default: return op;
  }
}

// Integers of two types as i64, which holds those of all types but u64. Beside that, negative numbers, which would
// become others in u64, are less than all.
Tensor compare_integers(Op op, const char* called, const Tensor& a, const Tensor& b) {
  const bool big_a = a.dtype() == DType::u64, big_b = b.dtype() == DType::u64;
  if (!big_a && !big_b) return binary(op, called, cast(a, DType::i64), cast(b, DType::i64));
  if (big_b) return compare_integers(mirrored(op), called, b, a);
  const Tensor other = cast(b, DType::i64);
  const Tensor compared = binary(op, called, a, cast(other, DType::u64));
  const bool more = op == Op::gt || op == Op::ge || op == Op::ne;  // what holds of a beside a negative number
  return where(broadcast_to(other < 0, compared.shape()), trace::constant(more, {DType::boolean, compared.shape()}),
               compared);
}

Tensor compare(Op op, const char* called, const In& a, const In& b) {
  const Frame frame(a.is_number ? b.where : a.where, called);
  const bool one_number = a.is_number != b.is_number;
  if (one_number) {
    const Tensor x = get(a.is_number ? b : a, called);
    const In& n = a.is_number ? a : b;
    if (is_integer(x.dtype())) return compare_with_number(a.is_number ? mirrored(op) : op, called, x, n);
    // Beyond the largest floating element a number is as good as infinity.
    if ((is_floating(x.dtype()) || is_complex(x.dtype())) && !trace::holds(x.dtype(), n)) {
      const In infinite(std::copysign(std::numeric_limits<double>::infinity(), n.scalar));
      return a.is_number ? binary(op, called, infinite, b) : binary(op, called, a, infinite);
    }
  }
  if (!a.is_number && !b.is_number) {
    const Tensor x = get(a, called), y = get(b, called);
    if (is_integer(x.dtype()) && is_integer(y.dtype()) && x.dtype() != y.dtype()) {
      return compare_integers(op, called, x, y);
    }
  }
  return binary(op, called, a, b);
}

// Integers as f32: the quotient of two is none.
In as_float(const In& x) {
  return !x.is_number && x.tensor.defined() && is_integer(x.tensor.dtype()) ? In(cast(x.tensor, DType::f32), x.where)
                                                                            : x;
}

}  // namespace
}  // namespace ops

Tensor operator+(const In& a, const In& b) { return ops::binary(Op::add, "add", a, b); }
Tensor operator-(const In& a, const In& b) { return ops::binary(Op::sub, "subtract", a, b); }
Tensor operator*(const In& a, const In& b) { return ops::binary(Op::mul, "multiply", a, b); }
Tensor operator/(const In& a, const In& b) {
  const Frame frame(a.is_number ? b.where : a.where, "divide");
  return ops::binary(Op::div, "divide", ops::as_float(a), ops::as_float(b));
}
Tensor operator-(const In& a) { return ops::unary(Op::neg, "negative", a); }
Tensor& operator+=(Tensor& a, const In& b) { return a = In(a, b.where) + b; }
Tensor& operator-=(Tensor& a, const In& b) { return a = In(a, b.where) - b; }
Tensor& operator*=(Tensor& a, const In& b) { return a = In(a, b.where) * b; }
Tensor& operator/=(Tensor& a, const In& b) { return a = In(a, b.where) / b; }
Tensor remainder(const In& a, const In& b) {
  const Frame frame(a.is_number ? b.where : a.where, "remainder");
  const ops::Pair p = ops::align("remainder", a, b);
  const Tensor rest = ops::one(Op::fmod, NoAttrs{}, {p.a, p.b});
  return where(logical_and(not_equal(rest, 0), not_equal(rest < 0, p.b < 0)), rest + p.b, rest);
}
Tensor floor_divide(const In& a, const In& b) {
  const Frame frame(a.is_number ? b.where : a.where, "floor_divide");
  const ops::Pair p = ops::align("floor_divide", a, b);
  return ops::named("floor_divide", [&] {
    const Tensor rest = ops::one(Op::fmod, NoAttrs{}, {p.a, p.b});
    const Tensor above = logical_and(not_equal(rest, 0), not_equal(rest < 0, p.b < 0));  // rounded up
    if (!is_floating(p.a.dtype())) return ops::one(Op::div, NoAttrs{}, {p.a, p.b}) - cast(above, p.a.dtype());
    // Not floor(a / b): 1 / 0.1 is rounded up to 10, where 9 times 0.1 and a rest make 1.
    const Tensor quotient = p.a / p.b, whole = round((p.a - rest) / p.b);
    const Tensor near = where(above, whole - 1, where(equal(whole, 0), copysign(0.0, quotient), whole));
    // The standard prefers the floor of the quotient to Python's relation with the remainder for infinite operands.
    return stop_gradient(where(logical_and(is_finite(quotient), is_finite(p.b)), near, quotient));
  });
}
Tensor operator<(const In& a, const In& b) { return ops::compare(Op::lt, "less", a, b); }
Tensor operator<=(const In& a, const In& b) { return ops::compare(Op::le, "less_equal", a, b); }
Tensor operator>(const In& a, const In& b) { return ops::compare(Op::gt, "greater", a, b); }
Tensor operator>=(const In& a, const In& b) { return ops::compare(Op::ge, "greater_equal", a, b); }
Tensor equal(const In& a, const In& b) { return ops::compare(Op::eq, "equal", a, b); }
Tensor not_equal(const In& a, const In& b) { return ops::compare(Op::ne, "not_equal", a, b); }
Tensor logical_xor(const In& a, const In& b) {
  const Frame frame(a.is_number ? b.where : a.where, "logical_xor");
  const ops::Pair p = ops::align("logical_xor", a, b);
  ops::need_types(p.a, dtypes::kBool, "logical_xor");
  return ops::one(Op::ne, NoAttrs{}, {p.a, p.b});
}
Tensor bitwise_invert(const In& x) {
  const auto [frame, t] = ops::enter(x, "bitwise_invert");
  ops::need_types(t, dtypes::kInteger, "bitwise_invert");
  return ops::named("bitwise_invert", [&, &t_in = t] { return -t_in - 1; });
}
Tensor is_nan(const In& x) {
  const auto [frame, t] = ops::enter(x, "is_nan");
  return ops::one(Op::ne, NoAttrs{}, {t, t});
}
Tensor is_inf(const In& x) {
  const auto [frame, t] = ops::enter(x, "is_inf");
  ops::need_types(t, dtypes::kReal, "is_inf");
  if (!is_floating(t.dtype())) return trace::constant(0, {DType::boolean, t.shape()});
  return equal(abs(t), std::numeric_limits<double>::infinity());
}
Tensor signbit(const In& x) {
  const auto [frame, t] = ops::enter(x, "signbit");
  return ops::named("signbit", [&, &t_in = t] { return copysign(1.0, t_in) < 0; });
}
Tensor positive(const In& x) {
  const auto [frame, t] = ops::enter(x, "positive");
  ops::need_types(t, dtypes::kNumber | dtypes::kComplex, "positive");
  return t;
}
Tensor trunc(const In& x) {
  const auto [frame, t] = ops::enter(x, "trunc");
  return ops::named("trunc", [&, &t_in = t] { return where(t_in < 0, ceil(t_in), floor(t_in)); });
}
// These cannot take the caller's line: In beside the compiler's own operators on bool would be ambiguous. So errors
// tell none, rather than a line of this file.
Tensor operator&&(const Tensor& a, const Tensor& b) { return logical_and(In(a, SourceLine{}), In(b, SourceLine{})); }
Tensor operator||(const Tensor& a, const Tensor& b) { return logical_or(In(a, SourceLine{}), In(b, SourceLine{})); }
Tensor operator!(const Tensor& a) { return logical_not(In(a, SourceLine{})); }

Tensor clamp(const In& x, const In& lo, const In& hi) {
  const Frame frame(x.where);
  const Tensor t = ops::get(x, "clamp"), y = ops::named("clamp", [&] { return minimum(maximum(t, lo), hi); });
  if (!lo.is_number || !hi.is_number || !is_floating(t.dtype())) return y;
  // Nothing flows back from the ends, as in PyTorch; the rules of maximum and minimum would give half.
  return where(logical_and(t > lo, t < hi), t, stop_gradient(y));
}

Tensor where(const In& condition, const In& a, const In& b) {
  const auto [frame, c] = ops::enter(condition, "where");
  const ops::Pair branches = ops::align("where", a, b);
  Shape shape;
  if (!broadcast_shapes(c.shape(), branches.a.shape(), shape)) {
    ops::fail_here("where", "condition ", c.type(), " and branches ", branches.a.type(), " do not broadcast");
  }
  return ops::one(Op::where, NoAttrs{},
                  {ops::expanded(c, shape, "where"), ops::expanded(branches.a, shape, "where"),
                   ops::expanded(branches.b, shape, "where")});
}

Tensor cast(const In& x, DType dtype) {
  const Frame frame(x.where, "cast");
  if (x.is_number) return trace::constant_of(x, {dtype, {}}, "cast");
  const Tensor t = ops::get(x, "cast");
  return t.dtype() == dtype ? t : ops::one(Op::cast, CastAttrs{dtype}, {t});
}

// The functions that the op table has: each makes the node of its row, and the header declares it.
#define FREIGHT_OP(...)
#define FREIGHT_UNARY(op, ...) \
  Tensor op(const In& x) { return ops::unary(Op::op, #op, x); }
#define FREIGHT_BINARY(op, ...) \
  Tensor op(const In& a, const In& b) { return ops::binary(Op::op, #op, a, b); }
#include "freight/ir/op_table.inc"
#undef FREIGHT_OP

}  // namespace freight
