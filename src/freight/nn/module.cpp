// See module.h.
#include "freight/nn/module.h"

#include <algorithm>
#include <set>
#include <typeinfo>
#include <utility>

#include "freight/base/usage.h"
#include "freight/nn/init.h"
#include "freight/nn/layer_type.h"
#include "freight/nn/module_of.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/trace/thread_context.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

using trace::thread_context;

struct Hooks {
  struct Entry {
    int64_t id;
    bool in_trace;  // it was added while a step was traced
    OutputHook output;
    GradientHook gradient;   // empty where `output` is there
    bool of_inputs = false;  // gradients
  };
  std::vector<Entry> list;
  int64_t next = 0;
  // Steps hold the flag of their time and are traced anew once it is set: a change replaces it.
  std::shared_ptr<bool> changed = std::make_shared<bool>(false);

  void change() {
    *changed = true;
    changed = std::make_shared<bool>(false);
  }
};

namespace {

// The tensors as such whose gradients pass those hooks; in the order in which the hooks came.
std::vector<Tensor> with_gradient_hooks(const Hooks& hooks, bool of_inputs, std::vector<Tensor> tensors) {
  std::vector<GradientHook> list;
  for (const Hooks::Entry& e : hooks.list) {
    if (e.gradient && e.of_inputs == of_inputs) list.push_back(e.gradient);
  }
  if (list.empty() || thread_context().gradient_hooks_off) return tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || !is_floating(tensors[i].dtype())) continue;
    tensors[i] = on_gradient(tensors[i], [list, i](const Tensor& gradient) {
      Tensor g = gradient;
      for (size_t k = 0; k < list.size() && g.defined(); ++k) g = list[k](g, i);
      return g;
    });
  }
  return tensors;
}

bool holds(const Module& m, const Module* what) {
  const auto& children = m.children();
  return &m == what ||
         std::any_of(children.begin(), children.end(), [&](const Child& c) { return holds(*c.module, what); });
}

}  // namespace

HookHandle::HookHandle(HookHandle&& other) noexcept : hooks_(std::move(other.hooks_)), id_(other.id_) {
  other.hooks_.reset();
}
HookHandle& HookHandle::operator=(HookHandle&& other) noexcept {
  if (this == &other) return *this;
  remove();
  hooks_ = std::move(other.hooks_);
  id_ = other.id_;
  other.hooks_.reset();
  return *this;
}
void HookHandle::remove() {
  const std::shared_ptr<Hooks> hooks = hooks_.lock();
  hooks_.reset();
  if (!hooks) return;
  const auto it = std::find_if(hooks->list.begin(), hooks->list.end(), [&](const auto& e) { return e.id == id_; });
  if (it == hooks->list.end()) return;
  // One that comes and goes within a traced function is part of that alone.
  const bool of_trace = it->in_trace && trace::compiling();
  hooks->list.erase(it);
  if (!of_trace) hooks->change();
}

GradientHooksOff::GradientHooksOff() : before_(std::exchange(thread_context().gradient_hooks_off, true)) {}
GradientHooksOff::~GradientHooksOff() { thread_context().gradient_hooks_off = before_; }

CallRecorder::CallRecorder() : before_(std::exchange(thread_context().call_recorder, this)) {}
CallRecorder::~CallRecorder() { thread_context().call_recorder = before_; }

// The variables that have their new names.
struct Module::Renamed {
  std::set<const void*> variables;
};

namespace {
// A variable without a name has the path of its module.
std::string variable_path(const std::string& prefix, const std::string& name) {
  return name.empty() && !prefix.empty() ? prefix.substr(0, prefix.size() - 1) : prefix + name;
}
}  // namespace

std::shared_ptr<Module> owned(Module* module) { return std::shared_ptr<Module>(module); }

Module::Module() : training_(std::make_shared<bool>(true)), hooks_(std::make_shared<Hooks>()) {}
Module::~Module() = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&& other) noexcept {
  if (this == &other) return *this;
  if (hooks_) hooks_->change();  // steps that were compiled with what it was before are traced anew
  name_ = std::move(other.name_);
  adopted_ = other.adopted_;
  children_ = std::move(other.children_);
  variables_ = std::move(other.variables_);
  training_ = std::move(other.training_);
  hooks_ = std::move(other.hooks_);
  return *this;
}

Config Module::config() const {
  const LayerType* type = find_layer_type(typeid(*this));
  return type ? type->config(*this) : Config{};
}

Module::Call::Call(const Module& module, const SourceLine& at) : module_(module), frame_(at), scope_(module.name_) {
  module.need_whole("call");
  ++thread_context().module_depth;
}
Module::Call::~Call() {
  trace::ThreadContext& context = thread_context();
  if (--context.module_depth > 0) return;
  context.tokens = {};
  context.token_counts = {};
}

std::vector<Tensor> Module::Call::given(std::vector<Tensor> inputs) const {
  return with_gradient_hooks(*module_.hooks_, true, std::move(inputs));
}

std::vector<Tensor> Module::Call::done(const std::vector<Tensor>& inputs, std::vector<Tensor> outputs) const {
  Hooks& hooks = *module_.hooks_;
  if (trace::compiling()) trace::Session()->depend_on(hooks.changed);
  if (outputs.size() == 1 && !outputs[0].defined()) {
    trace::fail_here("module", "forward returned an undefined tensor, Tensor(): expected its result");
  }
  const std::vector<Hooks::Entry> list = hooks.list;  // a hook may remove itself
  const std::vector<Tensor> made = outputs;
  for (const Hooks::Entry& e : list) {
    if (!e.output) continue;
    e.output(module_, inputs, outputs);
    if (outputs.size() != made.size()) {
      trace::fail_here("hook", "the module returns ", made.size(), " results: got ", outputs.size(), " from a hook");
    }
    for (size_t i = 0; i < made.size(); ++i) {
      if (outputs[i].defined() || !made[i].defined()) continue;
      trace::fail_here("hook", "an on_output hook made result ", i, " an undefined tensor, Tensor(): leave the result ",
                       made[i].type(), " as it is, or put another one in its place");
    }
  }
  outputs = with_gradient_hooks(hooks, false, std::move(outputs));
  const bool known = !inputs.empty() && inputs[0].defined() && !outputs.empty() && outputs[0].defined();
  if (CallRecorder* const recorder = thread_context().call_recorder; recorder && known) {
    recorder->calls.push_back({&module_, trace::scope(), inputs[0].type(), outputs[0].type()});
  }
  return outputs;
}

void Module::refuse_inputs(size_t got, size_t need) {
  trace::fail_here("module", "the number of inputs differs: expected ", need, ", got ", got);
}

Tensor detail::input_of(const In& x) {
  const bool left_out = !x.is_number && !x.tensor.defined();
  return left_out ? Tensor() : trace::tensor_of(x, "module");
}

Tensor Module::operator()(const In& x) {
  const Call call(*this, x.where);
  const std::vector<Tensor> in = call.given({trace::tensor_of(x, "module")});
  return call.done(in, {forward(in[0])})[0];
}

std::vector<Tensor> Module::call(const TensorList& inputs, SourceLine at) {
  const Call call(*this, at);
  std::vector<Tensor> tensors;  // undefined ones are options that were left out
  for (const In& x : inputs.list) tensors.push_back(x.is_number ? trace::tensor_of(x, "call") : x.tensor);
  const std::vector<Tensor> in = call.given(tensors);
  return call.done(in, forward_all(in));
}

std::vector<Tensor> Module::forward_all(const std::vector<Tensor>& inputs) {
  if (inputs.size() != 1) refuse_inputs(inputs.size(), 1);
  return {forward(inputs[0])};
}

HookHandle Module::on_output(OutputHook hook) { return add_hook("on_output", std::move(hook), {}, false); }
HookHandle Module::on_output_gradient(GradientHook hook) {
  return add_hook("on_output_gradient", {}, std::move(hook), false);
}
HookHandle Module::on_input_gradient(GradientHook hook) {
  return add_hook("on_input_gradient", {}, std::move(hook), true);
}

HookHandle Module::add_hook(const char* op, OutputHook output, GradientHook gradient, bool of_inputs) {
  need_whole(op);
  if (!output && !gradient) fail(ErrorKind::usage, op, "the hook is empty: got no function");
  const bool in_trace = trace::compiling();
  hooks_->list.push_back({hooks_->next, in_trace, std::move(output), std::move(gradient), of_inputs});
  if (!in_trace) hooks_->change();
  return {hooks_, hooks_->next++};
}

size_t Module::output_hooks() const {
  need_whole("output_hooks");
  const auto& list = hooks_->list;
  return static_cast<size_t>(std::count_if(list.begin(), list.end(), [](const auto& e) { return bool(e.output); }));
}

void Module::need_whole(const char* op) const {
  if (training_) return;
  trace::fail_here(op, "the module was moved into another one, which has its parameters and children now: use that ",
                   "one, or move only what is not used again");
}

void Module::announce_tokens(const Tensor& tokens, int64_t padding) {
  if (tokens.rank() != 2 || tokens.dim(1) == 0) return;
  const Tensor places = iota(tokens.shape(), 1, DType::i32) + 1;
  trace::ThreadContext& context = thread_context();
  context.tokens = tokens.shape();
  context.token_counts = max(where(not_equal(tokens, padding), places, 0), 1);
}

Tensor Module::token_counts(const Tensor& x) {
  const trace::ThreadContext& context = thread_context();
  const Shape& t = context.tokens;
  return t.rank() == 2 && x.rank() >= 2 && x.dim(0) == t[0] && x.dim(1) == t[1] ? context.token_counts : Tensor();
}

Module::PartsApart::PartsApart()
    : depth_(std::exchange(thread_context().module_depth, 0)),
      tokens_(std::exchange(thread_context().tokens, {})),
      counts_(std::exchange(thread_context().token_counts, {})),
      caller_{std::exchange(thread_context().file, nullptr), thread_context().line} {}
Module::PartsApart::~PartsApart() {
  trace::ThreadContext& context = thread_context();
  context.module_depth = depth_;
  context.tokens = tokens_;
  context.token_counts = std::move(counts_);
  context.file = caller_.file;
  context.line = caller_.line;
}

void Module::set_training(bool on) {
  need_whole(on ? "train" : "eval");
  *training_ = on;
  for (const Child& c : children_) c.module->set_training(on);
}
void Module::train() { set_training(true); }
void Module::eval() { set_training(false); }

bool Module::training() const {
  need_whole("training");
  if (trace::compiling()) trace::Session()->depend_on(training_);
  return *training_;
}

Variable Module::own(const std::string& name, Variable variable) {
  for (const NamedVariable& v : variables_) {
    if (v.name == name) refuse_twice("module", "parameters or buffers", name);
  }
  variables_.push_back({name, std::move(variable)});
  return variables_.back().variable.as_member();
}

Variable Module::parameter(const std::string& name, const Shape& shape, const Init& init) {
  return own(name, Variable(name, {DType::f32, shape}, init, Variable::Role::parameter));
}

Variable Module::parameter(const std::string& name, const Shape& shape) {
  return parameter(name, shape, shape.rank() < 2 ? init::zeros() : weight_init(WeightInit::standard, shape));
}

Variable Module::buffer(const std::string& name, const Shape& shape, double value) {
  return own(name, Variable(name, {DType::f32, shape}, {Init::Kind::constant, value, 0}));
}

void Module::adopt(const std::string& name, std::shared_ptr<Module> child) {
  if (!child) fail(ErrorKind::usage, "module", "child '", name, "' is null");
  if (holds(*child, this)) {
    fail(ErrorKind::usage, "module", "child '", name,
         "' is the module itself, or contains it: a module cannot be a part ",
         "of itself; a layer that is used twice is adopted by what uses it");
  }
  for (const Child& c : children_) {
    if (!name.empty() && c.name == name) refuse_twice("module", "children", name);
  }
  if (!child->adopted_) {
    child->adopted_ = true;
    child->name_ = name;
    Renamed done;
    if (!name.empty()) child->prefix_names(name + ".", done);
  }
  children_.push_back({name, std::move(child)});
}

void Module::prefix_names(const std::string& prefix, Renamed& done) {
  for (const NamedVariable& v : variables_) {
    if (done.variables.insert(v.variable.impl().get()).second)
      v.variable.set_name(variable_path(prefix, v.variable.name()));
  }
  for (const Child& c : children_) c.module->prefix_names(prefix, done);
}

void Module::collect(const std::string& prefix, std::vector<NamedVariable>& out) const {
  for (const NamedVariable& v : variables_) out.push_back({variable_path(prefix, v.name), v.variable});
  for (const Child& c : children_) c.module->collect(c.name.empty() ? prefix : prefix + c.name + ".", out);
}

std::vector<NamedVariable> Module::state_dict() const {
  need_whole("state_dict");
  std::vector<NamedVariable> out;
  collect("", out);
  return out;
}

std::vector<Variable> Module::parameters() const {
  std::vector<Variable> out;
  std::set<const void*> seen;
  for (const NamedVariable& v : state_dict()) {
    if (v.variable.trainable() && seen.insert(v.variable.impl().get()).second) out.push_back(v.variable);
  }
  return out;
}

void Module::to_device(const std::string& device) const {
  trace::device_named(device);  // refuses one that is not there also where the module has no variables
  for (const NamedVariable& v : state_dict()) v.variable.to_device(device);
}

int64_t Module::parameter_count() const {
  int64_t n = 0;
  for (const Variable& p : parameters()) n += p.type().numel();
  return n;
}

LoadResult Module::load_state_dict(const std::vector<NamedArray>& entries, const std::string& source) const {
  return load_values(state_dict(), entries, {.source = source});
}
LoadResult Module::load_state_dict(const std::vector<NamedArray>& entries, const LoadOptions& options) const {
  return load_values(state_dict(), entries, options);
}
LoadResult Module::load_state_dict(const std::vector<NamedVariable>& entries, const LoadOptions& options) const {
  return load_values(state_dict(), entries, options);
}

}  // namespace freight::nn
