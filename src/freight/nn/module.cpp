// See module.h.
#include "freight/nn/module.h"

#include <cstring>
#include <map>
#include <typeinfo>

#include "freight/nn/layer_type.h"
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
struct Entered {
  Entered() { ++t_running.depth; }
  ~Entered() {
    if (--t_running.depth == 0) t_running = {};
  }
};
}  // namespace

CallRecorder::CallRecorder() : before_(t_recorder) { t_recorder = this; }
CallRecorder::~CallRecorder() { t_recorder = before_; }

Module::Module() : training_(std::make_shared<bool>(true)) {}
Module::~Module() = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;

Config Module::config() const {
  const LayerType* type = find_layer_type(typeid(*this));
  return type ? type->config(*this) : Config{};
}

Tensor Module::operator()(const In& x) {
  const Frame frame(x.where);
  const Scope scope(name_);
  const Entered entered;
  const Tensor in = trace::tensor_of(x, "module");
  Tensor out = forward(in);
  if (t_recorder) t_recorder->calls.push_back({this, trace::scope(), in.type(), out.type()});
  return out;
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
  *training_ = on;
  for (const Child& c : children_) c.module->set_training(on);
}
void Module::train() { set_training(true); }
void Module::eval() { set_training(false); }

bool Module::training() const {
  if (trace::compiling()) trace::Session()->depend_on(training_);
  return *training_;
}

Variable Module::parameter(const std::string& name, const Shape& shape, const Init& init) {
  variables_.push_back({name, Variable(name, {DType::f32, shape}, init, Variable::Role::parameter)});
  return variables_.back().variable.as_member();
}

Variable Module::buffer(const std::string& name, const Shape& shape, double value) {
  variables_.push_back({name, Variable(name, {DType::f32, shape}, {Init::Kind::constant, value, 0})});
  return variables_.back().variable.as_member();
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

void Module::load_state_dict(const std::vector<NamedArray>& entries, const std::string& source) const {
  std::map<std::string, const Array*> given;
  for (const NamedArray& e : entries) {
    if (!ends_with(e.name, "num_batches_tracked")) given[e.name] = &e.array;
  }
  std::vector<std::string> missing, misshapen, mistyped, unexpected, different;
  std::vector<std::pair<Variable, Array>> fit;
  std::map<const void*, std::pair<std::string, Array>> first;  // by variable: its first path, and what it gets
  for (const NamedVariable& v : state_dict()) {
    const auto it = given.find(v.name);
    if (it == given.end()) {
      missing.push_back(v.name);
      continue;
    }
    if (it->second->shape() != v.variable.shape()) {
      misshapen.push_back(cat(v.name, " (file ", it->second->shape(), ", model ", v.variable.shape(), ")"));
    } else if (is_floating(v.variable.type().dtype) != is_floating(it->second->dtype()) ||
               is_complex(v.variable.type().dtype) != is_complex(it->second->dtype())) {
      // Bits of floats that are called integers would be converted without complaint, to numbers of 10^9.
      mistyped.push_back(cat(v.name, " (file ", it->second->dtype(), ", model ", v.variable.type().dtype, ")"));
    } else {
      const Array values = it->second->cast(v.variable.type().dtype);
      const auto [at, fresh] = first.try_emplace(v.variable.impl().get(), v.name, values);
      if (fresh) {
        fit.emplace_back(v.variable, values);
      } else if (std::memcmp(at->second.second.raw(), values.raw(), values.bytes()) != 0) {
        different.push_back(cat(at->second.first, " and ", v.name));
      }
    }
    given.erase(it);
  }
  for (const auto& [name, array] : given) unexpected.push_back(name);
  const auto list = [](const char* what, std::vector<std::string> names) {
    if (names.empty()) return std::string();
    const size_t more = names.size() > 5 ? names.size() - 5 : 0;
    if (more > 0) names.resize(5);
    return cat("; ", what, ": ", join(names, ", "), more > 0 ? cat(" and ", more, " more") : "");
  };
  const std::string faults = list("missing", missing) + list("unexpected", unexpected) +
                             list("wrong shape", misshapen) + list("wrong type", mistyped) +
                             list("one variable here, different values there", different);
  if (!faults.empty()) fail(ErrorKind::checkpoint, source, "weights do not fit the model", faults);
  for (const auto& [variable, array] : fit) variable.set(array);
}

}  // namespace freight::nn
