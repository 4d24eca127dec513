// Binds a plan to addresses and replays it: one loop over steps whose operand tables are filled beforehand.
#include "freight/run/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "freight/base/clock.h"
#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/passes/passes.h"
#include "freight/run/collectives.h"
#include "freight/run/plan.h"
#include "freight/run/shared_arena_internal.h"

namespace freight {

namespace {
// A table entry that depends on an address given per run.
struct Fixup {
  size_t entry;
  size_t offset;
};
struct Slot {
  Type type;
  size_t part_bytes = 0;  // from a part of the batch to the next
  void* address = nullptr;
  std::vector<Fixup> fixups = {};
};
}  // namespace

std::shared_ptr<SharedArena> make_shared_arena() { return std::make_shared<SharedArena>(); }

namespace {
Array constant_array(const ConstantAttrs& a) {
  if (a.data.defined()) return a.data;
  Array out(a.type.dtype, a.type.shape);
  dispatch(a.type.dtype,
           [&]<class T>(T) { std::fill_n(static_cast<T*>(out.raw()), out.numel(), element_cast<T>(a.value)); });
  return out;
}
}  // namespace

struct Executable::Bound {
  struct BoundStep {
    Kernel* kernel;
    size_t first;               // entry in `table`
    const Type* sum = nullptr;  // of an all_reduce; null for other steps
    bool sum_read = false;      // another step reads that
    Queue queue = Queue::kernels;
    std::vector<DeviceMark*> after = {};  // that its queue waits for
    DeviceMark* mark = nullptr;           // behind it, where another queue waits for it
  };
  struct State {
    std::shared_ptr<Storage> storage;
    DeviceAccess access;
    DeviceSide side;
    Slot slot;
  };
  std::shared_ptr<DeviceMemory> memory;  // null: the host's
  std::vector<State> states;
  // The number of the random state, and memory for one that a Context brings, on the device or in host memory.
  std::optional<size_t> random;
  std::unique_ptr<Arena> random_block;
  std::shared_ptr<SharedArena> arena;
  Slot arena_slot;
  std::unique_ptr<Arena> host;
  // The results of the steps that run once, by value; null for other values.
  ByValue<std::shared_ptr<KeptValue>> kept;
  std::vector<Array> constants;
  std::vector<void*> table;
  std::vector<BoundStep> steps;
  std::vector<Slot> inputs, outputs;
  int64_t parts = 1;
  struct Copy {
    size_t dst, src;  // table entries
    size_t bytes;
  };
  std::vector<Copy> late_copies;
  // The device's queues wait for these, by the number of the step before it.
  std::map<int32_t, std::unique_ptr<DeviceMark>> marks;  // refer to `memory`
  std::vector<DeviceMark*> last_copies;
  // Where the device records runs: inputs are sent to blocks of the executable's own, and runs whose addresses are
  // those of the ones before are recorded, by their number and by who sums over ranks in them; unless a step computes
  // on the host, too.
  bool records = false;
  std::vector<std::unique_ptr<Arena>> input_blocks;
  static constexpr size_t kMostRecordings = 8;
  struct Recorded {
    std::unique_ptr<DeviceRecording> run = {};  // null where the device would rather not
    int64_t number = 0;                         // Collectives::agree
  };
  std::map<std::pair<int64_t, const Collectives*>, Recorded> recordings;
  bool has_run = false;             // with these addresses
  std::vector<size_t> sums_within;  // steps
  SumOrder sums = {};               // over ranks

  // Where the steps find the bytes of a block that belongs to the caller.
  void* address(const std::shared_ptr<Storage>& block, DeviceAccess access,
                DeviceSide side = DeviceSide::device) const {
    if (!block) return nullptr;
    return memory ? block->on_device(memory, access, side) : block->data();
  }
  void set(Slot& slot, void* to) {
    if (to == slot.address) return;
    slot.address = to;
    recordings.clear();
    has_run = false;
    for (const Fixup& f : slot.fixups) table[f.entry] = static_cast<char*>(to) + f.offset;
  }
  // f() for each part of the batch, with the addresses of its samples.
  template <class F>
  void for_parts(F&& f) {
    for (int64_t part = 0; part < parts; ++part) {
      for (std::vector<Slot>* slots : {&inputs, &outputs}) {
        for (const Slot& s : *slots) {
          if (s.part_bytes == 0) continue;
          char* const from = static_cast<char*>(s.address) + static_cast<size_t>(part) * s.part_bytes;
          for (const Fixup& fixup : s.fixups) table[fixup.entry] = from + fixup.offset;
        }
      }
      f();
    }
  }
  void run_step(size_t i, Collectives* ranks) {
    const BoundStep& s = steps[i];
    for (DeviceMark* m : s.after) m->await(s.queue);
    s.kernel->run(table.data() + s.first);
    if (s.sum && ranks) reduce(s, *ranks);
    if (s.mark) s.mark->set(s.queue);
  }
  void reduce(const BoundStep& s, Collectives& ranks) const {
    void* const data = table[s.first + 1];  // behind the one operand
    if (!ranks.sums_behind()) {
      const Array elements = memory ? Array(s.sum->dtype, s.sum->shape) : Array();
      void* const part = memory ? elements.raw() : data;
      if (memory) memory->download(part, data, s.sum->bytes());
      ranks.sum_within({&part, 1}, *s.sum);
      if (memory) memory->upload(data, part, s.sum->bytes());
      return;
    }
    if (ranks.memory() != memory.get()) {
      fail(ErrorKind::usage, "all_reduce", "all-reduce in other memory than the plan's: ", *s.sum);
    }
    if (!s.sum_read) return ranks.ready(data);
    if (ranks.sum_within({&data, 1}, *s.sum)) return;
    fail(ErrorKind::usage, "all_reduce",
         "a sum over ranks is there behind the run, but another step of it reads the sum: ", *s.sum);
  }
  // The address at which this run finds the random state.
  void* random_address(const RandomState& given) {
    if (!random_block) random_block = std::make_unique<Arena>(memory, sizeof given);
    if (memory) {
      Array::of<int64_t>({given[0], given[1]}, {2}).storage()->send(memory, random_block->address(), sizeof given);
    } else {
      std::memcpy(random_block->address(), given.data(), sizeof given);
    }
    return random_block->address();
  }
  // Runs those whose results no other executable has left.
  void run_once_steps(const Plan& plan) {
    const PlacedGraph& placed = plan.placed();
    const auto node = [&](size_t step) -> const Node& { return placed.graph.node(plan.steps()[step].node); };
    ByValue<bool> wanted(placed.graph);  // roots
    for (const Value v : placed.graph.value_ids()) wanted[v] = kept[v] && !kept[v]->computed;
    std::vector<size_t> needed;
    for (size_t i = plan.once_steps(); i-- > 0;) {
      if (std::none_of(node(i).outputs.begin(), node(i).outputs.end(), [&](Value v) { return wanted[v]; })) continue;
      needed.push_back(i);
      for (const Value v : node(i).inputs) {
        const Value root = placed.place(v).root;
        wanted[root] = !kept[root] || !kept[root]->computed;
      }
    }
    std::for_each(needed.rbegin(), needed.rend(), [&](size_t i) { run_step(i, nullptr); });
    for (const auto& k : kept) {
      if (k) k->computed = true;
    }
  }
  void begin_run() const {
    if (const auto it = marks.find(kRunBegins); it != marks.end()) it->second->set(Queue::kernels);
  }
  void end_run() const {
    for (DeviceMark* m : last_copies) m->await(Queue::kernels);
    for (const Copy& c : late_copies) {
      if (memory) {
        memory->copy(table[c.dst], table[c.src], c.bytes, Queue::kernels);
      } else {
        std::memcpy(table[c.dst], table[c.src], c.bytes);
      }
    }
  }
  void order(const Plan& plan) {
    const auto gather = [&](const std::vector<int32_t>& from, std::vector<DeviceMark*>& to) {
      for (const int32_t s : from) {
        auto& mark = marks[s];
        if (!mark) mark = memory->mark();
        if (s != kRunBegins) steps[static_cast<size_t>(s)].mark = mark.get();
        to.push_back(mark.get());
      }
    };
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i].queue = plan.steps()[i].queue;
      gather(plan.steps()[i].after, steps[i].after);
    }
    gather(plan.last_copies(), last_copies);
  }
  static void expect(const Slot& slot, const Array& a, const char* what, size_t number) {
    if (a.dtype() != slot.type.dtype || a.shape() != slot.type.shape) {
      fail(ErrorKind::usage, "run", what, " ", number, ": expected ", slot.type, ", got ", Type{a.dtype(), a.shape()});
    }
  }
};

Executable::Executable(std::shared_ptr<const Plan> plan, std::vector<std::shared_ptr<Storage>> states, Options options)
    : plan_(std::move(plan)), bound_(std::make_unique<Bound>()) {
  const Graph& g = plan_->graph();
  const MemoryPlan& memory = plan_->memory();
  Bound& b = *bound_;
  b.memory = backend(plan_->options().backend).memory();
  b.arena = options.arena ? std::move(options.arena) : make_shared_arena();
  b.random = options.random_state;
  {
    const std::lock_guard alone(b.arena->mutex());
    b.arena->of(b.memory, memory.arena_bytes);  // so that what does not fit is refused here
  }
  if (memory.host_bytes > 0) b.host = std::make_unique<Arena>(b.memory, memory.host_bytes, DeviceSide::host);
  const std::vector<Value> state_leaves = g.leaves(Op::state);
  need_count("run", "states", states.size(), state_leaves.size() - plan_->kept_casts().size());
  add_copies(states, options.copies);
  {
    const std::lock_guard alone(b.arena->mutex());
    b.kept = b.arena->keep(*plan_, states, b.memory);
  }
  for (size_t i = 0; i < states.size(); ++i) {
    const Value leaf = state_leaves[i];
    if (!states[i] || states[i]->size() < g.type(leaf).bytes()) {
      fail(ErrorKind::usage, "run", "state ", leaf_name(g, leaf), ": storage is smaller than ", g.type(leaf));
    }
    const bool updated =
        std::any_of(g.updates.begin(), g.updates.end(), [&](const Update& u) { return u.state == leaf; });
    b.states.push_back({std::move(states[i]),
                        updated ? DeviceAccess::update : DeviceAccess::read,
                        DeviceSide::device,
                        {g.type(leaf)}});
  }
  for (const int32_t i : plan_->options().host_states) b.states[static_cast<size_t>(i)].side = DeviceSide::host;
  // Constants that only sit in fused bodies are not leaves here; those left need memory only where a step reads them.
  for (Value v : g.leaves(Op::constant)) b.constants.push_back(constant_array(attrs<ConstantAttrs>(g.def(v))));
  const Graph& source = plan_->source();
  const passes::BatchParts& parts = plan_->parts();
  b.parts = parts.count;
  const auto part_bytes = [&](const Type& type, bool has_samples) {
    return b.parts > 1 && has_samples ? type.bytes() / static_cast<size_t>(b.parts) : 0;
  };
  for (Value v : source.leaves(Op::input)) {
    b.inputs.push_back({source.type(v), part_bytes(source.type(v), b.parts > 1 && parts.inputs[b.inputs.size()])});
  }
  for (Value v : source.outputs) b.outputs.push_back({source.type(v), part_bytes(source.type(v), true)});
  b.records = b.memory && b.memory->records();
  for (const PlanStep& step : plan_->steps()) b.records = b.records && (!step.kernel || step.kernel->records());
  if (b.records) {
    for (const Slot& s : b.inputs) b.input_blocks.push_back(std::make_unique<Arena>(b.memory, s.type.bytes()));
  }

  // Adds a table entry for a buffer plus an offset.
  const auto add = [&](const Buffer& buffer, size_t offset, const KeptValue* kept = nullptr) {
    const size_t entry = b.table.size();
    void* base = nullptr;
    const auto index = static_cast<size_t>(buffer.index);
    switch (buffer.kind) {
      case MemoryKind::arena: b.arena_slot.fixups.push_back({entry, buffer.offset + offset}); break;
      case MemoryKind::kept: base = kept->address; break;
      case MemoryKind::host:
        if (b.host) base = static_cast<char*>(b.host->address()) + buffer.offset;
        break;
      case MemoryKind::constant: base = b.address(b.constants[index].storage(), DeviceAccess::read); break;
      case MemoryKind::state: b.states[index].slot.fixups.push_back({entry, offset}); break;
      case MemoryKind::input: b.inputs[index].fixups.push_back({entry, offset}); break;
      case MemoryKind::output: b.outputs[index].fixups.push_back({entry, offset}); break;
      case MemoryKind::none: break;
    }
    b.table.push_back(base ? static_cast<char*>(base) + offset : nullptr);
    return entry;
  };
  const auto add_value = [&](Value v) {
    const Place& p = plan_->placed().place(v);
    return add(memory.buffers[p.root], static_cast<size_t>(p.offset) * size_of(g.type(v).dtype), b.kept[p.root].get());
  };
  const ByNode<bool> within = passes::sums_read_within(g);
  b.sums = order_of_sums(*plan_);
  for (const PlanStep& s : plan_->steps()) {
    const Node& n = g.node(s.node);
    if (within[s.node]) b.sums_within.push_back(b.steps.size());
    const Type* const sum = n.op == Op::all_reduce ? &g.type(n.out()) : nullptr;
    b.steps.push_back({s.kernel.get(), b.table.size(), sum, within[s.node]});
    for (Value v : n.inputs) add_value(v);
    for (Value v : n.outputs) add_value(v);
    add(memory.scratch[s.node], 0);
  }
  for (const Update& u : memory.late_updates) {
    const size_t dst = add_value(u.state), src = add_value(u.next);
    b.late_copies.push_back({dst, src, g.type(u.state).bytes()});
  }
  if (b.memory) b.order(*plan_);
}

Executable::~Executable() = default;

void Executable::add_copies(std::vector<std::shared_ptr<Storage>>& states,
                            const std::vector<std::shared_ptr<Storage>>& copies) {
  if (!plan_->copying()) return;
  const Graph& making = plan_->copying()->graph();
  const std::vector<Value> leaves = making.leaves(Op::state);
  std::vector<std::shared_ptr<Storage>> pairs;
  for (size_t i = 0; i < plan_->kept_casts().size(); ++i) {
    pairs.push_back(states[plan_->kept_casts()[i].state]);
    pairs.push_back(copies.empty() ? Storage::allocate(making.type(leaves[2 * i + 1]).bytes()) : copies[i]);
    states.push_back(pairs.back());
  }
  make_copies_ = std::make_unique<Executable>(plan_->copying(), std::move(pairs));
}

void Executable::bind(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                      const std::optional<RandomState>& random) {
  Bound& b = *bound_;
  if (inputs.size() != b.inputs.size() || outputs.size() != b.outputs.size()) {
    fail(ErrorKind::usage, "run", "expected ", b.inputs.size(), " and ", b.outputs.size(), ", got ", inputs.size(),
         " inputs and ", outputs.size(), " outputs");
  }
  b.set(b.arena_slot, b.arena->of(b.memory, plan_->arena_bytes()));
  for (size_t i = 0; i < b.states.size(); ++i) {
    Bound::State& s = b.states[i];
    b.set(s.slot, random && b.random == i ? b.random_address(*random) : b.address(s.storage, s.access, s.side));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Bound::expect(b.inputs[i], inputs[i], "input", i);
    if (!b.records) {
      b.set(b.inputs[i], b.address(inputs[i].storage(), DeviceAccess::read));
    } else {
      if (inputs[i].storage()) inputs[i].storage()->send(b.memory, b.input_blocks[i]->address(), inputs[i].bytes());
      b.set(b.inputs[i], b.input_blocks[i]->address());
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Bound::expect(b.outputs[i], outputs[i], "output", i);
    b.set(b.outputs[i], b.address(outputs[i].storage(), DeviceAccess::write));
  }
}

template <class F>
void Executable::replay(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                        const std::optional<RandomState>& random, F&& work) {
  std::lock_guard lock(plan_->run_mutex());
  const std::lock_guard alone(bound_->arena->mutex());
  if (bound_->memory) bound_->memory->pace();
  bind(inputs, outputs, random);
  const FlushDenormals flush;
  run_once_steps();
  work();
}

void Executable::run_once_steps() {
  if (prepared_) return;
  if (make_copies_) make_copies_->run({}, {});
  for (const auto& k : bound_->kept) {
    if (k && thawed_) k->computed = false;
  }
  thawed_ = false;
  bound_->run_once_steps(*plan_);
  prepared_ = true;
}

void Executable::run(const std::vector<Array>& inputs, const std::vector<Array>& outputs, const Context& context) {
  replay(inputs, outputs, context.random, [&] {
    Bound& b = *bound_;
    Collectives* const ranks = b.sums.any() ? context.collectives : nullptr;
    const auto steps = [&] {
      for (int64_t t = 0; t < context.times; ++t) {
        b.begin_run();
        b.for_parts([&] {
          for (size_t i = plan_->once_steps(); i < b.steps.size(); ++i) b.run_step(i, ranks);
        });
        b.end_run();
      }
      if (ranks) ranks->run_ends();
    };
    const std::pair<int64_t, const Collectives*> key(context.times, ranks);
    const auto known = b.recordings.find(key);
    const int64_t kept = known == b.recordings.end() ? 0 : known->second.number;
    const bool recordable = b.has_run && b.records;
    int64_t number = recordable ? std::max<int64_t>(kept, 1) : 0;
    if (ranks) number = ranks->agree(b.sums, recordable, kept);
    DeviceRecording* recording = nullptr;
    if (number != 0) {
      if (b.recordings.size() == Bound::kMostRecordings && known == b.recordings.end()) {
        b.recordings.erase(b.recordings.begin());  // of the fewest steps: full blocks stay
      }
      Bound::Recorded& recorded = b.recordings[key];
      if (recorded.number != number) recorded = {b.memory->record(steps), number};
      recording = recorded.run.get();
    }
    if (recording) {
      recording->enqueue();
      if (ranks) ranks->enqueued();
    } else {
      steps();
    }
    b.has_run = true;
  });
}

std::vector<double> Executable::run_timed(const std::vector<Array>& inputs, const std::vector<Array>& outputs) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds(bound_->steps.size());  // those that run once count as nothing
  replay(inputs, outputs, {}, [&] {
    bound_->begin_run();
    bound_->for_parts([&] {
      for (size_t i = plan_->once_steps(); i < bound_->steps.size(); ++i) {
        const auto start = Clock::now();
        bound_->run_step(i, nullptr);
        if (bound_->memory) bound_->memory->wait();
        seconds[i] += seconds_since(start);
      }
    });
    bound_->end_run();
  });
  return seconds;
}

// Their sums, each from its own step; a device's parts are on the host meanwhile.
void Executable::sum_together(const std::vector<Joint>& all, size_t number, Collectives& collectives) {
  std::vector<std::unique_ptr<Array>> copies;
  std::vector<void*> parts, places;
  Type type;
  for (const Joint& j : all) {
    const Bound& b = *j.executable->bound_;
    const size_t step = b.sums_within[number];
    const Type& its = *b.steps[step].sum;
    FREIGHT_CHECK(parts.empty() || its == type, "micro-batches reduce the same types in one order");
    type = its;
    places.push_back(b.table[b.steps[step].first + 1]);  // behind the one operand
    parts.push_back(places.back());
    if (!b.memory) continue;
    copies.push_back(std::make_unique<Array>(type.dtype, type.shape));
    parts.back() = copies.back()->raw();
    b.memory->download(parts.back(), places.back(), type.bytes());
  }
  FREIGHT_CHECK(collectives.sum_within(parts, type), "sums within are made where they stand");
  for (size_t i = 0; i < copies.size(); ++i) {
    all[i].executable->bound_->memory->upload(places[i], parts[i], type.bytes());
  }
}

void Executable::run_together(const std::vector<Joint>& all, Collectives& collectives) {
  std::set<std::mutex*> mutexes;  // of plans, which several may share, and of arenas; in one order for all threads
  for (const Joint& j : all) {
    mutexes.insert(&j.executable->plan_->run_mutex());
    const bool own = mutexes.insert(&j.executable->bound_->arena->mutex()).second;
    FREIGHT_CHECK(own, "executables that run side by side have arenas of their own");
  }
  std::vector<std::unique_lock<std::mutex>> locks;
  for (std::mutex* m : mutexes) locks.emplace_back(*m);
  const FlushDenormals flush;
  std::vector<size_t> at;
  for (const Joint& j : all) {
    Executable& e = *j.executable;
    FREIGHT_CHECK(e.bound_->sums_within.size() == all[0].executable->bound_->sums_within.size(), "the same sums");
    if (e.bound_->memory) e.bound_->memory->pace();
    e.bind(j.inputs, j.outputs, j.random);
    e.run_once_steps();
    e.bound_->begin_run();
    at.push_back(e.plan_->once_steps());
  }
  const auto run_to = [&](size_t i, size_t end) {
    for (; at[i] < end; ++at[i]) all[i].executable->bound_->run_step(at[i], nullptr);
  };
  for (size_t number = 0; number < all[0].executable->bound_->sums_within.size(); ++number) {
    for (size_t i = 0; i < all.size(); ++i) run_to(i, all[i].executable->bound_->sums_within[number] + 1);
    sum_together(all, number, collectives);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    run_to(i, all[i].executable->bound_->steps.size());
    all[i].executable->bound_->end_run();
  }
}

}  // namespace freight
