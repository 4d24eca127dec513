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

std::vector<size_t> live_bytes(const Graph& g, const Backend& backend) {
  const std::vector<Value> root = memory_roots(g);
  std::vector<size_t> bytes(g.values.size()), last(g.values.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const OpKind kind = info(g.nodes[i].op).kind;
    for (Value v : g.nodes[i].outputs) {
      last[v.index()] = i;
      if (kind != OpKind::leaf && kind != OpKind::view && g.nodes[i].op != Op::offload)
        bytes[v.index()] = g.type(v).bytes();
    }
    if (kind == OpKind::view) continue;
    for (Value v : g.nodes[i].inputs) last[root[v.index()].index()] = i;
  }
  for (Value v : g.results()) bytes[v.index()] = 0;
  size_t live = 0;
  std::vector<size_t> at(g.nodes.size());
  std::vector<std::vector<size_t>> dying(g.nodes.size());
  for (size_t v = 0; v < bytes.size(); ++v) {
    if (bytes[v] > 0) dying[last[v]].push_back(v);
  }
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    size_t made = 0, reused = 0;
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const size_t size = bytes[n.outputs[k].index()];
      made += size;
      for (size_t j = 0; size > 0 && j < n.inputs.size(); ++j) {
        const size_t r = root[n.inputs[j].index()].index();
        if (bytes[r] != size || last[r] != i) continue;
        if (!backend.in_place(g, n, static_cast<int>(j), static_cast<int>(k))) continue;
        reused += size;
        break;
      }
    }
    at[i] = live + made - std::min(made, reused);
    live += made;
    for (const size_t v : dying[i]) live -= bytes[v];
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
  const std::vector<size_t> live = live_bytes(g, backend);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

// The part of a fused node that makes the results marked in `wanted` (by value). A region that reduces stays whole: how
// its kernel adds up may depend on what else it makes.
Node part_of(const Node& n, const std::vector<bool>& wanted) {
  Node part = n;
  const bool whole = std::all_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return wanted[v.index()]; });
  if (n.op != Op::fused || whole) return part;
  const auto& nodes = attrs<FusedAttrs>(n).body->nodes;
  if (std::any_of(nodes.begin(), nodes.end(), [](const Node& inner) { return is_reduce(inner.op); })) return part;
  Graph body = *attrs<FusedAttrs>(n).body;
  for (size_t i = n.outputs.size(); i-- > 0;) {
    if (wanted[n.outputs[i].index()]) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    part.outputs.erase(part.outputs.begin() + at);
    body.outputs.erase(body.outputs.begin() + at);
  }
  body = dead_code(body);
  const std::vector<int> uses = body.use_counts();
  Rewriter r(body);
  part.inputs.clear();
  size_t input = 0;
  for (const Node& inner : body.nodes) {
    if (inner.op == Op::input) {
      const Value given = n.inputs[input++];
      if (uses[inner.out().index()] == 0) continue;
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
    std::vector<size_t> ends;  // last node of each but the last
    std::vector<bool> kept;    // by segment: its values are not made again
    size_t of(size_t node) const {
      return static_cast<size_t>(std::lower_bound(ends.begin(), ends.end(), node) - ends.begin());
    }
  };

  // What forward is, who reads what in which half, and what may be made again.
  void look(Recompute mode) {
    peak_ = peak_bytes(schedule(g_), backend_);
    std::vector<bool> live(g_.values.size());
    for (Value v : g_.outputs) live[v.index()] = true;
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const Node& n = g_.nodes[i];
      if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return live[v.index()]; })) continue;
      // A region of single numbers may hold the loss and yet stand far behind, with those of the optimizer.
      const auto large = [&](Value v) {
        return info(g_.def(v).op).kind != OpKind::leaf && g_.type(v).bytes() > peak_ / kSmallResult;
      };
      if (std::any_of(n.inputs.begin(), n.inputs.end(), large) ||
          std::any_of(n.outputs.begin(), n.outputs.end(), large))
        forward_ = std::max(forward_, i + 1);
      for (Value v : n.inputs) live[v.index()] = true;
    }
    root_ = memory_roots(g_);
    may_.resize(g_.values.size());
    late_.resize(g_.values.size());
    readers_.resize(g_.values.size());
    last_.resize(g_.values.size());
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      const OpKind kind = info(n.op).kind;
      const bool heavy = kind == OpKind::contract || kind == OpKind::convolve || kind == OpKind::composite;
      const bool once = n.op == Op::recurrent_layer_grad;  // a library writes over what the layer kept for it
      for (Value v : n.outputs) {
        may_[v.index()] = i < forward_ && kind != OpKind::leaf && kind != OpKind::view && !once &&
                          (mode == Recompute::all || !heavy) && g_.type(v).bytes() > peak_ / kSmallResult;
      }
      if (kind == OpKind::view) continue;
      for (Value v : n.inputs) {
        const size_t r = root_[v.index()].index();
        if (i >= forward_) {
          late_[r] = true;
        } else {
          last_[r] = i;
          ++readers_[r];
        }
      }
    }
    for (Value v : g_.results()) may_[root_[v.index()].index()] = false;
    for (size_t v = 0; v < may_.size(); ++v) {
      if (may_[v] && late_[v]) late_bytes_ += bytes(v);
    }
  }
  size_t bytes(size_t v) const { return g_.values[v].type.bytes(); }
  size_t made_at(size_t v) const { return static_cast<size_t>(g_.values[v].node); }

  // So many segments of about equal kept bytes; each ends where the fewest bytes cross, near its share.
  Segments segments(int count) const {
    std::vector<size_t> kept(forward_), crossing(forward_ + 1);
    for (size_t v = 0; v < may_.size(); ++v) {
      if (!may_[v]) continue;
      if (late_[v]) kept[made_at(v)] += bytes(v);
      for (size_t i = made_at(v); i < last_[v]; ++i) crossing[i] += bytes(v);
    }
    Segments s;
    const double share = static_cast<double>(late_bytes_) / count;
    size_t i = 0;
    double so_far = 0;
    for (int k = 1; k < count; ++k) {
      size_t end = forward_;
      for (; i < forward_ && so_far + static_cast<double>(kept[i]) <= (k + 0.5) * share; ++i) {
        so_far += static_cast<double>(kept[i]);
        if (so_far < (k - 0.5) * share) continue;
        if (end == forward_ || crossing[i] < crossing[end]) end = i;
      }
      if (end < forward_) s.ends.push_back(end);
    }
    s.kept.resize(s.ends.size() + 1);
    return s;
  }

  // By value: not kept, but made again wherever backward needs it.
  std::vector<bool> dropped(const Segments& s) const {
    std::vector<bool> drop(g_.values.size());
    for (size_t i = 0; i < forward_; ++i) {
      const Node& n = g_.nodes[i];
      // An input that only this node reads would be kept in its results' stead.
      size_t results = 0, instead = 0;
      for (Value v : n.outputs) results += late_[v.index()] ? bytes(v.index()) : 0;
      for (Value v : n.inputs) {
        const size_t r = root_[v.index()].index();
        const bool leaf = info(g_.def(root_[v.index()]).op).kind == OpKind::leaf;
        if (!leaf && !drop[r] && !late_[r] && readers_[r] == 1) instead += bytes(r);
      }
      for (Value v : n.outputs) {
        const size_t r = root_[v.index()].index();
        const size_t segment = s.of(i);
        drop[v.index()] = r != v.index() ? drop[r]
                                         : may_[r] && !s.kept[segment] && s.of(last_[r]) <= segment &&
                                               (results == 0 || instead < results);
      }
    }
    return drop;
  }

  Graph recompute(const Segments& s) const {
    const std::vector<bool> drop = dropped(s);
    std::vector<bool> wanted(g_.values.size());
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const Node& n = g_.nodes[i];
      bool reads = i >= forward_;
      for (Value v : n.outputs) reads = reads || wanted[v.index()];
      if (!reads) continue;
      for (Value v : (i >= forward_ ? n : part_of(n, wanted)).inputs) {
        if (drop[v.index()]) wanted[v.index()] = true;
      }
    }
    // What forward made for backward alone is made there alone.
    std::vector<bool> first(g_.values.size());
    for (size_t v = 0; v < first.size(); ++v) {
      const size_t root = root_[v].index();
      first[v] = !wanted[root] || readers_[root] > 0;
    }
    Rewriter r(g_);
    const std::vector<bool> all = wanted;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      if (i >= forward_) {
        make(r, n.inputs, all, wanted);
        r.copy(n);
      } else if (std::any_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return first[v.index()]; })) {
        r.copy(part_of(n, first));
      }
    }
    return dead_code(r.finish());
  }

  // Adds copies of the nodes behind those of `values` that are still wanted; who reads them from here on reads the
  // copy.
  void make(Rewriter& r, const std::vector<Value>& values, const std::vector<bool>& all,
            std::vector<bool>& wanted) const {
    for (Value v : values) {
      if (!wanted[v.index()]) continue;
      const Node part = part_of(g_.def(v), all);
      for (Value made : part.outputs) wanted[made.index()] = false;
      make(r, part.inputs, all, wanted);
      std::vector<std::pair<Value, Value>> kept;  // results that are not made again keep their readers
      for (Value made : part.outputs) {
        if (!all[made.index()]) kept.emplace_back(made, r(made));
      }
      r.copy(part);
      for (const auto& [made, now] : kept) r.replace(made, now);
    }
  }

  const Graph& g_;
  const Backend& backend_;
  size_t forward_ = 0;  // nodes before this one are forward
  size_t peak_ = 0;     // as the graph is
  size_t late_bytes_ = 0;
  std::vector<Value> root_;
  // By root: may be made again; read by backward; forward readers; the last of these.
  std::vector<bool> may_, late_;
  std::vector<int> readers_;
  std::vector<size_t> last_;
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
