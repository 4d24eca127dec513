// See module.h.
#include "freight/nn/module.h"

#include <algorithm>
#include <typeinfo>

#include "freight/nn/layer_type.h"
#include "freight/nn/module_of.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

namespace {
thread_local CallRecorder* t_recorder = nullptr;

// All that is known of the tokens while the outermost module runs.
struct Running {
  int depth = 0;
  Shape tokens;
  Tensor counts;
};
thread_local Running t_running;
}  // namespace

struct Hooks {
  struct Entry {
    int64_t id;
    bool in_trace;  // it was added while a step was traced
    OutputHook hook;
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

CallRecorder::CallRecorder() : before_(t_recorder) { t_recorder = this; }
CallRecorder::~CallRecorder() { t_recorder = before_; }

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

void Module::need_unmoved() const {
  if (hooks_) return;
  trace::fail_here("module", "was moved from, so it has no layers any more: use the module, or the container, that it ",
                   "was moved to");
}

Config Module::config() const {
  const LayerType* type = find_layer_type(typeid(*this));
  return type ? type->config(*this) : Config{};
}

Module::Call::Call(const Module& module, const SourceLine& at) : module_(module), frame_(at), scope_(module.name_) {
  module.need_unmoved();
  ++t_running.depth;
}
Module::Call::~Call() {
  if (--t_running.depth == 0) t_running = {};
}

std::vector<Tensor> Module::Call::done(const std::vector<Tensor>& inputs, std::vector<Tensor> outputs) const {
  Hooks& hooks = *module_.hooks_;
  if (trace::compiling()) trace::Session()->depend_on(hooks.changed);
  const std::vector<Hooks::Entry> list = hooks.list;  // a hook may remove itself
  for (const Hooks::Entry& e : list) {
    const std::vector<Tensor> before = outputs;
    e.hook(module_, inputs, outputs);
    if (outputs.size() != before.size()) {
      trace::fail_here("hook", "the module gives ", before.size(), " results: got ", outputs.size(), " from a hook");
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].defined() || !before[i].defined()) continue;
      trace::fail_here("hook", "result ", i, " of the module is ", before[i].type(),
                       ": got an undefined tensor from a hook");
    }
  }
  const bool known = !inputs.empty() && inputs[0].defined() && !outputs.empty() && outputs[0].defined();
  if (t_recorder && known) {
    t_recorder->calls.push_back({&module_, trace::scope(), inputs[0].type(), outputs[0].type()});
  }
  return outputs;
}

void Module::refuse_inputs(size_t got, size_t need) {
  trace::fail_here("module", "the number of inputs differs: got ", got, ", need ", need);
}

Tensor detail::input_of(const In& x) {
  const bool left_out = !x.is_number && !x.tensor.defined();
  return left_out ? Tensor() : trace::tensor_of(x, "module");
}

Tensor Module::operator()(const In& x) {
  const Call call(*this, x.where);
  const Tensor in = trace::tensor_of(x, "module");
  return call.done({in}, {forward(in)})[0];
}

std::vector<Tensor> Module::call(const std::vector<Tensor>& inputs, SourceLine at) {
  const Call call(*this, at);
  return call.done(inputs, forward_all(inputs));
}

std::vector<Tensor> Module::forward_all(const std::vector<Tensor>& inputs) {
  if (inputs.size() != 1) refuse_inputs(inputs.size(), 1);
  return {forward(inputs[0])};
}

HookHandle Module::on_output(OutputHook hook) {
  if (!hook) fail(ErrorKind::usage, "on_output", "the hook is empty: got no function");
  need_unmoved();
  const bool in_trace = trace::compiling();
  hooks_->list.push_back({hooks_->next, in_trace, std::move(hook)});
  if (!in_trace) hooks_->change();
  return {hooks_, hooks_->next++};
}

void Module::announce_tokens(const Tensor& tokens, int64_t padding) {
  if (tokens.rank() != 2 || tokens.dim(1) == 0) return;
  const Tensor places = iota(tokens.shape(), 1, DType::i32) + 1;
  t_running.tokens = tokens.shape();
  t_running.counts = max(where(not_equal(tokens, padding), places, 0), 1);
}

Tensor Module::token_counts(const Tensor& x) {
  const Shape& t = t_running.tokens;
  return t.rank() == 2 && x.rank() >= 2 && x.dim(0) == t[0] && x.dim(1) == t[1] ? t_running.counts : Tensor();
}

void Module::set_training(bool on) {
  need_unmoved();
  *training_ = on;
  for (const Child& c : children_) c.module->set_training(on);
}
void Module::train() { set_training(true); }
void Module::eval() { set_training(false); }

bool Module::training() const {
  need_unmoved();
  if (trace::compiling()) trace::Session()->depend_on(training_);
  return *training_;
}

Variable Module::own(const std::string& name, Variable variable) {
  for (const NamedVariable& v : variables_) {
    if (v.name == name) fail(ErrorKind::usage, "module", "two parameters or buffers are named '", name, "'");
  }
  variables_.push_back({name, std::move(variable)});
  return variables_.back().variable.as_member();
}

Variable Module::parameter(const std::string& name, const Shape& shape, const Init& init) {
  return own(name, Variable(name, {DType::f32, shape}, init, Variable::Role::parameter));
}

Variable Module::buffer(const std::string& name, const Shape& shape, double value) {
  return own(name, Variable(name, {DType::f32, shape}, {Init::Kind::constant, value, 0}));
}

void Module::adopt(const std::string& name, std::shared_ptr<Module> child) {
  if (!child) fail(ErrorKind::usage, "module", "child '", name, "' is null");
  for (const Child& c : children_) {
    if (c.name == name) fail(ErrorKind::usage, "module", "two children are named '", name, "'");
  }
  if (!child->adopted_) {
    child->adopted_ = true;
    child->name_ = name;
    std::set<const void*> done;
    if (!name.empty()) child->prefix_names(name + ".", done);
  }
  children_.push_back({name, std::move(child)});
}

void Module::prefix_names(const std::string& prefix, std::set<const void*>& done) {
  for (const NamedVariable& v : variables_) {
    if (done.insert(v.variable.impl().get()).second) v.variable.set_name(prefix + v.variable.name());
  }
  for (const Child& c : children_) c.module->prefix_names(prefix, done);
}

void Module::collect(const std::string& prefix, std::vector<NamedVariable>& out) const {
  for (const NamedVariable& v : variables_) out.push_back({prefix + v.name, v.variable});
  for (const Child& c : children_) c.module->collect(c.name.empty() ? prefix : prefix + c.name + ".", out);
}

std::vector<NamedVariable> Module::state_dict() const {
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
