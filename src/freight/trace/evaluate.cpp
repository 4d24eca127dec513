// How an eager trace runs: once, as one plan, with every tensor that somebody holds as a result; a single op without
// a plan of its own (run/prepared_op.h). Where that fails no variable has changed, and what does not depend on the
// failure is computed node by node. See tracer.h.
#include <algorithm>
#include <shared_mutex>

#include "freight/backend/backend.h"
#include "freight/base/device_memory.h"
#include "freight/base/threads.h"
#include "freight/run/prepared_op.h"
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

// Where both blocks lie on the device the bytes stay there.
void copy_elements(const std::shared_ptr<Storage>& to, const std::shared_ptr<Storage>& from, size_t bytes,
                   const std::shared_ptr<DeviceMemory>& memory) {
  if (bytes == 0) return;
  if (!memory) return parallel_copy(to->data(), from->data(), bytes);
  const void* source = from->on_device(memory, DeviceAccess::read);
  memory->copy(to->on_device(memory, DeviceAccess::write), source, bytes, Queue::kernels);
}

// One node on arrays, with the node's name and place in what it throws.
void run_node(const Graph& graph, const Node& n, const std::vector<Array>& operands, const std::vector<Array>& results,
              const std::string& device) {
  need_batch_statistics(graph, n);
  try {
    prepare(n.op, n.attrs, input_types(graph, n), device)->run(operands, results);
  } catch (const Error& e) {
    if (!e.where().empty()) throw;
    // A prepared op knows no more than its own name, or that of the primitive that failed.
    throw Error(e.kind(), e.kind() == ErrorKind::data ? n.called() : e.op(), e.message(), n.location());
  }
}

}  // namespace

std::shared_ptr<const Graph> constant_definition(const Graph& graph, Value value) {
  std::vector<NodeId> nodes{graph.node_of(value)};
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& n = graph.node(nodes[i]);
    if (n.op == Op::input || n.op == Op::state || nodes.size() > kMostConstantNodes) return nullptr;
    for (Value v : n.inputs) {
      const NodeId node = graph.node_of(v);
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  auto out = std::make_shared<Graph>();
  std::unordered_map<int32_t, Value> map;
  for (const NodeId i : nodes) {
    const Node& n = graph.node(i);
    std::vector<Value> in;
    for (Value v : n.inputs) in.push_back(map[v.id]);
    const std::vector<Value> made = out->add(n.op, n.attrs, in, n);
    for (size_t k = 0; k < made.size(); ++k) map[n.outputs[k].id] = made[k];
  }
  out->outputs = {map[value.id]};
  return out;
}

// A run makes these: elements for the tensors that somebody holds, `slot` says which of the outputs a value is.
struct Trace::Live {
  std::vector<std::shared_ptr<TensorImpl>> tensors;
  std::vector<Value> outputs;
  std::vector<Array> results;  // by output; undefined where that failed
  std::vector<std::exception_ptr> failures;
  std::unordered_map<int32_t, size_t> slot;
  std::exception_ptr failure;  // of the run as a whole
  bool lost = false;           // assignments were dropped with it
};

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

std::exception_ptr Trace::take_loss() {
  const std::lock_guard lock(mutex_);
  return std::exchange(loss_, nullptr);
}

void Trace::run(const TensorImpl* asked) {
  const std::shared_ptr<Trace> self = shared_from_this();
  const std::lock_guard lock(mutex_);
  need_no_walk("gradient hook");
  if (done_) {  // by another thread
    if (asked && asked->failure) std::rethrow_exception(asked->failure);
    return;
  }
  closed_ = true;
  Live live;
  for (const auto& weak : pending_) {
    auto impl = weak.lock();
    if (!impl || impl->trace.get() != this) continue;
    if (live.slot.try_emplace(impl->value.id, live.outputs.size()).second) live.outputs.push_back(impl->value);
    live.tensors.push_back(std::move(impl));
  }
  pending_.assign(live.tensors.begin(), live.tensors.end());
  finish(live.outputs);
  live.results.resize(live.outputs.size());
  live.failures.resize(live.outputs.size());
  if (!live.outputs.empty() || !graph_.updates.empty()) execute(live);
  done_ = true;
  std::vector<std::shared_ptr<TensorImpl>> made;
  for (auto& impl : live.tensors) {
    const size_t at = live.slot[impl->value.id];
    impl->failure = live.failures[at];
    if (impl->failure) continue;
    impl->array = live.results[at];
    if (!impl->constant) impl->constant = constant_definition(graph_, impl->value);  // its thread may read it (settle)
    made.push_back(std::move(impl));
  }
  live.tensors.clear();
  pending_.assign(made.begin(), made.end());
  settle_history(made);
  for (const auto& impl : made) impl->evaluate_to(impl->array);
  if (!live.failure) return;
  if (live.lost && recorder_ != std::this_thread::get_id()) loss_ = live.failure;
  if (asked && asked->failure) std::rethrow_exception(asked->failure);
  if (!asked || live.lost) std::rethrow_exception(live.failure);
}

void Trace::execute(Live& live) {
  const std::shared_ptr<DeviceMemory> memory = backend(*device_).memory();
  std::vector<std::shared_ptr<Storage>> storages = state_storages();
  const StateLock states(!states_.empty(), !graph_.updates.empty());
  {
    const std::lock_guard history(history_mutex());
    for (size_t i = 0; i < states_.size(); ++i) {
      // Another thread has overwritten the variable since this trace read it: the old elements are in a copy.
      const auto& before = states_[i].before;
      if (before && before->stale) storages[i] = before->saved.clone().storage();
    }
  }
  std::vector<Array> overwritten(states_.size());
  const auto copy_state = [&](size_t i, const std::shared_ptr<Storage>& to, const std::shared_ptr<Storage>& from) {
    copy_elements(to, from, states_[i].variable->type.bytes(), memory);
  };
  try {
    for (size_t i = 0; i < states_.size(); ++i) {
      if (!states_[i].assigned()) continue;
      Array copy(states_[i].variable->type.dtype, states_[i].variable->type.shape);
      copy_state(i, copy.storage(), storages[i]);
      overwritten[i] = std::move(copy);
    }
    for (size_t i = 0; i < live.outputs.size(); ++i) {
      live.results[i] = Array(graph_.type(live.outputs[i]).dtype, graph_.type(live.outputs[i]).shape);
    }
    run_planned(live, storages);
  } catch (...) {
    live.failure = std::current_exception();
    for (size_t i = 0; i < states_.size(); ++i) {
      if (overwritten[i].defined()) copy_state(i, storages[i], overwritten[i].storage());
      // But for the random state's, so that no number is drawn twice: tensors that are drawn keep their elements.
      if (states_[i].variable == rng_state().impl() && overwritten[i].defined()) continue;
      live.lost = live.lost || states_[i].assigned();
      states_[i].next = states_[i].read = states_[i].leaf;
    }
    finish(live.outputs);
    run_each(live, storages);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    const StateUse& s = states_[i];
    const auto& own = s.variable->materialize();
    if (s.assigned()) s.variable->count_change();
    if (s.assigned() && storages[i] != own) parallel_copy(own->data(), storages[i]->data(), s.variable->type.bytes());
  }
  const std::lock_guard history(history_mutex());
  tell_versions(live.tensors);
  kept_ = worth_keeping();
  if (!kept_) release_versions();  // so that nothing is saved for this trace's sake
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].assigned()) states_[i].variable->supersede(overwritten[i]);
  }
}

void Trace::run_planned(const Live& live, const std::vector<std::shared_ptr<Storage>>& storages) {
  if (const Node* only = only_node()) return run_node(graph_, *only, captured_, live.results, *device_);
  need_batch_statistics(graph_);
  Executable(plan_for(graph_, eager_options(*device_), Measure::first_shape), storages).run(captured_, live.results);
}

// The only node beside the inputs, where it reads each of them once, in order, and all of its results are held: its
// prepared op is then the same plan. Null for other traces; among them constants, whose elements are no key to keep.
const Node* Trace::only_node() const {
  const Node* only = nullptr;
  for (const Node& n : graph_.nodes) {
    if (n.op == Op::input) continue;
    if (only || info(n.op).kind == OpKind::leaf) return nullptr;
    only = &n;
  }
  const bool plain = only && states_.empty() && only->inputs == graph_.leaves(Op::input);
  return plain && only->outputs == graph_.outputs ? only : nullptr;
}

// After a failure: computes what the outputs and the random state need, each node once and alone, but for what depends
// on a node that fails.
void Trace::run_each(Live& live, const std::vector<std::shared_ptr<Storage>>& storages) {
  std::vector<int> readers(graph_.values.size());  // still to come
  for (const Value v : graph_.results()) ++readers[v.index()];
  const auto needed = [&](const Node& n) {
    return std::any_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return readers[v.index()] > 0; });
  };
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    if (!needed(graph_.nodes[i])) continue;
    for (const Value v : graph_.nodes[i].inputs) ++readers[v.index()];
  }
  std::vector<Array> elements(graph_.values.size());
  std::vector<std::exception_ptr> failures(graph_.values.size());
  size_t inputs = 0, states = 0;
  for (const Node& n : graph_.nodes) {
    const size_t first = n.out().index();
    if (n.op == Op::input) elements[first] = captured_[inputs++];
    if (n.op == Op::state) {
      const Type& t = graph_.type(n.out());
      elements[first] = Array(t.dtype, t.shape, storages[states++]);
    }
    if (n.op == Op::input || n.op == Op::state || !needed(n)) continue;
    std::exception_ptr failure;
    std::vector<Array> in, out;
    for (const Value v : n.inputs) {
      if (!failure) failure = failures[v.index()];
      in.push_back(elements[v.index()]);
      if (--readers[v.index()] == 0) elements[v.index()] = {};
    }
    try {
      for (size_t i = 0; !failure && i < n.outputs.size(); ++i) {
        out.emplace_back(graph_.type(n.outputs[i]).dtype, graph_.type(n.outputs[i]).shape);
      }
      if (!failure) run_node(graph_, n, in, out, *device_);
    } catch (...) {
      failure = std::current_exception();
    }
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      failures[n.outputs[i].index()] = failure;
      if (!failure) elements[n.outputs[i].index()] = out[i];
    }
  }
  for (size_t i = 0; i < live.outputs.size(); ++i) {
    const Array& made = elements[live.outputs[i].index()];
    const bool shared = graph_.def(live.outputs[i]).op == Op::state;  // with the variable, which will be overwritten
    live.results[i] = shared ? made.clone() : made;
    live.failures[i] = failures[live.outputs[i].index()];
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].assigned()) continue;
    const Array& next = elements[states_[i].next.index()];
    if (next.defined()) parallel_copy(storages[i]->data(), next.raw(), next.bytes());
  }
}

}  // namespace freight::trace
