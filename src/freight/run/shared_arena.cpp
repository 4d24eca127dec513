// See shared_arena_internal.h.
#include "freight/run/shared_arena_internal.h"

#include <algorithm>

namespace freight {

Arena::Arena(std::shared_ptr<DeviceMemory> memory, size_t bytes, DeviceSide side) : memory_(std::move(memory)) {
  if (memory_) {
    address_ = side == DeviceSide::host ? memory_->allocate_host(bytes) : memory_->allocate(bytes);
  } else {
    host_ = Storage::allocate(bytes);
    address_ = host_->data();
  }
}

Arena::~Arena() {
  if (memory_) memory_->release(address_);
}

namespace {

// `states` are in the order of the leaves of the whole graph.
std::shared_ptr<KeptValue> computation_of(const PlacedGraph& placed, Value value,
                                          const std::vector<std::shared_ptr<Storage>>& states) {
  const Graph& g = placed.graph;
  ByNode<bool> needed(g);
  needed[g.node_of(value)] = true;
  for (const NodeId i : g.node_ids().reversed()) {
    if (!needed[i]) continue;
    for (const Value v : g.node(i).inputs) needed[g.node_of(v)] = true;
  }
  auto kept = std::make_shared<KeptValue>();
  Rewriter r(g);
  size_t state = 0;
  for (const NodeId i : g.node_ids()) {
    const Node& n = g.node(i);
    const size_t number = n.op == Op::state ? state++ : 0;
    if (!needed[i]) continue;
    if (n.op == Op::state) kept->states.push_back(states[number]);
    r.copy(n);
  }
  kept->places = ByValue<Place>(r.dst);
  for (const NodeId i : g.node_ids()) {
    if (!needed[i]) continue;
    for (const Value v : g.node(i).outputs) {
      const Place& p = placed.place(v);
      kept->places[r(v)] = {p.layout, r(p.root), p.offset};
    }
  }
  r.dst.outputs = {r(value)};
  kept->graph = r.dst;  // a copy takes the memory of these few nodes alone
  return kept;
}

}  // namespace

bool KeptValue::computed_as(const KeptValue& other) const {
  const auto same_place = [](const Place& a, const Place& b) {
    return a.layout == b.layout && a.root == b.root && a.offset == b.offset;
  };
  return states == other.states && structurally_equal(graph, other.graph) &&
         std::equal(places.begin(), places.end(), other.places.begin(), other.places.end(), same_place);
}

void* SharedArena::of(const std::shared_ptr<DeviceMemory>& memory, size_t bytes) {
  if (!arena_ || bytes > bytes_) {
    arena_.reset();  // before there is a larger one
    arena_ = std::make_unique<Arena>(memory, bytes);
    bytes_ = bytes;
  }
  return arena_->address();
}

ByValue<std::shared_ptr<KeptValue>> SharedArena::keep(const Plan& plan,
                                                      const std::vector<std::shared_ptr<Storage>>& states,
                                                      const std::shared_ptr<DeviceMemory>& memory) {
  const Graph& g = plan.graph();
  ByValue<std::shared_ptr<KeptValue>> all(g);
  std::erase_if(kept_, [](const auto& k) { return k.expired(); });
  const size_t alignment = backend(plan.options().backend).alignment();
  std::vector<std::pair<KeptValue*, size_t>> fresh;  // and where they lie in a new block
  size_t bytes = 0;
  for (const Value v : g.value_ids()) {
    const Buffer& buffer = plan.memory().buffers[v];
    if (buffer.kind != MemoryKind::kept) continue;
    all[v] = computation_of(plan.placed(), v, states);
    const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const auto& k) {
      const std::shared_ptr<KeptValue> other = k.lock();
      return other && other->computed_as(*all[v]);
    });
    if (known != kept_.end()) {
      all[v] = known->lock();
      continue;
    }
    fresh.emplace_back(all[v].get(), bytes);
    bytes += (buffer.bytes + alignment - 1) / alignment * alignment;
    kept_.push_back(all[v]);
  }
  if (fresh.empty()) return all;
  const auto block = std::make_shared<Arena>(memory, bytes);
  for (const auto& [value, offset] : fresh) {
    value->block = block;
    value->address = static_cast<char*>(block->address()) + offset;
  }
  return all;
}

}  // namespace freight
