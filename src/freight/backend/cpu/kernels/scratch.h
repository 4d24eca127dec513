// Memory of one compute thread for registers and packed blocks: allocated when kernels are prepared, never while they
// run.
#pragma once
#include <cstddef>

namespace freight::cpu {

// Makes sure that every pool thread (and the caller) has at least `bytes` of scratch.
void reserve_thread_scratch(size_t bytes);
// The largest block that a thread has, in whole pages; kernels that grow blocks of their own threads do not count.
size_t reserved_thread_scratch();
// The calling thread's block, 4096-byte aligned; grows only when the thread is new to the pool.
void* thread_scratch(size_t bytes);

}  // namespace freight::cpu
