// See memory.h.
#include "freight/plan/memory.h"

#include <algorithm>

#include "freight/base/strings.h"
#include "freight/plan/work.h"
#include "freight/run/plan.h"

namespace freight::plan {

namespace {

constexpr const char* kNames[kParts] = {"weights",   "optimizer state", "averages",   "accumulators", "activations",
                                        "gradients", "signals",         "workspaces", "packing",      "constants",
                                        "staging",   "evaluation",      "checkpoint", "process",      "host memory"};

// A stretch of steps during which a place in the arena holds one tensor. Results that overwrite a dying input share
// its place, and their stretches overlap.
struct Life {
  size_t offset = 0, bytes = 0;
  int32_t first = 0, last = 0;
  Value value;        // invalid: a workspace
  int32_t node = -1;  // that makes it, or uses the workspace
};

std::vector<Life> lives(const Plan& plan) {
  const Graph& g = plan.graph();
  const MemoryPlan& m = plan.memory();
  std::vector<Life> all;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for (Value v : g.nodes[i].outputs) {
      const Buffer& b = m.buffers[v.index()];
      if (b.kind == MemoryKind::arena && b.bytes > 0) {
        all.push_back({b.offset, b.bytes, b.first, b.last, v, static_cast<int32_t>(i)});
      }
    }
    const Buffer& s = m.scratch[i];
    if (s.kind == MemoryKind::arena && s.bytes > 0) {
      all.push_back({s.offset, s.bytes, s.first, s.last, {}, static_cast<int32_t>(i)});
    }
  }
  // A tensor ends where its successor at the same place begins.
  std::stable_sort(all.begin(), all.end(), [](const Life& a, const Life& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.first < b.first;
  });
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i].offset == all[i + 1].offset) all[i].last = std::min(all[i].last, all[i + 1].first - 1);
  }
  return all;
}

int32_t peak_of(const std::vector<Life>& all, size_t nodes) {
  std::vector<int64_t> change(nodes + 2);
  for (const Life& l : all) {
    if (l.last < l.first) continue;
    change[static_cast<size_t>(l.first)] += static_cast<int64_t>(l.bytes);
    change[std::min(static_cast<size_t>(l.last) + 1, nodes + 1)] -= static_cast<int64_t>(l.bytes);
  }
  int64_t live = 0, most = -1;
  int32_t at = 0;
  for (size_t i = 0; i < nodes; ++i) {
    live += change[i];
    if (live > most) {
      most = live;
      at = static_cast<int32_t>(i);
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
  const int32_t peak = peak_of(all, g.nodes.size());
  const std::vector<bool> forward = forward_nodes(plan), gradient = weight_gradients(plan);
  ArenaUse use;
  size_t live = 0;
  for (const Life& l : all) {
    if (l.first > peak || l.last < peak) continue;
    const Node& n = g.nodes[static_cast<size_t>(l.node)];
    const Part part = !l.value.valid()                       ? Part::workspaces
                      : forward[static_cast<size_t>(l.node)] ? Part::activations
                      : gradient[l.value.index()]            ? Part::gradients
                                                             : Part::signals;
    const Type type = l.value.valid() ? g.type(l.value) : Type{DType::u8, {static_cast<int64_t>(l.bytes)}};
    use.held.push_back({n.scope, name(n.op), type, l.bytes, part});
    use.bytes[static_cast<size_t>(part)] += l.bytes;
    live += l.bytes;
  }
  use.bytes[static_cast<size_t>(Part::packing)] = plan.arena_bytes() > live ? plan.arena_bytes() - live : 0;
  std::stable_sort(use.held.begin(), use.held.end(), [](const Held& a, const Held& b) { return a.bytes > b.bytes; });
  if (!g.nodes.empty()) {
    const Node& n = g.nodes[static_cast<size_t>(peak)];
    use.peak =
        cat(n.scope, n.scope.empty() ? "" : " ", name(n.op), forward[static_cast<size_t>(peak)] ? "" : ", backward");
  }
  return use;
}

}  // namespace freight::plan
