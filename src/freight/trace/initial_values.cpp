// Initial values: drawn in pieces of a fixed size, each of which is a function of the variable's key and its number.
// See initial_values.h.
#include "freight/trace/initial_values.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "freight/backend/backend.h"
#include "freight/base/cpu_info.h"
#include "freight/base/cpu_share.h"
#include "freight/base/device_memory.h"
#include "freight/base/normal_draws.h"
#include "freight/base/philox.h"
#include "freight/base/threads.h"

namespace freight::trace {

namespace {

// Draws for initial values use a stream that random ops of steps do not reach.
constexpr uint64_t kInitStream = 0x80000000u;
constexpr int64_t kPiece = 1 << 16;        // elements: up to 0.4 ms for normal draws
constexpr size_t kPage = 4096;             // the smallest that a system has
constexpr size_t kLeastBytes = 256 << 10;  // to be drawn, for which a thread is worth it
constexpr size_t kLargeBytes = 256 << 20;  // from here on the machine's free memory is asked for
constexpr size_t kPartOfMemory = 4;        // of which so many times as much must be free

// How many variables of a name were filled since which call of seed().
using Filled = std::map<std::pair<uint64_t, std::string>, uint32_t>;
Filled& filled() {
  static Filled counts;
  return counts;
}

// The Philox key of a variable's initial value: from the seed, the name, and how many variables of this name were
// filled before since seed(). Not from the order of construction, which C++ leaves open among function arguments.
uint64_t init_key(const VariableImpl& v, uint32_t before) {
  uint64_t hash = hash_combine(v.seed, 0x66726569);
  for (char c : v.name) hash = hash_combine(hash, static_cast<unsigned char>(c));
  return hash_combine(hash, before);
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

void normals(float* dst, int64_t first, int64_t count, uint64_t key, float mean, float deviation) {
  normal_draws(dst, count, key, kInitStream << 32, first / 4);
  for (int64_t i = 0; i < count; ++i) dst[i] = mean + deviation * dst[i];
}

}  // namespace

// Elements that are being made for a variable.
class Drawing {
 public:
  Drawing(const VariableImpl& variable, uint64_t key)
      : type_(variable.type), init_(variable.init), key_(key), cleared_(is_constant() && init_.a == 0) {}

  bool is_constant() const { return init_.kind == Init::Kind::constant; }
  bool is_cleared() const { return cleared_; }
  uint64_t key() const { return key_; }
  size_t bytes() const { return type_.bytes(); }
  // Computes the next piece, once begin() was called; false where none is left.
  bool draw_next() {
    if (drawn_pieces_ == pieces()) return false;
    draw(drawn_pieces_++);
    return true;
  }
  // Allocates what is drawn into.
  void begin() {
    if (elements_) return;
    auto elements = Storage::allocate(type_.bytes());
    const bool converts = !is_constant() && type_.dtype != DType::f32;
    drawn_ = converts ? Array(DType::f32, type_.shape) : Array(type_.dtype, type_.shape, elements);
    elements_ = std::move(elements);
  }
  // All elements.
  std::shared_ptr<Storage> finish() {
    begin();
    if (cleared_) return elements_;  // as they were allocated
    // Each thread has pieces that lie together: two that first touch one large page would both clear one.
    parallel_for(pieces() - drawn_pieces_, [&](int64_t i) { draw(drawn_pieces_ + i); });
    if (is_constant()) return elements_;
    auto* const dst = drawn_.data<float>();
    const int64_t n = type_.numel();
    if (init_.kind == Init::Kind::orthogonal && n > 0) {
      const int64_t rows = type_.shape.rank() > 0 ? type_.shape[0] : 1;
      orthogonalize(dst, rows, n / rows, static_cast<float>(init_.a));
    }
    const int64_t width = init_.zero_row < 0 ? 0 : n / type_.shape[0];
    std::fill_n(dst + init_.zero_row * width, width, 0.0f);
    if (init_.identity) place_identity(dst, type_.shape);
    if (init_.memory > 2) keep_states(dst, n / init_.gates, init_);
    if (drawn_.storage() != elements_) std::memcpy(elements_->data(), drawn_.cast(type_.dtype).raw(), type_.bytes());
    return elements_;
  }

 private:
  int64_t pieces() const { return (type_.numel() + kPiece - 1) / kPiece; }
  void draw(int64_t piece) {
    const int64_t first = piece * kPiece, count = std::min(kPiece, type_.numel() - first);
    if (is_constant()) return set(first, count);
    float* const dst = drawn_.data<float>() + first;
    const float a = static_cast<float>(init_.a), b = static_cast<float>(init_.b);
    switch (init_.kind) {
      case Init::Kind::constant: break;
      case Init::Kind::uniform:
        // One Philox block gives four draws: the same numbers as random_uniform(key, 0, kInitStream, i).
        for (int64_t i = 0; i < count; i += 4) {
          const Philox4 r = philox(key_, static_cast<uint64_t>((first + i) / 4), kInitStream << 32);
          for (int64_t k = 0; k < std::min<int64_t>(4, count - i); ++k) {
            dst[i + k] = a + (b - a) * uniform_from_bits(r.v[k]);
          }
        }
        break;
      case Init::Kind::normal: normals(dst, first, count, key_, a, b); break;
      case Init::Kind::trunc_normal:
        // Draws inside two deviations: by rejection, each further attempt in a block of its own.
        normals(dst, first, count, key_, 0, 1);
        for (int64_t i = 0; i < count; ++i) {
          for (uint64_t attempt = 1; std::fabs(dst[i]) > 2.0f; ++attempt) {
            dst[i] = random_normal(key_, attempt, static_cast<uint32_t>(kInitStream), static_cast<uint64_t>(first + i));
          }
          dst[i] = a + b * dst[i];
        }
        break;
      case Init::Kind::orthogonal: normals(dst, first, count, key_, 0, 1); break;
    }
  }
  // A constant's elements; of zeros one of each page, which the system clears then.
  void set(int64_t first, int64_t count) {
    if (!cleared_) {
      dispatch(type_.dtype, [&]<class T>(T) {
        std::fill_n(static_cast<T*>(elements_->data()) + first, count, element_cast<T>(init_.a));
      });
      return;
    }
    const size_t size = size_of(type_.dtype), end = static_cast<size_t>(first + count) * size;
    for (size_t at = static_cast<size_t>(first) * size; at < end; at += kPage) {
      static_cast<volatile char*>(elements_->data())[at] = 0;
    }
  }

  Type type_;
  Init init_;
  uint64_t key_;
  bool cleared_;  // all zeros
  std::shared_ptr<Storage> elements_;
  Array drawn_;               // the same block, or f32 values that are then converted
  int64_t drawn_pieces_ = 0;  // from the first on
};

// The thread, and what it draws.
class DrawAhead::Work {
 public:
  Work() = default;
  ~Work() { stop(); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void add(std::shared_ptr<Drawing> drawing) { drawings_.push_back(std::move(drawing)); }
  void start() {
    const auto after = [](const auto& a, const auto& b) { return !a->is_cleared() && b->is_cleared(); };
    std::stable_sort(drawings_.begin(), drawings_.end(), after);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // no more threads: all is drawn when it is needed
    }
  }
  size_t stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
    return filled_;
  }

 private:
  void run() noexcept {
    try {
      for (const auto& d : drawings_) {
        const size_t piece = std::min(d->bytes(), static_cast<size_t>(kPiece) * sizeof(float));
        for (bool more = true; more; filled_ += more ? piece : 0) {
          const BackgroundPiece alone;
          if (stopped_) return;
          d->begin();
          more = d->draw_next();
        }
      }
    } catch (const std::exception&) {  // no memory, which whoever needs the elements will say
    }
  }

  std::vector<std::shared_ptr<Drawing>> drawings_;
  std::atomic<bool> stopped_{false};
  size_t filled_ = 0;
  std::thread thread_;
};

namespace {

// The mutex guards what is being drawn ahead. The variables stay alive, so that no other takes their address.
struct Ahead {
  std::shared_ptr<VariableImpl> variable;
  std::shared_ptr<Drawing> drawing;
  DrawAhead::Work* work;
};
std::unordered_map<const VariableImpl*, Ahead>& drawn_ahead() {
  static std::unordered_map<const VariableImpl*, Ahead> all;
  return all;
}

std::shared_ptr<Drawing> take_drawn(const VariableImpl& variable) {
  const auto at = drawn_ahead().find(&variable);
  if (at == drawn_ahead().end()) return nullptr;
  at->second.work->stop();
  std::shared_ptr<Drawing> drawing = std::move(at->second.drawing);
  drawn_ahead().erase(at);
  return drawing;
}

}  // namespace

std::mutex& initial_values_mutex() {
  static std::mutex mutex;
  return mutex;
}

// One lock for all variables: first draws are rare, and a fresh net's are made one after the other anyway.
std::shared_ptr<Storage> initial_elements(const VariableImpl& variable) {
  std::shared_ptr<Drawing> drawing = take_drawn(variable);
  const bool constant = variable.init.kind == Init::Kind::constant;
  const uint64_t key = constant ? 0 : init_key(variable, filled()[{variable.epoch, variable.name}]++);
  if (!drawing || drawing->key() != key) drawing = std::make_shared<Drawing>(variable, key);
  return drawing->finish();
}

void forget_drawn(const VariableImpl& variable) { take_drawn(variable); }

void fill(void* elements, const Type& type, double value) {
  dispatch(type.dtype, [&]<class T>(T) {
    auto* const to = static_cast<T*>(elements);
    const int64_t n = type.numel();
    parallel_for((n + kPiece - 1) / kPiece, [&](int64_t piece) {
      std::fill(to + piece * kPiece, to + std::min(n, (piece + 1) * kPiece), element_cast<T>(value));
    });
  });
}

DrawAhead::DrawAhead(const std::vector<std::shared_ptr<VariableImpl>>& variables) : work_(std::make_unique<Work>()) {
  if (CpuShare::of(thread_count()) == 1 || allowed_processors().size() == 1) return;  // or bound (OMP_PROC_BIND)
  const std::lock_guard lock(initial_values_mutex());
  std::vector<Ahead> fresh;
  std::map<std::pair<uint64_t, std::string>, uint32_t> more;  // of each name among those here
  size_t bytes = 0, drawn = 0;
  for (const std::shared_ptr<VariableImpl>& v : variables) {
    if (v->made() || drawn_ahead().contains(v.get())) continue;
    const bool constant = v->init.kind == Init::Kind::constant;
    if (constant && v->device && backend(*v->device).memory()) continue;  // its memory is elsewhere
    const std::pair key(v->epoch, v->name);
    const uint32_t before = constant ? 0 : filled()[key] + more[key]++;
    fresh.push_back({v, std::make_shared<Drawing>(*v, constant ? 0 : init_key(*v, before)), work_.get()});
    bytes += v->type.bytes();
    if (!constant) drawn += v->type.bytes();
  }
  if (drawn < kLeastBytes) return;
  if (bytes > kLargeBytes && bytes > static_cast<size_t>(cpu_info().memory_available_bytes) / kPartOfMemory) return;
  for (Ahead& a : fresh) {
    work_->add(a.drawing);
    drawn_ahead().emplace(a.variable.get(), std::move(a));
  }
  work_->start();
}

DrawAhead::~DrawAhead() {
  const std::lock_guard lock(initial_values_mutex());
  std::erase_if(drawn_ahead(), [&](const auto& entry) { return entry.second.work == work_.get(); });
  work_.reset();
}

size_t DrawAhead::stop() {
  const std::lock_guard lock(initial_values_mutex());
  return work_->stop();
}

}  // namespace freight::trace
