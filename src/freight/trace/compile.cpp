// Compiled functions: one trace, plan and executable per signature, inserted only after success, bounded in number.
// Outputs are kept and reused as soon as nobody else holds them, so that a steady loop allocates nothing.
#include "freight/trace/compile.h"

#include <algorithm>

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

namespace {

constexpr size_t kMaxSignatures = 64;

// The results of one output position that may be reused.
struct OutputPool {
  Type type;
  std::vector<std::shared_ptr<trace::TensorImpl>> kept;

  std::shared_ptr<trace::TensorImpl> take() {
    for (const auto& impl : kept) {
      if (impl.use_count() == 1 && impl->array.storage().use_count() == 1) return impl;
    }
    auto impl = std::make_shared<trace::TensorImpl>();
    impl->type = type;
    impl->array = Array(type.dtype, type.shape);
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
  std::shared_ptr<trace::Trace> tape;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Executable> executable;
  std::vector<Array> inputs, outputs;  // lists handed to the executable, kept to allocate nothing
  std::vector<OutputPool> pools;
  std::vector<Tensor> results;

  bool matches(std::span<const Argument> arguments) const {
    const auto same = [](const Argument& a, const Type& type) { return a.type() == type; };
    const auto holds = [](const trace::Guard& g) { return g.holds(); };
    return std::equal(arguments.begin(), arguments.end(), signature.begin(), signature.end(), same) &&
           std::all_of(tape->guards().begin(), tape->guards().end(), holds);
  }
};

struct CompiledFunction::State {
  CompileOptions options;
  std::vector<std::unique_ptr<Lowered>> lowered;  // most recently used last
  size_t traces = 0;
};

CompiledFunction::CompiledFunction(CompileOptions options) : state_(new State{std::move(options), {}, 0}) {}
CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;
CompiledFunction& CompiledFunction::operator=(CompiledFunction&&) noexcept = default;

size_t CompiledFunction::traces() const { return state_->traces; }

void CompiledFunction::thaw() {
  for (const auto& l : state_->lowered) {
    if (l->executable) l->executable->thaw();
  }
}

CompiledFunction::Lowered& CompiledFunction::lower(const Request& request) {
  auto& all = state_->lowered;
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i]->matches(request.arguments)) return *all[i];
  }
  auto fresh = std::make_unique<Lowered>();
  fresh->tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  trace::Trace& tape = *fresh->tape;
  {
    const trace::Recording recording(fresh->tape);
    std::vector<Tensor> inputs;
    for (const Argument& a : request.arguments) {
      fresh->signature.push_back(a.type());
      const auto& names = state_->options.input_names;
      const size_t i = inputs.size();
      inputs.push_back(tape.input(i < names.size() ? names[i] : cat("x", i), a.type()));
    }
    std::vector<Value> outputs;
    for (const Tensor& t : request.body(request.context, inputs)) {
      outputs.push_back(tape.value_of(t));
      fresh->pools.push_back({t.type(), {}});
    }
    tape.finish(outputs);
  }
  ++state_->traces;
  if (all.size() == kMaxSignatures) all.erase(all.begin());
  all.push_back(std::move(fresh));
  return *all.back();
}

const Graph& CompiledFunction::graph(const Request& request) { return lower(request).tape->graph(); }

std::shared_ptr<const Plan> CompiledFunction::plan(const Request& request) {
  Lowered& l = lower(request);
  if (!l.plan) {
    RunOptions options = trace::run_options();
    if (!state_->options.backend.empty() && state_->options.backend != "auto")
      options.backend = state_->options.backend;
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
  Lowered& l = lower(request);
  if (!l.executable) {
    l.executable = std::make_unique<Executable>(plan(request), l.tape->state_storages());
    l.inputs.resize(request.arguments.size());
    for (const Array& a : l.tape->captured()) l.inputs.push_back(a);
    l.outputs.resize(l.pools.size());
    l.results.resize(l.pools.size());
  }
  return *l.executable;
}

std::vector<Array> CompiledFunction::states(const Request& request) {
  std::vector<Array> arrays;
  for (const auto& v : lower(request).tape->variables()) {
    arrays.emplace_back(v->type.dtype, v->type.shape, v->materialize());
  }
  return arrays;
}

const std::vector<Tensor>& CompiledFunction::call(const Request& request, int64_t times) {
  if (trace::compiling()) {
    fail(ErrorKind::usage, "compile", "a compiled function was called while another step ",
         signature_text(request.arguments), " is being traced; call the plain function there");
  }
  // Pending work of the eager trace that reads variables must not see this step's updates.
  if (trace::current().touches_state()) trace::flush();
  Lowered& l = lower(request);
  Executable& run = l.executable ? *l.executable : executable(request);
  const size_t count = request.arguments.size();
  for (size_t i = 0; i < count; ++i) l.inputs[i] = request.arguments[i].array();
  l.results.assign(l.results.size(), Tensor());  // lets go of the last results, so that they can be reused
  for (size_t i = 0; i < l.pools.size(); ++i) {
    auto impl = l.pools[i].take();
    l.outputs[i] = impl->array;
    l.results[i] = Tensor(std::move(impl));
  }
  run.run(l.inputs, l.outputs, times);
  for (size_t i = 0; i < count; ++i) l.inputs[i] = Array();  // the caller may reuse its batch
  for (Array& a : l.outputs) a = Array();
  return l.results;
}

}  // namespace freight
