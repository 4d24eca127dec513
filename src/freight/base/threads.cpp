// See threads.h.
#include "freight/base/threads.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>

#include "freight/base/cpu_share.h"
#include "freight/base/env.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace freight {
namespace {

#ifdef __x86_64__
constexpr uint64_t kFlush = 0x8040;  // flush to zero, denormals are zero
uint64_t float_mode() { return _mm_getcsr(); }
void set_float_mode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
void relax() { _mm_pause(); }
#elif defined(__aarch64__)
constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR.FZ
uint64_t float_mode() {
  uint64_t mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_float_mode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
void relax() { asm volatile("yield"); }
#else
constexpr uint64_t kFlush = 0;
uint64_t float_mode() { return 0; }
void set_float_mode(uint64_t) {}
void relax() {}
#endif

// A pool may have so many. A very large one finds no memory for its stacks: libgomp then ends the process by a signal.
// One larger than a control group's quota is stopped for a part of each period, as a rule between two barriers.
int largest_pool() {
  constexpr int kFewest = 64, kPerProcessor = 8;
  const int most = std::max(kFewest, kPerProcessor * omp_get_num_procs());
  const std::optional<double> quota = processor_quota();
  if (!env::get("OMP_NUM_THREADS").empty()) {
    const int asked = omp_get_max_threads();
    if (asked > most) logging::warn(cat("OMP_NUM_THREADS asks for ", asked, " threads, ", most, " are used"));
  } else if (quota && *quota < omp_get_num_procs()) {
    const int granted = std::max(1, static_cast<int>(std::lround(*quota)));
    logging::info(cat("the control group grants ", fixed(*quota, 1), " cores: computing with ", granted, " threads"));
    return granted;
  }
  return most;
}

// OpenMP's number holds for every thread that starts a region anew, so each is limited once.
void limit_pool() {
  thread_local bool limited = false;
  if (limited || omp_in_parallel()) return;
  limited = true;
  static const int kMost = largest_pool();
  if (omp_get_max_threads() > kMost) omp_set_num_threads(kMost);
}

// Sets the mode where it differs: writing it stops the processor for some cycles.
void need_float_mode(uint64_t mode) {
  if (float_mode() != mode) set_float_mode(mode);
}

thread_local FlushDenormals* guard = nullptr;  // the innermost of this thread

// The mode that a thread of the pool had before reach_pool().
struct OwnMode {
  uint64_t mode = 0;
  bool kept = false;
};
thread_local OwnMode own_mode;

struct Background {
  std::mutex mutex;
  std::condition_variable changed;
  int pauses = 0, pieces = 0;
};
Background& background() {
  static Background b;
  return b;
}

}  // namespace

// The region comes before the mode: threads that it makes take over the mode of this one.
FlushDenormals::FlushDenormals() : before_(float_mode()), outer_(guard) {
  limit_pool();
  CpuShare::touch();
  thread_local bool pool_told = false;
  if (!pool_told && !omp_in_parallel()) {
    const int leader = ::gettid();
#pragma omp parallel
    if (omp_get_thread_num() > 0) CpuShare::add_worker(leader);
    pool_told = true;
  }
  guard = this;
  set_float_mode(before_ | kFlush);
}

FlushDenormals::~FlushDenormals() {
  guard = outer_;
  set_float_mode(before_);
  if (!reached_) return;
  const uint64_t callers = before_;
#pragma omp parallel
  if (omp_get_thread_num() > 0) {
    // A thread without a mode of its own was made by the library's region, so after this one's flushing mode.
    need_float_mode(own_mode.kept ? own_mode.mode : callers);
    own_mode.kept = false;
  }
}

FlushDenormals* FlushDenormals::outermost() {
  FlushDenormals* g = guard;
  while (g && g->outer_) g = g->outer_;
  return g;
}

void FlushDenormals::reach_pool() {
  if (!guard || omp_in_parallel()) return;
  FlushDenormals* const outermost = FlushDenormals::outermost();
  if (outermost->reached_) return;
  outermost->reached_ = true;
  set_float_mode(outermost->before_);
#pragma omp parallel
  if (omp_get_thread_num() > 0) {
    own_mode = {float_mode(), true};
    need_float_mode(own_mode.mode | kFlush);
  }
  set_float_mode(outermost->before_ | kFlush);
}

int thread_count() {
  limit_pool();
  return omp_get_max_threads();
}

ThreadLimit::ThreadLimit(int count) : before_(thread_count()) { omp_set_num_threads(std::min(count, before_)); }
ThreadLimit::~ThreadLimit() { omp_set_num_threads(before_); }

void parallel_team(void (*body)(void*, int, int), void* context) {
  const int threads = omp_in_parallel() ? 1 : CpuShare::of(thread_count());
  if (threads == 1) return body(context, 0, 1);
  // The region is started in the caller's mode, which a thread that the pool gets here takes over and keeps.
  const FlushDenormals* outermost = FlushDenormals::outermost();
  const bool flush = outermost != nullptr, reached = flush && outermost->reached_;
  const uint64_t flushing = float_mode(), callers = flush ? outermost->before_ : flushing;
  need_float_mode(callers);
#pragma omp parallel num_threads(threads)
  {
    const uint64_t own = float_mode();
    if (flush) need_float_mode(own | kFlush);
    body(context, omp_get_thread_num(), omp_get_num_threads());
    if (reached && omp_get_thread_num() > 0) {
      if (!own_mode.kept)
        own_mode = {callers, true};  // the pool has it since reach_pool(), and a library's region may follow
    } else if (flush) {
      need_float_mode(own);
    }
  }
  need_float_mode(flushing);
}

void Meeting::wait(int64_t calls) {
  constexpr int kSpins = 10000;  // then the processor goes to somebody else, who may be the part that is waited for
  calls_.fetch_add(1, std::memory_order_acq_rel);
  for (int spins = 0; calls_.load(std::memory_order_acquire) < calls; ++spins) {
    if (spins < kSpins) {
      relax();
    } else {
      ::sched_yield();
    }
  }
}

void parallel_chunks(int64_t chunks, void (*body)(void*, int64_t), void* context) {
  auto run = [&](int part, int parts) {
    for (int64_t i = chunks * part / parts; i < chunks * (part + 1) / parts; ++i) body(context, i);
  };
  if (chunks <= 1) return run(0, 1);
  in_team(run);
}

void release_pool() { omp_pause_resource(omp_pause_soft, omp_get_initial_device()); }

void parallel_copy(void* to, const void* from, size_t bytes) {
  constexpr size_t kChunk = size_t{2} << 20;
  parallel_for(static_cast<int64_t>((bytes + kChunk - 1) / kChunk), [&](int64_t k) {
    const size_t start = static_cast<size_t>(k) * kChunk;
    std::memcpy(static_cast<char*>(to) + start, static_cast<const char*>(from) + start,
                std::min(kChunk, bytes - start));
  });
}

BackgroundPause::BackgroundPause() {
  Background& b = background();
  std::unique_lock lock(b.mutex);
  ++b.pauses;
  b.changed.wait(lock, [&] { return b.pieces == 0; });
}

BackgroundPause::~BackgroundPause() {
  Background& b = background();
  {
    const std::lock_guard lock(b.mutex);
    --b.pauses;
  }
  b.changed.notify_all();
}

BackgroundPiece::BackgroundPiece() {
  Background& b = background();
  std::unique_lock lock(b.mutex);
  b.changed.wait(lock, [&] { return b.pauses == 0; });
  ++b.pieces;
}

BackgroundPiece::~BackgroundPiece() {
  Background& b = background();
  {
    const std::lock_guard lock(b.mutex);
    --b.pieces;
    if (b.pauses == 0) return;
  }
  b.changed.notify_all();
}

}  // namespace freight
