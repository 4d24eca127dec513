// Compiled functions: one trace, plan and executable per signature, inserted only after success, bounded in number.
// Outputs are kept and reused as soon as nobody else holds them, so that a steady loop allocates nothing. A function
// has one arena per signature, so its calls follow one another, whatever thread they come from.
#include "freight/trace/compile.h"

#include <algorithm>

#include "freight/trace/batch_statistics.h"
#include "freight/trace/tracer.h"

namespace freight {

Type Argument::type() const {
  if (tensor_) return tensor_->type();
  if (array_) return {array_->dtype(), array_->shape()};
  return *type_;
}

const Array& Argument::array() const {
  if (tensor_) {
    tensor_->array();  // evaluates
    return tensor_->impl()->array;
  }
  if (!array_) fail(ErrorKind::usage, "compile", "a type cannot be run; give a tensor or an array");
  return *array_;
}

const Tensor* Argument::placed() const { return tensor_ && !tensor_->impl()->follows ? tensor_ : nullptr; }

namespace {

constexpr size_t kMaxSignatures = 64;

// Whether nobody else holds the object, and what others did with it before they let go of it is visible here: the
// counter says so only to those who lock a weak reference.
template <class T>
bool sole_owner(const std::shared_ptr<T>& p, long own = 1) {
  return p.use_count() == own && std::weak_ptr<T>(p).lock() != nullptr;
}

// The results of one output position that may be reused.
struct OutputPool {
  Type type;
  std::vector<std::shared_ptr<trace::TensorImpl>> kept;

  std::shared_ptr<trace::TensorImpl> take(trace::Device device) {
    for (const auto& impl : kept) {
      if (sole_owner(impl) && sole_owner(impl->array.storage())) return impl;
    }
    auto impl = std::make_shared<trace::TensorImpl>();
    impl->type = type;
    impl->device = device;
    impl->evaluate_to(Array(type.dtype, type.shape));
    if (kept.size() == 3) kept.erase(kept.begin());
    kept.push_back(impl);
    return impl;
  }
};

std::string signature_text(std::span<const Argument> arguments) {
  std::string text = "(";
  for (size_t i = 0; i < arguments.size(); ++i) text += cat(i ? ", " : "", arguments[i].type());
  return text + ")";
}

}  // namespace

struct CompiledFunction::Lowered {
  std::vector<Type> signature;
  std::vector<size_t> lengths, result_lengths;  // of the vectors among arguments and results
  decltype(Request::body) body = nullptr;       // the same function, called with other types, has another one
  std::shared_ptr<trace::Trace> tape;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Executable> executable;
  std::vector<Array> inputs, outputs;  // lists handed to the executable, kept to allocate nothing
  std::vector<std::shared_ptr<trace::VariableImpl>> assigned;
  std::vector<OutputPool> pools;
  std::vector<Tensor> results;
  uint64_t ties = trace::tie_count();  // when its variables were last looked at
  bool by_thread = false;              // no operand decided on the device, but the thread's current one

  // None of its variables was tied to another one since, or moved to another device.
  bool variables_stand() {
    const uint64_t now = trace::tie_count();
    if (now == ties) return true;
    const auto& states = tape->states();
    const auto gone = [&](const trace::StateUse& s) {
      return s.variable->tied_to || (!tape->takes_all() && s.variable->device && s.variable->device != tape->device());
    };
    if (std::any_of(states.begin(), states.end(), gone)) return false;
    ties = now;
    return true;
  }

  bool runs_where(std::span<const Argument> arguments) const {
    if (tape->takes_all()) return true;
    if (by_thread && tape->device() != trace::thread_device()) return false;
    return std::all_of(arguments.begin(), arguments.end(), [&](const Argument& a) {
      const Tensor* const t = a.placed();
      return !t || trace::device_of(*t->impl()) == tape->device();
    });
  }

  bool matches(const Request& request) {
    const auto same = [](const Argument& a, const Type& type) { return a.type() == type; };
    const auto holds = [](const trace::Guard& g) { return g.holds(); };
    const auto& arguments = request.arguments;
    return variables_stand() && runs_where(arguments) && body == request.body &&
           std::equal(arguments.begin(), arguments.end(), signature.begin(), signature.end(), same) &&
           std::equal(request.lengths.begin(), request.lengths.end(), lengths.begin(), lengths.end()) &&
           std::all_of(tape->guards().begin(), tape->guards().end(), holds);
  }
};

struct CompiledFunction::State {
  std::recursive_mutex mutex;  // held by every call from outside, of whose work all below is
  CompileOptions options;
  std::vector<std::unique_ptr<Lowered>> lowered;  // most recently used last
  size_t traces = 0;
};

CompiledFunction::CompiledFunction(CompileOptions options) : state_(new State) { state_->options = std::move(options); }
CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;
CompiledFunction& CompiledFunction::operator=(CompiledFunction&&) noexcept = default;

size_t CompiledFunction::traces() const {
  const std::lock_guard lock(state_->mutex);
  return state_->traces;
}

void CompiledFunction::thaw() {
  const std::lock_guard lock(state_->mutex);
  for (const auto& l : state_->lowered) {
    if (l->executable) l->executable->thaw();
  }
}

CompiledFunction::Lowered& CompiledFunction::lower(const Request& request) {
  auto& all = state_->lowered;
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i]->matches(request)) return *all[i];
  }
  auto fresh = std::make_unique<Lowered>();
  const std::string& given = state_->options.backend;
  const bool anywhere = given.empty() || given == "auto";
  fresh->tape =
      std::make_shared<trace::Trace>(trace::Trace::Mode::compile, anywhere ? nullptr : trace::device_named(given));
  trace::Trace& tape = *fresh->tape;
  {
    const trace::Recording recording(fresh->tape);
    detail::TensorList inputs{{}, {request.lengths.begin(), request.lengths.end()}};
    std::vector<Tensor> placed;
    for (const Argument& a : request.arguments) {
      if (const Tensor* t = a.placed(); t && anywhere) placed.push_back(*t);
    }
    if (!placed.empty()) tape.admits(trace::device_of_operands("compile", placed));
    for (const Argument& a : request.arguments) {
      fresh->signature.push_back(a.type());
      const auto& names = state_->options.input_names;
      const size_t i = inputs.tensors.size();
      inputs.tensors.push_back(tape.input(i < names.size() ? names[i] : cat("x", i), a.type()));
    }
    detail::TensorList results = request.body(request.context, inputs);
    std::vector<Value> outputs;
    for (const Tensor& t : results.tensors) {
      outputs.push_back(tape.value_of(t));
      fresh->pools.push_back({t.type(), {}});
    }
    fresh->body = request.body;
    fresh->lengths = std::move(inputs.lengths);
    fresh->result_lengths = std::move(results.lengths);
    tape.finish(outputs);
    fresh->by_thread = !tape.device();
    tape.admits(trace::thread_device());
  }
  ++state_->traces;
  if (all.size() == kMaxSignatures) all.erase(all.begin());
  all.push_back(std::move(fresh));
  return *all.back();
}

const Graph& CompiledFunction::graph(const Request& request) {
  const std::lock_guard lock(state_->mutex);
  return lower(request).tape->graph();
}

std::shared_ptr<const Plan> CompiledFunction::plan(const Request& request) {
  const std::lock_guard lock(state_->mutex);
  Lowered& l = lower(request);
  if (!l.plan) {
    RunOptions options{.backend = *l.tape->device()};
    options.deterministic = state_->options.deterministic;
    options.recompute = state_->options.recompute;
    options.compute = state_->options.compute;
    options.tf32 = state_->options.tf32;
    options.frozen = state_->options.frozen;
    options.limit = state_->options.limit;
    const auto& variables = l.tape->variables();
    for (size_t i = 0; i < variables.size(); ++i) {
      if (variables[i]->on_host) options.host_states.push_back(static_cast<int32_t>(i));
    }
    l.plan = plan_for(l.tape->graph(), options);
  }
  return l.plan;
}

Executable& CompiledFunction::executable(const Request& request) {
  const std::lock_guard lock(state_->mutex);
  Lowered& l = lower(request);
  if (!l.executable) {
    trace::need_batch_statistics(l.tape->graph());
    l.executable = std::make_unique<Executable>(plan(request), l.tape->state_storages());
    l.inputs.resize(request.arguments.size());
    for (const Array& a : l.tape->captured()) l.inputs.push_back(a);
    l.outputs.resize(l.pools.size());
    l.results.resize(l.pools.size());
    for (const trace::StateUse& s : l.tape->states()) {
      if (s.assigned()) l.assigned.push_back(s.variable);
    }
  }
  return *l.executable;
}

std::vector<Array> CompiledFunction::states(const Request& request) {
  const std::lock_guard lock(state_->mutex);
  std::vector<Array> arrays;
  for (const auto& v : lower(request).tape->variables()) {
    arrays.emplace_back(v->type.dtype, v->type.shape, v->materialize());
  }
  return arrays;
}

CompiledFunction::Results CompiledFunction::call(const Request& request, int64_t times) {
  if (trace::compiling()) {
    fail(ErrorKind::usage, "compile", "a compiled function was called while another step ",
         signature_text(request.arguments), " is being traced; call the plain function there");
  }
  // Pending work of the eager trace that reads variables must not see this step's updates.
  trace::flush_state_readers();
  std::unique_lock lock(state_->mutex);
  Lowered& l = lower(request);
  Executable& run = l.executable ? *l.executable : executable(request);
  const size_t count = request.arguments.size();
  for (size_t i = 0; i < count; ++i) l.inputs[i] = request.arguments[i].array();
  l.results.assign(l.results.size(), Tensor());  // lets go of the last results, so that they can be reused
  for (size_t i = 0; i < l.pools.size(); ++i) {
    auto impl = l.pools[i].take(l.tape->device());
    l.outputs[i] = impl->array;
    l.results[i] = Tensor(std::move(impl));
  }
  {
    const trace::StateLock states(l.tape->touches_state(), !l.assigned.empty());
    if (!l.assigned.empty() && trace::HeldVersion::count() > 0) {
      const std::lock_guard history(trace::history_mutex());
      for (const auto& v : l.assigned) v->supersede();
    }
    run.run(l.inputs, l.outputs, times);
  }
  for (size_t i = 0; i < count; ++i) l.inputs[i] = Array();  // the caller may reuse its batch
  for (Array& a : l.outputs) a = Array();
  return {std::move(lock), l.results, l.result_lengths};
}

}  // namespace freight
