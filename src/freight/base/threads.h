// The one pool of compute threads: OpenMP's, which oneDNN uses too. Two pools on the same cores ruin both.
// Work is cut into chunks whose borders depend on the sizes only, never on the number of threads, so that
// reductions over chunks give equal bits for any number of threads.
#pragma once
#include <atomic>
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

// Calls body(part, parts) for each part in [0, parts) on a thread of its own, so that parts may wait for each other
// (Meeting). How many there are depends on what else computes: results must not. `body` must not throw.
void parallel_team(void (*body)(void* context, int part, int parts), void* context);
// Where parts of a team wait for each other, again and again: for less than a microsecond, so without sleeping.
class Meeting {
 public:
  // Comes back when it has been called `calls` times in all, by all parts together.
  void wait(int64_t calls);

 private:
  alignas(64) std::atomic<int64_t> calls_{0};
};

// While it lives, results and operands below the smallest normal number (1.2e-38 in f32) count as zero on this thread
// and in the chunks that it starts. Gradients that fade out, as through 200 steps of an LSTM, end in such numbers, and
// each costs the processor some 150 cycles: a training step was measured 5 times slower. The pool may belong to others,
// too (XGBoost, PyTorch and NumPy's libraries start regions on the same threads), so each thread has its own mode back
// when its chunks are done, and a thread that the pool gets meanwhile starts with the caller's.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

  // A library that starts parallel regions by itself (oneDNN) calls nothing of ours on the pool's threads. This puts
  // the innermost guard's mode on all of them until the outermost guard ends; without a guard it does nothing.
  static void reach_pool();

 private:
  friend void parallel_team(void (*body)(void* context, int part, int parts), void* context);

  static FlushDenormals* outermost();  // of this thread; nullptr without a guard

  uint64_t before_;        // the mode of this thread
  FlushDenormals* outer_;  // nullptr in the outermost guard of the thread
  bool reached_ = false;   // held by the outermost guard
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

template <class F>
void in_team(F&& f) {
  parallel_team(
      [](void* context, int part, int parts) { (*static_cast<std::remove_reference_t<F>*>(context))(part, parts); },
      &f);
}

// Ends the threads that compute with this one, which is about to leave that to another. With two pools there are more
// threads than processors, and those that wait for each other then sleep (libgomp), which takes longer than small
// steps.
void release_pool();

// memcpy, in parallel where it is worth it.
void parallel_copy(void* to, const void* from, size_t bytes);

// While one lives, no other thread computes a piece of background work: kernels are measured, whose times it would
// change. Waits for a piece that has begun.
class BackgroundPause {
 public:
  BackgroundPause();
  ~BackgroundPause();
  BackgroundPause(const BackgroundPause&) = delete;
  BackgroundPause& operator=(const BackgroundPause&) = delete;
};

// Lives while a background thread computes a piece of its work, of less than a millisecond. Waits while there are
// pauses.
class BackgroundPiece {
 public:
  BackgroundPiece();
  ~BackgroundPiece();
  BackgroundPiece(const BackgroundPiece&) = delete;
  BackgroundPiece& operator=(const BackgroundPiece&) = delete;
};

}  // namespace freight
