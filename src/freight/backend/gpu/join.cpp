// Second results of products, for drivers whose library has them (Backend::join): a matmul or convolution and what is
// small beside it become one fused node whose body begins with the product. What fuse() has made of the regions is
// known here, so that nothing is taken from a region that does more. A convolution's are the moments of its channels;
// where it, and the gradient of its filter, read relu(x scale + shift) of channels and nobody else does, they make it
// of x themselves, and it is not stored. Of matmuls there are two forms, both of the backward half of dense layers:
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

namespace freight::gpu {

namespace {

// A fused node where `product` stands, not yet in a graph; operands and results are those of the graph that is read.
Node joint_of(std::shared_ptr<const Graph> body, const Node& product, std::vector<Value> in, std::vector<Value> out) {
  return {Op::fused, FusedAttrs{std::move(body)}, std::move(in), std::move(out), product.scope, product.where};
}

// A convolution or gradient of a filter and the moments of its result; `norm`: x, scale and shift of the normalised
// channels that it reads, or empty.
Node joint_with(const Graph& graph, const Node& product, const std::vector<Value>& norm, const Node* moments) {
  auto body = std::make_shared<Graph>();
  Builder b(*body);
  std::vector<Value> in, from = product.inputs, out = product.outputs;
  for (Value v : from) in.push_back(b.one(Op::input, LeafAttrs{"", graph.type(v)}, {}));
  Value read = in[0];
  if (!norm.empty()) {  // cuDNN wants them in 16 bits, too
    for (size_t i = 1; i < 3; ++i) {
      in.push_back(b.one(Op::input, LeafAttrs{"", {b.type(read).dtype, graph.type(norm[i]).shape}}, {}));
    }
    read = normed_channels(b, read, in[2], in[3]);
    from = {norm[0], from[1], norm[1], norm[2]};
  }
  body->outputs = b.add(product.op, product.attrs, {read, in[1]});
  if (moments) {
    for (Value v : b.add(Op::moments, NoAttrs{}, body->outputs)) body->outputs.push_back(v);
    out.insert(out.end(), moments->outputs.begin(), moments->outputs.end());
  }
  return joint_of(body, product, from, out);
}

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
      if (nodes[i].op == Op::moments) find_moments(i);
    }
    for (size_t i = 0; i < nodes.size() && !joints_.empty(); ++i) {
      if (nodes[i].op == Op::fused) find_normed(i);
    }
    if (joints_.empty()) return r_.src;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto it = joints_.find(i);
      if (it != joints_.end()) {
        emit(it->second);
      } else if (const auto less = unstored_.find(i); less != unstored_.end()) {
        emit_without(nodes[i], less->second);
      } else if (std::any_of(nodes[i].outputs.begin(), nodes[i].outputs.end(),
                             [&](Value v) { return !r_.mapped(v); })) {
        r_.copy(nodes[i]);
      }
    }
    return r_.finish();
  }

 private:
  const Shape& shape(Value v) const { return r_.src.type(v).shape; }
  static Shape rows_of(const Shape& s) { return {s.numel() / std::max<int64_t>(s.back(), 1), s.back()}; }
  // The node that makes v, views aside; and if it is a matmul of two matrices without an epilogue.
  size_t maker(Value v) const { return static_cast<size_t>(r_.src.values[root_[v.index()].index()].node); }
  std::optional<size_t> product(Value v) const {
    const Node& n = r_.src.nodes[maker(v)];
    if (n.op != Op::matmul || n.inputs.size() != 2 || shape(n.out()).rank() != 2) return std::nullopt;
    if (attrs<MatmulAttrs>(n).epilogue.relu) return std::nullopt;
    return maker(v);
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
    const bool sums = body.nodes.size() == 2 && last.op == Op::sum && sums_rows(body, last);
    sums ? find_weight_gradient(i) : find_mask(i, body);
  }

  // fused(y, p): where(y > 0, p, 0), perhaps with its sums.
  void find_mask(size_t i, const Graph& body) {
    const Node& n = r_.src.nodes[i];
    const Node *masked = nullptr, *sums = nullptr;
    for (Value v : body.outputs) (body.def(v).op == Op::sum ? sums : masked) = &body.def(v);
    const std::vector<Value> leaves = body.leaves(Op::input);
    if (!masked || masked->op != Op::where || leaves.size() != 2 || body.outputs.size() != (sums ? 2 : 1)) return;
    if (sums && (sums->in(0) != masked->out() || !sums_rows(body, *sums))) return;
    const Node& mask = body.def(masked->in(0));
    const Value p = masked->in(1), zero = masked->in(2);
    double number = 1;
    if (mask.op != Op::gt || mask.in(1) != zero || !splat_value(body, zero, number) || number != 0) return;
    const Value y = mask.in(0);
    if (y == p || body.def(y).op != Op::input || body.def(p).op != Op::input) return;
    const auto outer = [&](Value leaf) { return n.in(leaf == leaves[0] ? 0 : 1); };
    const Value of_product = outer(p);
    const std::optional<size_t> at = product(of_product);
    // Nobody else reads the product, nor the view between.
    if (!at || shape(of_product).numel() == 0 || rows_of(shape(of_product)) != shape(r_.src.nodes[*at].out())) return;
    for (Value v = of_product;; v = r_.src.def(v).in(0)) {
      if (uses_[v.index()] != 1) return;
      if (v == root_[of_product.index()]) break;
    }
    std::vector<Value> results = n.outputs;
    if (body.outputs[0] != masked->out()) std::swap(results[0], results[1]);
    propose(*at, i, -1, outer(y), results);
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
        const bool ready = std::all_of(m.inputs.begin(), m.inputs.end(), [&](Value v) { return maker(v) < place; });
        if (ready && propose(k, place, side, {}, {m.out(), n.out()})) return;
      }
    }
  }

  // Makes the body of a matmul; `summed`: the operand whose rows are added, -1: the result's; `masked_by`: y, or
  // invalid; `results`: what the body's, product and sums, replace.
  bool propose(size_t product_at, size_t place, int summed, Value masked_by, const std::vector<Value>& results) {
    const Node& m = r_.src.nodes[product_at];
    auto body = std::make_shared<Graph>();
    Builder b(*body);
    const auto input = [&](const Type& t) { return b.one(Op::input, LeafAttrs{"", t}, {}); };
    const Value x = input(r_.src.type(m.in(0))), w = input(r_.src.type(m.in(1)));
    Value p = b.one(Op::matmul, m.attrs, {x, w});
    std::vector<Value> in = m.inputs;
    if (masked_by.valid()) {
      const Value y = input({r_.src.type(masked_by).dtype, rows_of(shape(masked_by))});
      p = b.where(b.binary(Op::gt, y, b.constant_like(0, y)), p, b.constant_like(0, p));
      in.push_back(masked_by);
    }
    body->outputs = {p};
    if (results.size() > 1) body->outputs.push_back(b.sum(summed < 0 ? p : summed == 0 ? x : w, {0}));
    const Node joint = joint_of(body, m, in, results);
    if (!takes_(joint)) return false;
    joined_[product_at] = true;
    joints_.emplace(place, joint);
    return true;
  }

  // At the convolution's place. Moments that are computed twice (remat) are the same.
  void find_moments(size_t i) {
    const std::optional<Node> joint = joint_with_moments(r_.src, r_.src.nodes[i]);
    if (!joint || !takes_(*joint)) return;
    const auto place = static_cast<size_t>(r_.src.values[joint->out().index()].node);
    std::vector<Value>& out = joints_.emplace(place, *joint).first->second.outputs;
    if (out.back() != joint->outputs.back()) out.insert(out.end(), joint->outputs.begin() + 1, joint->outputs.end());
  }

  // A region's result relu(x scale + shift), where all that read it are convolutions and gradients of filters.
  void find_normed(size_t i) {
    const Node& n = r_.src.nodes[i];
    const Graph& body = *attrs<FusedAttrs>(n).body;
    const std::vector<Value> leaves = body.leaves(Op::input);
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      std::vector<Value> norm = parts_of_normed(body, body.outputs[k]);
      if (norm.empty() || !(body.type(norm[0]) == body.type(body.outputs[k]))) continue;
      for (Value& v : norm) v = n.in(static_cast<int>(std::find(leaves.begin(), leaves.end(), v) - leaves.begin()));
      std::map<size_t, Node> all;
      for (size_t at = i + 1; at < r_.src.nodes.size(); ++at) {
        const Node& reader = r_.src.nodes[at];
        if (std::find(reader.inputs.begin(), reader.inputs.end(), n.outputs[k]) == reader.inputs.end()) continue;
        const auto joined = joints_.find(at);
        const Node* moments = joined == joints_.end() ? nullptr : &r_.src.def(joined->second.out(1));
        if ((reader.op != Op::conv_grad_weight && !moments) || reader.in(0) != n.outputs[k]) break;
        Node joint = joint_with(r_.src, reader, norm, moments);
        if (!takes_(joint)) break;
        if (moments) joint.outputs = joined->second.outputs;
        all.emplace(at, std::move(joint));
      }
      if (all.empty() || static_cast<int>(all.size()) != uses_[n.outputs[k].index()]) continue;
      for (auto& [at, joint] : all) joints_.insert_or_assign(at, std::move(joint));
      unstored_.emplace(i, k);
      return;
    }
  }

  // The leaves x, scale, shift of what normed_channels() makes of them; empty: v is something else.
  static std::vector<Value> parts_of_normed(const Graph& body, Value v) {
    for (const Op op : {Op::relu, Op::cast, Op::add}) {
      if (body.def(v).op != op) return {};
      if (op != Op::add) v = body.def(v).in(0);
    }
    const Node &sum = body.def(v), &product = body.def(sum.in(0));
    if (product.op != Op::mul) return {};
    std::vector<Value> parts;
    for (Value spread : {product.in(0), product.in(1), sum.in(1)}) {
      if (body.def(spread).op != (parts.empty() ? Op::cast : Op::broadcast)) return {};
      const Value leaf = body.def(spread).in(0);
      const Shape &from = body.type(leaf).shape, &to = body.type(v).shape;
      const bool fits = parts.empty() ? from == to : from.numel() == to[1] && from[1] == to[1];
      if (body.def(leaf).op != Op::input || to.rank() < 3 || !fits) return {};
      parts.push_back(leaf);
    }
    return parts;
  }

  void emit_without(const Node& n, size_t dropped) {
    if (n.outputs.size() == 1) return;
    auto body = std::make_shared<Graph>(*attrs<FusedAttrs>(n).body);
    body->outputs.erase(body->outputs.begin() + static_cast<std::ptrdiff_t>(dropped));
    b_.set_location(n.scope, n.where);
    const std::vector<Value> out = b_.add(Op::fused, FusedAttrs{body}, r_(n.inputs));
    for (size_t k = 0; k < out.size(); ++k) r_.replace(n.outputs[k < dropped ? k : k + 1], out[k]);
  }

  void emit(const Node& joint) {
    b_.set_location(joint.scope, joint.where);
    std::vector<Value> in;
    const Graph& body = *attrs<FusedAttrs>(joint).body;
    const std::vector<Value> leaves = body.leaves(Op::input);
    const bool normed = joint.inputs.size() == 4;
    for (size_t i = 0; i < joint.inputs.size() - (normed ? 2 : 0); ++i) {
      // A view may come later in the old graph than the joint does.
      in.push_back(b_.reshape(r_(root_[joint.inputs[i].index()]), body.type(leaves[i]).shape));
    }
    if (normed) {  // by one step for all that read these channels
      std::vector<Value>& narrow = narrow_[{joint.in(2).id, joint.in(3).id}];
      if (narrow.empty()) {
        auto casts = std::make_shared<Graph>();
        Builder b(*casts);
        for (size_t i = 2; i < 4; ++i) {  // no more than f16 holds: infinities would make NaN of all that follows
          const Ex given{&b, b.one(Op::input, LeafAttrs{"", {DType::f32, body.type(leaves[i]).shape}}, {})};
          const Ex held = apply(Op::maximum, apply(Op::minimum, given, 65504.0), -65504.0);
          casts->outputs.push_back(b.cast(held.v, body.type(leaves[i]).dtype));
        }
        narrow = b_.add(Op::fused, FusedAttrs{casts}, {r_(joint.in(2)), r_(joint.in(3))});
      }
      in.insert(in.end(), narrow.begin(), narrow.end());
    }
    const std::vector<Value> out = b_.add(Op::fused, joint.attrs, in);
    for (size_t k = 0; k < joint.outputs.size(); ++k) {  // the product, then again and again its moments, or sums
      const Value v = joint.outputs[k];
      r_.replace(v, b_.reshape(out[k == 0 ? 0 : (k - 1) % 2 + 1], shape(v)));
    }
  }

  Rewriter r_;
  Builder b_;
  const TakesJoint& takes_;
  std::vector<int> uses_;
  std::vector<Value> root_;            // by value: what it is a reshape of
  std::map<size_t, Node> joints_;      // by the node at whose place it stands
  std::map<size_t, bool> joined_;      // matmuls
  std::map<size_t, size_t> unstored_;  // by region: the result that its readers make themselves
  std::map<std::pair<int32_t, int32_t>, std::vector<Value>> narrow_;  // scale and shift in 16 bits
};

}  // namespace

std::optional<Node> joint_with_moments(const Graph& graph, const Node& moments) {
  const Node& x = graph.def(moments.in(0));
  const Node& conv = x.op == Op::cast ? graph.def(x.in(0)) : x;  // of a normalisation in f32
  if (conv.op != Op::conv || conv.inputs.size() != 2 || attrs<ConvAttrs>(conv).epilogue.relu) return std::nullopt;
  const DType dtype = graph.type(conv.out()).dtype;
  if (wide(dtype) == dtype || wide(dtype) != graph.type(moments.out()).dtype) return std::nullopt;
  return joint_with(graph, conv, {}, &moments);
}

Graph join(const Graph& graph, const TakesJoint& takes) { return Join(graph, takes).run(); }

}  // namespace freight::gpu
