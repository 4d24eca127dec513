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
  NodeId from, to;
};

class Offloading {
 public:
  Offloading(const Graph& g, const Backend& backend, size_t limit)
      : g_(g), limit_(limit), root_(memory_roots(g)), live_(live_bytes(g, backend)) {}

  // Those that leave, in the order of the choice.
  std::vector<Gap> choose() {
    if (live_[highest()] <= limit_) return {};
    std::vector<Gap> all = gaps(), chosen;
    ByValue<bool> away(g_);  // its bytes are on the host already
    for (;;) {
      const NodeId at = highest();
      if (live_[at] <= limit_) break;
      // Among equals the one that is away the longest is taken: its copies have the most kernels to hide behind.
      const auto rank = [&](const Gap& gap) { return std::pair(worth(gap, at, away), gap.to.id - gap.from.id); };
      const auto best =
          std::max_element(all.begin(), all.end(), [&](const Gap& a, const Gap& b) { return rank(a) < rank(b); });
      if (best == all.end() || worth(*best, at, away) <= 0) break;
      for (const NodeId t : between(*best)) live_[t] -= std::min(live_[t], bytes(*best));
      away[best->value] = true;
      chosen.push_back(*best);
      all.erase(best);
    }
    return chosen;
  }

 private:
  size_t bytes(const Gap& gap) const { return g_.type(gap.value).bytes(); }
  IdRange<NodeId> between(const Gap& gap) const { return {NodeId{gap.from.id + 1}, gap.to}; }
  NodeId highest() const { return live_.id_of(std::max_element(live_.begin(), live_.end())); }

  std::vector<Gap> gaps() const {
    ByValue<bool> stays(g_);
    for (Value v : g_.results()) stays[root_[v]] = true;
    std::vector<Gap> found;
    ByValue<NodeId> last(g_);
    for (const NodeId i : g_.node_ids()) {
      const Node& n = g_.node(i);
      const OpKind kind = info(n.op).kind;
      for (Value v : n.outputs) {
        last[v] = i;
        if (kind == OpKind::leaf || g_.type(v).bytes() <= limit_ / kSmallTransfer) stays[v] = true;
      }
      if (kind == OpKind::view) continue;
      for (Value v : n.inputs) {
        const Value r = root_[v];
        if (!stays[r] && i.id > last[r].id + 1) found.push_back({r, last[r], i});
        last[r] = i;
      }
    }
    return found;
  }

  // Gives what it takes off above the limit, per byte that crosses; 0 where no memory is freed at node `at`.
  double worth(const Gap& gap, NodeId at, const ByValue<bool>& away) const {
    if (at <= gap.from || at >= gap.to) return 0;
    const size_t size = bytes(gap);
    double off = 0;
    for (const NodeId t : between(gap)) {
      if (live_[t] > limit_) off += static_cast<double>(std::min(size, live_[t] - limit_));
    }
    return off / static_cast<double>(size) / (away[gap.value] ? 1 : 2);
  }

  const Graph& g_;
  size_t limit_;
  ByValue<Value> root_;
  ByNode<size_t> live_;
};

}  // namespace

Graph offload(const Graph& g, const Backend& backend, size_t limit) {
  const std::vector<Gap> chosen = limit > 0 ? Offloading(g, backend, limit).choose() : std::vector<Gap>();
  if (chosen.empty()) return g;
  ByNode<std::vector<const Gap*>> leave(g), come(g);
  for (const Gap& gap : chosen) {
    leave[gap.from].push_back(&gap);
    come[gap.to].push_back(&gap);
  }
  const ByValue<Value> root = memory_roots(g);
  ByValue<std::vector<NodeId>> views(g);  // of a root
  for (const NodeId i : g.node_ids()) {
    if (info(g.node(i).op).kind == OpKind::view) views[root[g.node(i).out()]].push_back(i);
  }
  ByValue<Value> away(g);  // on the host, in the new graph
  Rewriter r(g);
  for (const NodeId i : g.node_ids()) {
    const Node& n = g.node(i);
    for (const Gap* gap : come[i]) {
      const Node& made = g.def(gap->value);
      r.replace(gap->value, r.dst.add(Op::fetch, NoAttrs{}, {away[gap->value]}, made)[0]);
      for (const NodeId view : views[gap->value]) {
        if (view < i) r.copy(g.node(view));
      }
    }
    r.copy(n);
    for (const Gap* gap : leave[i]) {
      Value& host = away[gap->value];
      const Node& made = g.def(gap->value);
      if (!host.valid()) host = r.dst.add(Op::offload, NoAttrs{}, {r(gap->value)}, made)[0];
    }
  }
  return dead_code(r.finish());
}

Graph host_states(const Graph& g, const std::vector<int32_t>& states) {
  if (states.empty()) return g;
  const std::vector<Value> leaves = g.leaves(Op::state);
  const ByValue<Value> root = memory_roots(g);
  ByValue<bool> on_host(g), goes(g);
  for (const int32_t s : states) on_host[leaves.at(static_cast<size_t>(s))] = true;
  for (const Update& u : g.updates) goes[u.next] = goes[u.next] || on_host[u.state];
  Rewriter r(g);
  ByValue<Value> sent(g);
  ByValue<bool> here(g);
  // The state comes, and views of it are made, when the first node that computes reads them.
  const auto bring = [&](auto&& self, Value v, const Node& reader) -> void {
    if (here[v]) return;
    here[v] = true;
    if (v == root[v]) {
      r.replace(v, r.dst.add(Op::fetch, NoAttrs{}, {r(v)}, reader)[0]);
    } else {
      self(self, g.def(v).in(0), reader);
      r.copy(g.def(v));
    }
  };
  for (const Node& n : g.nodes) {
    if (info(n.op).kind == OpKind::view && on_host[root[n.out()]]) continue;
    for (Value v : n.inputs) {
      if (on_host[root[v]]) bring(bring, v, n);
    }
    r.copy(n);
    for (Value v : n.outputs) {
      if (goes[v]) sent[v] = r.dst.add(Op::offload, NoAttrs{}, {r(v)}, n)[0];
    }
  }
  // Views that nothing reads but the program.
  for (const Value v : g.results()) {
    if (on_host[root[v]] && v != root[v]) bring(bring, v, g.def(v));
  }
  Graph out = r.finish();
  const std::vector<Value> now = out.leaves(Op::state);
  for (size_t k = 0; k < g.updates.size(); ++k) {
    const Update& u = g.updates[k];
    if (!on_host[u.state] || !sent[u.next].valid()) continue;
    out.updates[k] = {now[static_cast<size_t>(std::find(leaves.begin(), leaves.end(), u.state) - leaves.begin())],
                      sent[u.next]};
  }
  return out;
}

}  // namespace freight::passes
