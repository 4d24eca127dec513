// Finds the patterns in a graph whose regions fuse() has made already: a region that does more than mask or sum up is
// not taken apart for one. Matmuls have two forms, both of the backward half of dense layers:
//
//   matmul_mask, matmul_mask_sum: d = where(y > 0, A B, 0) and, where somebody wants them, the sums of d over its rows:
//       the gradients of a ReLU's operand and of the bias behind it. Found at the region that masks;
//   matmul_lhs_sum, matmul_rhs_sum: A B and the sums over the rows of A or B: the gradients of a weight and of the bias
//       beside it. Found at the region that sums.
//
// Bodies are of matrices alone: where the region has further leading axes (samples, time), reshapes make rows of them.
//
// A convolution whose channels' moments are asked for makes them in its step (conv_moments). In a second round: where
// all that read a region's result relu(x scale + shift) are such convolutions and gradients of filters, they make it of
// x themselves, and it is not stored (norm_conv_moments, norm_conv_grad_weight).
//
// Fused nodes are collected first, each by the number of the old node in whose place it will stand (`found_`); then the
// graph is written anew.
#include "freight/backend/gpu/fused_patterns.h"

#include <algorithm>
#include <map>
#include <set>

namespace freight::gpu {

namespace {

// A fused node around `product` that is in no graph yet; operands and results are those of the graph that is read.
Node fused_node(FusedKind kind, const Node& product, const std::vector<Type>& operands, ValueList in, ValueList out) {
  FusedAttrs attrs{pattern_body(kind, product.attrs, operands), kind};
  return {Op::fused, std::move(attrs), std::move(in), std::move(out), product.scope, product.where, product.function};
}

std::vector<Value> with(std::vector<Value> a, const std::vector<Value>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// x, scale and shift of relu(x scale + shift).
struct Norm {
  Value x, scale, shift;
};

// The fused node of a convolution, or of the gradient of a filter, that reads the result of `norm` and now makes it
// itself; `moments` are those of the convolution's result, null for a gradient.
Node norm_conv(const Graph& graph, const Node& product, const Norm& norm, const Node* moments) {
  const auto narrow = [&](Value v) {  // cuDNN wants scale and shift in the type of x, too
    return Type{graph.type(norm.x).dtype, graph.type(v).shape};
  };
  return fused_node(moments ? FusedKind::norm_conv_moments : FusedKind::norm_conv_grad_weight, product,
                    {graph.type(norm.x), graph.type(product.in(1)), narrow(norm.scale), narrow(norm.shift)},
                    {norm.x, product.in(1), norm.scale, norm.shift},
                    moments ? ValueList(with(product.outputs, moments->outputs)) : product.outputs);
}

class PatternFinder {
 public:
  PatternFinder(const Graph& graph, const TakesPattern& takes)
      : r_(graph), b_(r_.dst), takes_(takes), uses_(graph.use_counts()), root_(graph.values.size()) {
    for (const Node& n : graph.nodes) {
      for (Value v : n.outputs) root_[v.index()] = n.op == Op::reshape ? root_[n.in(0).index()] : v;
    }
  }

  Graph run() {
    const std::vector<Node>& nodes = r_.src.nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].op == Op::fused) find_matmul(i);
      if (nodes[i].op == Op::moments) find_moments(i);
    }
    for (size_t i = 0; i < nodes.size() && !found_.empty(); ++i) {
      if (nodes[i].op == Op::fused) find_norm(i);
    }
    if (found_.empty()) return r_.src;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto it = found_.find(i);
      if (it != found_.end()) {
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
  struct Found {
    Node fused;                             // not yet in a graph
    std::vector<const Node*> moments = {};  // nodes of the old graph that its mean and variance replace
  };

  const Shape& shape(Value v) const { return r_.src.type(v).shape; }
  static Shape rows_of(const Shape& s) { return {s.numel() / std::max<int64_t>(s.back(), 1), s.back()}; }
  // The number of the node that makes v, or of the one behind its reshapes.
  size_t maker(Value v) const { return r_.src.node_of(root_[v.index()]).index(); }
  // The same number where that node is a matmul of two matrices without an epilogue.
  std::optional<size_t> plain_matmul(Value v) const {
    const Node& n = r_.src.nodes[maker(v)];
    if (n.op != Op::matmul || n.inputs.size() != 2 || shape(n.out()).rank() != 2) return std::nullopt;
    if (attrs<MatmulAttrs>(n).epilogue.relu) return std::nullopt;
    return maker(v);
  }
  // Tells whether n sums over all axes but the last.
  static bool sums_rows(const Graph& body, const Node& n) {
    const int rank = body.type(n.in(0)).shape.rank();
    const Shape& axes = attrs<AxesAttrs>(n).axes;
    return axes.rank() == rank - 1 && (axes.rank() == 0 || axes.back() == rank - 2);
  }

  // Looks for a matmul whose step region i can be part of.
  void find_matmul(size_t i) {
    const Node& n = r_.src.nodes[i];
    const Graph& body = *attrs<FusedAttrs>(n).body;
    const Node& last = body.nodes.back();
    const bool sums = body.nodes.size() == 2 && last.op == Op::sum && sums_rows(body, last);
    if (sums) {
      find_weight_gradient(i);
    } else {
      find_mask(i, body);
    }
  }

  // Finds the product p that region i masks: its body is where(y > 0, p, 0), perhaps with the sums of that.
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
    const std::optional<size_t> at = plain_matmul(of_product);
    // Nobody else reads the product, nor the view between.
    if (!at || taken_.count(*at) > 0 || shape(of_product).numel() == 0 ||
        rows_of(shape(of_product)) != shape(r_.src.nodes[*at].out()))
      return;
    for (Value v = of_product;; v = r_.src.def(v).in(0)) {
      if (uses_[v] != 1) return;
      if (v == root_[of_product.index()]) break;
    }
    std::vector<Value> results = n.outputs;
    if (body.outputs[0] != masked->out()) std::swap(results[0], results[1]);
    const Node& m = r_.src.nodes[*at];
    std::vector<Type> operands = input_types(r_.src, m);
    operands.push_back({r_.src.type(outer(y)).dtype, rows_of(shape(outer(y)))});
    propose(*at, i,
            fused_node(sums ? FusedKind::matmul_mask_sum : FusedKind::matmul_mask, m, operands,
                       with(m.inputs, {outer(y)}), results));
  }

  // Finds a matmul for a region that is nothing but a sum over rows. The matmul has the summed value as an operand, and
  // its own sums go over the same rows (A transposed, or B as it is): a library can make only those beside the product.
  // The fused node stands where the earlier one of the two does: everything that the matmul reads must be there.
  void find_weight_gradient(size_t i) {
    const Node& n = r_.src.nodes[i];
    const Value x = root_[n.in(0).index()];
    for (size_t k = 0; k < r_.src.nodes.size(); ++k) {
      const Node& m = r_.src.nodes[k];
      if (m.op != Op::matmul || !plain_matmul(m.out()) || taken_.count(k) > 0) continue;
      const auto& a = attrs<MatmulAttrs>(m);
      for (int side = 0; side < 2; ++side) {
        const Value operand = m.in(side);
        if (root_[operand.index()] != x || (side == 0 ? !a.trans_a : a.trans_b) ||
            rows_of(shape(n.in(0))) != shape(operand))
          continue;
        const size_t place = std::min(i, k);
        const bool ready = std::all_of(m.inputs.begin(), m.inputs.end(), [&](Value v) { return maker(v) < place; });
        if (!ready) continue;
        const FusedKind kind = side == 0 ? FusedKind::matmul_lhs_sum : FusedKind::matmul_rhs_sum;
        if (propose(k, place, fused_node(kind, m, input_types(r_.src, m), m.inputs, {m.out(), n.out()}))) return;
      }
    }
  }

  // Notes that node `matmul` becomes `fused`, in the place of node `place`; false where the backend has no such step.
  bool propose(size_t matmul, size_t place, Node fused) {
    if (!takes_(fused)) return false;
    taken_.insert(matmul);
    found_.emplace(place, Found{std::move(fused)});
    return true;
  }

  // The fused node stands where the convolution does. A second node of its moments (remat makes such) gets the same
  // results.
  void find_moments(size_t i) {
    const Node& moments = r_.src.nodes[i];
    std::optional<Node> fused = conv_with_moments(r_.src, moments);
    if (!fused || !takes_(*fused)) return;
    const size_t place = r_.src.node_of(fused->out()).index();
    found_.try_emplace(place, Found{std::move(*fused)}).first->second.moments.push_back(&moments);
  }

  // Finds a result relu(x scale + shift) of region i that need not be stored: all that read it are convolutions with
  // moments and gradients of filters, and each gets a fused node. One reader that is anything else ends the search, and
  // the number of readers then differs from that of uses.
  void find_norm(size_t i) {
    const Node& n = r_.src.nodes[i];
    const Graph& body = *attrs<FusedAttrs>(n).body;
    const std::vector<Value> leaves = body.leaves(Op::input);
    const auto outer = [&](Value leaf) {
      return n.in(static_cast<int>(std::find(leaves.begin(), leaves.end(), leaf) - leaves.begin()));
    };
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const std::optional<Norm> inner = norm_of(body, body.outputs[k]);
      if (!inner || !(body.type(inner->x) == body.type(body.outputs[k]))) continue;
      const Norm norm{outer(inner->x), outer(inner->scale), outer(inner->shift)};
      std::map<size_t, Found> all;
      for (size_t at = i + 1; at < r_.src.nodes.size(); ++at) {
        const Node& reader = r_.src.nodes[at];
        if (std::find(reader.inputs.begin(), reader.inputs.end(), n.outputs[k]) == reader.inputs.end()) continue;
        const auto conv = found_.find(at);
        const bool has_moments = conv != found_.end() && !conv->second.moments.empty();
        if ((reader.op != Op::conv_grad_weight && !has_moments) || reader.in(0) != n.outputs[k]) break;
        Found with_norm;
        if (has_moments) with_norm.moments = conv->second.moments;
        with_norm.fused = norm_conv(r_.src, reader, norm, has_moments ? with_norm.moments[0] : nullptr);
        if (!takes_(with_norm.fused)) break;
        all.emplace(at, std::move(with_norm));
      }
      if (all.empty() || static_cast<int>(all.size()) != uses_[n.outputs[k]]) continue;
      for (auto& [at, found] : all) found_.insert_or_assign(at, std::move(found));
      unstored_.emplace(i, k);
      return;
    }
  }

  // The leaves of which norm_relu() (ir/fused_pattern.h) makes v; nothing where v is something else. It reads
  // norm_relu()'s nodes from behind; the two must change together.
  static std::optional<Norm> norm_of(const Graph& body, Value v) {
    for (const Op op : {Op::relu, Op::cast, Op::add}) {
      if (body.def(v).op != op) return std::nullopt;
      if (op != Op::add) v = body.def(v).in(0);
    }
    const Node &sum = body.def(v), &product = body.def(sum.in(0));
    const Shape& shape = body.type(v).shape;
    if (product.op != Op::mul || shape.rank() < 3) return std::nullopt;
    const auto leaf_behind = [&](Op op, Value read) -> std::optional<Value> {
      if (body.def(read).op != op || body.def(body.def(read).in(0)).op != Op::input) return std::nullopt;
      return body.def(read).in(0);
    };
    const auto per_channel = [&](Value leaf) {
      const Shape& s = body.type(leaf).shape;
      return s.numel() == shape[1] && s[1] == shape[1];
    };
    const std::optional<Value> x = leaf_behind(Op::cast, product.in(0)),
                               scale = leaf_behind(Op::broadcast, product.in(1)),
                               shift = leaf_behind(Op::broadcast, sum.in(1));
    if (!x || !scale || !shift) return std::nullopt;
    if (body.type(*x).shape != shape || !per_channel(*scale) || !per_channel(*shift)) return std::nullopt;
    return Norm{*x, *scale, *shift};
  }

  // Copies a region without the result that its readers make themselves.
  void emit_without(const Node& n, size_t dropped) {
    if (n.outputs.size() == 1) return;
    auto body = std::make_shared<Graph>(*attrs<FusedAttrs>(n).body);
    body->outputs.erase(body->outputs.begin() + static_cast<std::ptrdiff_t>(dropped));
    b_.set_location(n);
    const std::vector<Value> out = b_.add(Op::fused, FusedAttrs{body}, r_(n.inputs));
    for (size_t k = 0; k < out.size(); ++k) r_.replace(n.outputs[k < dropped ? k : k + 1], out[k]);
  }

  void emit(const Found& found) {
    const Node& fused = found.fused;
    const FusedPattern& pattern = pattern_of(fused);
    const Graph& body = *attrs<FusedAttrs>(fused).body;
    const std::vector<Value> leaves = body.leaves(Op::input);
    b_.set_location(fused);
    std::vector<Value> in;
    for (int i = 0; i < pattern.operand_count(); ++i) {
      const Type& type = body.type(leaves[static_cast<size_t>(i)]);
      if (i == pattern.scale || i == pattern.shift) {
        const auto& [scale, shift] = narrowed(fused.in(*pattern.scale), fused.in(*pattern.shift), type.dtype);
        in.push_back(i == pattern.scale ? scale : shift);
      } else {  // of the root, as a view may come later in the old graph than the fused node does
        in.push_back(b_.reshape(r_(root_[fused.in(i).index()]), type.shape));
      }
    }
    const std::vector<Value> out = b_.add(Op::fused, fused.attrs, in);
    const auto replace = [&](Value old, int result) {
      r_.replace(old, b_.reshape(out[static_cast<size_t>(result)], shape(old)));
    };
    replace(fused.out(), 0);
    if (pattern.sums) replace(fused.out(*pattern.sums), *pattern.sums);
    for (const Node* moments : found.moments) {
      replace(moments->out(0), *pattern.mean);
      replace(moments->out(1), *pattern.variance);
    }
  }

  struct Narrowed {
    Value scale, shift;
  };
  // Scale and shift of a norm in 16 bits, by one step for all that read these channels.
  const Narrowed& narrowed(Value scale, Value shift, DType dtype) {
    const auto [known, is_new] = narrowed_.try_emplace({scale.id, shift.id});
    if (!is_new) return known->second;
    auto casts = std::make_shared<Graph>();
    Builder b(*casts);
    for (Value v : {scale, shift}) {  // no more than f16 holds: infinities would make NaN of all that follows
      const Ex given{&b, b.one(Op::input, LeafAttrs{"", {DType::f32, shape(v)}}, {})};
      const Ex held = apply(Op::maximum, apply(Op::minimum, given, 65504.0), -65504.0);
      casts->outputs.push_back(b.cast(held.v, dtype));
    }
    const std::vector<Value> out = b_.add(Op::fused, FusedAttrs{casts}, {r_(scale), r_(shift)});
    return known->second = {out[0], out[1]};
  }

  Rewriter r_;
  Builder b_;
  const TakesPattern& takes_;
  ByValue<int> uses_;
  std::vector<Value> root_;                                   // by value: what it is a reshape of
  std::map<size_t, Found> found_;                             // by the node at whose place it stands
  std::set<size_t> taken_;                                    // matmuls that are part of one
  std::map<size_t, size_t> unstored_;                         // by region: the result that its readers make themselves
  std::map<std::pair<int32_t, int32_t>, Narrowed> narrowed_;  // by scale and shift in the old graph
};

}  // namespace

std::optional<Node> conv_with_moments(const Graph& graph, const Node& moments) {
  const Node& x = graph.def(moments.in(0));
  const Node& conv = x.op == Op::cast ? graph.def(x.in(0)) : x;  // a normalization in f32 casts its operand
  if (conv.op != Op::conv || conv.inputs.size() != 2 || attrs<ConvAttrs>(conv).epilogue.relu) return std::nullopt;
  const DType dtype = graph.type(conv.out()).dtype;
  if (wide(dtype) == dtype || wide(dtype) != graph.type(moments.out()).dtype) return std::nullopt;
  return fused_node(FusedKind::conv_moments, conv, input_types(graph, conv), conv.inputs,
                    with(conv.outputs, moments.outputs));
}

Graph fuse_patterns(const Graph& graph, const TakesPattern& takes) { return PatternFinder(graph, takes).run(); }

}  // namespace freight::gpu
