// The memory plan: when each buffer lives, which results may overwrite a dying input or the state they replace, and
// where in the arena everything lies. Offsets: largest buffers first, each at the lowest place that is free during its
// life.
#include <algorithm>

#include "freight/passes/passes.h"
#include "freight/passes/placement.h"

namespace freight::passes {

namespace {

struct Planner {
  const PlacedGraph& placed;
  const Backend& backend;
  const ByNode<size_t>& scratch_bytes;
  const ByNode<bool>& once;
  const ArenaLimit& allowed;
  const Graph& g = placed.graph;
  MemoryPlan plan = {};
  ByValue<Value> owner = {};        // root -> the root whose buffer it shares
  ByValue<int32_t> last_read = {};  // root -> last node that reads it
  ByValue<bool> replayed = {};      // root -> a step that runs each time reads it
  // Time: the number of the node that runs; `steps` is after the last one.
  int32_t steps = static_cast<int32_t>(g.nodes.size());
  const size_t alignment = backend.alignment();

  size_t aligned(size_t bytes) const { return (bytes + alignment - 1) / alignment * alignment; }

  Buffer& buffer(Value v) { return plan.buffers[v]; }
  Value root(Value v) const { return placed.place(v).root; }

  void read_times() {
    last_read = ByValue<int32_t>(g, -1);
    replayed = ByValue<bool>(g);
    for (const NodeId i : g.node_ids()) {
      const Node& n = g.node(i);
      if (!placed.is_step(n)) continue;
      for (Value v : n.inputs) {
        last_read[root(v)] = i.id;
        if (!once[i]) replayed[root(v)] = true;
      }
    }
    for (Value v : g.outputs) last_read[root(v)] = steps;
    for (const Update& u : g.updates) {
      if (buffer(u.next).kind != MemoryKind::state) last_read[root(u.next)] = steps;
    }
  }

  void leaves() {
    int32_t inputs = 0, states = 0, constants = 0;
    for (const Node& n : g.nodes) {
      if (info(n.op).kind != OpKind::leaf) continue;
      Buffer& b = buffer(n.out());
      b.bytes = g.type(n.out()).bytes();
      b.kind = n.op == Op::input ? MemoryKind::input : n.op == Op::state ? MemoryKind::state : MemoryKind::constant;
      b.index = n.op == Op::input ? inputs++ : n.op == Op::state ? states++ : constants++;
    }
  }

  void outputs() {
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      Buffer& b = buffer(g.outputs[i]);
      b = {MemoryKind::output, static_cast<int32_t>(i), 0, g.type(g.outputs[i]).bytes(), 0, 0};
    }
  }

  // A state's next value is written into the state when every reader of the state is done by then: the writer itself
  // may read it where the backend says that result may overwrite that input.
  void updates() {
    for (const Update& u : g.updates) {
      const NodeId writer = g.node_of(u.next);
      const Node& n = g.node(writer);
      bool fine = buffer(u.next).kind == MemoryKind::none && last_read[u.state] <= writer.id;
      for (size_t i = 0; fine && i < n.inputs.size(); ++i) {
        if (root(n.inputs[i]) != u.state) continue;
        fine = same_place(n.inputs[i], u.next) && backend.in_place(g, n, static_cast<int>(i), g.values[u.next].index);
      }
      if (fine) {
        buffer(u.next) = buffer(u.state);
        if (n.op == Op::all_reduce) sum_in_place(writer, u);
      } else {
        plan.late_updates.push_back(u);
        last_read[root(u.next)] = steps;
      }
    }
  }

  // A sum over ranks is made where the state lies: its operand is computed there where nobody else needs either.
  void sum_in_place(NodeId sum, const Update& u) {
    const Value in = g.node(sum).in(0), r = root(in);
    const NodeId maker = g.node_of(r);
    const bool whole =
        same_place(in, u.next) && layout_bytes(g.type(r), placed.place(r).layout) == buffer(u.state).bytes;
    const bool alone = buffer(r).kind == MemoryKind::none && last_read[r] == sum.id && last_read[u.state] < maker.id;
    if (whole && alone && placed.is_step(g.node(maker)) && !once[maker]) buffer(r) = buffer(u.state);
  }

  bool same_place(Value a, Value b) const {
    const Place &pa = placed.place(a), &pb = placed.place(b);
    return g.type(a) == g.type(b) && pa.offset == 0 && same_layout(g.type(a).shape, pa.layout, pb.layout) &&
           is_dense(g.type(a).shape, pa.layout);
  }

  void lifetimes() {
    owner = ByValue<Value>(g);
    for (const NodeId i : g.node_ids()) {
      const Node& n = g.node(i);
      if (!placed.is_step(n)) continue;
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        const Value v = n.outputs[k];
        owner[v] = v;
        Buffer& b = buffer(v);
        if (b.kind != MemoryKind::none) continue;
        b.bytes = layout_bytes(g.type(v), placed.place(v).layout);
        if (once[i] && replayed[v]) {
          b.kind = MemoryKind::kept;
          b.offset = plan.kept_bytes;
          plan.kept_bytes += aligned(b.bytes);
          continue;
        }
        b.kind = n.op == Op::offload ? MemoryKind::host : MemoryKind::arena;
        b.first = i.id;
        b.last = std::max(i.id, last_read[v]);
        reuse_dying_input(n, i.id, static_cast<int>(k));
      }
    }
  }

  void reuse_dying_input(const Node& n, int32_t at, int result) {
    const Value v = n.out(result);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const Value in = n.inputs[k], r = root(in);
      const Buffer& from = buffer(r);
      if (from.kind != MemoryKind::arena || last_read[r] != at) continue;
      if (!same_place(in, v) || from.bytes != buffer(v).bytes) continue;
      if (!backend.in_place(g, n, static_cast<int>(k), result)) continue;
      // The input must appear once, and no other result may have taken it.
      const auto reads = std::count_if(n.inputs.begin(), n.inputs.end(), [&](Value x) { return root(x) == r; });
      const Value own = owner[r];
      const auto earlier = n.outputs.begin() + result;
      const bool taken = std::any_of(n.outputs.begin(), earlier, [&](Value x) { return owner[x] == own; });
      if (reads != 1 || taken || buffer(own).last > at) continue;
      owner[v] = own;
      buffer(own).last = std::max(buffer(own).last, buffer(v).last);
      return;
    }
  }

  // Buffers of one kind that have memory of their own.
  std::vector<Buffer*> owners(MemoryKind kind) {
    std::vector<Buffer*> all;
    for (const Node& n : g.nodes) {
      for (Value v : n.outputs) {
        if (buffer(v).kind == kind && owner[v] == v) all.push_back(&buffer(v));
      }
    }
    return all;
  }

  ByNode<size_t> alive(const std::vector<Buffer*>& all) const {
    ByNode<size_t> live(g.nodes.size() + 1);
    for (const Buffer* b : all) {
      for (int32_t t = b->first; t <= std::min(b->last, steps); ++t) live[NodeId{t}] += aligned(b->bytes);
    }
    return live;
  }
  size_t most_alive(const std::vector<Buffer*>& all) const {
    const ByNode<size_t> live = alive(all);
    return *std::max_element(live.begin(), live.end());
  }

  std::vector<Buffer*> arena_owners() {
    std::vector<Buffer*> all = owners(MemoryKind::arena);
    for (Buffer& b : plan.scratch) {
      if (b.bytes > 0) all.push_back(&b);
    }
    return all;
  }

  void scratch() {
    plan.scratch = ByNode<Buffer>(g);
    for (const NodeId i : g.node_ids()) {
      if (scratch_bytes[i] > 0) plan.scratch[i] = {MemoryKind::arena, 0, 0, scratch_bytes[i], i.id, i.id};
    }
  }

  // The memory that a copy reads or writes on the device, and the steps during which it should have it.
  struct Stay {
    Buffer* buffer;
    int32_t first, last;
  };

  // When copies run, by the kernels' clock (figures of ArenaLimit::speed), if each begins as its turn and its bytes
  // allow: those to the host as early as they can, those back so late that they end when their reader begins.
  std::vector<Stay> stays() {
    ByNode<double> begins(g.nodes.size() + 1), seconds(g);
    ByValue<double> there(g);
    const auto behind = [](NodeId i) { return NodeId{i.id + 1}; };
    for (const NodeId i : g.node_ids()) {
      const Node& n = g.node(i);
      if (placed.is_step(n) && !once[i]) seconds[i] = step_seconds(g, n, allowed.speed);
      const bool crosses = n.op == Op::offload || n.op == Op::fetch;
      begins[behind(i)] = begins[i] + (crosses ? 0 : seconds[i]);
    }
    const auto step_at = [&](double time) {
      return begins.id_of(std::lower_bound(begins.begin(), begins.end(), time)).id - 1;
    };
    std::vector<Stay> found;
    double queue = 0;
    for (const NodeId i : g.node_ids()) {
      const Node& n = g.node(i);
      if (n.op != Op::offload || once[i]) continue;
      const Value from = root(n.in(0));
      queue = std::max(queue, begins[behind(g.node_of(from))]) + seconds[i];
      there[n.out()] = std::max(queue, begins[i]);
      if (buffer(from).kind != MemoryKind::arena) continue;
      Buffer* b = &buffer(owner[from]);
      found.push_back({b, b->first, std::max(b->last, std::min(step_at(queue), steps - 1))});
    }
    queue = begins[NodeId{steps}];
    for (const NodeId i : g.node_ids().reversed()) {
      const Node& n = g.node(i);
      if (n.op != Op::fetch || once[i]) continue;
      queue = std::min(queue, begins[i]) - seconds[i];
      Buffer* b = &buffer(n.out());
      if (b->kind != MemoryKind::arena) continue;
      const int32_t first = step_at(std::max(queue, there[root(n.in(0))]));
      found.push_back({b, std::min(b->first, std::max(first, 0)), b->last});
    }
    return found;
  }

  // Copies run beside the kernels (run/queues.cpp), unless the step before or behind them has their memory. So a value
  // that leaves keeps its memory until the copy is probably done, and one that comes has it from the probable begin
  // on, for as many steps as leave the sum of live bytes within `room`.
  void prolong(size_t room) {
    ByNode<size_t> live = alive(arena_owners());
    for (const Stay& s : stays()) {
      const size_t bytes = aligned(s.buffer->bytes);
      const auto takes = [&](int32_t t) {
        size_t& sum = live[NodeId{t}];
        if (sum + bytes > room) return false;
        sum += bytes;
        return true;
      };
      while (s.buffer->last < s.last && takes(s.buffer->last + 1)) ++s.buffer->last;
      while (s.buffer->first > s.first && takes(s.buffer->first - 1)) --s.buffer->first;
    }
  }

  void lay_out() {
    plan.host_bytes = place(owners(MemoryKind::host));
    scratch();
    offsets();
    const bool copies = std::any_of(g.nodes.begin(), g.nodes.end(),
                                    [](const Node& n) { return n.op == Op::fetch || n.op == Op::offload; });
    if (!copies) return;
    // No larger than it is, or may be: gaps between buffers take a part of the room.
    const ByValue<Buffer> buffers = plan.buffers;
    const ByNode<Buffer> scratch = plan.scratch;
    const size_t most = std::max(allowed.bytes, plan.arena_bytes), least = plan.lower_bound_bytes,
                 arena = plan.arena_bytes;
    for (size_t room = most; room >= least && room > 0;) {
      prolong(room);
      offsets();
      if (plan.arena_bytes <= most) return;
      const size_t over = plan.arena_bytes - most;
      plan.buffers = buffers;
      plan.scratch = scratch;
      plan.arena_bytes = arena;
      plan.lower_bound_bytes = least;
      if (room <= least) return;
      room = std::max(least, room - std::min(room, std::max(over, (room - least) / 2)));
    }
  }

  void offsets() {
    std::vector<Buffer*> all = arena_owners();
    plan.lower_bound_bytes = most_alive(all);
    plan.arena_bytes = place(std::move(all));
    for (const Node& n : g.nodes) {
      for (Value v : n.outputs) {
        if (buffer(v).kind != MemoryKind::arena) continue;
        buffer(v).offset = buffer(owner[v]).offset;
      }
    }
  }

  // Gives all of them offsets; returns the bytes that hold them. Several orders are tried; the smallest total wins.
  size_t place(std::vector<Buffer*> all) const {
    const size_t least = most_alive(all);
    const auto by_size = [](const Buffer* a, const Buffer* b) {
      return a->bytes != b->bytes ? a->bytes > b->bytes : a->first < b->first;
    };
    const auto by_life = [](const Buffer* a, const Buffer* b) {
      const int la = a->last - a->first, lb = b->last - b->first;
      return la != lb ? la > lb : a->bytes > b->bytes;
    };
    const auto by_area = [](const Buffer* a, const Buffer* b) {
      return static_cast<double>(a->bytes) * (a->last - a->first + 1) >
             static_cast<double>(b->bytes) * (b->last - b->first + 1);
    };
    const auto by_start = [](const Buffer* a, const Buffer* b) {
      return a->first != b->first ? a->first < b->first : a->bytes > b->bytes;
    };
    std::vector<size_t> best;
    size_t smallest = 0;
    const auto attempt = [&](auto&& less) {
      if (!best.empty() && smallest == least) return;  // no order can do better
      std::stable_sort(all.begin(), all.end(), less);
      const size_t limit = best.empty() ? SIZE_MAX : smallest, total = place_all(all, limit);
      if (total < limit) {
        smallest = total;
        best.clear();
        std::vector<Buffer*> stable = all;
        std::sort(stable.begin(), stable.end());
        for (const Buffer* b : stable) best.push_back(b->offset);
      }
    };
    if (all.empty()) return 0;
    attempt(by_size);
    attempt(by_life);
    attempt(by_area);
    attempt(by_start);
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < all.size(); ++i) all[i]->offset = best[i];
    return smallest;
  }

  // The size of the arena in which the buffers are placed in this order; `limit` or more where it would not be smaller.
  size_t place_all(const std::vector<Buffer*>& order, size_t limit) const {
    struct Placed {
      size_t offset, end;
      int32_t first, last;
    };
    std::vector<Placed> set;  // by offset
    set.reserve(order.size());
    size_t total = 0;
    for (Buffer* b : order) {
      // The smallest gap that holds it; else behind everything that lives at the same time.
      const size_t bytes = aligned(b->bytes);
      size_t at = 0, best_gap = SIZE_MAX, best_at = SIZE_MAX;
      for (const Placed& p : set) {
        if (p.last < b->first || p.first > b->last) continue;
        if (p.offset >= at + bytes && p.offset - at < best_gap) {
          best_gap = p.offset - at;
          best_at = at;
        }
        at = std::max(at, p.end);
      }
      b->offset = best_at == SIZE_MAX ? at : best_at;
      total = std::max(total, b->offset + bytes);
      if (total >= limit) return total;
      const Placed own{b->offset, b->offset + bytes, b->first, b->last};
      set.insert(std::upper_bound(set.begin(), set.end(), own,
                                  [](const Placed& x, const Placed& y) { return x.offset < y.offset; }),
                 own);
    }
    return total;
  }
};

}  // namespace

ByNode<bool> once_steps(const PlacedGraph& placed, States states) {
  const Graph& g = placed.graph;
  ByValue<bool> there = frozen_values(g, states);  // before the first replayed step
  ByValue<bool> result(g);
  ByNode<bool> once(g);
  for (Value v : g.results()) result[v] = true;  // memory of a call's own, or a state's
  for (const NodeId i : g.node_ids()) {
    const Node& n = g.node(i);
    if (info(n.op).kind == OpKind::leaf) continue;
    once[i] = std::all_of(n.inputs.begin(), n.inputs.end(), [&](Value v) { return there[v]; }) &&
              std::all_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return there[v] && !result[v]; });
    for (Value v : n.outputs) there[v] = once[i];
  }
  return once;
}

MemoryPlan memory(const PlacedGraph& placed, const Backend& backend, const MemoryOptions& options) {
  Planner p{placed, backend, options.scratch_bytes, options.once, options.limit};
  p.plan.buffers = ByValue<Buffer>(placed.graph);
  p.leaves();
  p.outputs();
  p.read_times();
  p.updates();
  p.lifetimes();
  p.lay_out();
  return std::move(p.plan);
}

}  // namespace freight::passes
