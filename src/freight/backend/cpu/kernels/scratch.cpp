// See scratch.h.
#include "freight/backend/cpu/kernels/scratch.h"

#include <omp.h>
#include <sys/mman.h>

#include <atomic>
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
std::atomic<size_t> largest_block = 0;

// Packed blocks are cut to fill most of the second-level cache. On small pages, which lie anywhere in memory, they
// would meet on some of its sets and push each other out.
constexpr size_t kHugePage = size_t{2} << 20, kSmall = size_t{128} << 10;
}  // namespace

void* thread_scratch(size_t bytes) {
  Block& block = tls_block;
  if (block.size < bytes) {
    std::free(block.data);
    const size_t page = bytes > kSmall ? kHugePage : 4096;
    block.size = (bytes + page - 1) / page * page;
    block.data = std::aligned_alloc(page, block.size);
    if (!block.data) throw std::bad_alloc();
    for (size_t seen = largest_block; seen < block.size && !largest_block.compare_exchange_weak(seen, block.size);) {
    }
    if (page == kHugePage) madvise(block.data, block.size, MADV_HUGEPAGE);  // a hint: refused where there are none
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

size_t reserved_thread_scratch() { return largest_block; }

}  // namespace freight::cpu
