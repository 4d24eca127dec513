// See threads.h.
#include "freight/base/threads.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
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
#elif defined(__aarch64__)
constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR.FZ
uint64_t float_mode() {
  uint64_t mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_float_mode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
constexpr uint64_t kFlush = 0;
uint64_t float_mode() { return 0; }
void set_float_mode(uint64_t) {}
#endif

// What a pool may have. A very large one finds no memory for its stacks, and libgomp then ends the process by a signal.
// One larger than a control group's quota is stopped for a part of each period, as a rule between two barriers.
int largest_pool() {
  constexpr int kFewest = 64, kPerProcessor = 8;
  const int most = std::max(kFewest, kPerProcessor * omp_get_num_procs());
  const std::optional<double> quota = processor_quota();
  if (!env::get("OMP_NUM_THREADS").empty()) {
    const int asked = omp_get_max_threads();
    if (asked > most) log::warn(cat("OMP_NUM_THREADS asks for ", asked, " threads, ", most, " are used"));
  } else if (quota && *quota < omp_get_num_procs()) {
    const int granted = std::max(1, static_cast<int>(std::lround(*quota)));
    log::info(cat("the control group grants ", fixed(*quota, 1), " processors: computing with ", granted, " threads"));
    return granted;
  }
  return most;
}

// OpenMP's number holds for every thread that starts a region anew, so each is told once.
void limit_pool() {
  thread_local bool told = false;
  if (told || omp_in_parallel()) return;
  told = true;
  static const int kMost = largest_pool();
  if (omp_get_max_threads() > kMost) omp_set_num_threads(kMost);
}

}  // namespace

// A thread of the pool takes over the mode of the one that starts it; those already there are told once.
FlushDenormals::FlushDenormals() : before_(float_mode()) {
  limit_pool();
  CpuShare::touch();
  set_float_mode(before_ | kFlush);
  thread_local bool pool_told = false;
  if (pool_told || omp_in_parallel()) return;
  const int leader = ::gettid();
#pragma omp parallel
  {
    set_float_mode(float_mode() | kFlush);
    if (omp_get_thread_num() > 0) CpuShare::add_worker(leader);
  }
  pool_told = true;
}

FlushDenormals::~FlushDenormals() { set_float_mode(before_); }

int thread_count() {
  limit_pool();
  return omp_get_max_threads();
}

ThreadLimit::ThreadLimit(int count) : before_(thread_count()) { omp_set_num_threads(std::min(count, before_)); }
ThreadLimit::~ThreadLimit() { omp_set_num_threads(before_); }

void parallel_chunks(int64_t chunks, void (*body)(void*, int64_t), void* context) {
  const int threads = chunks <= 1 || omp_in_parallel() ? 1 : CpuShare::of(thread_count());
  if (threads == 1) {
    for (int64_t i = 0; i < chunks; ++i) body(context, i);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < chunks; ++i) body(context, i);
}

void parallel_copy(void* to, const void* from, size_t bytes) {
  constexpr size_t kChunk = size_t{2} << 20;
  parallel_for(static_cast<int64_t>((bytes + kChunk - 1) / kChunk), [&](int64_t k) {
    const size_t start = static_cast<size_t>(k) * kChunk;
    std::memcpy(static_cast<char*>(to) + start, static_cast<const char*>(from) + start,
                std::min(kChunk, bytes - start));
  });
}

}  // namespace freight
