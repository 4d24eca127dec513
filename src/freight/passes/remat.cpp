// Recompute of activations. What the backward half of a step reads of the forward half stays alive across the loss,
// where memory peaks. Here some of these values die after their last forward reader; copies of the nodes that made them
// make them again right before their first backward reader.
//
// Forward is everything up to the last node of any size that an output of the graph (the loss) needs. It is cut into
// segments where few bytes pass from one to the next; these are kept, the rest of a segment is made again from them.
// How many segments, and which of them keep their values after all, is decided by the peak of live bytes that each
// choice leads to. Runs after fusion, when the values are those that memory will hold, and nothing after it looks for
// equal nodes. A copy is the same kernel on the same bits (random draws are functions of their key), so results do not
// change. States are not updated twice: an update names the first value.
#include <algorithm>
#include <functional>

#include "freight/backend/backend.h"
#include "freight/passes/passes.h"

namespace freight::passes {

ByNode<size_t> live_bytes(const Graph& g, const Backend& backend) {
  const ByValue<Value> root = memory_roots(g);
  ByValue<size_t> bytes(g);
  ByValue<NodeId> last(g);
  for (const NodeId i : g.node_ids()) {
    const Node& n = g.node(i);
    const OpKind kind = info(n.op).kind;
    for (Value v : n.outputs) {
      last[v] = i;
      if (kind != OpKind::leaf && kind != OpKind::view && n.op != Op::offload) bytes[v] = g.type(v).bytes();
    }
    if (kind == OpKind::view) continue;
    for (Value v : n.inputs) last[root[v]] = i;
  }
  for (Value v : g.results()) bytes[v] = 0;
  size_t live = 0;
  ByNode<size_t> at(g);
  ByNode<std::vector<Value>> dying(g);
  for (const Value v : g.value_ids()) {
    if (bytes[v] > 0) dying[last[v]].push_back(v);
  }
  for (const NodeId i : g.node_ids()) {
    const Node& n = g.node(i);
    size_t made = 0, reused = 0;
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const size_t size = bytes[n.outputs[k]];
      made += size;
      for (size_t j = 0; size > 0 && j < n.inputs.size(); ++j) {
        const Value r = root[n.inputs[j]];
        if (bytes[r] != size || last[r] != i) continue;
        if (!backend.in_place(g, n, static_cast<int>(j), static_cast<int>(k))) continue;
        reused += size;
        break;
      }
    }
    at[i] = live + made - std::min(made, reused);
    live += made;
    for (const Value v : dying[i]) live -= bytes[v];
  }
  return at;
}

namespace {

// The part of the peak that must remain at most: less is lost again in what kernels need beside live values.
constexpr double kWorthwhile = 0.98;
// Results below this part of the peak are kept: making them again would save nothing.
constexpr size_t kSmallResult = 16384;
constexpr int kSegments[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48};

size_t peak_bytes(const Graph& g, const Backend& backend) {
  const ByNode<size_t> live = live_bytes(g, backend);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

// The part of a fused node that makes the results marked in `wanted`. A region that reduces stays whole: how
// its kernel adds up may depend on what else it makes.
Node part_of(const Node& n, const ByValue<bool>& wanted) {
  Node part = n;
  const bool whole = std::all_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return wanted[v]; });
  if (n.op != Op::fused || whole) return part;
  const auto& nodes = attrs<FusedAttrs>(n).body->nodes;
  if (std::any_of(nodes.begin(), nodes.end(), [](const Node& inner) { return is_reduce(inner.op); })) return part;
  Graph body = *attrs<FusedAttrs>(n).body;
  for (size_t i = n.outputs.size(); i-- > 0;) {
    if (wanted[n.outputs[i]]) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    part.outputs.erase(part.outputs.begin() + at);
    body.outputs.erase(body.outputs.begin() + at);
  }
  body = dead_code(body);
  const ByValue<int> uses = body.use_counts();
  Rewriter r(body);
  part.inputs.clear();
  size_t input = 0;
  for (const Node& inner : body.nodes) {
    if (inner.op == Op::input) {
      const Value given = n.inputs[input++];
      if (uses[inner.out()] == 0) continue;
      part.inputs.push_back(given);
    }
    r.copy(inner);
  }
  part.attrs = FusedAttrs{std::make_shared<const Graph>(r.finish())};
  return part;
}

// Lower is better: first by the first number.
using Score = std::function<std::pair<double, double>(const Graph&)>;

class Remat {
 public:
  Remat(const Graph& graph, const Backend& backend, Recompute mode) : g_(graph), backend_(backend) { look(mode); }

  size_t peak() const { return peak_; }  // as the graph is

  // The graph that `score`, of one in its order, says is lowest: the graph as it is where none is lower.
  Graph run(const Score& score) {
    if (late_bytes_ == 0) return g_;
    Graph best = g_;
    auto lowest = score(schedule(g_));
    Segments chosen;
    const auto lowers = [&](const Segments& s, bool or_equals) {
      Graph candidate = recompute(s);
      const auto now = score(schedule(candidate));
      if (or_equals ? now > lowest : now >= lowest) return false;
      lowest = now;
      best = std::move(candidate);
      chosen = s;
      return true;
    };
    for (const int count : kSegments) lowers(segments(count), false);
    // A segment whose values cost nothing where memory peaks keeps them: the last one does.
    for (size_t i = chosen.kept.size(); i-- > 0;) {
      Segments fewer = chosen;
      fewer.kept[i] = true;
      lowers(fewer, true);
    }
    return best;
  }

 private:
  struct Segments {
    std::vector<NodeId> ends;  // last node of each but the last
    std::vector<bool> kept;    // by segment: its values are not made again
    size_t of(NodeId node) const {
      return static_cast<size_t>(std::lower_bound(ends.begin(), ends.end(), node) - ends.begin());
    }
  };

  // Finds out what forward is, who reads what in which half, and what may be made again.
  void look(Recompute mode) {
    peak_ = peak_bytes(schedule(g_), backend_);
    ByValue<bool> live(g_);
    for (Value v : g_.outputs) live[v] = true;
    for (const NodeId i : g_.node_ids().reversed()) {
      const Node& n = g_.node(i);
      if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return live[v]; })) continue;
      // A region of single numbers may hold the loss and yet stand far behind, with those of the optimizer.
      const auto large = [&](Value v) {
        return info(g_.def(v).op).kind != OpKind::leaf && g_.type(v).bytes() > peak_ / kSmallResult;
      };
      if (std::any_of(n.inputs.begin(), n.inputs.end(), large) ||
          std::any_of(n.outputs.begin(), n.outputs.end(), large))
        forward_ = std::max(forward_, NodeId{i.id + 1});
      for (Value v : n.inputs) live[v] = true;
    }
    root_ = memory_roots(g_);
    may_ = late_ = ByValue<bool>(g_);
    readers_ = ByValue<int>(g_);
    last_ = ByValue<NodeId>(g_, NodeId{0});
    for (const NodeId i : g_.node_ids()) {
      const Node& n = g_.node(i);
      const OpKind kind = info(n.op).kind;
      const bool heavy =
          kind == OpKind::contract || kind == OpKind::convolve || kind == OpKind::linalg || kind == OpKind::composite;
      for (Value v : n.outputs) {
        may_[v] = i < forward_ && kind != OpKind::leaf && kind != OpKind::view && kind != OpKind::collective &&
                  !info(n.op).run_once && (mode == Recompute::all || !heavy) &&
                  g_.type(v).bytes() > peak_ / kSmallResult;
      }
      if (kind == OpKind::view) continue;
      for (Value v : n.inputs) {
        const Value r = root_[v];
        if (i >= forward_) {
          late_[r] = true;
        } else {
          last_[r] = i;
          ++readers_[r];
        }
      }
    }
    for (Value v : g_.results()) may_[root_[v]] = false;
    for (const Value v : g_.value_ids()) {
      if (may_[v] && late_[v]) late_bytes_ += bytes(v);
    }
  }
  size_t bytes(Value v) const { return g_.type(v).bytes(); }

  // So many segments of about equal kept bytes; each ends where the fewest bytes cross, near its share.
  Segments segments(int count) const {
    ByNode<size_t> kept(forward_.index()), crossing(forward_.index() + 1);
    for (const Value v : g_.value_ids()) {
      if (!may_[v]) continue;
      const NodeId made = g_.node_of(v);
      if (late_[v]) kept[made] += bytes(v);
      for (NodeId i = made; i < last_[v]; ++i.id) crossing[i] += bytes(v);
    }
    Segments s;
    const double share = static_cast<double>(late_bytes_) / count;
    NodeId i{0};
    double so_far = 0;
    for (int k = 1; k < count; ++k) {
      NodeId end = forward_;
      for (; i < forward_ && so_far + static_cast<double>(kept[i]) <= (k + 0.5) * share; ++i.id) {
        so_far += static_cast<double>(kept[i]);
        if (so_far < (k - 0.5) * share) continue;
        if (end == forward_ || crossing[i] < crossing[end]) end = i;
      }
      if (end < forward_) s.ends.push_back(end);
    }
    s.kept.resize(s.ends.size() + 1);
    return s;
  }

  // Not kept, but made again wherever backward needs it.
  ByValue<bool> dropped(const Segments& s) const {
    ByValue<bool> drop(g_);
    for (const NodeId i : IdRange<NodeId>(NodeId{0}, forward_)) {
      const Node& n = g_.node(i);
      // An input that only this node reads would be kept in its results' stead.
      size_t results = 0, instead = 0;
      for (Value v : n.outputs) results += late_[v] ? bytes(v) : 0;
      for (Value v : n.inputs) {
        const Value r = root_[v];
        const bool leaf = info(g_.def(r).op).kind == OpKind::leaf;
        if (!leaf && !drop[r] && !late_[r] && readers_[r] == 1) instead += bytes(r);
      }
      for (Value v : n.outputs) {
        const Value r = root_[v];
        const size_t segment = s.of(i);
        drop[v] = r != v
                      ? drop[r]
                      : may_[r] && !s.kept[segment] && s.of(last_[r]) <= segment && (results == 0 || instead < results);
      }
    }
    return drop;
  }

  Graph recompute(const Segments& s) const {
    const ByValue<bool> drop = dropped(s);
    ByValue<bool> wanted(g_);
    for (const NodeId i : g_.node_ids().reversed()) {
      const Node& n = g_.node(i);
      bool reads = i >= forward_;
      for (Value v : n.outputs) reads = reads || wanted[v];
      if (!reads) continue;
      for (Value v : (i >= forward_ ? n : part_of(n, wanted)).inputs) {
        if (drop[v]) wanted[v] = true;
      }
    }
    // A value that forward made for backward alone is made there alone.
    ByValue<bool> first(g_);
    for (const Value v : g_.value_ids()) {
      const Value root = root_[v];
      first[v] = !wanted[root] || readers_[root] > 0;
    }
    Rewriter r(g_);
    const ByValue<bool> all = wanted;
    for (const NodeId i : g_.node_ids()) {
      const Node& n = g_.node(i);
      if (i >= forward_) {
        make(r, n.inputs, all, wanted);
        r.copy(n);
      } else if (std::any_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return first[v]; })) {
        r.copy(part_of(n, first));
      }
    }
    return dead_code(r.finish());
  }

  // Adds copies of the nodes behind those of `values` that are still wanted; who reads them from here on reads the
  // copy.
  void make(Rewriter& r, const std::vector<Value>& values, const ByValue<bool>& all, ByValue<bool>& wanted) const {
    for (Value v : values) {
      if (!wanted[v]) continue;
      const Node part = part_of(g_.def(v), all);
      for (Value made : part.outputs) wanted[made] = false;
      make(r, part.inputs, all, wanted);
      std::vector<std::pair<Value, Value>> kept;  // results that are not made again keep their readers
      for (Value made : part.outputs) {
        if (!all[made]) kept.emplace_back(made, r(made));
      }
      r.copy(part);
      for (const auto& [made, now] : kept) r.replace(made, now);
    }
  }

  const Graph& g_;
  const Backend& backend_;
  NodeId forward_{0};  // nodes before this one are forward
  size_t peak_ = 0;    // as the graph is
  size_t late_bytes_ = 0;
  ByValue<Value> root_;
  // These are of roots: may be made again; read by backward; forward readers; the last of these.
  ByValue<bool> may_, late_;
  ByValue<int> readers_;
  ByValue<NodeId> last_;
};

}  // namespace

Graph remat(const Graph& graph, const Backend& backend, Recompute mode) {
  if (mode == Recompute::none) return graph;
  const auto peak = [&](const Graph& g) { return static_cast<double>(peak_bytes(g, backend)); };
  Remat remat(graph, backend, mode);
  Graph less = remat.run([&](const Graph& g) { return std::pair(peak(g), 0.0); });
  return peak(schedule(less)) <= kWorthwhile * static_cast<double>(remat.peak()) ? less : graph;
}

Graph remat_within(const Graph& graph, const Backend& backend, const ArenaLimit& limit) {
  const auto bytes = static_cast<double>(limit.bytes);
  const Score score = [&](const Graph& g) {
    const Graph within = offload(g, backend, limit.bytes);
    double computes = 0, leaves = 0, comes = 0;
    for (const Node& n : within.nodes) {
      (n.op == Op::offload ? leaves : n.op == Op::fetch ? comes : computes) += step_seconds(within, n, limit.speed);
    }
    const double seconds = limit.speed.beside ? std::max({computes, leaves, comes}) : computes + leaves + comes;
    return std::pair(std::max(0.0, static_cast<double>(peak_bytes(within, backend)) - bytes), seconds);
  };
  if (limit.bytes == 0 || static_cast<double>(peak_bytes(schedule(graph), backend)) <= bytes) return graph;
  Graph best = graph;
  auto lowest = score(schedule(graph));
  for (const Recompute mode : {Recompute::automatic, Recompute::all}) {
    Graph candidate = Remat(graph, backend, mode).run(score);
    const auto now = score(schedule(candidate));
    if (now >= lowest) continue;
    lowest = now;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace freight::passes
