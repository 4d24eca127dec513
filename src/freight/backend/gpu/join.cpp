// Second results of matmuls, for drivers whose library has them (Backend::join): a matmul and the small region beside
// it become one fused node whose body begins with the matmul. What fuse() has made of the regions is known here, so
// that nothing is taken from a region that does more. Two forms, both of the backward half of dense layers:
//
//   d = where(y > 0, A B, 0) and, where somebody wants them, the sums of d over its rows: the gradients of a ReLU's
//       operand and of the bias behind it;
//   A B and the sums over the rows of A' or B: the gradients of a weight and of the bias beside it.
//
// Bodies are matrices: leading axes of the region (samples, time) are rows. Inputs of a body: A, B, then y.
#include <algorithm>
#include <map>
#include <optional>

#include "freight/backend/gpu/joint.h"
#include "freight/ir/builder.h"

namespace freight::gpu {

namespace {

class Join {
 public:
  Join(const Graph& graph, const TakesJoint& takes)
      : r_(graph), b_(r_.dst), takes_(takes), uses_(graph.use_counts()), root_(graph.values.size()) {
    for (const Node& n : graph.nodes) {
      for (Value v : n.outputs) root_[v.index()] = n.op == Op::reshape ? root_[n.in(0).index()] : v;
    }
  }

  Graph run() {
    const std::vector<Node>& nodes = r_.src.nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].op == Op::fused) find(i);
    }
    if (joints_.empty()) return r_.src;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto it = joints_.find(i);
      if (it != joints_.end()) {
        emit(it->second);
      } else if (std::any_of(nodes[i].outputs.begin(), nodes[i].outputs.end(),
                             [&](Value v) { return !r_.mapped(v); })) {
        r_.copy(nodes[i]);
      }
    }
    return r_.finish();
  }

 private:
  struct Joint {
    size_t product = 0, region = 0;  // nodes
    std::shared_ptr<const Graph> body;
    Value y;             // what the mask reads; invalid: there is none
    Value result, sums;  // what the body's results replace; sums may be invalid
  };

  const Shape& shape(Value v) const { return r_.src.type(v).shape; }
  static Shape rows_of(const Shape& s) { return {s.numel() / std::max<int64_t>(s.back(), 1), s.back()}; }
  // The node that makes v, views aside, if it is a matmul of two matrices without an epilogue.
  std::optional<size_t> product(Value v) const {
    const auto at = static_cast<size_t>(r_.src.values[root_[v.index()].index()].node);
    const Node& n = r_.src.nodes[at];
    if (n.op != Op::matmul || n.inputs.size() != 2 || shape(n.out()).rank() != 2) return std::nullopt;
    if (attrs<MatmulAttrs>(n).epilogue.relu) return std::nullopt;
    return at;
  }
  // Sums over all axes but the last.
  static bool sums_rows(const Graph& body, const Node& n) {
    const int rank = body.type(n.in(0)).shape.rank();
    const Shape& axes = attrs<AxesAttrs>(n).axes;
    return axes.rank() == rank - 1 && (axes.rank() == 0 || axes.back() == rank - 2);
  }

  void find(size_t i) {
    const Node& n = r_.src.nodes[i];
    const Graph& body = *attrs<FusedAttrs>(n).body;
    const Node& last = body.nodes.back();
    if (body.nodes.size() == 2 && last.op == Op::sum && sums_rows(body, last)) {
      find_weight_gradient(i);
    } else {
      find_mask(i, body);
    }
  }

  // fused(y, p): constant 0, y > 0, where(y > 0, p, 0), perhaps its sums.
  void find_mask(size_t i, const Graph& body) {
    const Node& n = r_.src.nodes[i];
    Value zero, mask, masked, sums, y, p;
    double number = 1;
    for (const Node& k : body.nodes) {
      if (k.op == Op::constant && splat_value(body, k.out(), number) && number == 0 && !zero.valid()) {
        zero = k.out();
      } else if (k.op == Op::gt && !mask.valid() && k.in(1) == zero) {
        y = k.in(0), mask = k.out();
      } else if (k.op == Op::where && mask.valid() && !masked.valid() && k.in(0) == mask && k.in(2) == zero) {
        p = k.in(1), masked = k.out();
      } else if (k.op == Op::sum && masked.valid() && !sums.valid() && k.in(0) == masked && sums_rows(body, k)) {
        sums = k.out();
      } else if (k.op != Op::input) {
        return;
      }
    }
    const std::vector<Value> leaves = body.leaves(Op::input);
    if (!masked.valid() || leaves.size() != 2 || y == p || body.outputs.size() != (sums.valid() ? 2 : 1)) return;
    const auto outer = [&](Value leaf) { return n.in(leaf == leaves[0] ? 0 : 1); };
    if (body.def(y).op != Op::input || body.def(p).op != Op::input) return;
    const Value of_product = outer(p);
    const std::optional<size_t> at = product(of_product);
    // Nobody else reads the product, nor the view between.
    if (!at || shape(of_product).numel() == 0 || rows_of(shape(of_product)) != shape(r_.src.nodes[*at].out())) return;
    for (Value v = of_product;; v = r_.src.def(v).in(0)) {
      if (uses_[v.index()] != 1) return;
      if (v == root_[of_product.index()]) break;
    }
    Joint j{*at, i, nullptr, outer(y), n.out(body.outputs[0] == masked ? 0 : 1), {}};
    if (sums.valid()) j.sums = n.out(body.outputs[0] == sums ? 0 : 1);
    if (j.result == j.sums) return;
    propose(j, i, -1);
  }

  // A sum that stands alone, of what a matmul sums over, too. Its place is the earlier one of the two, where everything
  // that the matmul reads must be there.
  void find_weight_gradient(size_t i) {
    const Node& n = r_.src.nodes[i];
    const Value x = root_[n.in(0).index()];
    for (size_t k = 0; k < r_.src.nodes.size(); ++k) {
      const Node& m = r_.src.nodes[k];
      if (m.op != Op::matmul || !product(m.out()) || joined_[k]) continue;
      const auto& a = attrs<MatmulAttrs>(m);
      for (int side = 0; side < 2; ++side) {
        const Value operand = m.in(side);
        if (root_[operand.index()] != x || (side == 0 ? !a.trans_a : a.trans_b) ||
            rows_of(shape(n.in(0))) != shape(operand))
          continue;
        const size_t place = std::min(i, k);
        const bool ready = std::all_of(m.inputs.begin(), m.inputs.end(), [&](Value v) {
          return static_cast<size_t>(r_.src.values[root_[v.index()].index()].node) < place;
        });
        if (ready && propose({k, i, nullptr, {}, m.out(), n.out()}, place, side)) return;
      }
    }
  }

  // Makes the body; `summed`: the operand whose rows are added, -1: the result's.
  bool propose(Joint j, size_t place, int summed) {
    const Node& m = r_.src.nodes[j.product];
    auto body = std::make_shared<Graph>();
    Builder b(*body);
    const auto input = [&](const Type& t) { return b.one(Op::input, LeafAttrs{"", t}, {}); };
    const Value x = input(r_.src.type(m.in(0))), w = input(r_.src.type(m.in(1)));
    Value p = b.one(Op::matmul, m.attrs, {x, w});
    if (j.y.valid()) {
      const Value y = input({r_.src.type(j.y).dtype, rows_of(shape(j.y))});
      p = b.where(b.binary(Op::gt, y, b.constant_like(0, y)), p, b.constant_like(0, p));
    }
    body->outputs = {p};
    if (j.sums.valid()) body->outputs.push_back(b.sum(summed < 0 ? p : summed == 0 ? x : w, {0}));
    if (!takes_(*body)) return false;
    j.body = body;
    joined_[j.product] = true;
    joints_.emplace(place, j);
    return true;
  }

  // What a body's operand is in the new graph: a view may come later in the old one than the joint does.
  Value operand(Value v, const Shape& as) { return b_.reshape(r_(root_[v.index()]), as); }

  void emit(const Joint& j) {
    const Node &m = r_.src.nodes[j.product], &n = r_.src.nodes[j.region];
    b_.set_location(m.scope, m.where);
    std::vector<Value> in = {operand(m.in(0), shape(m.in(0))), operand(m.in(1), shape(m.in(1)))};
    if (j.y.valid()) in.push_back(operand(j.y, rows_of(shape(j.y))));
    const std::vector<Value> out = b_.add(Op::fused, FusedAttrs{j.body}, in);
    r_.replace(j.result, b_.reshape(out[0], shape(j.result)));
    b_.set_location(n.scope, n.where);
    if (j.sums.valid()) r_.replace(j.sums, b_.reshape(out[1], shape(j.sums)));
  }

  Rewriter r_;
  Builder b_;
  const TakesJoint& takes_;
  std::vector<int> uses_;
  std::vector<Value> root_;         // by value: what it is a reshape of
  std::map<size_t, Joint> joints_;  // by the node at whose place it stands
  std::map<size_t, bool> joined_;   // matmuls
};

}  // namespace

Graph join(const Graph& graph, const TakesJoint& takes) { return Join(graph, takes).run(); }

}  // namespace freight::gpu
