// Values in host memory. An activation that the backward half reads long after the forward half did leaves for the host
// after its last reader on one side of such a gap (op offload) and comes back before its first reader on the other (op
// fetch): memory is free in between. Which ones: as long as the sum of live bytes is above the limit somewhere, the gap
// over the highest place that takes most off what is above the limit, per byte that must cross (vDNN, Rhu et al. 2016,
// arXiv:1602.08124, offloads by layer; here it is by value and gap). States of the optimizer that live on the host come
// before their update and the new value goes back. Runs on a scheduled graph and keeps its order. When copies
// really run: run/queues.cpp.
#include <algorithm>

#include "freight/backend/backend.h"
#include "freight/passes/passes.h"

namespace freight::passes {

double step_seconds(const Graph& graph, const Node& node, const DeviceSpeed& speed) {
  const Cost c = cost(graph, node);
  if (node.op == Op::offload || node.op == Op::fetch) return c.bytes / 2 / speed.transfer;
  return std::max(c.flops / speed.flops, c.bytes / speed.bytes);
}

namespace {

// Values below this part of the limit stay: copying them would save nothing.
constexpr size_t kSmallTransfer = 4096;

// Two readers of a value (or its maker and a reader) with other nodes between them: it may be on the host meanwhile.
struct Gap {
  Value value;
  size_t from, to;  // nodes
};

class Offloading {
 public:
  Offloading(const Graph& g, const Backend& backend, size_t limit)
      : g_(g), limit_(limit), root_(memory_roots(g)), live_(live_bytes(g, backend)) {}

  // Those that leave, in the order of the choice.
  std::vector<Gap> choose() {
    if (*std::max_element(live_.begin(), live_.end()) <= limit_) return {};
    std::vector<Gap> all = gaps(), chosen;
    std::vector<bool> away(g_.values.size());  // its bytes are on the host already
    for (;;) {
      const auto top = std::max_element(live_.begin(), live_.end());
      if (*top <= limit_) break;
      const auto at = static_cast<size_t>(top - live_.begin());
      // Of equals the one that is away the longest: its copies have the most kernels to hide behind.
      const auto rank = [&](const Gap& gap) { return std::pair(worth(gap, at, away), gap.to - gap.from); };
      const auto best =
          std::max_element(all.begin(), all.end(), [&](const Gap& a, const Gap& b) { return rank(a) < rank(b); });
      if (best == all.end() || worth(*best, at, away) <= 0) break;
      for (size_t t = best->from + 1; t < best->to; ++t) live_[t] -= std::min(live_[t], bytes(*best));
      away[best->value.index()] = true;
      chosen.push_back(*best);
      all.erase(best);
    }
    return chosen;
  }

 private:
  size_t bytes(const Gap& gap) const { return g_.type(gap.value).bytes(); }

  std::vector<Gap> gaps() const {
    std::vector<bool> stays(g_.values.size());
    for (Value v : g_.results()) stays[root_[v.index()].index()] = true;
    std::vector<Gap> found;
    std::vector<size_t> last(g_.values.size());
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      const OpKind kind = info(n.op).kind;
      for (Value v : n.outputs) {
        last[v.index()] = i;
        if (kind == OpKind::leaf || g_.type(v).bytes() <= limit_ / kSmallTransfer) stays[v.index()] = true;
      }
      if (kind == OpKind::view) continue;
      for (Value v : n.inputs) {
        const Value r = root_[v.index()];
        if (!stays[r.index()] && i > last[r.index()] + 1) found.push_back({r, last[r.index()], i});
        last[r.index()] = i;
      }
    }
    return found;
  }

  // What it takes off above the limit, per byte that crosses; 0 where memory is not freed at node `at`.
  double worth(const Gap& gap, size_t at, const std::vector<bool>& away) const {
    if (at <= gap.from || at >= gap.to) return 0;
    const size_t size = bytes(gap);
    double off = 0;
    for (size_t t = gap.from + 1; t < gap.to; ++t) {
      if (live_[t] > limit_) off += static_cast<double>(std::min(size, live_[t] - limit_));
    }
    return off / static_cast<double>(size) / (away[gap.value.index()] ? 1 : 2);
  }

  const Graph& g_;
  size_t limit_;
  std::vector<Value> root_;
  std::vector<size_t> live_;  // by node
};

}  // namespace

Graph offload(const Graph& g, const Backend& backend, size_t limit) {
  const std::vector<Gap> chosen = limit > 0 ? Offloading(g, backend, limit).choose() : std::vector<Gap>();
  if (chosen.empty()) return g;
  std::vector<std::vector<const Gap*>> leave(g.nodes.size()), come(g.nodes.size());
  for (const Gap& gap : chosen) {
    leave[gap.from].push_back(&gap);
    come[gap.to].push_back(&gap);
  }
  const std::vector<Value> root = memory_roots(g);
  std::vector<std::vector<size_t>> views(g.values.size());  // root -> nodes that are views of it
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (info(g.nodes[i].op).kind == OpKind::view) views[root[g.nodes[i].out().index()].index()].push_back(i);
  }
  std::vector<Value> away(g.values.size());  // on the host, in the new graph
  Rewriter r(g);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    for (const Gap* gap : come[i]) {
      const Node& made = g.def(gap->value);
      r.replace(gap->value, r.dst.add(Op::fetch, NoAttrs{}, {away[gap->value.index()]}, made.scope, made.where)[0]);
      for (const size_t view : views[gap->value.index()]) {
        if (view < i) r.copy(g.nodes[view]);
      }
    }
    r.copy(n);
    for (const Gap* gap : leave[i]) {
      Value& host = away[gap->value.index()];
      const Node& made = g.def(gap->value);
      if (!host.valid()) host = r.dst.add(Op::offload, NoAttrs{}, {r(gap->value)}, made.scope, made.where)[0];
    }
  }
  return dead_code(r.finish());
}

Graph host_states(const Graph& g, const std::vector<int32_t>& states) {
  if (states.empty()) return g;
  const std::vector<Value> leaves = g.leaves(Op::state), root = memory_roots(g);
  std::vector<bool> on_host(g.values.size()), goes(g.values.size());
  for (const int32_t s : states) on_host[leaves.at(static_cast<size_t>(s)).index()] = true;
  for (const Update& u : g.updates) goes[u.next.index()] = goes[u.next.index()] || on_host[u.state.index()];
  Rewriter r(g);
  std::vector<Value> sent(g.values.size());
  std::vector<bool> here(g.values.size());
  // The state comes, and views of it are made, when the first node that computes reads them.
  const auto bring = [&](auto&& self, Value v, const Node& reader) -> void {
    if (here[v.index()]) return;
    here[v.index()] = true;
    if (v == root[v.index()]) {
      r.replace(v, r.dst.add(Op::fetch, NoAttrs{}, {r(v)}, reader.scope, reader.where)[0]);
    } else {
      self(self, g.def(v).in(0), reader);
      r.copy(g.def(v));
    }
  };
  for (const Node& n : g.nodes) {
    if (info(n.op).kind == OpKind::view && on_host[root[n.out().index()].index()]) continue;
    for (Value v : n.inputs) {
      if (on_host[root[v.index()].index()]) bring(bring, v, n);
    }
    r.copy(n);
    for (Value v : n.outputs) {
      if (goes[v.index()]) sent[v.index()] = r.dst.add(Op::offload, NoAttrs{}, {r(v)}, n.scope, n.where)[0];
    }
  }
  // Views that nothing reads but the program.
  for (const Value v : g.results()) {
    if (on_host[root[v.index()].index()] && v != root[v.index()]) bring(bring, v, g.def(v));
  }
  Graph out = r.finish();
  const std::vector<Value> now = out.leaves(Op::state);
  for (size_t k = 0; k < g.updates.size(); ++k) {
    const Update& u = g.updates[k];
    if (!on_host[u.state.index()] || !sent[u.next.index()].valid()) continue;
    out.updates[k] = {now[static_cast<size_t>(std::find(leaves.begin(), leaves.end(), u.state) - leaves.begin())],
                      sent[u.next.index()]};
  }
  return out;
}

}  // namespace freight::passes
