// Traces: recording, binding of leaves, the thread's trace. See tracer.h. How eager traces run is in evaluate.cpp, what
// stays of them in history.cpp; the compiled kind is in compile.cpp.
#include "freight/trace/tracer.h"

#include "freight/backend/backend.h"
#include "freight/base/env.h"
#include "freight/ir/builder.h"

namespace freight {
namespace trace {

namespace {

thread_local std::shared_ptr<Trace> t_eager;
thread_local std::shared_ptr<Trace> t_recording;
thread_local int t_pieces = 0;  // OnePiece objects that live on this thread

// Pending work that is run although nobody reads it: of so many nodes or bytes of inputs between two pieces of work,
// and of so many nodes anywhere. A training step of a large net fits in.
constexpr size_t kMuch = 4096, kTooMuch = 65536, kMuchBytes = size_t{256} << 20;

std::string resolve_backend(const std::string& name) { return name.empty() || name == "auto" ? "cpu" : name; }
std::string& backend_setting() {
  static std::string name = resolve_backend(env::get("FREIGHT_DEVICE"));
  return name;
}

// The elements of `yes` where the condition (bool[]) holds, else those of `no`.
Value choose(Builder& b, Value condition, Value yes, Value no) {
  const Shape shape = b.shape(yes);
  return b.where(b.broadcast(b.reshape(condition, Shape::filled(shape.rank(), 1)), shape), yes, no);
}

// (seed, step) -> (seed, step + 1).
Value next_key(Graph& graph, Value key) {
  const ConstantAttrs one{{DType::i64, {2}}, 0, Array::of<int64_t>({0, 1}, {2})};
  Builder b(graph, "rng");
  return b.binary(Op::add, key, graph.add(Op::constant, one, {})[0]);
}

}  // namespace

// --- recording ---

Tensor Trace::wrap(Value value) {
  auto impl = std::make_shared<TensorImpl>();
  impl->type = graph_.type(value);
  impl->trace = shared_from_this();
  impl->value = value;
  if (mode_ == Mode::eager) pending_.push_back(impl);
  return Tensor(std::move(impl));
}

std::vector<Tensor> Trace::add(Op op, Attrs attrs, const std::vector<Tensor>& inputs) {
  std::vector<Value> values;
  values.reserve(inputs.size());
  for (const Tensor& t : inputs) values.push_back(value_of(t));
  std::vector<Tensor> out;
  for (Value v : graph_.add(op, std::move(attrs), values, scope(), where())) out.push_back(wrap(v));
  return out;
}

Tensor Trace::input(const std::string& name, const Type& type) {
  return wrap(graph_.add(Op::input, LeafAttrs{name, type}, {}, scope(), where())[0]);
}

Value Trace::find(const Tensor& tensor) const {
  const TensorImpl& impl = *tensor.impl();
  if (impl.trace.get() == this) return impl.value;
  const auto it = source_index_.find(&impl);
  return it == source_index_.end() ? Value{} : it->second;
}

Value Trace::value_of(const Tensor& tensor) {
  if (!tensor.defined()) fail_here("tensor", "an undefined tensor was used; give it a value first");
  const Value known = find(tensor);
  if (known.valid()) return known;
  const auto& impl = tensor.impl();
  if (!impl->is_evaluated()) {
    if (impl->trace->mode() == Mode::compile) {
      fail_here("tensor", "a tensor ", impl->type,
                " from inside a compiled function was used outside of it: ", "return it from the function instead");
    }
    impl->trace->run(impl.get());
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
    const std::vector<Value> out = graph_.add(n.op, n.attrs, in, n.scope, n.where);
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
    s.next = choose(b, condition, s.next, s.leaf);
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

void Trace::finish(const std::vector<Value>& outputs) {
  if (streams_ > 0) {
    // The next run draws other numbers, unless this one changed nothing.
    StateUse& rng = use(rng_state().impl());
    rng.next = next_key(graph_, rng.leaf);
    Builder b(graph_, "rng");
    if (sound_.valid()) rng.next = choose(b, sound_, rng.next, rng.leaf);
  }
  graph_.outputs = outputs;
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

Session::Session() : trace_(t_recording.get()) {
  while (!trace_) {
    if (!t_eager) t_eager = std::make_shared<Trace>(Trace::Mode::eager);
    t_eager->mutex().lock();
    if (!t_eager->closed()) {
      locked_ = t_eager;
      trace_ = t_eager.get();
    } else {
      t_eager->mutex().unlock();
      const auto closed = std::move(t_eager);
      if (const auto loss = closed->take_loss()) std::rethrow_exception(loss);
    }
  }
}

Session::~Session() {
  if (locked_) locked_->mutex().unlock();
}

void settle(const Tensor& tensor) {
  if (!tensor.defined() || tensor.impl()->is_evaluated()) return;
  const auto& trace = tensor.impl()->trace;
  if (trace->mode() == Trace::Mode::eager && (t_recording || trace != t_eager)) {
    trace->run(tensor.impl().get());
  }
}

bool compiling() { return t_recording != nullptr; }

void flush() {
  if (const auto trace = t_eager) {
    t_eager.reset();  // whatever happens, the next operation starts a fresh trace
    trace->run();
    if (const auto loss = trace->take_loss()) std::rethrow_exception(loss);
  }
}

void flush_state_readers() {
  const auto trace = t_eager;
  if (!trace) return;
  bool reads = false;
  {
    const std::lock_guard lock(trace->mutex());
    reads = trace->touches_state();
  }
  if (reads) flush();
}

void end_of_piece() {
  if (t_recording || t_pieces > 0 || !t_eager) return;
  bool much = false;
  {
    const Session session;
    much = session->size() >= kMuch || session->captured_bytes() >= kMuchBytes;
  }
  if (much) flush();
}

OnePiece::OnePiece() { ++t_pieces; }
OnePiece::~OnePiece() { --t_pieces; }

std::vector<Tensor> add(Op op, Attrs attrs, const std::vector<Tensor>& inputs) {
  for (const Tensor& t : inputs) settle(t);
  {
    const Session session;
    if (t_recording || t_pieces > 0 || session->size() < kTooMuch) return session->add(op, std::move(attrs), inputs);
  }
  flush();
  const Session session;
  return session->add(op, std::move(attrs), inputs);
}

Recording::Recording(std::shared_ptr<Trace> trace) : before_(std::move(t_recording)) { t_recording = std::move(trace); }

Recording::~Recording() { t_recording = std::move(before_); }

RunOptions run_options() { return RunOptions{.backend = backend_setting()}; }

Tensor constant(double value, const Type& type) { return one(Op::constant, ConstantAttrs{type, value, {}}, {}); }

Tensor tensor_of(const In& x, const char* op, DType dtype) {
  if (x.is_number) return constant(x.scalar, {dtype, {}});
  if (!x.tensor.defined()) fail_here(op, "an undefined tensor was used; give it a value first");
  return x.tensor;
}

}  // namespace trace

void set_default_backend(const std::string& name) {
  const std::string resolved = trace::resolve_backend(name);
  backend(resolved);  // throws for an unknown name
  trace::backend_setting() = resolved;
}

std::string default_backend() { return trace::backend_setting(); }

}  // namespace freight
