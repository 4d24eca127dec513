// See threads.h.
#include "freight/base/threads.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <mutex>

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

// A pool of very many threads finds no memory for their stacks, and libgomp then ends the process by a signal.
// OMP_NUM_THREADS holds for every thread that starts a region anew, so each is told once.
void limit_pool() {
  thread_local bool told = false;
  if (told || omp_in_parallel()) return;
  told = true;
  constexpr int kFewest = 64, kPerProcessor = 8;
  const int most = std::max(kFewest, kPerProcessor * omp_get_num_procs()), asked = omp_get_max_threads();
  if (asked <= most) return;
  omp_set_num_threads(most);
  static std::once_flag said;
  std::call_once(said, [&] { log::warn(cat("OMP_NUM_THREADS asks for ", asked, " threads, ", most, " are used")); });
}

}  // namespace

// A thread of the pool takes over the mode of the one that starts it; those already there are told once.
FlushDenormals::FlushDenormals() : before_(float_mode()) {
  limit_pool();
  set_float_mode(before_ | kFlush);
  thread_local bool pool_told = false;
  if (pool_told || omp_in_parallel()) return;
#pragma omp parallel
  set_float_mode(float_mode() | kFlush);
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
  if (chunks <= 1 || omp_in_parallel() || thread_count() == 1) {
    for (int64_t i = 0; i < chunks; ++i) body(context, i);
    return;
  }
#pragma omp parallel for schedule(static)
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
