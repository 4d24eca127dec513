// Lowers graphs to plans and keeps the cache of plans; see plan.h and executable.h.
#include "freight/run/plan.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <mutex>
#include <unordered_set>

#include "freight/backend/choices.h"
#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/passes/passes.h"
#include "freight/passes/shape_family.h"
#include "freight/run/collectives.h"

namespace freight {

namespace {
// Plans with a larger arena give the memory that planning took back to the system.
constexpr size_t kTrimBytes = size_t{32} << 20;

// Larger results bypass the caches: a quarter of the last level, which also holds what the step reads.
size_t stream_bytes(const Backend& device) {
  constexpr size_t kMost = size_t{32} << 20;
  const size_t last_level = device.cache_bytes();
  return last_level > 0 ? std::min(last_level / 4, kMost) : kMost;
}

// The bytes of a value to host memory or back.
class Transfer final : public Kernel {
 public:
  Transfer(std::shared_ptr<DeviceMemory> memory, size_t bytes, Queue queue)
      : memory_(std::move(memory)), bytes_(bytes), queue_(queue) {}
  void run(void* const* operands) override {
    if (bytes_ == 0) return;
    if (memory_) return memory_->copy(operands[1], operands[0], bytes_, queue_);
    parallel_copy(operands[1], operands[0], bytes_);
  }
  std::string name() const override { return "transfer"; }

 private:
  std::shared_ptr<DeviceMemory> memory_;
  size_t bytes_;
  Queue queue_;
};

Queue queue_of(Op op) {
  return op == Op::offload ? Queue::to_host : op == Op::fetch ? Queue::to_device : Queue::kernels;
}

// The number of times that the passes get another limit, since their sums lack workspaces and gaps between tensors.
constexpr int kTries = 6;
constexpr size_t kLeastStep = 64;  // the part of the limit that a try lowers it by at least: less often changes nothing

// A choice is measured in some milliseconds, or in some runs of a longer step. That may take one part in kWorth of the
// time for which the plan has run already: then a shape that never comes back loses nothing, and one that does at most
// this part.
constexpr double kSecondsPerChoice = 0.01, kRunsPerChoice = 10, kWorth = 5;

// Folds what does not depend on extents into a hash: flags and types.
struct ShapelessHash {
  uint64_t value = 0;
  void push(uint64_t word) { value = hash_combine(value, word); }
  void operator()(std::string_view, const bool& flag) { push(flag); }
  void operator()(std::string_view, const DType& type) { push(static_cast<uint64_t>(type)); }
  template <class T>
  void operator()(std::string_view, const T&) {}
};

// The same for all shapes of a graph: its states keep theirs. Attributes that are numbers often follow from extents, as
// the factor of a mean does.
uint64_t shapeless_hash(const Graph& graph, const RunOptions& options) {
  ShapelessHash h{std::hash<std::string>{}(options.backend)};
  h.push(static_cast<uint64_t>(options.compute));
  h.push(options.frozen);
  for (const Node& n : graph.nodes) {
    h.push(static_cast<uint64_t>(n.op));
    for (Value v : n.inputs) h.push(static_cast<uint64_t>(v.id));
    for (Value v : n.outputs) h.push(static_cast<uint64_t>(graph.type(v).dtype));
    std::visit([&](const auto& a) { visit_fields(a, h); }, n.attrs);
    if (n.op != Op::state) continue;
    for (const int64_t extent : graph.type(n.out()).shape) h.push(static_cast<uint64_t>(extent));
  }
  return h.value;
}

// The graphs of which the process has planned a shape, by shapeless_hash().
class PlannedGraphs {
 public:
  bool has(uint64_t hash) {
    const std::lock_guard lock(mutex_);
    return known_.contains(hash);
  }
  void add(uint64_t hash) {
    const std::lock_guard lock(mutex_);
    if (known_.size() == kMost) known_.clear();
    known_.insert(hash);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    known_.clear();
  }

 private:
  static constexpr size_t kMost = 65536;
  std::mutex mutex_;
  std::unordered_set<uint64_t> known_;
};
PlannedGraphs& planned_graphs() {
  static PlannedGraphs graphs;
  return graphs;
}
}  // namespace

int64_t runs_to_measure(size_t choices, double seconds) {
  const double measuring = static_cast<double>(choices) * kSecondsPerChoice / std::max(seconds, 1e-6) + kRunsPerChoice;
  return static_cast<int64_t>(std::ceil(kWorth * measuring));
}

Plan::Plan(const Graph& graph, const RunOptions& options, Measure measure) : source_(graph), options_(options) {
  using Unknown = ChoiceRule::Unknown;
  using Lasting = ChoiceRule::Lasting;
  const uint64_t hash = shapeless_hash(graph, options);
  const bool guess = measure != Measure::now && planned_graphs().has(hash);
  const Unknown first = measure == Measure::when_it_pays ? Unknown::measured_or_at_once : Unknown::measured;
  ChoiceRule rule(guess ? Unknown::guessed : first,
                  measure == Measure::first_shape ? Lasting::process : Lasting::until_measured);
  Backend& device = backend(options.backend);
  // Not where kernels are fixed: a part's may add in another order than those of the whole batch.
  if (options.frozen && !options.deterministic) parts_ = passes::batch_parts(source_, device.cache_bytes());
  const size_t most = options.limit.bytes;
  size_t limit = most;
  lower(device, limit, rule);
  const bool fits = options.limit.offload == Offload::none || options.limit.offload == Offload::optimizer || most == 0;
  size_t best = arena_bytes(), best_limit = limit;
  for (int i = 0; i < kTries && !fits && arena_bytes() > most; ++i) {
    const size_t over = arena_bytes() - most, less = std::max(over + over / 4, most / kLeastStep);
    if (limit <= less) break;
    limit -= less;
    lower(device, limit, rule);
    if (arena_bytes() >= best) continue;
    best = arena_bytes();
    best_limit = limit;
  }
  if (arena_bytes() > best) lower(device, best_limit, rule);
  plan_copying();
  // The passes leave their garbage in the heap, where the arena of a large plan does not fit in.
  if (memory_.arena_bytes > kTrimBytes) malloc_trim(0);
  planned_graphs().add(hash);
  guesses_ = rule.guesses();
  const DeviceSpeed usual;
  double seconds = 0;
  for (const PlanStep& s : steps_) {
    if (!s.once) seconds += std::max(s.cost.flops / usual.flops, s.cost.bytes / usual.bytes);
  }
  runs_to_measure_ = freight::runs_to_measure(guesses_, seconds);
}

void Plan::lower(Backend& device, size_t limit, ChoiceRule& rule) {
  const States states = options_.frozen ? States::frozen : States::change;
  const RunOptions& options = options_;
  ArenaLimit within = options.limit;
  within.bytes = limit;
  const Graph lowered = run_pipeline(parts_.count > 1 ? parts_.graph : source_, device,
                                     {.recompute = options.recompute,
                                      .compute = options.compute,
                                      .states = states,
                                      .limit = within,
                                      .host_states = options.host_states,
                                      .sums = options.sums,
                                      .keep_casts = options.keep_casts});
  placed_ = passes::layout(lowered, device, {states, options.deterministic, &rule});
  const ByNode<bool> once = passes::once_steps(placed_, states);
  steps_.clear();
  const Graph& g = placed_.graph;
  ByValue<bool> updates(g);  // lie in the caches: what they overwrite was read just now
  for (const Update& u : g.updates) updates[u.next] = true;
  ByNode<size_t> scratch(g);
  const auto operand = [&](Value v) { return Operand{g.type(v), placed_.place(v).layout, placed_.place(v).offset}; };
  for (const NodeId i : g.node_ids()) {
    const Node& n = g.node(i);
    if (!placed_.is_step(n)) continue;
    StepSpec spec{&g, &n, {}, {}, options.deterministic, false, options.tf32, options.round_each, &rule};
    for (Value v : n.inputs) spec.in.push_back(operand(v));
    size_t written = 0;
    for (Value v : n.outputs) {
      spec.out.push_back(operand(v));
      if (!updates[v]) written += g.type(v).bytes();
    }
    spec.stream_outputs = written > stream_bytes(device);
    PlanStep step{i, nullptr, cost(g, n), once[i], once[i] ? Queue::kernels : queue_of(n.op)};
    if (!step.once) {
      step.cost.flops *= static_cast<double>(parts_.count);
      step.cost.bytes *= static_cast<double>(parts_.count);
    }
    try {
      const bool crosses = n.op == Op::offload || n.op == Op::fetch;
      const auto transfer = [&] {
        const size_t bytes = layout_bytes(g.type(n.out()), spec.out[0].layout);
        return std::make_unique<Transfer>(device.memory(), bytes, step.queue);
      };
      if (n.op == Op::all_reduce) {
        step.kernel = make_all_reduce(device.memory(), g.type(n.out()));
      } else {
        step.kernel = crosses ? transfer() : device.prepare(spec);
      }
    } catch (const Error& e) {
      if (!e.where().empty() || n.location().empty()) throw;
      throw Error(e.kind(), e.op(), e.message(), n.location());
    }
    scratch[i] = step.kernel->scratch_bytes();
    steps_.push_back(std::move(step));
  }
  const auto replayed =
      std::stable_partition(steps_.begin(), steps_.end(), [](const PlanStep& step) { return step.once; });
  once_steps_ = static_cast<size_t>(replayed - steps_.begin());
  device.finish_plan();
  memory_ = passes::memory(placed_, device, {std::move(scratch), once, options.limit});
  last_copies_ = order_queues(steps_, placed_, memory_);
}

void Plan::plan_copying() {
  kept_casts_ = passes::kept_casts_of(placed_.graph, source_.leaves(Op::state).size());
  if (kept_casts_.empty()) return;
  const std::vector<Value> states = source_.leaves(Op::state);
  Graph g;
  for (const passes::KeptCast& k : kept_casts_) {
    const Type& type = source_.type(states[k.state]);
    const Value state = g.add(Op::state, LeafAttrs{"", type}, {})[0];
    const Value copy = g.add(Op::state, LeafAttrs{"", {k.dtype, type.shape}}, {})[0];
    g.updates.push_back({copy, g.add(Op::cast, CastAttrs{k.dtype}, {state})[0]});
  }
  copying_ =
      std::make_shared<const Plan>(g, RunOptions{.backend = options_.backend, .deterministic = options_.deterministic});
}

size_t Plan::copy_bytes() const {
  const std::vector<Value> states = source_.leaves(Op::state);
  size_t sum = 0;
  for (const passes::KeptCast& k : kept_casts_) {
    sum += Type{k.dtype, source_.type(states[k.state]).shape}.bytes();
  }
  return sum;
}

Cost Plan::total_cost() const {
  Cost total;
  for (const PlanStep& s : steps_) {
    if (s.once) continue;
    total.flops += s.cost.flops;
    total.bytes += s.cost.bytes;
  }
  return total;
}

namespace {

// "matmul", or "fused(mul+add+relu)" with at most `shown` ops of the body.
std::string op_label(const Node& n, size_t shown) {
  if (n.op != Op::fused) return name(n.op);
  std::vector<std::string> ops;
  for (const Node& inner : attrs<FusedAttrs>(n).body->nodes) {
    if (info(inner.op).kind != OpKind::leaf && inner.op != Op::broadcast) ops.emplace_back(name(inner.op));
  }
  const size_t left_out = ops.size() > shown ? ops.size() - shown : 0;
  ops.resize(ops.size() - left_out);
  return cat("fused(", join(ops, "+"), left_out ? cat("+", left_out, " more") : "", ")");
}

}  // namespace

std::string describe(const Plan& plan, const PlanStep& step) {
  const Graph& g = plan.graph();
  const Node& n = g.node(step.node);
  std::string out = cat(n.scope, n.scope.empty() ? "" : " ", op_label(n, 6));
  for (Value v : n.inputs) out += cat(" ", g.type(v));
  out += " ->";
  for (Value v : n.outputs) out += cat(" ", g.type(v));
  return out;
}

std::string print(const Plan& plan) {
  static constexpr const char* kKinds[] = {"none", "input", "state", "output", "constant", "arena", "kept", "host"};
  const Graph& g = plan.graph();
  const auto operand = [&](Value v) {
    const Place& p = plan.placed().place(v);
    const Buffer& b = plan.memory().buffers[p.root];
    std::string text =
        cat(g.type(v),
            same_layout(g.type(v).shape, p.layout, Layout::row_major(g.type(v).shape)) ? "" : to_string(p.layout), "@",
            kKinds[static_cast<int>(b.kind)]);
    const bool own = b.kind == MemoryKind::arena || b.kind == MemoryKind::kept || b.kind == MemoryKind::host;
    return own ? cat(text, "+", b.offset) : cat(text, ".", b.index);
  };
  std::string out =
      cat("plan ", plan.options().backend, ": ", plan.steps().size(), " steps, arena ", plan.arena_bytes(), " bytes",
          plan.parts().count > 1 ? cat(", for each of ", plan.parts().count, " parts of the batch") : "", "\n");
  for (size_t i = 0; i < plan.steps().size(); ++i) {
    const Node& n = g.node(plan.steps()[i].node);
    out +=
        cat(i, plan.steps()[i].once ? " once " : " ", op_label(n, SIZE_MAX), n.scope.empty() ? "" : cat(" @", n.scope));
    for (Value v : n.inputs) out += " " + operand(v);
    out += " ->";
    for (Value v : n.outputs) out += " " + operand(v);
    out += "\n";
  }
  for (const Update& u : plan.memory().late_updates) out += cat("update ", leaf_name(g, u.state), " by copy\n");
  return out;
}

namespace {

// True where a plan of either of two graphs of equal structure names what the other's user called, and where. An eager
// run does not ask: where it fails it runs node by node, and each tells its own place.
bool refuse_alike(const Graph& a, const Graph& b) {
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &x = a.nodes[i], &y = b.nodes[i];
    if (!may_refuse(a, x)) continue;
    if (std::strcmp(x.called(), y.called()) != 0 || x.where != y.where || x.scope != y.scope) return false;
  }
  return true;
}

// Plans by structure; the least recently used one leaves when the cache is full.
struct Cache {
  static constexpr size_t kCapacity = 128;
  struct Entry {
    uint64_t key;
    RunOptions options;
    std::shared_ptr<const Plan> plan;
    int64_t hits = 0;  // by those that wait until measuring pays
  };
  std::mutex mutex;
  std::list<Entry> entries;  // most recent first
  PlanCacheStats stats;
};
Cache& cache() {
  static Cache c;
  return c;
}

}  // namespace

std::shared_ptr<const Plan> plan_for(const Graph& graph, const RunOptions& options, Measure measure) {
  Cache& c = cache();
  const uint64_t key = structural_hash(graph);
  const bool eager = measure == Measure::first_shape;
  const auto find = [&] {
    return std::find_if(c.entries.begin(), c.entries.end(), [&](const Cache::Entry& e) {
      return e.key == key && e.options == options && structurally_equal(e.plan->source(), graph) &&
             (eager || refuse_alike(e.plan->source(), graph));
    });
  };
  {
    std::lock_guard lock(c.mutex);
    if (const auto it = find(); it != c.entries.end()) {
      c.entries.splice(c.entries.begin(), c.entries, it);
      const size_t guesses = it->plan->guesses();
      const bool waits = measure == Measure::when_it_pays && ++it->hits < it->plan->runs_to_measure();
      if (guesses == 0 || measure == Measure::first_shape || waits) {
        ++c.stats.hits;
        return it->plan;
      }
      measure = Measure::now;
    }
    ++c.stats.misses;
  }
  auto plan = std::make_shared<const Plan>(graph, options, measure);  // may throw: nothing has been inserted
  std::lock_guard lock(c.mutex);
  if (const auto guessed = find(); guessed != c.entries.end()) c.entries.erase(guessed);
  c.entries.push_front({key, options, plan});
  if (c.entries.size() > Cache::kCapacity) {
    c.entries.pop_back();
    ++c.stats.evictions;
  }
  return plan;
}

PlanCacheStats plan_cache_stats() {
  std::lock_guard lock(cache().mutex);
  PlanCacheStats s = cache().stats;
  s.size = static_cast<int64_t>(cache().entries.size());
  return s;
}

void clear_plan_cache() {
  std::lock_guard lock(cache().mutex);
  cache().entries.clear();
  cache().stats = {};
  planned_graphs().clear();
  passes::shape_families().clear();
}

}  // namespace freight
