// See scratch.h.
#include "freight/backend/cpu/kernels/scratch.h"

#include <omp.h>

#include <cstdlib>
#include <new>

namespace freight::cpu {

namespace {
struct Block {
  void* data = nullptr;
  size_t size = 0;
  ~Block() { std::free(data); }
};
thread_local Block tls_block;
}  // namespace

void* thread_scratch(size_t bytes) {
  Block& block = tls_block;
  if (block.size < bytes) {
    std::free(block.data);
    block.size = (bytes + 4095) & ~size_t{4095};
    block.data = std::aligned_alloc(4096, block.size);
    if (!block.data) throw std::bad_alloc();
  }
  return block.data;
}

void reserve_thread_scratch(size_t bytes) {
  if (omp_in_parallel()) {
    thread_scratch(bytes);
    return;
  }
  // Most kernels ask for no more than an earlier one: waking the pool for each costs more than planning it.
  static thread_local size_t reserved = 0;
  if (bytes <= reserved) return;
  reserved = bytes;
#pragma omp parallel
  thread_scratch(bytes);
}

}  // namespace freight::cpu
