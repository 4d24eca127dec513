// Traces: recording, binding of leaves, evaluation of eager traces. See tracer.h; the compiled kind is in compile.cpp.
#include "freight/trace/tracer.h"

#include "freight/backend/backend.h"
#include "freight/base/env.h"
#include "freight/ir/builder.h"

namespace freight {
namespace trace {

namespace {

thread_local std::shared_ptr<Trace> t_eager;
thread_local std::shared_ptr<Trace> t_recording;

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
  const auto it = captured_index_.find(&impl);
  return it == captured_index_.end() ? Value{} : it->second;
}

Value Trace::value_of(const Tensor& tensor) {
  if (!tensor.defined()) fail_here("tensor", "an undefined tensor was used; give it a value first");
  const Value known = find(tensor);
  if (known.valid()) return known;
  const auto& impl = tensor.impl();
  if (impl->trace) {
    if (impl->trace->mode() == Mode::compile) {
      fail_here("tensor", "a tensor ", impl->type,
                " from inside a compiled function was used outside of it: ", "return it from the function instead");
    }
    impl->trace->run();
  }
  const Value leaf = graph_.add(Op::input, LeafAttrs{cat("x", captured_.size()), impl->type}, {}, scope(), where())[0];
  captured_.push_back(impl->array);
  captured_from_.push_back(impl);
  captured_index_[impl.get()] = leaf;
  return leaf;
}

StateUse& Trace::use(const std::shared_ptr<VariableImpl>& variable) {
  const auto [it, fresh] = state_index_.try_emplace(variable.get(), states_.size());
  if (fresh) {
    const Value leaf = graph_.add(Op::state, LeafAttrs{variable->name, variable->type}, {}, scope(), where())[0];
    states_.push_back({variable, leaf, leaf});
  }
  return states_[it->second];
}

void Trace::guard_assignments(Value condition) {
  Builder b(graph_, scope(), where());
  for (StateUse& s : states_) {
    if (s.current == s.leaf || !is_floating(graph_.type(s.leaf).dtype)) continue;
    s.current = choose(b, condition, s.current, s.leaf);
  }
  sound_ = sound_.valid() ? b.binary(Op::logical_and, sound_, condition) : condition;
}

void Trace::depend_on(const std::shared_ptr<const bool>& flag) {
  for (const Guard& g : guards_) {
    if (g.flag == flag) return;
  }
  guards_.push_back({flag, *flag});
}

void Trace::finish(const std::vector<Value>& outputs) {
  if (streams_ > 0) {
    // (seed, step) -> (seed, step + 1): the next run draws other numbers, unless this one changed nothing.
    StateUse& rng = use(rng_state().impl());
    const Value one =
        graph_.add(Op::constant, ConstantAttrs{{DType::i64, {2}}, 0, Array::of<int64_t>({0, 1}, {2})}, {})[0];
    Builder b(graph_, "rng");
    rng.current = b.binary(Op::add, rng.leaf, one);
    if (sound_.valid()) rng.current = choose(b, sound_, rng.current, rng.leaf);
  }
  graph_.outputs = outputs;
  graph_.updates.clear();
  for (const StateUse& s : states_) {
    if (!(s.current == s.leaf)) graph_.updates.push_back({s.leaf, s.current});
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

// --- evaluation ---

void Trace::run() {
  const std::shared_ptr<Trace> keep = shared_from_this();
  release(this);  // whatever happens, the next operation starts a fresh trace
  std::vector<std::shared_ptr<TensorImpl>> live;
  std::vector<Value> outputs;
  std::unordered_map<int32_t, size_t> slot;
  for (const auto& weak : pending_) {
    auto impl = weak.lock();
    if (!impl || impl->trace.get() != this) continue;
    if (slot.try_emplace(impl->value.id, outputs.size()).second) outputs.push_back(impl->value);
    live.push_back(std::move(impl));
  }
  finish(outputs);
  if (outputs.empty() && graph_.updates.empty()) return;
  std::vector<Array> results;
  for (Value v : outputs) results.emplace_back(graph_.type(v).dtype, graph_.type(v).shape);
  Executable executable(plan_for(graph_, run_options()), state_storages());
  executable.run(captured_, results);
  for (const auto& impl : live) {
    impl->array = results[slot[impl->value.id]];
    impl->trace.reset();
  }
}

Trace& current() {
  if (t_recording) return *t_recording;
  if (!t_eager) t_eager = std::make_shared<Trace>(Trace::Mode::eager);
  return *t_eager;
}

bool compiling() { return t_recording != nullptr; }

void release(const Trace* trace) {
  if (t_eager.get() == trace) t_eager.reset();
}

void flush() {
  if (const auto trace = t_eager) trace->run();
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
