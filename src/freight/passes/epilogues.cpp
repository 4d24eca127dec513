// See epilogues.h: bias, residual, relu and functions of one number (relu6, silu, gelu) move into the matmul or
// convolution that feeds them, whose result is then stored once.
#include "freight/passes/epilogues.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "freight/backend/backend.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"

namespace freight::passes {

bool carries(const Graph& g, const Node& n) {
  const auto carried = [&](Value v) { return !computes(g.type(v).dtype); };
  return std::any_of(n.inputs.begin(), n.inputs.end(), carried) ||
         std::any_of(n.outputs.begin(), n.outputs.end(), carried);
}

namespace {

// Nodes that make one number of each number of a value, and of constants.
struct Function {
  std::vector<NodeId> nodes;          // ascending; the last one makes the result
  std::shared_ptr<const Graph> body;  // Epilogue::pointwise
};

constexpr size_t kMaxFunction = 16;  // nodes

class EpiloguePass {
 public:
  EpiloguePass(const Graph& graph, const Backend& backend) : backend_(backend), r_(graph), uses_(graph.use_counts()) {}

  Graph run() {
    find_chains();
    for (const NodeId i : r_.src.node_ids()) {
      const Node& n = r_.src.node(i);
      const auto it = chains_.find(i);
      if (swallowed_[i]) continue;
      if (it == chains_.end()) {
        r_.copy(n);
        continue;
      }
      const Chain& c = it->second;
      const Node& core = r_.src.node(c.core);
      Attrs a = core.attrs;
      epilogue_of(a) = c.epilogue;
      std::vector<Value> in = r_(core.inputs);
      if (c.bias.valid()) in.push_back(r_(c.bias));
      if (c.residual.valid()) in.push_back(r_(c.residual));
      Value y = r_.dst.add(core.op, std::move(a), in, core)[0];
      const Shape& shape = r_.src.type(n.out()).shape;
      if (r_.dst.type(y).shape != shape) y = r_.dst.add(Op::reshape, ShapeAttrs{shape}, {y}, n)[0];
      r_.replace(n.out(), y);
    }
    return dead_code(r_.finish());
  }

 private:
  struct Chain {
    NodeId core;  // the matmul or convolution
    Epilogue epilogue;
    Value bias, residual;
  };

  static Epilogue& epilogue_of(Attrs& a) {
    if (auto* m = std::get_if<MatmulAttrs>(&a)) return m->epilogue;
    return std::get<ConvAttrs>(a).epilogue;
  }

  // The only node that reads v; invalid where there are others, or none.
  NodeId only_reader(Value v) const { return uses_[v] == 1 && !readers_[v].empty() ? readers_[v][0] : NodeId{}; }

  // A region that has a reader of v makes v itself: it is a broadcast, or a pointwise result with no other reader.
  // The sum with such a value is left to that region, so that v is never stored; as a residual it would be.
  bool made_in_regions(Value v) const {
    const Op op = r_.src.def(v).op;
    return op == Op::broadcast || (is_pointwise(op) && uses_[v] == 1);
  }

  // True where n splits the rows of a product into more axes: a layer of (N, T, C) is a product of (N T, C).
  bool splits_rows(const Node& n, const Shape& from) const {
    const Shape& to = r_.src.type(n.out()).shape;
    return n.op == Op::reshape && from.rank() == 2 && to.rank() > 2 && to[to.rank() - 1] == from[1];
  }

  // True where n makes one number of each number of the values in `made`, which have v's axes, and of constants.
  bool extends(const Node& n, Value v, const std::vector<Value>& made) const {
    const Graph& g = r_.src;
    const OpKind kind = info(n.op).kind;
    if ((kind != OpKind::unary && kind != OpKind::binary && kind != OpKind::ternary) || carries(g, n)) return false;
    const auto has_number = [&](Value x) {
      const Type &type = g.type(x), &own = g.type(v);
      return type.shape == own.shape && (type.dtype == DType::boolean || wide(type.dtype) == wide(own.dtype));
    };
    double number = 0;
    return has_number(n.out()) && std::all_of(n.inputs.begin(), n.inputs.end(), [&](Value x) {
             return std::count(made.begin(), made.end(), x) > 0 || (has_number(x) && splat_value(g, x, number));
           });
  }

  // The longest function of v, whose result alone is read by other nodes. No nodes where there is none.
  Function function_of(Value v, const ByNode<bool>& claimed) const {
    const Graph& g = r_.src;
    std::vector<Value> made{v};
    std::vector<NodeId> members;
    std::set<NodeId> next(readers_[v].begin(), readers_[v].end());
    while (!next.empty() && members.size() < kMaxFunction) {
      const NodeId i = *next.begin();  // those that make its operands come before it
      next.erase(next.begin());
      if (claimed[i] || !extends(g.node(i), v, made)) continue;
      members.push_back(i);
      made.push_back(g.node(i).out());
      next.insert(readers_[made.back()].begin(), readers_[made.back()].end());
    }
    for (; !members.empty(); members.pop_back()) {
      if (g.type(g.node(members.back()).out()) == g.type(v)) {
        const std::vector<NodeId> needed = makers_of(members);
        if (read_within(v, needed)) return {needed, body_of(v, needed)};
      }
    }
    return {};
  }

  // Those members that the last one needs.
  std::vector<NodeId> makers_of(const std::vector<NodeId>& members) const {
    std::set<NodeId> needed{members.back()};
    for (size_t i = members.size(); i-- > 0;) {
      if (!needed.contains(members[i])) continue;
      for (Value x : r_.src.node(members[i]).inputs) {
        const NodeId maker = r_.src.node_of(x);
        if (std::binary_search(members.begin(), members.end(), maker)) needed.insert(maker);
      }
    }
    return {needed.begin(), needed.end()};
  }

  // True where v and the results of all nodes but the last one are read by these nodes alone.
  bool read_within(Value v, const std::vector<NodeId>& nodes) const {
    std::map<int32_t, int> reads;  // by value
    for (const NodeId i : nodes) {
      for (Value x : r_.src.node(i).inputs) ++reads[x.id];
    }
    if (reads[v.id] != uses_[v]) return false;
    return std::all_of(nodes.begin(), nodes.end() - 1, [&](NodeId i) {
      const Value x = r_.src.node(i).out();
      return reads[x.id] == uses_[x];
    });
  }

  std::shared_ptr<const Graph> body_of(Value v, const std::vector<NodeId>& nodes) const {
    const Graph& g = r_.src;
    const DType dtype = wide(g.type(v).dtype);
    const auto scalar = [&](Value x) { return Type{g.type(x).dtype == DType::boolean ? DType::boolean : dtype, {}}; };
    auto body = std::make_shared<Graph>();
    std::map<int32_t, Value> inner;  // by value of the graph
    inner[v.id] = body->add(Op::input, LeafAttrs{"", scalar(v)}, {})[0];
    for (const NodeId i : nodes) {
      const Node& n = g.node(i);
      std::vector<Value> in;
      for (Value x : n.inputs) {
        Value& own = inner[x.id];
        double number = 0;
        if (!own.valid() && splat_value(g, x, number))
          own = body->add(Op::constant, ConstantAttrs{scalar(x), number, {}}, {})[0];
        in.push_back(own);
      }
      const Type type = scalar(n.out());
      if (n.op == Op::cast && body->type(in[0]) == type) {
        inner[n.out().id] = in[0];
      } else {
        inner[n.out().id] = body->add(n.op, n.op == Op::cast ? Attrs(CastAttrs{type.dtype}) : n.attrs, in)[0];
      }
    }
    body->outputs = {inner[g.node(nodes.back()).out().id]};
    return body;
  }

  // A chain core -> (split into more axes) -> (+ bias) -> (+ residual) -> (relu) -> (function) ends at the node that
  // the fused core replaces: there every operand of the chain has been made. A residual has the core's own axes. The
  // backend is asked after each part, so that a chain ends before the first one that it does not take.
  void find_chains() {
    const Graph& g = r_.src;
    readers_ = ByValue<std::vector<NodeId>>(g);
    swallowed_ = ByNode<bool>(g);
    ByNode<bool> claimed(g);
    for (const NodeId i : g.node_ids()) {
      for (Value v : g.node(i).inputs) readers_[v].push_back(i);
    }
    for (const NodeId i : g.node_ids()) {
      const Node& core = g.node(i);
      if (core.op != Op::matmul && core.op != Op::conv) continue;
      Attrs attributes = core.attrs;
      const Epilogue& e = epilogue_of(attributes);
      if (!e.empty()) continue;  // a graph that was read as text may have them already
      Shape shape = g.type(core.out()).shape;
      Chain c;
      c.core = i;
      NodeId at = i;
      std::vector<NodeId> path{at};
      if (const NodeId next = only_reader(core.out()); next.valid() && splits_rows(g.node(next), shape)) {
        path.push_back(at = next);
        shape = g.type(g.node(at).out()).shape;
      }
      const int channel = core.op == Op::conv ? 1 : shape.rank() - 1;
      const size_t bare = path.size();
      for (;;) {
        const Value v = g.node(at).out();
        const NodeId next = only_reader(v);
        if (!next.valid() || claimed[next]) break;  // two contractions may feed one sum
        const Node& n = g.node(next);
        Chain longer = c;
        if (n.op == Op::add && !c.epilogue.relu) {
          const Value other = n.in(0) == v ? n.in(1) : n.in(0);
          const Value bias = channel_vector(g, other, channel, shape);
          if (bias.valid() && !c.epilogue.bias && !c.epilogue.residual) {
            longer.epilogue.bias = true;
            longer.bias = bias;
          } else if (bare == 1 && !c.epilogue.residual && info(g.def(other).op).kind != OpKind::leaf &&
                     !made_in_regions(other)) {
            longer.epilogue.residual = true;
            longer.residual = other;
          } else {
            break;
          }
        } else if (n.op == Op::relu && !c.epilogue.relu) {
          longer.epilogue.relu = true;
        } else {
          break;
        }
        if (!backend_.has_epilogue(g, core, longer.epilogue)) break;
        c = longer;
        at = next;
        path.push_back(at);
      }
      Chain longer = c;
      // Not in a training step, whose backward pass reads the product, or makes the function from it again (remat).
      Function f = g.updates.empty() ? function_of(g.node(at).out(), claimed) : Function{};
      longer.epilogue.pointwise = f.body;
      if (f.body && backend_.has_epilogue(g, core, longer.epilogue)) {
        c = longer;
        at = f.nodes.back();
        path.insert(path.end(), f.nodes.begin(), f.nodes.end());
      }
      if (path.size() == bare) continue;
      for (const NodeId k : path) swallowed_[k] = claimed[k] = true;
      swallowed_[at] = false;
      chains_[at] = c;
    }
  }

  const Backend& backend_;
  Rewriter r_;
  ByValue<int> uses_;
  ByValue<std::vector<NodeId>> readers_;  // ascending
  ByNode<bool> swallowed_;
  std::map<NodeId, Chain> chains_;
};

}  // namespace

Graph fuse_epilogues(const Graph& graph, const Backend& backend) { return EpiloguePass(graph, backend).run(); }

}  // namespace freight::passes
