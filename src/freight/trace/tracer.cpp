// Traces: recording, binding of leaves, the thread's trace. See tracer.h. How eager traces run is in evaluate.cpp, what
// stays of them in history.cpp; the compiled kind is in compile.cpp.
#include "freight/trace/tracer.h"

#include <algorithm>
#include <utility>

#include "freight/ir/builder.h"
#include "freight/ir/op_rules.h"
#include "freight/trace/thread_context.h"

namespace freight {
namespace trace {

namespace {

// Pending work that is run although nobody reads it: of so many nodes or bytes of inputs between two pieces of work,
// and of so many nodes anywhere. A training step of a large net fits in.
constexpr size_t kMuch = 4096, kTooMuch = 65536, kMuchBytes = size_t{256} << 20;

std::shared_ptr<Trace> eager_trace(Device device) {
  for (const auto& trace : thread_context().eager) {
    if (trace->device() == device) return trace;
  }
  return nullptr;
}

void forget_eager(const std::shared_ptr<Trace>& trace) {
  auto& all = thread_context().eager;
  all.erase(std::remove(all.begin(), all.end(), trace), all.end());
}

void run_and_tell(const std::shared_ptr<Trace>& trace) {
  trace->run();
  if (const auto loss = trace->take_loss()) std::rethrow_exception(loss);
}

// Runs those of the thread's eager traces for which `holds`; throws the first failure, when all have run.
template <class F>
void flush_where(F&& holds) {
  std::vector<std::shared_ptr<Trace>> chosen;
  for (const auto& trace : thread_context().eager) {
    const std::lock_guard lock(trace->mutex());
    if (holds(*trace)) chosen.push_back(trace);
  }
  // Whatever happens, the next operation starts fresh traces.
  for (const auto& trace : chosen) forget_eager(trace);
  std::exception_ptr failure;
  for (const auto& trace : chosen) {
    try {
      run_and_tell(trace);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// The next value of a state where the condition holds, else the state.
Value choose_next(Builder& b, Value condition, Value next, Value leaf) {
  const Node& update = b.graph().def(next);
  const OnlyIfFn only_if = info(update.op).only_if;
  return only_if && update.in(0) == leaf ? only_if(b, next, condition) : choose(b, condition, next, leaf);
}

// (seed, step) -> (seed, step + 1).
Value next_key(Graph& graph, Value key) {
  const ConstantAttrs one{{DType::i64, {2}}, 0, Array::of<int64_t>({0, 1}, {2})};
  Builder b(graph, "rng");
  return b.binary(Op::add, key, graph.add(Op::constant, one, {})[0]);
}

}  // namespace

// --- recording ---

bool Trace::admits(Device device) {
  if (!device_) device_ = device;
  return !device || takes_all_ || device == device_;
}

Tensor Trace::wrap(Value value, bool follows) {
  auto impl = std::make_shared<TensorImpl>();
  impl->type = graph_.type(value);
  impl->device = device_;
  impl->follows = follows;
  impl->trace = shared_from_this();
  impl->value = value;
  if (mode_ == Mode::eager) pending_.push_back(impl);
  return Tensor(std::move(impl));
}

std::vector<Tensor> Trace::add(Op op, Attrs attrs, const std::vector<Tensor>& inputs) {
  std::vector<Value> values;
  values.reserve(inputs.size());
  bool follows = mode_ == Mode::eager;
  for (const Tensor& t : inputs) {
    values.push_back(value_of(t, name(op)));
    follows = follows && t.impl()->follows;
  }
  std::vector<Tensor> out;
  for (Value v : graph_.add(op, std::move(attrs), values, scope(), where(), function()))
    out.push_back(wrap(v, follows));
  return out;
}

Tensor Trace::input(const std::string& name, const Type& type) {
  return wrap(graph_.add(Op::input, LeafAttrs{name, type}, {}, scope(), where())[0]);
}

Value Trace::find(const Tensor& tensor) const {
  const TensorImpl& impl = *origin(tensor.impl());
  if (impl.trace.get() == this) return impl.value;
  const auto it = source_index_.find(&impl);
  return it == source_index_.end() ? Value{} : it->second;
}

Value Trace::value_of(const Tensor& tensor, const char* op) {
  if (!tensor.defined()) fail_here("tensor", "an undefined tensor was used; give it a value first");
  if (!tensor.impl()->follows && tensor.impl()->trace.get() != this && !admits(device_of(*tensor.impl()))) {
    fail_here(op, "a tensor ", tensor.type(), " is on another device: expected ", *device_, " here, got ",
              tensor.device(), "; move it with to_device(\"", *device_, "\")");
  }
  const Value known = find(tensor);
  if (known.valid()) return known;
  const auto& impl = origin(tensor.impl());
  // A tensor that depends on constants alone is repeated here instead of evaluated there.
  if (!impl->is_evaluated() && !(impl->constant && impl->trace->mode() == Mode::eager)) {
    if (impl->trace->mode() == Mode::compile) fail_outside(*impl, op);
    evaluate(impl);
  }
  const Value value = capture(impl);
  add_source(impl, value);
  return value;
}

// The value of an evaluated tensor: a variable's, its definition where that is made of constants, which a plan folds,
// or an input.
Value Trace::capture(const std::shared_ptr<TensorImpl>& tensor) {
  if (tensor->version && mode_ == Mode::eager) {
    const auto& version = tensor->version.get();
    const StateUse& s = use(tensor->variable);
    if (s.before.get() == version) return s.leaf;
    Value& leaf = old_versions_[version.get()];
    if (!leaf.valid()) leaf = capture_elements(*tensor);
    return leaf;
  }
  if (!tensor->constant) return capture_elements(*tensor);
  const Graph& g = *tensor->constant;
  std::vector<Value> map(g.values.size());
  for (const Node& n : g.nodes) {
    std::vector<Value> in;
    for (Value v : n.inputs) in.push_back(map[v.index()]);
    const std::vector<Value> out = graph_.add(n.op, n.attrs, in, n);
    for (size_t i = 0; i < out.size(); ++i) map[n.outputs[i].index()] = out[i];
  }
  return map[g.outputs[0].index()];
}

Value Trace::capture_elements(const TensorImpl& tensor) {
  captured_.push_back(tensor.array);
  captured_bytes_ += tensor.array.bytes();
  return graph_.add(Op::input, LeafAttrs{cat("x", captured_.size() - 1), tensor.type}, {}, scope(), where())[0];
}

StateUse& Trace::use(const std::shared_ptr<VariableImpl>& variable) {
  if (mode_ == Mode::eager && variable->device != device_ && !uses(*variable)) settle_elsewhere(*variable, device_);
  const auto [it, fresh] = state_index_.try_emplace(variable.get(), states_.size());
  if (fresh) {
    const Value leaf = graph_.add(Op::state, LeafAttrs{variable->name, variable->type}, {}, scope(), where())[0];
    states_.push_back({variable, leaf, leaf, leaf, {}, {}});
    if (mode_ == Mode::eager) {
      const std::lock_guard lock(history_mutex());
      states_.back().before = HeldVersion(variable->version());
    }
  }
  return states_[it->second];
}

Value Trace::read(const std::shared_ptr<VariableImpl>& variable) {
  StateUse& s = use(variable);
  if (!s.read.valid()) {
    s.read = is_floating(s.variable->type.dtype)
                 ? graph_.add(Op::stop_gradient, NoAttrs{}, {s.next}, scope(), where())[0]
                 : s.next;
  }
  return s.read;
}

void Trace::assign(const std::shared_ptr<VariableImpl>& variable, Value next) {
  StateUse& s = use(variable);
  s.next = next;
  s.read = s.assigned() ? Value{} : s.leaf;
}

void Trace::guard_assignments(Value condition) {
  if (mode_ == Mode::eager) {
    fail_here("assign_only_if",
              "it undoes the assignments of a step, and eager work has no steps: use it in a compiled ",
              "function, or assign where(condition, new, old)");
  }
  Builder b(graph_, scope(), where());
  for (StateUse& s : states_) {
    if (!s.assigned() || !is_floating(graph_.type(s.leaf).dtype)) continue;
    s.next = choose_next(b, condition, s.next, s.leaf);
    s.read = {};
  }
  sound_ = sound_.valid() ? b.binary(Op::logical_and, sound_, condition) : condition;
}

void Trace::key_drawn() {
  if (mode_ == Mode::eager) assign(rng_state().impl(), next_key(graph_, read(rng_state().impl())));
}

void Trace::depend_on(const std::shared_ptr<const bool>& flag) {
  for (const Guard& g : guards_) {
    if (g.flag == flag) return;
  }
  guards_.push_back({flag, *flag});
}

void Trace::add_gradient_hook(Value value, std::function<Tensor(const Tensor&)> function) {
  gradient_hooks_.push_back({value, std::make_shared<const std::function<Tensor(const Tensor&)>>(std::move(function))});
}

void Trace::need_no_walk(const char* op) const {
  if (!walked_) return;
  fail_here(op, "a function of on_gradient, or a gradient hook of a module, ",
            std::string_view(op) == "grad" ? "asks for gradients" : "reads elements",
            " while gradients are computed: there it can only compute with tensors; do it when they are there");
}

void Trace::finish(const std::vector<Value>& outputs) {
  if (streams_ > 0) {
    // The next run draws other numbers, unless this one changed nothing.
    StateUse& rng = use(rng_state().impl());
    rng.next = next_key(graph_, rng.leaf);
    Builder b(graph_, "rng");
    if (sound_.valid()) rng.next = choose(b, sound_, rng.next, rng.leaf);
  }
  graph_.outputs = outputs;
  if (mode_ == Mode::compile) gradient_hooks_.clear();  // and what they hold: all gradients are taken
  graph_.updates.clear();
  for (const StateUse& s : states_) {
    if (s.assigned()) graph_.updates.push_back({s.leaf, s.next});
  }
}

std::vector<std::shared_ptr<Storage>> Trace::state_storages() const {
  std::vector<std::shared_ptr<Storage>> out;
  for (const StateUse& s : states_) out.push_back(s.variable->materialize());
  return out;
}

std::vector<std::shared_ptr<VariableImpl>> Trace::variables() const {
  std::vector<std::shared_ptr<VariableImpl>> out;
  for (const StateUse& s : states_) out.push_back(s.variable);
  return out;
}

// --- the thread's trace ---

Session::Session(Device device) : trace_(thread_context().recording.get()) {
  if (trace_) return;
  if (!device) device = thread_device();
  while (!trace_) {
    auto trace = eager_trace(device);
    if (!trace) {
      trace = std::make_shared<Trace>(Trace::Mode::eager, device);
      thread_context().eager.push_back(trace);
    }
    trace->mutex().lock();
    if (!trace->closed()) {
      trace_ = trace.get();
      locked_ = std::move(trace);
    } else {
      trace->mutex().unlock();
      forget_eager(trace);
      if (const auto loss = trace->take_loss()) std::rethrow_exception(loss);
    }
  }
}

Session::~Session() {
  if (locked_) locked_->mutex().unlock();
}

void evaluate(const std::shared_ptr<TensorImpl>& tensor) {
  if (tensor->is_evaluated()) return;
  tensor->trace->run(tensor.get());
  FREIGHT_CHECK(tensor->is_evaluated(), "an evaluated trace left a tensor behind");
}

void settle(const Tensor& tensor, Device device) {
  if (!tensor.defined() || tensor.impl()->is_evaluated()) return;
  TensorImpl& impl = *tensor.impl();
  const auto& trace = impl.trace;
  if (trace->mode() != Trace::Mode::eager || (!compiling() && trace == eager_trace(device))) return;
  if (impl.follows && trace == eager_trace(trace->device())) {
    const std::lock_guard lock(trace->mutex());
    if (!impl.is_evaluated() && !impl.constant) impl.constant = constant_definition(trace->graph(), impl.value);
    if (impl.constant) return;
  }
  evaluate(tensor.impl());
}

void settle_elsewhere(const VariableImpl& variable, Device device) {
  flush_where([&](const Trace& trace) { return trace.device() != device && trace.uses(variable); });
}

ThreadContext& thread_context() {
  thread_local ThreadContext context;
  return context;
}

bool compiling() { return thread_context().recording != nullptr; }

void flush() {
  flush_where([](const Trace&) { return true; });
}

void flush_state_readers() {
  flush_where([](const Trace& trace) { return trace.touches_state(); });
}

void end_of_piece() {
  if (compiling() || thread_context().pieces > 0) return;
  flush_where([](const Trace& trace) { return trace.size() >= kMuch || trace.captured_bytes() >= kMuchBytes; });
}

OnePiece::OnePiece() { ++thread_context().pieces; }
OnePiece::~OnePiece() { --thread_context().pieces; }

std::vector<Tensor> add(Op op, Attrs attrs, const std::vector<Tensor>& inputs) {
  const ThreadContext& context = thread_context();
  const Device device = context.recording ? nullptr : device_of_operands(name(op), inputs);
  for (const Tensor& t : inputs) settle(t, device);
  {
    const Session session(device);
    const bool whole = context.recording || context.pieces > 0;
    if (whole || session->size() < kTooMuch) return session->add(op, std::move(attrs), inputs);
  }
  flush();
  const Session session(device);
  return session->add(op, std::move(attrs), inputs);
}

Device device_of(const TensorImpl& tensor) {
  return tensor.device || !tensor.trace ? tensor.device : tensor.trace->device();
}

Device device_of_leaves() {
  const auto& recording = thread_context().recording;
  return recording ? recording->device() : thread_device();
}

Device device_of_operands(const char* op, const std::vector<Tensor>& operands) {
  const Tensor* first = nullptr;
  for (const Tensor& t : operands) {
    if (!t.defined() || t.impl()->follows) continue;
    if (!first) first = &t;
    if (device_of(*t.impl()) == device_of(*first->impl())) continue;
    fail_here(op, "operands are on two devices: expected one, got ", first->type(), " on ", first->device(), " and ",
              t.type(), " on ", t.device(), "; move one of them with to_device(\"", first->device(), "\")");
  }
  const Device device = first ? device_of(*first->impl()) : nullptr;
  return device ? device : thread_device();
}

Recording::Recording(std::shared_ptr<Trace> trace)
    : before_(std::exchange(thread_context().recording, std::move(trace))) {}

Recording::~Recording() { thread_context().recording = std::move(before_); }

void fail_outside(const TensorImpl& tensor, const std::string& op) {
  const Node& made_by = tensor.trace->graph().def(tensor.value);
  const std::string at = made_by.location();
  fail_here(op, "a tensor ", tensor.type, " belongs to a compiled function, where ", name(made_by.op), " made it",
            at.empty() ? "" : " at ", at, ", and has no elements outside of it; return it from that function");
}

Tensor constant(double value, const Type& type) { return one(Op::constant, ConstantAttrs{type, value, {}}, {}); }

Tensor tensor_of(const In& x, const char* op, DType dtype) {
  if (x.is_number) return constant(x.scalar, {dtype, {}});
  if (!x.tensor.defined()) fail_here(op, "an undefined tensor was used; give it a value first");
  return x.tensor;
}

}  // namespace trace

}  // namespace freight
