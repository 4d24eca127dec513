// The one pool of compute threads: OpenMP's, which oneDNN uses too. Two pools on the same cores ruin both.
// Work is cut into chunks whose borders depend on the sizes only, never on the number of threads, so that
// reductions over chunks give equal bits for any number of threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace freight {

// Threads that parallel_for uses (OMP_NUM_THREADS or the cores available to the process; at most 8 per core, or 64).
int thread_count();

// While it lives, this thread computes with at most `count` threads.
class ThreadLimit {
 public:
  explicit ThreadLimit(int count);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

// Calls body(chunk) for chunk in [0, chunks), in parallel when chunks > 1. `body` must not throw.
// Plain function pointer and context: no allocation and no std::function in a replayed step.
void parallel_chunks(int64_t chunks, void (*body)(void* context, int64_t chunk), void* context);

// While it lives, results and operands below the smallest normal number (1.2e-38 in f32) count as zero on this thread
// and on its pool. Gradients that fade out, as through 200 steps of an LSTM, end in such numbers, and each costs the
// processor some 150 cycles: a training step was measured 5 times slower. The caller's mode comes back in the end; the
// pool's threads keep it, they compute for Freight alone.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  uint64_t before_;
};

template <class F>
void parallel_for(int64_t chunks, F&& f) {
  parallel_chunks(
      chunks, [](void* context, int64_t chunk) { (*static_cast<std::remove_reference_t<F>*>(context))(chunk); }, &f);
}

// The same one after the other where a parallel region costs more than it saves.
template <class F>
void parallel_for(int64_t chunks, bool worth_it, F&& f) {
  if (worth_it) return parallel_for(chunks, f);
  for (int64_t i = 0; i < chunks; ++i) f(i);
}

// memcpy, in parallel where it is worth it.
void parallel_copy(void* to, const void* from, size_t bytes);

}  // namespace freight
