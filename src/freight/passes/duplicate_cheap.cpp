// Pointwise results that one fused region leaves for later regions, and that these could make from fewer bytes which
// they read anyway or which live as long, are not stored: the readers repeat the few operations. The derivative of an
// activation is the usual case: of gelu(x) the backward half needs three factors, all of them functions of x. Beyond
// the caches a byte that is not written and read back is worth some ten operations. (Chen et al. 2016,
// arXiv:1604.06174, call such results cheap; recompute as an option goes further.)
#include <algorithm>
#include <map>

#include "freight/passes/passes.h"

namespace freight::passes {

namespace {

constexpr size_t kLeastBytes = size_t{1} << 20;  // smaller results are still in a cache when they are read
constexpr size_t kMostRepeated = 16;             // nodes

const Graph& body_of(const Node& n) { return *attrs<FusedAttrs>(n).body; }

Value outer_input(const Node& n, const Graph& body, Value leaf) {
  const std::vector<Value> leaves = body.leaves(Op::input);
  const auto at = std::find(leaves.begin(), leaves.end(), leaf);
  return n.in(static_cast<int>(at - leaves.begin()));
}

class DuplicateCheap {
 public:
  explicit DuplicateCheap(const Graph& graph)
      : g_(graph), root_(memory_roots(graph)), readers_(graph), dropped_(graph) {
    for (const NodeId i : g_.node_ids()) {
      for (Value v : g_.node(i).inputs) {
        readers_[v].push_back(i);
        if (root_[v] != v) readers_[root_[v]].push_back(i);
      }
    }
    for (Value v : g_.results()) readers_[root_[v]].push_back(kProgram);
  }

  Graph run() {
    for (const NodeId i : g_.node_ids()) {
      if (g_.node(i).op == Op::fused) look(i);
    }
    Rewriter r(g_);
    for (const Node& n : g_.nodes) {
      if (n.op == Op::fused && changes(n)) {
        rebuild(r, n);
      } else {
        r.copy(n);
      }
    }
    return r.finish();
  }

 private:
  // Making a result again takes these: nodes of the body, and values outside that must be read.
  struct Cone {
    std::vector<Value> nodes, inputs;
    bool cheap = true;
  };

  void gather(const Node& n, Value v, Cone& cone) const {
    const Graph& body = body_of(n);
    const Node& d = body.def(v);
    if (d.op == Op::input) {
      const Value outer = outer_input(n, body, v);
      if (dropped_[outer]) cone.cheap = false;
      if (std::find(cone.inputs.begin(), cone.inputs.end(), outer) == cone.inputs.end()) cone.inputs.push_back(outer);
      return;
    }
    if (std::find(cone.nodes.begin(), cone.nodes.end(), v) != cone.nodes.end()) return;
    cone.nodes.push_back(v);
    const OpKind kind = info(d.op).kind;
    if (kind == OpKind::reduce || (kind == OpKind::generator && d.op != Op::iota) || cone.nodes.size() > kMostRepeated)
      cone.cheap = false;
    for (Value in : d.inputs) {
      if (cone.cheap) gather(n, in, cone);
    }
  }

  // Read by regions alone, all of which go over its elements.
  bool for_regions(Value v) const {
    const auto& readers = readers_[v];
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](NodeId i) {
      if (i == kProgram || g_.node(i).op != Op::fused) return false;
      const Graph& body = body_of(g_.node(i));
      return std::any_of(body.nodes.begin(), body.nodes.end(), [&](const Node& d) {
        return is_pointwise(d.op) && body.type(d.out()).shape == g_.type(v).shape;
      });
    });
  }

  void look(NodeId i) {
    const Node& n = g_.node(i);
    std::vector<Value> candidates;
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const Value v = n.outputs[k];
      if (g_.type(v).bytes() >= kLeastBytes && for_regions(v)) candidates.push_back(v);
    }
    if (candidates.empty() || drop(i, candidates) || candidates.size() == 1) return;
    for (Value v : candidates) drop(i, {v});
  }

  // Drops the results `some` of node i where that saves bytes, of memory or at least of what is written and read.
  bool drop(NodeId i, const std::vector<Value>& some) {
    const Node& n = g_.node(i);
    Cone cone;
    size_t saved = 0;
    NodeId last;
    for (Value v : some) {
      gather(n, result_in_body(v), cone);
      saved += g_.type(v).bytes();
      last = std::max(last, readers_[v].back());
    }
    if (!cone.cheap) return false;
    size_t held = 0;
    for (Value u : cone.inputs) {
      const Value root = root_[u];
      const auto& readers = readers_[root];
      const bool lives = std::any_of(readers.begin(), readers.end(), [&](NodeId r) { return r != i && r >= last; });
      if (!lives && info(g_.def(root).op).kind != OpKind::leaf) held += g_.type(u).bytes();
    }
    if (held > saved || more_traffic(some, cone)) return false;
    for (Value v : some) {
      for (const NodeId r : readers_[v]) {
        const Node& reader = g_.node(r);
        if (reader.inputs.size() + reader.outputs.size() + cone.inputs.size() > kMaxOperands ||
            body_of(reader).nodes.size() + cone.nodes.size() > kMaxNodes) {
          return false;
        }
      }
    }
    for (Value v : some) {
      dropped_[v] = true;
      for (Value u : cone.inputs) {
        auto& readers = readers_[root_[u]];
        readers.insert(readers.end(), readers_[v].begin(), readers_[v].end());
        std::sort(readers.begin(), readers.end());
      }
    }
    return true;
  }

  // True where the readers would read more bytes, of inputs that they do not read yet, than are no longer written
  // and read.
  bool more_traffic(const std::vector<Value>& some, const Cone& cone) const {
    std::vector<NodeId> all;
    size_t less = 0, more = 0;
    for (Value v : some) {
      const auto& readers = readers_[v];
      less += g_.type(v).bytes() * (1 + readers.size());
      all.insert(all.end(), readers.begin(), readers.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const NodeId r : all) {
      for (Value u : cone.inputs) {
        const auto& read = readers_[root_[u]];
        if (!std::binary_search(read.begin(), read.end(), r)) more += g_.type(u).bytes();
      }
    }
    return more > less;
  }

  bool changes(const Node& n) const {
    const auto is_dropped = [&](Value v) { return dropped_[v]; };
    return std::any_of(n.inputs.begin(), n.inputs.end(), is_dropped) ||
           std::any_of(n.outputs.begin(), n.outputs.end(), is_dropped);
  }

  // The region with the dropped results it reads made inside and those it made left out.
  void rebuild(Rewriter& r, const Node& n) const {
    auto body = std::make_shared<Graph>();
    std::vector<Value> inputs, results;
    std::map<std::pair<const Node*, int32_t>, Value> made;
    std::map<int32_t, Value> read;
    const auto make = [&](auto&& self, const Node& owner, Value v) -> Value {
      const auto key = std::pair(&owner, v.id);
      if (const auto it = made.find(key); it != made.end()) return it->second;
      const Graph& from = body_of(owner);
      const Node& d = from.def(v);
      if (d.op != Op::input) {
        std::vector<Value> in;
        for (Value x : d.inputs) in.push_back(self(self, owner, x));
        return made[key] = body->add(d.op, d.attrs, in)[0];
      }
      const Value outer = outer_input(owner, from, v);
      if (dropped_[outer]) {
        const Node& maker = g_.def(outer);
        return made[key] = self(self, maker, result_in_body(outer));
      }
      if (!read.contains(outer.id)) {
        inputs.push_back(outer);
        read[outer.id] = body->add(Op::input, LeafAttrs{"", g_.type(outer)}, {})[0];
      }
      return made[key] = read[outer.id];
    };
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (dropped_[n.outputs[k]]) continue;
      results.push_back(n.outputs[k]);
      body->outputs.push_back(make(make, n, body_of(n).outputs[k]));
    }
    if (results.empty()) return;
    const auto out = r.dst.add(Op::fused, FusedAttrs{body}, r(inputs), n);
    for (size_t k = 0; k < out.size(); ++k) r.replace(results[k], out[k]);
  }

  // The value of its maker's body that leaves it as `result`.
  Value result_in_body(Value result) const {
    const ValueInfo& made = g_.values[result];
    return body_of(g_.node(made.node)).outputs[static_cast<size_t>(made.index)];
  }

  // Stands behind all nodes for the program, which reads the results of the graph.
  static constexpr NodeId kProgram{INT32_MAX};

  const Graph& g_;
  ByValue<Value> root_;
  ByValue<std::vector<NodeId>> readers_;  // in order; of a root also those of its views
  ByValue<bool> dropped_;
};

}  // namespace

Graph duplicate_cheap(const Graph& graph) { return dead_code(DuplicateCheap(graph).run()); }

}  // namespace freight::passes
