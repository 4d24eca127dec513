// Compiled functions: one trace, plan and executable per signature, inserted only after success, bounded in number.
// Outputs are kept and reused as soon as nobody else holds them, so that a steady loop allocates nothing. All
// signatures share one arena per device, so calls follow one another, whatever thread they come from. A signature that
// differs from an earlier one in extents alone is planned without measuring; what runs often enough is planned again
// (Measure).
#include "freight/trace/compile.h"

#include <algorithm>
#include <map>
#include <optional>

#include "freight/run/plan.h"
#include "freight/trace/batch_statistics.h"
#include "freight/trace/initial_values.h"
#include "freight/trace/tracer.h"

namespace freight {

Type Argument::type() const {
  const bool undefined = (tensor_ && !tensor_->defined()) || (array_ && !array_->defined());
  if (undefined) {
    trace::fail_here("compile",
                     "got an undefined tensor or array as an argument of a compiled function: expected one with ",
                     "elements; what a call omits belongs in another function");
  }
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

// How many signatures a function keeps at least, and at most; more than the former as long as all together hold no more
// than so many steps of plans and bytes of memory of their own.
constexpr size_t kSignatures = 64, kMostSignatures = 512, kMostSteps = 20000, kMostBytes = size_t{256} << 20;

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

// A copy of a variable in 16 bits, which all plans of a function share.
struct VariableCopy {
  std::shared_ptr<trace::VariableImpl> variable;
  std::shared_ptr<Storage> elements;
  // VariableImpl::changes() of the elements that it is a copy of; 0: of none.
  uint64_t of = 0;

  bool stands() const { return of == variable->changes() && !variable->lent(); }
};

struct CompiledFunction::Lowered {
  std::vector<Type> signature;
  std::vector<size_t> lengths, result_lengths;  // of the vectors among arguments and results
  decltype(Request::body) body = nullptr;       // the same function, called with other types, has another one
  std::shared_ptr<trace::Trace> tape;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Executable> executable;
  int64_t runs = 0;
  std::vector<Array> inputs, outputs;  // lists handed to the executable, kept to allocate nothing
  std::vector<std::shared_ptr<trace::VariableImpl>> assigned;
  std::vector<VariableCopy*> copies;
  std::vector<uint64_t> changes;  // of their variables before a run
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
  std::vector<std::unique_ptr<Lowered>> lowered;               // most recently used last
  std::map<std::string, std::shared_ptr<SharedArena>> arenas;  // by device
  std::map<std::pair<const trace::VariableImpl*, DType>, VariableCopy> copies;
  bool lends_executables = false;  // what others run changes variables unseen
  size_t traces = 0;

  // Makes the plan, or makes it again where it was guessed and `measure` asks for more.
  void plan(Lowered& l, Measure measure) const {
    if (l.plan && (measure != Measure::now || l.plan->guesses() == 0)) return;
    RunOptions run{.backend = *l.tape->device()};
    run.deterministic = options.deterministic;
    run.recompute = options.recompute;
    run.compute = options.compute;
    run.tf32 = options.tf32;
    run.frozen = options.frozen;
    run.limit = options.limit;
    run.sums = options.sums;
    run.keep_casts = !options.frozen;
    const auto& variables = l.tape->variables();
    for (size_t i = 0; i < variables.size(); ++i) {
      if (variables[i]->on_host) run.host_states.push_back(static_cast<int32_t>(i));
    }
    try {
      l.plan = plan_for(l.tape->graph(), run, measure);
    } catch (const Error& e) {
      if (!l.plan || e.kind() != ErrorKind::capacity) throw;
      l.runs = 0;  // measuring takes memory of its own: what was guessed goes on, and is measured after as many runs
      return;
    }
    l.executable.reset();
  }

  Executable& executable(Lowered& l, Measure measure) {
    std::optional<trace::DrawAhead> weights;  // beside the plan
    if (!l.plan) weights.emplace(l.tape->variables());
    plan(l, measure);
    if (l.executable) return *l.executable;
    trace::need_batch_statistics(l.tape->graph());
    std::shared_ptr<SharedArena>& arena = arenas[*l.tape->device()];
    if (!arena) arena = make_shared_arena();
    const auto variables = l.tape->variables();
    const auto random = std::find(variables.begin(), variables.end(), rng_state().impl());
    Executable::Options memory{.arena = arena};
    if (random != variables.end()) memory.random_state = static_cast<size_t>(random - variables.begin());
    l.copies.clear();
    for (const passes::KeptCast& k : l.plan->kept_casts()) {
      VariableCopy& copy = copies[{variables[k.state].get(), k.dtype}];
      if (!copy.elements) {
        copy.variable = variables[k.state];
        copy.elements = Storage::allocate(Type{k.dtype, copy.variable->type.shape}.bytes());
      }
      l.copies.push_back(&copy);
      memory.copies.push_back(copy.elements);
    }
    l.executable = std::make_unique<Executable>(l.plan, l.tape->state_storages(), std::move(memory));
    l.inputs.assign(l.signature.size(), Array());
    for (const Array& a : l.tape->captured()) l.inputs.push_back(a);
    l.outputs.resize(l.pools.size());
    l.results.resize(l.pools.size());
    l.assigned.clear();
    for (const trace::StateUse& s : l.tape->states()) {
      if (s.assigned()) l.assigned.push_back(s.variable);
    }
    return *l.executable;
  }

  // Lets go of those least recently used where a new one finds too many.
  void make_room() {
    size_t steps = 0, bytes = 0;
    for (const auto& l : lowered) {
      if (l->plan) {
        steps += l->plan->steps().size();
        bytes += l->plan->kept_bytes() + l->plan->host_bytes() + l->plan->copy_bytes();
      }
      for (const OutputPool& p : l->pools) bytes += p.kept.size() * p.type.bytes();
    }
    const bool small = steps <= kMostSteps && bytes <= kMostBytes;
    const size_t most = small ? kMostSignatures : kSignatures;
    if (lowered.size() < most) return;
    lowered.erase(lowered.begin(), lowered.end() - static_cast<std::ptrdiff_t>(most - 1));
  }
};

namespace {
// The state, which a function that was moved from lacks.
template <class State>
State& alive(const std::unique_ptr<State>& state) {
  if (!state)
    fail(ErrorKind::usage, "compile", "a compiled function that was moved from was called: use the one it was ",
         "moved to");
  return *state;
}
}  // namespace

CompiledFunction::CompiledFunction(CompileOptions options) : state_(new State) { state_->options = std::move(options); }
CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;
CompiledFunction& CompiledFunction::operator=(CompiledFunction&&) noexcept = default;

size_t CompiledFunction::traces() const {
  const std::lock_guard lock(alive(state_).mutex);
  return state_->traces;
}

void CompiledFunction::thaw() {
  const std::lock_guard lock(alive(state_).mutex);
  for (const auto& l : state_->lowered) {
    if (l->executable) l->executable->thaw();
  }
}

CompiledFunction::Lowered& CompiledFunction::lower(const Request& request) {
  auto& all = state_->lowered;
  for (size_t i = all.size(); i-- > 0;) {
    if (!all[i]->matches(request)) continue;
    std::rotate(all.begin() + static_cast<std::ptrdiff_t>(i), all.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                all.end());
    return *all.back();
  }
  auto fresh = std::make_unique<Lowered>();
  for (const Argument& a : request.arguments) fresh->signature.push_back(a.type());  // refuses undefined ones
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
      const auto& names = state_->options.input_names;
      const size_t i = inputs.tensors.size();
      inputs.tensors.push_back(tape.input(i < names.size() ? names[i] : cat("x", i), a.type()));
    }
    detail::TensorList results = request.body(request.context, inputs);
    std::vector<Value> outputs;
    for (const Tensor& t : results.tensors) {
      if (!t.defined()) {
        trace::fail_here("compile", "result ", outputs.size(), " of the function, of ", results.tensors.size(),
                         ", is an undefined tensor, Tensor(): give it a value, or leave it out");
      }
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
  state_->make_room();
  all.push_back(std::move(fresh));
  return *all.back();
}

const Graph& CompiledFunction::graph(const Request& request) {
  const std::lock_guard lock(alive(state_).mutex);
  return lower(request).tape->graph();
}

std::shared_ptr<const Plan> CompiledFunction::plan(const Request& request) {
  const std::lock_guard lock(alive(state_).mutex);
  Lowered& l = lower(request);
  state_->plan(l, Measure::now);
  return l.plan;
}

Executable& CompiledFunction::executable(const Request& request) {
  const std::lock_guard lock(alive(state_).mutex);
  state_->lends_executables = true;
  return state_->executable(lower(request), Measure::now);
}

std::vector<Array> CompiledFunction::leaves(const Request& request) {
  const std::lock_guard lock(alive(state_).mutex);
  std::vector<Array> arrays = lower(request).tape->captured();
  for (const auto& v : lower(request).tape->variables()) {
    arrays.emplace_back(v->type.dtype, v->type.shape, v->lend());
  }
  return arrays;
}

CompiledFunction::Results CompiledFunction::call(const Request& request, int64_t times) {
  return call(request, Context{.times = times});
}

CompiledFunction::Results CompiledFunction::call(const Request& request, const Context& context) {
  if (trace::compiling()) {
    fail(ErrorKind::usage, "compile", "a compiled function was called while another step ",
         signature_text(request.arguments), " is being traced; call the plain function there");
  }
  // Pending work of the eager trace that reads variables must not see this step's updates.
  trace::flush_state_readers();
  std::unique_lock lock(alive(state_).mutex);
  Lowered& l = lower(request);
  const bool pays = l.plan && l.plan->guesses() > 0 && l.runs >= l.plan->runs_to_measure();
  Executable& run = state_->executable(l, pays ? Measure::now : Measure::when_it_pays);
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
    const bool stand = std::all_of(l.copies.begin(), l.copies.end(), [](const VariableCopy* c) { return c->stands(); });
    if (!stand || (state_->lends_executables && !l.copies.empty())) run.thaw();
    std::vector<uint64_t>& before = l.changes;
    before.clear();
    for (VariableCopy* c : l.copies) {
      before.push_back(c->variable->lent() ? 0 : c->variable->changes());
      c->of = 0;  // where the run fails
    }
    run.run(l.inputs, l.outputs, context);
    for (const auto& v : l.assigned) v->count_change();
    // The run has changed each of these variables once, and its copy with it.
    for (size_t i = 0; i < l.copies.size(); ++i) l.copies[i]->of = before[i] == 0 ? 0 : before[i] + 1;
  }
  l.runs += context.times;
  for (size_t i = 0; i < count; ++i) l.inputs[i] = Array();  // the caller may reuse its batch
  for (Array& a : l.outputs) a = Array();
  return {std::move(lock), l.results, l.result_lengths};
}

}  // namespace freight
