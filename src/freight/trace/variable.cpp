// Variables: lazy storage, initial values, assignment in traces. See variable.h.
#include "freight/trace/variable.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "freight/base/normal_draws.h"
#include "freight/base/philox.h"
#include "freight/base/threads.h"
#include "freight/trace/number.h"
#include "freight/trace/tracer.h"

namespace freight {

namespace {

std::atomic<uint64_t> g_seed{0};
std::atomic<uint64_t> g_epoch{0};  // how often seed() was called
// Draws for initial values use a stream that random ops of steps do not reach.
constexpr uint32_t kInitStream = 0x80000000u;

// The Philox key of a variable's initial value: from the seed, the name, and how many variables of this name were
// filled before since seed(). Not from the order of construction, which C++ leaves open among function arguments.
uint64_t init_key(const trace::VariableImpl& v) {
  static std::mutex mutex;
  static std::map<std::pair<uint64_t, std::string>, uint32_t> filled;
  uint64_t hash = hash_combine(v.seed, 0x66726569);
  for (char c : v.name) hash = hash_combine(hash, static_cast<unsigned char>(c));
  const std::lock_guard lock(mutex);
  return hash_combine(hash, filled[{v.epoch, v.name}]++);
}

constexpr int64_t kChunk = 1 << 14;

// Calls f(i) for all i in [0, n), in parallel chunks whose borders depend on n only.
template <class F>
void each(int64_t n, F&& f) {
  parallel_for((n + kChunk - 1) / kChunk, [&](int64_t chunk) {
    const int64_t end = std::min(n, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) f(i);
  });
}

void normals(float* dst, int64_t n, uint64_t key, float mean, float deviation) {
  constexpr int64_t kDraws = 4 * kChunk;
  parallel_for((n + kDraws - 1) / kDraws, [&](int64_t chunk) {
    float* const draws = dst + chunk * kDraws;
    const int64_t count = std::min(kDraws, n - chunk * kDraws);
    normal_draws(draws, count, key, static_cast<uint64_t>(kInitStream) << 32, chunk * kChunk);
    for (int64_t i = 0; i < count; ++i) draws[i] = mean + deviation * draws[i];
  });
}

// Normal draws inside two deviations: by rejection, each further attempt in a block of its own.
void truncated_normals(float* dst, int64_t n, uint64_t key, float mean, float deviation) {
  normals(dst, n, key, 0, 1);
  each(n, [&](int64_t i) {
    for (uint64_t attempt = 1; std::fabs(dst[i]) > 2.0f; ++attempt) {
      dst[i] = random_normal(key, attempt, kInitStream, static_cast<uint64_t>(i));
    }
    dst[i] = mean + deviation * dst[i];
  });
}

// Rows made orthonormal by modified Gram-Schmidt on (rows, columns), or on the transpose where it is tall.
void orthogonalize(float* w, int64_t rows, int64_t columns, float gain) {
  const bool tall = rows > columns;
  const int64_t n = tall ? columns : rows, length = tall ? rows : columns;
  const int64_t step = tall ? columns : 1, next = tall ? 1 : columns;
  for (int64_t i = 0; i < n; ++i) {
    float* a = w + i * next;
    for (int64_t j = 0; j < i; ++j) {
      const float* b = w + j * next;
      double dot = 0;
      for (int64_t k = 0; k < length; ++k) dot += static_cast<double>(a[k * step]) * b[k * step];
      for (int64_t k = 0; k < length; ++k) a[k * step] -= static_cast<float>(dot) * b[k * step];
    }
    double norm = 0;
    for (int64_t k = 0; k < length; ++k) norm += static_cast<double>(a[k * step]) * a[k * step];
    const float scale = static_cast<float>(1.0 / std::sqrt(norm));
    for (int64_t k = 0; k < length; ++k) a[k * step] *= scale;
  }
  for (int64_t i = 0; i < rows * columns; ++i) w[i] *= gain;
}

// The first filters of (out, in, k...) become 1 at their own channel in the middle of the window, and 0 elsewhere.
void place_identity(float* w, const Shape& s) {
  const int64_t per_channel = Shape(s.begin() + 2, s.end()).numel(), per_filter = s[1] * per_channel;
  int64_t middle = 0;
  for (int axis = 2; axis < s.rank(); ++axis) middle = middle * s[axis] + s[axis] / 2;
  for (int64_t i = 0; i < std::min(s[0], s[1]); ++i) {
    std::fill_n(w + i * per_filter, per_filter, 0.0f);
    w[i * per_filter + i * per_channel + middle] = 1;
  }
}

// Biases of gates, drawn from [a, b), that keep states for between 1 and memory - 1 steps.
void keep_states(float* bias, int64_t hidden, const Init& init) {
  for (int64_t i = 0; i < hidden; ++i) {
    const double draw = (static_cast<double>(bias[hidden + i]) - init.a) / (init.b - init.a);  // [0, 1]
    const double steps = 1 + draw * static_cast<double>(init.memory - 2);
    bias[hidden + i] = static_cast<float>(std::log(steps));
    if (init.coupled) bias[i] = -bias[hidden + i];
  }
}

void fill(void* dst, const Type& type, double value) {
  dispatch(type.dtype, [&]<class T>(T) {
    each(type.numel(), [to = static_cast<T*>(dst), v = element_cast<T>(value)](int64_t i) { to[i] = v; });
  });
}

void draw(float* dst, const trace::VariableImpl& v) {
  const uint64_t key = init_key(v);
  const float a = static_cast<float>(v.init.a), b = static_cast<float>(v.init.b);
  const int64_t n = v.type.numel();
  switch (v.init.kind) {
    case Init::Kind::constant: fill(dst, {DType::f32, v.type.shape}, v.init.a); break;
    case Init::Kind::uniform:
      // One Philox block gives four draws: the same numbers as random_uniform(key, 0, kInitStream, i).
      each((n + 3) / 4, [&](int64_t block) {
        const Philox4 r = philox(key, static_cast<uint64_t>(block), static_cast<uint64_t>(kInitStream) << 32);
        for (int64_t i = block * 4; i < std::min(n, block * 4 + 4); ++i) {
          dst[i] = a + (b - a) * uniform_from_bits(r.v[i & 3]);
        }
      });
      break;
    case Init::Kind::normal: normals(dst, n, key, a, b); break;
    case Init::Kind::trunc_normal: truncated_normals(dst, n, key, a, b); break;
    case Init::Kind::orthogonal: {
      normals(dst, n, key, 0, 1);
      const int64_t rows = v.type.shape.rank() > 0 ? v.type.shape[0] : 1;
      if (n > 0) orthogonalize(dst, rows, n / rows, a);
      break;
    }
  }
  const int64_t width = v.init.zero_row < 0 ? 0 : n / v.type.shape[0];
  std::fill_n(dst + v.init.zero_row * width, width, 0.0f);
  if (v.init.identity) place_identity(dst, v.type.shape);
  if (v.init.memory > 2) keep_states(dst, n / v.init.gates, v.init);
}

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
  // One lock for all variables: first draws are rare, and a fresh net's are made one after the other anyway.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (made_.load(std::memory_order_relaxed)) return storage_;  // by another thread meanwhile
  auto fresh = Storage::allocate(type.bytes());
  if (how == Fill::none) {
    bind(std::move(fresh));
    return storage_;
  }
  if (init.kind == Init::Kind::constant) {
    if (init.a != 0) fill(fresh->data(), type, init.a);
  } else if (type.dtype == DType::f32) {
    draw(static_cast<float*>(fresh->data()), *this);
  } else {
    Array values(DType::f32, type.shape);
    draw(values.data<float>(), *this);
    std::memcpy(fresh->data(), values.cast(type.dtype).raw(), type.bytes());
  }
  bind(std::move(fresh));
  return storage_;
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
}  // namespace

Tensor Variable::value() const {
  const trace::Session session(need("variable")->device);
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
  trace::end_of_piece();
}

Array Variable::array() const {
  need("array");
  refuse_while_tracing("array", *this);
  trace::flush();
  return Array(impl()->type.dtype, impl()->type.shape, impl()->lend());
}

void Variable::set(const Array& value) const {
  need("set");
  refuse_while_tracing("set", *this);
  if (!(Type{value.dtype(), value.shape()} == impl()->type)) {
    trace::fail_here("set", "types differ: variable '", impl()->name, "' is ", impl()->type, ", the array is ",
                     Type{value.dtype(), value.shape()});
  }
  trace::flush();  // pending reads must still see the old value
  overwrite(*impl(), impl()->materialize(trace::VariableImpl::Fill::none),
            [&](void* elements) { parallel_copy(elements, value.raw(), impl()->type.bytes()); });
}

void Variable::set(double value) const {
  need("set");
  refuse_while_tracing("set", *this);
  trace::need_held(value, impl()->type.dtype, cat("into variable '", name(), "' ", impl()->type), "set");
  trace::flush();
  overwrite(*impl(), impl()->materialize(), [&](void* elements) { fill(elements, impl()->type, value); });
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
  ++g_epoch;
}

}  // namespace freight
