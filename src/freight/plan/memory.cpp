// See memory.h.
#include "freight/plan/memory.h"

#include <algorithm>

#include "freight/base/strings.h"
#include "freight/plan/work.h"
#include "freight/run/plan.h"

namespace freight::plan {

namespace {

constexpr const char* kNames[kParts] = {
    "weights", "optimizer state", "averages", "accumulators", "activations", "gradients", "signals", "workspaces",
    "packing", "constants",       "staging",  "evaluation",   "checkpoint",  "folds",     "process", "host memory"};

// The steps during which a place in the arena holds one tensor. A result that overwrites a dying input shares its
// place, and the two lives overlap.
struct Life {
  size_t offset = 0, bytes = 0;
  int32_t first = 0, last = 0;
  Value value;  // invalid for a workspace
  NodeId node;  // that makes the tensor, or uses the workspace
};

std::vector<Life> lives(const Plan& plan) {
  const Graph& g = plan.graph();
  const MemoryPlan& m = plan.memory();
  std::vector<Life> all;
  for (const NodeId i : g.node_ids()) {
    for (Value v : g.node(i).outputs) {
      const Buffer& b = m.buffers[v];
      if (b.kind == MemoryKind::arena && b.bytes > 0) {
        all.push_back({b.offset, b.bytes, b.first, b.last, v, i});
      }
    }
    const Buffer& s = m.scratch[i];
    if (s.kind == MemoryKind::arena && s.bytes > 0) {
      all.push_back({s.offset, s.bytes, s.first, s.last, {}, i});
    }
  }
  // A tensor ends when its successor at the same place begins.
  std::stable_sort(all.begin(), all.end(), [](const Life& a, const Life& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.first < b.first;
  });
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i].offset == all[i + 1].offset) all[i].last = std::min(all[i].last, all[i + 1].first - 1);
  }
  return all;
}

NodeId peak_of(const std::vector<Life>& all, const Graph& g) {
  const auto nodes = static_cast<int32_t>(g.nodes.size());
  ByNode<int64_t> change(g.nodes.size() + 2);
  for (const Life& l : all) {
    if (l.last < l.first) continue;
    change[NodeId{l.first}] += static_cast<int64_t>(l.bytes);
    change[NodeId{std::min(l.last, nodes) + 1}] -= static_cast<int64_t>(l.bytes);
  }
  int64_t live = 0, most = -1;
  NodeId at{0};
  for (const NodeId i : g.node_ids()) {
    live += change[i];
    if (live > most) {
      most = live;
      at = i;
    }
  }
  return at;
}

}  // namespace

const char* to_string(Part part) { return kNames[static_cast<size_t>(part)]; }

size_t constant_bytes(const Plan& plan) {
  size_t sum = 0;
  for (Value v : plan.graph().leaves(Op::constant)) sum += plan.graph().type(v).bytes();
  return sum;
}

ArenaUse arena_use(const Plan& plan) {
  const Graph& g = plan.graph();
  const std::vector<Life> all = lives(plan);
  const NodeId peak = peak_of(all, g);
  const ByNode<bool> forward = forward_nodes(g);
  const ByValue<bool> gradient = weight_gradients(plan);
  ArenaUse use;
  size_t live = 0;
  for (const Life& l : all) {
    if (l.first > peak.id || l.last < peak.id) continue;
    const Node& n = g.node(l.node);
    const Part part = !l.value.valid()    ? Part::workspaces
                      : forward[l.node]   ? Part::activations
                      : gradient[l.value] ? Part::gradients
                                          : Part::signals;
    const Type type = l.value.valid() ? g.type(l.value) : Type{DType::u8, {static_cast<int64_t>(l.bytes)}};
    use.live.push_back({n.scope, name(n.op), type, l.bytes, part});
    use.bytes[static_cast<size_t>(part)] += l.bytes;
    live += l.bytes;
  }
  use.bytes[static_cast<size_t>(Part::packing)] = plan.arena_bytes() > live ? plan.arena_bytes() - live : 0;
  std::stable_sort(use.live.begin(), use.live.end(),
                   [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
  if (!g.nodes.empty()) {
    const Node& n = g.node(peak);
    use.peak = cat(n.scope, n.scope.empty() ? "" : " ", name(n.op), forward[peak] ? "" : ", backward");
  }
  return use;
}

}  // namespace freight::plan
