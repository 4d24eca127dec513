// How an eager trace runs: once, as one plan, with every tensor that somebody holds as a result. See tracer.h.
#include <algorithm>
#include <shared_mutex>

#include "freight/base/threads.h"
#include "freight/trace/batch_statistics.h"
#include "freight/trace/tracer.h"

namespace freight::trace {

namespace {

std::shared_mutex& state_mutex() {
  static std::shared_mutex mutex;
  return mutex;
}

// Definitions of constants that are repeated in later traces have no more nodes than this.
constexpr size_t kMostConstantNodes = 8;

// The definition of a value that depends on constants alone; null for others, which is nearly always found at once.
std::shared_ptr<const Graph> constant_definition(const Graph& graph, Value value) {
  std::vector<int32_t> nodes{graph.values[value.index()].node};
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& n = graph.nodes[static_cast<size_t>(nodes[i])];
    if (n.op == Op::input || n.op == Op::state || nodes.size() > kMostConstantNodes) return nullptr;
    for (Value v : n.inputs) {
      const int32_t node = graph.values[v.index()].node;
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  auto out = std::make_shared<Graph>();
  std::unordered_map<int32_t, Value> map;
  for (const int32_t i : nodes) {
    const Node& n = graph.nodes[static_cast<size_t>(i)];
    std::vector<Value> in;
    for (Value v : n.inputs) in.push_back(map[v.id]);
    const std::vector<Value> made = out->add(n.op, n.attrs, in, n.scope, n.where);
    for (size_t k = 0; k < made.size(); ++k) map[n.outputs[k].id] = made[k];
  }
  out->outputs = {map[value.id]};
  return out;
}

}  // namespace

StateLock::StateLock(bool reads, bool updates) : reads_(reads), updates_(updates) {
  if (updates_) {
    state_mutex().lock();
  } else if (reads_) {
    state_mutex().lock_shared();
  }
}

StateLock::~StateLock() {
  if (updates_) {
    state_mutex().unlock();
  } else if (reads_) {
    state_mutex().unlock_shared();
  }
}

void Trace::run() {
  const std::shared_ptr<Trace> self = shared_from_this();
  const std::lock_guard lock(mutex_);
  if (done_) return;  // by another thread
  closed_ = true;
  std::vector<std::shared_ptr<TensorImpl>> live;
  std::vector<Value> outputs;
  std::unordered_map<int32_t, size_t> slot;
  for (const auto& weak : pending_) {
    auto impl = weak.lock();
    if (!impl || impl->trace.get() != this) continue;
    if (slot.try_emplace(impl->value.id, outputs.size()).second) outputs.push_back(impl->value);
    live.push_back(std::move(impl));
  }
  pending_.assign(live.begin(), live.end());
  finish(outputs);
  std::vector<Array> results;
  for (Value v : outputs) results.emplace_back(graph_.type(v).dtype, graph_.type(v).shape);
  if (!outputs.empty() || !graph_.updates.empty()) execute(live, results);
  done_ = true;
  for (const auto& impl : live) {
    impl->array = results[slot[impl->value.id]];
    impl->constant = constant_definition(graph_, impl->value);
  }
  settle_history(live);
  for (const auto& impl : live) impl->evaluate_to(impl->array);
}

void Trace::execute(const std::vector<std::shared_ptr<TensorImpl>>& live, const std::vector<Array>& results) {
  need_batch_statistics(graph_);
  RunOptions options = run_options();
  options.round_each = true;  // what is read in between decides where eager work is cut into plans
  const auto plan = plan_for(graph_, options);
  std::vector<std::shared_ptr<Storage>> storages = state_storages();
  const StateLock states(!states_.empty(), !graph_.updates.empty());
  {
    const std::lock_guard history(history_mutex());
    for (size_t i = 0; i < states_.size(); ++i) {
      // Another thread has overwritten the variable since this trace read it: the old elements are in a copy.
      const auto& before = states_[i].before;
      if (before && before->stale) storages[i] = before->saved.clone().storage();
    }
    tell_versions(live);
    kept_ = worth_keeping();
    if (!kept_) release_versions();  // so that nothing is saved for this trace's sake
    for (const StateUse& s : states_) {
      if (s.assigned()) s.variable->supersede();
    }
  }
  Executable(plan, storages).run(captured_, results);
  for (size_t i = 0; i < states_.size(); ++i) {
    const StateUse& s = states_[i];
    const auto& own = s.variable->materialize();
    if (s.assigned() && storages[i] != own) parallel_copy(own->data(), storages[i]->data(), s.variable->type.bytes());
  }
}

}  // namespace freight::trace
