// See shards_together.h.
#include "freight/train/shards_together.h"

#include <cstring>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/comm/tree_sum.h"
#include "freight/passes/passes.h"
#include "freight/run/plan.h"
#include "freight/train/ranks.h"

namespace freight::train {

namespace {

constexpr size_t kMostBound = 64;  // plans of a slot with their memory: shapes of batches

Type type_of(const Array& a) { return {a.dtype(), a.shape()}; }

// The types of the sums within a plan, in their order.
std::vector<Type> sums_of(const Plan& plan) {
  const Graph& g = plan.graph();
  const ByNode<bool> within = passes::sums_read_within(g);
  std::vector<Type> types;
  for (const PlanStep& s : plan.steps()) {
    if (within[s.node]) types.push_back(g.type(g.node(s.node).out()));
  }
  return types;
}

}  // namespace

void ShardsTogether::add(const Array& x, const Array& y, const RandomState& random) {
  shards_.push_back({x.clone(), y.clone(), random});
}

ShardsTogether::Bound& ShardsTogether::bind(size_t shard, const Array& block, const void* random_state) {
  ShardBuffers& slot = *slots_[shard];
  const Shard& s = shards_[shard];
  const std::string key = cat(type_of(s.x), type_of(s.y));
  if (const auto known = slot.bound.find(key); known != slot.bound.end()) return known->second;
  if (slot.bound.size() == kMostBound) slot.bound.clear();
  const std::shared_ptr<const Plan> plan = source_.plan(type_of(s.x), type_of(s.y));
  const Graph& g = plan->graph();
  if (g.leaves(Op::input).size() != 2) {
    fail(ErrorKind::usage, "--sync-batch-norm",
         "is not for a network that reads the program's arrays in its forward pass");
  }
  if (!slot.block.defined()) slot.block = Array(block.dtype(), block.shape());
  Bound b;
  std::vector<std::shared_ptr<Storage>> storages;
  Executable::Options options{.arena = slot.arena};
  const auto* const begin = static_cast<const char*>(block.raw());
  for (const Array& state : source_.states(s.x, s.y)) {
    const auto* const at = static_cast<const char*>(state.raw());
    if (at >= begin && at < begin + block.bytes()) {
      char* const own = static_cast<char*>(slot.block.raw()) + (at - begin);
      b.own.emplace_back(state.dtype(), state.shape(), Storage::borrow(own, state.bytes(), slot.block.storage()));
      storages.push_back(b.own.back().storage());
    } else {
      if (at == random_state) options.random_state = storages.size();
      storages.push_back(state.storage());
    }
  }
  b.executable = std::make_unique<Executable>(plan, std::move(storages), std::move(options));
  if (slot.results.empty()) {
    for (const Value v : g.outputs) slot.results.emplace_back(g.type(v).dtype, g.type(v).shape);
  }
  return slot.bound.emplace(key, std::move(b)).first->second;
}

void ShardsTogether::run(const Array& block, const void* random_state, const Sharding& sharding,
                         const ShardAssignment& deal) {
  sharding_ = &sharding;
  deal_ = &deal;
  while (slots_.size() < shards_.size()) slots_.push_back(std::make_unique<ShardBuffers>());
  std::vector<Executable::Joint> all;
  std::vector<Bound*> bound;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const Shard& s = shards_[i];
    if (s.x.numel() == 0) continue;
    Bound& b = bind(i, block, random_state);
    bound.push_back(&b);
    all.push_back({b.executable.get(), {s.x, s.y}, slots_[i]->results, s.random});
  }
  if (!all.empty()) {
    Executable::run_together(all, *this);
  } else {  // the others need this rank all the same
    Type x = type_of(shards_[0].x), y = type_of(shards_[0].y);
    x.shape[0] = y.shape[0] = 1;
    for (const Type& type : sums_of(*source_.plan(x, y))) sum_within({}, type);
  }
  for (const Bound* b : bound) {
    for (const Array& a : b->own) a.raw();  // a device's newest come to the block
  }
}

// The parts are those of the shards that are not empty.
bool ShardsTogether::sum_within(std::span<void* const> parts, const Type& type) {
  const Sharding& sharding = *sharding_;
  const ShardAssignment& deal = *deal_;
  const int64_t n = type.shape.numel();
  const auto room = [&](std::vector<double>& memory, int64_t tensors) {
    memory.assign((static_cast<size_t>(tensors) * type.bytes() + sizeof(double) - 1) / sizeof(double), 0.0);
    return reinterpret_cast<char*>(memory.data());
  };
  char* const total = room(total_, 1);
  char* const mine = room(mine_, deal.most());
  std::vector<const void*> by_shard;
  size_t next = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    char* const at = mine + i * type.bytes();
    if (shards_[i].x.numel() > 0) std::memcpy(at, parts[next++], type.bytes());
    by_shard.push_back(at);
  }
  if (sharding.ranks && sharding.exact && !deal.aligned()) {
    char* const all = room(all_, deal.most() * deal.world);
    sharding.ranks->comm().all_gather(mine, all, deal.most() * n, type.dtype);
    by_shard.clear();
    for (int r = 0; r < deal.world; ++r) {
      const int64_t count = deal.first_of(r + 1) - deal.first_of(r);
      for (int64_t i = 0; i < count; ++i) {
        by_shard.push_back(all + static_cast<size_t>(r * deal.most() + i) * type.bytes());
      }
    }
    comm::tree_sum(by_shard.data(), static_cast<int>(by_shard.size()), total, n, type.dtype);
  } else {
    comm::tree_sum(by_shard.data(), static_cast<int>(by_shard.size()), total, n, type.dtype);
    if (sharding.ranks) sharding.ranks->comm().all_reduce(total, n, type.dtype);
  }
  for (void* const part : parts) std::memcpy(part, total, type.bytes());
  return true;
}

}  // namespace freight::train
