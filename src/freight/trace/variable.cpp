// Variables: lazy storage, initial values, assignment in traces. See variable.h.
#include "freight/trace/variable.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "freight/base/threads.h"
#include "freight/trace/initial_values.h"
#include "freight/trace/number.h"
#include "freight/trace/thread_context.h"
#include "freight/trace/tracer.h"

namespace freight {

namespace {

std::atomic<uint64_t> g_seed{0};
std::atomic<uint64_t> g_epoch{0}, g_epochs{0};  // which call of seed() set it, and how many there were

void refuse_while_tracing(const char* op, const Variable& v) {
  if (!trace::compiling()) return;
  trace::fail_here(op, "cannot touch variable '", v.name(), "' from the host while a step is being traced; ",
                   "use value() and assign() inside the step, or do it before or after");
}

// Gives a variable other elements from the host.
template <class F>
void overwrite(trace::VariableImpl& v, const std::shared_ptr<Storage>& storage, F&& write) {
  const trace::StateLock alone(true, true);
  {
    const std::lock_guard lock(trace::history_mutex());
    v.supersede();
  }
  v.count_change();
  write(storage->data());
}

}  // namespace

const std::shared_ptr<Storage>& trace::VariableImpl::materialize(Fill how) {
  if (made_.load(std::memory_order_acquire)) return storage_;
  const std::lock_guard lock(initial_values_mutex());
  if (made_.load(std::memory_order_relaxed)) return storage_;  // by another thread meanwhile
  if (how == Fill::none) forget_drawn(*this);
  bind(how == Fill::draw ? initial_elements(*this) : Storage::allocate(type.bytes()));
  return storage_;
}

bool trace::VariableImpl::adopt(const std::shared_ptr<Storage>& elements) {
  constexpr uintptr_t kAlignment = 64;  // of Storage::allocate
  if (reinterpret_cast<uintptr_t>(elements->data()) % kAlignment != 0) return false;
  const std::lock_guard lock(initial_values_mutex());
  if (made()) return false;
  forget_drawn(*this);
  bind(elements);
  count_change();
  return true;
}

namespace {
// For all variables: it is held for an instant only.
std::mutex& lending_mutex() {
  static std::mutex mutex;
  return mutex;
}
}  // namespace

std::shared_ptr<Storage> trace::VariableImpl::lend() {
  const std::shared_ptr<Storage>& elements = materialize();
  const std::lock_guard lock(lending_mutex());
  count_change();
  std::shared_ptr<void> holders = lent_.lock();
  if (!holders) {
    holders = std::make_shared<std::shared_ptr<Storage>>(elements);
    lent_ = holders;
  }
  return {std::move(holders), elements.get()};
}

bool trace::VariableImpl::lent() const {
  const std::lock_guard lock(lending_mutex());
  return !lent_.expired();
}

void trace::VariableImpl::bind(std::shared_ptr<Storage> elements) {
  storage_ = std::move(elements);
  made_.store(true, std::memory_order_release);
}

void trace::VariableImpl::release() {
  count_change();
  made_.store(false, std::memory_order_release);
  storage_.reset();
}

Variable::Variable(const std::string& name, const Type& type, const Init& init, Role role)
    : impl_(std::make_shared<trace::VariableImpl>()) {
  for (const int64_t d : type.shape) {
    if (d < 0) trace::fail_here("variable", "'", name, "': sizes must not be negative: got ", type);
  }
  if (init.kind == Init::Kind::constant)
    trace::need_held(init.a, type.dtype, cat("into variable '", name, "' ", type), "variable");
  impl_->name = name;
  impl_->type = type;
  impl_->init = init;
  impl_->role = role;
  impl_->trainable = role == Role::parameter;
  impl_->seed = g_seed;
  impl_->epoch = g_epoch;
  const trace::Device device = trace::device_of_leaves();
  impl_->device = device ? device : trace::thread_device();
}

Variable::Variable(const std::string& name, const Tensor& value, Role role)
    : Variable(name, value.type(), Init{}, role) {
  impl_->bind(value.array().clone().storage());
  if (!value.impl()->follows) impl_->device = trace::device_of(*value.impl());
}

const std::shared_ptr<trace::VariableImpl>& Variable::impl() const {
  const std::shared_ptr<trace::VariableImpl>* at = &impl_;
  while (*at && (*at)->tied_to) at = &(*at)->tied_to;
  return *at;
}

const std::shared_ptr<trace::VariableImpl>& Variable::need(const char* op) const {
  if (!impl_) trace::fail_here(op, "an undefined variable was used; make it with a name and a type or a value first");
  return impl();
}

Variable Variable::as_member() const {
  Variable member = *this;
  member.of_module_ = true;
  return member;
}

Variable& Variable::operator=(Variable other) {
  // A member that moves with its module takes the other's place.
  if (of_module_ && !other.of_module_ && impl_ && other.impl_) {
    tie(other);
    return *this;
  }
  impl_ = std::move(other.impl_);
  of_module_ = other.of_module_;
  return *this;
}

void Variable::tie(const Variable& other) {
  if (*this == other) return;
  if (!(type() == other.type())) {
    trace::fail_here("tie", "types differ: variable '", name(), "' is ", type(), ", '", other.name(), "' is ",
                     other.type());
  }
  refuse_while_tracing("tie", *this);
  trace::flush();
  impl()->tied_to = other.impl();
  ++trace::tie_count();
}

const std::string& Variable::name() const { return need("variable")->name; }
void Variable::set_name(const std::string& name) const { need("set_name")->name = name; }
const Type& Variable::type() const { return need("variable")->type; }
Variable::Role Variable::role() const { return need("variable")->role; }
bool Variable::trainable() const { return need("variable")->trainable; }
void Variable::set_trainable(bool on) const {
  need("set_trainable")->trainable = on;
  impl()->frozen = !on;
}
void Variable::set_on_host(bool on) const { need("set_on_host")->on_host = on; }
bool Variable::on_host() const { return need("variable")->on_host; }

const std::string& Variable::device() const {
  const trace::Device device = need("variable")->device;
  return device ? *device : current_device();
}

void Variable::to_device(const std::string& name) const {
  const trace::Device device = trace::device_named(name);
  if (need("to_device")->device == device) return;
  refuse_while_tracing("to_device", *this);
  trace::place(impl(), device);
}

void Variable::share_among_devices() const { need("share_among_devices")->device = nullptr; }

void trace::place(const std::shared_ptr<VariableImpl>& variable, Device device) {
  if (variable->device == device) return;
  if (!compiling()) flush();
  variable->device = device;
  ++tie_count();
}

namespace {
// The trace that reads and assigns it: that of its device.
void need_device(trace::Trace& trace, const Variable& v, const char* op) {
  if (trace.admits(v.impl()->device)) return;
  trace::fail_here(op, "variable '", v.name(), "' ", v.type(), " is on another device: expected ", *trace.device(),
                   " as what else the compiled function uses, got ", v.device(),
                   "; move one with to_device, or compile ", "with .backend, which brings all of them there");
}
// Null where readers get the variable's own value.
trace::Reading* reading_of(const Variable& v) {
  auto& all = trace::thread_context().readings;
  const auto it = std::find_if(all.rbegin(), all.rend(), [&](const trace::Reading& r) {
    return r.variable == v.impl().get() && r.value.defined() && r.recording == trace::thread_context().recording.get();
  });
  return it == all.rend() ? nullptr : &*it;
}
}  // namespace

Tensor Variable::value() const {
  need("variable");
  if (trace::Reading* reading = reading_of(*this)) return reading->value;
  const trace::Session session(impl()->device);
  need_device(*session, *this, "variable");
  return session->wrap(session->read(impl()), !impl()->device && !trace::compiling());
}

void Variable::assign(const In& next) const {
  const Frame frame(next.where);
  need("assign");
  const Tensor t = next.is_number ? trace::constant_of(next, impl()->type, "assign") : next.tensor;
  if (!(t.type() == impl()->type)) {
    trace::fail_here("assign", "types differ: variable '", impl()->name, "' is ", impl()->type, ", the value is ",
                     t.type());
  }
  const trace::Device own = impl()->device, at = own ? own : trace::device_of_operands("assign", {t});
  trace::settle(t, at);
  {
    const trace::Session session(at);
    need_device(*session, *this, "assign");
    session->assign(impl(), session->value_of(t, "assign"));
  }
  while (trace::Reading* reading = reading_of(*this)) reading->value = Tensor();
  trace::end_of_piece();
}

Array Variable::array() const {
  need("array");
  refuse_while_tracing("array", *this);
  trace::flush();
  return Array(impl()->type.dtype, impl()->type.shape, impl()->lend());
}

void Variable::set(const Array& value) const { set(value, false); }
void Variable::adopt(const Array& value) const { set(value, true); }

void Variable::set(const Array& value, bool adopt) const {
  need("set");
  refuse_while_tracing("set", *this);
  if (!(Type{value.dtype(), value.shape()} == impl()->type)) {
    trace::fail_here("set", "types differ: variable '", impl()->name, "' is ", impl()->type, ", the array is ",
                     Type{value.dtype(), value.shape()});
  }
  trace::flush();  // pending reads must still see the old value
  if (adopt && impl()->adopt(value.storage())) return;
  overwrite(*impl(), impl()->materialize(trace::VariableImpl::Fill::none),
            [&](void* elements) { parallel_copy(elements, value.raw(), impl()->type.bytes()); });
}

void Variable::set(double value) const {
  need("set");
  refuse_while_tracing("set", *this);
  trace::need_held(value, impl()->type.dtype, cat("into variable '", name(), "' ", impl()->type), "set");
  trace::flush();
  overwrite(*impl(), impl()->materialize(), [&](void* elements) { trace::fill(elements, impl()->type, value); });
}

void Variable::release() const {
  trace::VariableImpl& v = *need("release");
  refuse_while_tracing("release", *this);
  trace::flush();
  const trace::StateLock alone(true, true);
  {
    const std::lock_guard lock(trace::history_mutex());
    v.supersede();
  }
  v.release();
}

void assign_only_if(const In& condition) {
  const Tensor holds = trace::tensor_of(condition, "assign_only_if");
  const trace::Session session;
  session->guard_assignments(session->value_of(holds));
}

std::atomic<uint64_t>& trace::tie_count() {
  static std::atomic<uint64_t> count{0};
  return count;
}

Variable rng_state() {
  static const Variable state = [] {
    Variable v("rng", {DType::i64, {2}});
    v.impl()->materialize();
    v.impl()->device = nullptr;
    return v;
  }();
  return state;
}

void seed(uint64_t value) {
  rng_state().set(Array::of<int64_t>({static_cast<int64_t>(value), 0}, {2}));
  g_seed = value;
  g_epoch = ++g_epochs;
}

SeedKept::SeedKept() : seed_(g_seed), epoch_(g_epoch) { std::copy_n(rng_state().array().data<int64_t>(), 2, state_); }

SeedKept::~SeedKept() {
  rng_state().set(Array::of<int64_t>({state_[0], state_[1]}, {2}));
  g_seed = seed_;
  g_epoch = epoch_;
}

}  // namespace freight
