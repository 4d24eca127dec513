// See builder.h.
#include "freight/ir/builder.h"

#include "freight/base/error.h"
#include "freight/ir/vjp.h"

namespace freight {

Value Builder::cast(Value a, DType dtype) { return type(a).dtype == dtype ? a : one(Op::cast, CastAttrs{dtype}, {a}); }
Value Builder::reshape(Value a, const Shape& s) { return shape(a) == s ? a : one(Op::reshape, ShapeAttrs{s}, {a}); }
Value Builder::transpose(Value a, const Shape& perm) { return one(Op::transpose, PermAttrs{perm}, {a}); }
Value Builder::broadcast(Value a, const Shape& s) { return shape(a) == s ? a : one(Op::broadcast, ShapeAttrs{s}, {a}); }

Value Builder::broadcast_axis(Value a, int axis, const Shape& like) {
  Shape thin = Shape::filled(like.rank(), 1);
  thin[axis] = like[axis];
  return broadcast(reshape(a, thin), like);
}

Value Builder::slice(Value a, const Shape& start, const Shape& limit, const Shape& step) {
  return one(Op::slice, SliceAttrs{start, limit, step}, {a});
}
Value Builder::pad(Value a, const Shape& low, const Shape& high, const Shape& interior, double value) {
  return one(Op::pad, PadAttrs{low, high, interior, value}, {a});
}
Value Builder::sum(Value a, const Shape& axes) { return axes.empty() ? a : one(Op::sum, AxesAttrs{axes}, {a}); }
Value Builder::reduce_max(Value a, const Shape& axes) {
  return axes.empty() ? a : one(Op::reduce_max, AxesAttrs{axes}, {a});
}
Value Builder::matmul(Value a, Value b, bool trans_a, bool trans_b) {
  return one(Op::matmul, MatmulAttrs{trans_a, trans_b, {}}, {a, b});
}

Graph definition(const Node& node, const std::vector<Type>& in) {
  Graph body;
  Builder builder(body, node);
  std::vector<Value> inputs;
  for (const Type& t : in) inputs.push_back(builder.one(Op::input, LeafAttrs{"", t}, {}));
  body.outputs = info(node.op).decompose(builder, node, inputs);
  return body;
}

namespace {
Ex with_builder_of(Ex other, Ex x) {
  FREIGHT_CHECK(x.b || other.b, "numbers alone have no type");
  return x.b ? x : Ex{other.b, other.b->constant_like(x.number, other.v)};
}
}  // namespace

Ex apply(Op op, Ex a) { return {a.b, a.b->unary(op, a.v)}; }
Ex apply(Op op, Ex a, Ex b) {
  a = with_builder_of(b, a);
  return {a.b, a.b->binary(op, a.v, with_builder_of(a, b).v)};
}
Ex operator+(Ex a, Ex b) { return apply(Op::add, a, b); }
Ex operator-(Ex a, Ex b) { return apply(Op::sub, a, b); }
Ex operator*(Ex a, Ex b) { return apply(Op::mul, a, b); }
Ex operator/(Ex a, Ex b) { return apply(Op::div, a, b); }
Ex operator-(Ex a) { return apply(Op::neg, a); }
Ex operator>(Ex a, Ex b) { return apply(Op::gt, a, b); }
Ex operator<(Ex a, Ex b) { return apply(Op::lt, a, b); }
Ex operator>=(Ex a, Ex b) { return apply(Op::ge, a, b); }
Ex operator<=(Ex a, Ex b) { return apply(Op::le, a, b); }
Ex equals(Ex a, Ex b) { return apply(Op::eq, a, b); }
Ex select(Ex condition, Ex a, Ex b) {
  a = with_builder_of(b, a);
  return {a.b, a.b->where(condition.v, a.v, with_builder_of(a, b).v)};
}

Ex sum(Ex x, const Shape& axes) { return {x.b, x.b->sum(x.v, axes)}; }
Ex mean_over(Ex x, const Shape& axes) {
  double n = 1;
  for (int64_t a : axes) n *= static_cast<double>(x.shape()[static_cast<int>(a)]);
  return sum(x, axes) * (1.0 / n);
}
Ex expand(Ex small, const Shape& shape) { return {small.b, small.b->broadcast(small.v, shape)}; }

Ex VjpContext::g(int i) const {
  const Value have = cotangents_[static_cast<size_t>(i)];
  return {&builder, have.valid() ? have : builder.constant(0, builder.type(node.out(i)))};
}

}  // namespace freight
