// Builder appends nodes to a graph with short names; Ex is a value with operators. Gradient rules and decompositions
// are written with them. All pointwise operands must have equal shapes: broadcasting is explicit.
#pragma once
#include <string>
#include <vector>

#include "freight/ir/graph.h"

namespace freight {

class Builder {
 public:
  explicit Builder(Graph& graph, std::string scope = {}, std::string where = {})
      : graph_(graph), scope_(std::move(scope)), where_(std::move(where)) {}
  // Nodes stand for `origin`, or for a part of it.
  Builder(Graph& graph, const Node& origin) : graph_(graph) { set_location(origin); }

  Graph& graph() { return graph_; }
  Type type(Value v) const { return graph_.type(v); }  // by value: nodes are added while it is in use
  Shape shape(Value v) const { return graph_.type(v).shape; }
  void set_location(const std::string& scope, const std::string& where) {
    scope_ = scope;
    where_ = where;
    function_ = nullptr;
  }
  void set_location(const Node& origin) {
    scope_ = origin.scope;
    where_ = origin.where;
    function_ = origin.called();
  }

  ValueList add(Op op, Attrs attrs, const ValueList& inputs) {
    return graph_.add(op, std::move(attrs), inputs, scope_, where_, function_);
  }
  Value one(Op op, Attrs attrs, const ValueList& inputs) { return add(op, std::move(attrs), inputs)[0]; }

  Value constant(double value, const Type& type) { return one(Op::constant, ConstantAttrs{type, value, {}}, {}); }
  Value constant_like(double value, Value v) { return constant(value, type(v)); }
  Value unary(Op op, Value a) { return one(op, NoAttrs{}, {a}); }
  Value binary(Op op, Value a, Value b) { return one(op, NoAttrs{}, {a, b}); }
  Value where(Value c, Value a, Value b) { return one(Op::where, NoAttrs{}, {c, a, b}); }
  Value cast(Value a, DType dtype);            // no node when the type is that already
  Value reshape(Value a, const Shape& shape);  // no node when the shape is that already
  Value transpose(Value a, const Shape& perm);
  Value broadcast(Value a, const Shape& shape);  // equal rank; no node when nothing expands
  // (C) -> the shape of `like` with C along `axis`.
  Value broadcast_axis(Value a, int axis, const Shape& like);
  Value slice(Value a, const Shape& start, const Shape& limit, const Shape& step);
  Value pad(Value a, const Shape& low, const Shape& high, const Shape& interior, double value);
  Value sum(Value a, const Shape& axes);  // keeps the axes with extent 1
  Value reduce_max(Value a, const Shape& axes);
  Value matmul(Value a, Value b, bool trans_a = false, bool trans_b = false);

 private:
  Graph& graph_;
  std::string scope_, where_;
  const char* function_ = nullptr;
};

// The plain definition of a composite as a graph of its own, with inputs of these types.
Graph definition(const Node& node, const std::vector<Type>& in);

// A value with arithmetic, or a number, which beside a value becomes a splat constant of its type.
struct Ex {
  Builder* b = nullptr;  // null: a number
  Value v;
  double number = 0;
  Ex() = default;
  Ex(Builder* builder, Value value) : b(builder), v(value) {}
  Ex(double value) : number(value) {}
  Type type() const { return b->type(v); }
  Shape shape() const { return b->shape(v); }
};
Ex operator+(Ex a, Ex b);
Ex operator-(Ex a, Ex b);
Ex operator*(Ex a, Ex b);
Ex operator/(Ex a, Ex b);
Ex operator-(Ex a);
Ex operator>(Ex a, Ex b);
Ex operator<(Ex a, Ex b);
Ex operator>=(Ex a, Ex b);
Ex operator<=(Ex a, Ex b);
Ex equals(Ex a, Ex b);
Ex apply(Op op, Ex a);
Ex apply(Op op, Ex a, Ex b);
Ex select(Ex condition, Ex a, Ex b);
// Sum and mean over `axes`, which stay with extent 1; expanded to `shape`.
Ex sum(Ex x, const Shape& axes);
Ex mean_over(Ex x, const Shape& axes);
Ex expand(Ex small, const Shape& shape);

}  // namespace freight
