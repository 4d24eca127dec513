// Cleans a graph without changing what it computes: folds splat constants, drops identities, merges views, turns
// transposes into flags of products and triangles, and equal nodes into one. One forward walk; rules see simplified
// operands.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "freight/ir/builder.h"
#include "freight/passes/passes.h"

namespace freight::passes {

namespace {

bool scalar_result(Op op, double a, double b, double& out) {
  switch (op) {
    case Op::neg: out = -a; return true;
    case Op::square: out = a * a; return true;
    case Op::sqrt: out = std::sqrt(a); return true;
    case Op::rsqrt: out = 1 / std::sqrt(a); return true;
    case Op::reciprocal: out = 1 / a; return true;
    case Op::exp: out = std::exp(a); return true;
    case Op::log: out = std::log(a); return true;
    case Op::add: out = a + b; return true;
    case Op::sub: out = a - b; return true;
    case Op::mul: out = a * b; return true;
    case Op::div: out = a / b; return true;
    default: return false;
  }
}

class Simplifier {
 public:
  explicit Simplifier(const Graph& graph) : r_(graph), b_(r_.dst), parts_(graph) {
    for (const Node& n : graph.nodes) {
      for (const Value v : n.inputs) parts_[v] += n.op == Op::slice ? 1 : kReadWhole;
    }
    for (const Value v : graph.results()) parts_[v] += kReadWhole;
  }

  Graph run() {
    r_.dst.nodes.reserve(r_.src.nodes.size());
    for (const Node& n : r_.src.nodes) {
      b_.set_location(n);
      const ValueList in = r_(n.inputs);
      Value now = rewrite(n, in);
      if (now.valid()) {
        r_.replace(n.out(), now);
        continue;
      }
      const ValueList out = info(n.op).transpose ? without_transposes(n, in) : add(n.op, n.attrs, in);
      for (size_t i = 0; i < out.size(); ++i) r_.replace(n.outputs[i], out[i]);
    }
    return r_.finish();
  }

 private:
  const Type& type(Value v) const { return r_.dst.type(v); }
  const Shape& shape(Value v) const { return type(v).shape; }

  // Adds a node unless an equal one exists. Leaves with a name are never merged, nor sums over ranks, each of which is
  // made in the memory of the state that it becomes.
  ValueList add(Op op, const Attrs& a, const ValueList& in) {
    if (op == Op::input || op == Op::state || op == Op::all_reduce) return b_.add(op, a, in);
    uint64_t key = hash_combine(static_cast<uint64_t>(op), hash(a));
    for (Value v : in) key = hash_combine(key, static_cast<uint64_t>(v.id));
    auto& bucket = seen_[key];
    for (const NodeId id : bucket) {
      const Node& n = r_.dst.node(id);
      if (n.op == op && n.inputs == in && equal(n.attrs, a)) return n.outputs;
    }
    ValueList made = b_.add(op, a, in);
    bucket.push_back(r_.dst.node_of(made[0]));
    return made;
  }
  Value one(Op op, const Attrs& a, const ValueList& in) { return add(op, a, in)[0]; }
  Value splat(double value, const Type& t) { return one(Op::constant, ConstantAttrs{t, value, {}}, {}); }

  // The replacement of a node's single result, or an invalid Value.
  Value rewrite(const Node& n, const ValueList& in) {
    if (n.outputs.size() != 1 || in.empty()) return {};
    const Type result = r_.src.type(n.out());
    double a = 0, b = 0;
    const bool sa = splat_value(r_.dst, in[0], a);
    const bool sb = in.size() > 1 && splat_value(r_.dst, in[1], b);
    const bool floating = is_floating(result.dtype);
    double folded;
    if (floating && sa && (in.size() == 1 || (in.size() == 2 && sb)) && scalar_result(n.op, a, b, folded))
      return splat(folded, result);
    if (info(n.op).kind == OpKind::view) return view(n, in[0], sa, a, result);
    switch (n.op) {
      case Op::stop_gradient:
      case Op::copy: return in[0];
      case Op::cast:
        if (type(in[0]).dtype == result.dtype) return in[0];
        return sa && floating && is_floating(type(in[0]).dtype) ? splat(a, result) : Value{};
      case Op::add: return sb && b == 0 ? in[0] : sa && a == 0 ? in[1] : join_pad(in[0], in[1]);
      case Op::sub: return sb && b == 0 ? in[0] : Value{};
      case Op::mul: return sb && b == 1 ? in[0] : sa && a == 1 ? in[1] : Value{};
      case Op::div: return sb && b == 1 ? in[0] : Value{};
      case Op::where: return in[1] == in[2] ? in[1] : clipped(in);
      case Op::neg: {
        const Node& d = r_.dst.def(in[0]);
        return d.op == Op::neg ? d.in(0) : Value{};
      }
      case Op::pad: return result.shape == shape(in[0]) ? in[0] : Value{};
      case Op::concat: return in.size() == 1 ? in[0] : Value{};
      case Op::sum:
        if (result.shape == shape(in[0])) return in[0];
        if (sa && floating) {
          return splat(
              a * static_cast<double>(shape(in[0]).numel()) / static_cast<double>(std::max<int64_t>(1, result.numel())),
              result);
        }
        return {};
      case Op::reduce_max:
      case Op::reduce_min: return result.shape == shape(in[0]) ? in[0] : Value{};
      default: return {};
    }
  }

  // where(x >= c, c, x) is minimum(x, c), and where(x <= c, c, x) maximum(x, c): both are NaN where x is. The zeros are
  // equal to one another, so that 0 as c would leave the sign open.
  Value clipped(const ValueList& in) {
    const Node& test = r_.dst.def(in[0]);
    const bool above = test.op == Op::ge || test.op == Op::gt, below = test.op == Op::le || test.op == Op::lt;
    double bound = 0, c = 0;
    if ((!above && !below) || test.in(0) != in[2] || !is_floating(type(in[2]).dtype)) return {};
    if (!splat_value(r_.dst, test.in(1), bound) || !splat_value(r_.dst, in[1], c) || c != bound || c == 0) return {};
    return one(above ? Op::minimum : Op::maximum, NoAttrs{}, {in[2], in[1]});
  }

  Value view(const Node& n, Value x, bool is_splat, double value, const Type& result) {
    if (is_splat) return splat(value, result);
    const Node d = r_.dst.def(x);  // a copy: nodes are added below
    // Before a widening: regions widen what they read, so that no wide whole is stored for a view's sake. A broadcast
    // would widen more than there is; a transpose may become a flag.
    const bool moves = (n.op == Op::slice || n.op == Op::reshape) && shape(x) != result.shape;
    if (moves && d.op == Op::cast && result.dtype == DType::f32 && wide(type(d.in(0)).dtype) != type(d.in(0)).dtype) {
      const Type narrow{type(d.in(0)).dtype, result.shape};
      const Value part = n.op == Op::reshape ? view(n, d.in(0), false, 0, narrow) : one(n.op, n.attrs, {d.in(0)});
      return one(Op::cast, d.attrs, {part});
    }
    if (n.op == Op::reshape || n.op == Op::broadcast) {
      if (d.op == n.op) x = d.in(0);
      return shape(x) == result.shape ? x : one(n.op, ShapeAttrs{result.shape}, {x});
    }
    if (n.op == Op::transpose) {
      Shape perm = attrs<PermAttrs>(n).perm;
      if (d.op == Op::transpose) {
        const Shape& inner = attrs<PermAttrs>(d).perm;
        for (int i = 0; i < perm.rank(); ++i) perm[i] = inner[static_cast<int>(perm[i])];
        x = d.in(0);
      }
      bool identity = true;
      for (int i = 0; i < perm.rank(); ++i) identity = identity && perm[i] == i;
      return identity ? x : one(Op::transpose, PermAttrs{perm}, {x});
    }
    if (shape(x) == result.shape) return x;
    // A few parts of a sum that nobody reads whole are sums of parts, which ride on their readers (the gates of an
    // LSTM). A bias rides on its product already.
    if (n.op != Op::slice || d.op != Op::add || parts_[n.in(0)] > kFewParts) return {};
    const ValueList terms = d.inputs;  // a copy: nodes are added below
    for (const Value t : terms) {
      if (r_.dst.def(t).op == Op::broadcast || shape(t) != shape(x)) return {};
    }
    return one(Op::add, {}, {one(Op::slice, n.attrs, {terms[0]}), one(Op::slice, n.attrs, {terms[1]})});
  }

  // x + y, each a part with zeros around it and neighbors along one axis, are one concat: the gradient of many slices
  // of a tensor costs one pass instead of one per slice.
  Value join_pads(Value x, Value y) {
    const Node p = r_.dst.def(x), q = r_.dst.def(y);  // copies: nodes are added below
    if (p.op != Op::pad || q.op != Op::pad) return {};
    const auto &a = attrs<PadAttrs>(p), &c = attrs<PadAttrs>(q);
    const Shape none = Shape::filled(a.low.rank(), 0);
    if (a.value != 0 || c.value != 0 || a.interior != none || c.interior != none) return {};
    int axis = 0;
    while (axis < none.rank() && a.low[axis] == c.low[axis]) ++axis;
    if (axis == none.rank()) return {};
    if (a.low[axis] > c.low[axis]) return join_pads(y, x);
    PadAttrs around = a;
    around.high[axis] = c.high[axis];
    const bool rest_alike =
        c.low[axis] == a.low[axis] + shape(p.in(0))[axis] && a.high[axis] == c.high[axis] + shape(q.in(0))[axis];
    Shape low = c.low;
    low[axis] = a.low[axis];
    if (!rest_alike || low != a.low || around.high != c.high) return {};
    std::vector<Value> parts;
    for (Value v : {p.in(0), q.in(0)}) {
      const Node& d = r_.dst.def(v);
      if (d.op == Op::concat && attrs<AxisAttrs>(d).axis == axis) {
        parts.insert(parts.end(), d.inputs.begin(), d.inputs.end());
      } else {
        parts.push_back(v);
      }
    }
    const Value joined = one(Op::concat, AxisAttrs{axis}, parts);
    return around.low == none && around.high == none ? joined : one(Op::pad, around, {joined});
  }

  // sum + pad, either way round, joining the pad with what it neighbors anywhere in the sum: zeros make no difference
  // to the order. Slices need not have been taken in the order in which they lie. `depth` bounds the search.
  Value join_pad(Value sum, Value pad, int depth = 8) {
    if (const Value joined = join_pads(sum, pad); joined.valid()) return joined;
    if (r_.dst.def(pad).op != Op::pad) std::swap(sum, pad);
    const Node s = r_.dst.def(sum);
    if (depth == 0 || s.op != Op::add || r_.dst.def(pad).op != Op::pad) return {};
    for (const int side : {0, 1}) {
      const Value joined = join_pad(s.in(side), pad, depth - 1), other = s.in(1 - side);
      if (!joined.valid()) continue;
      const Value whole = join_pad(other, joined, depth - 1);
      return whole.valid() ? whole : one(Op::add, {}, {joined, other});
    }
    return {};
  }

  // The value of which this one is the transpose in its last two axes; invalid where it is none.
  Value untransposed(Value v) const {
    const Node& d = r_.dst.def(v);
    if (d.op != Op::transpose) return {};
    const Shape& perm = attrs<PermAttrs>(d).perm;
    const int rank = perm.rank();
    if (rank < 2 || perm[rank - 1] != rank - 2 || perm[rank - 2] != rank - 1) return {};
    for (int i = 0; i < rank - 2; ++i) {
      if (perm[i] != i) return {};
    }
    return d.in(0);
  }

  // A transposed operand becomes a flag.
  ValueList without_transposes(const Node& n, ValueList in) {
    Attrs a = n.attrs;
    for (size_t k = 0; k < in.size(); ++k) {
      const Value before = untransposed(in[k]);
      if (before.valid() && info(n.op).transpose(a, k)) in[k] = before;
    }
    return add(n.op, a, in);
  }

  Rewriter r_;
  Builder b_;
  static constexpr int64_t kFewParts = 8, kReadWhole = kFewParts + 1;
  ByValue<int64_t> parts_;  // of a value of the source: how many are read
  std::unordered_map<uint64_t, std::vector<NodeId>> seen_;
};

}  // namespace

Graph simplify(Graph graph) {
  const Graph live = dead_code(std::move(graph));
  return dead_code(Simplifier(live).run());
}

}  // namespace freight::passes
