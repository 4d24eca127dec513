// What the tests of the bf16 kernels share: operands whose products and sums are exact, memory that tells of reads and
// writes outside it, scratch memory that is poisoned.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <new>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"
#include "tests/backend/cpu_kernels.h"

namespace freight::cpu {

// Those that this processor can run, the best first.
inline std::vector<const Bf16Table*> all_tables() {
  int count = 0;
  const Bf16Table* const* tables = bf16_tables(count);
  return {tables, tables + count};
}

// Where the processor has neither AMX nor avx512_bf16 nothing here can run.
#define FREIGHT_NEEDS_BF16() \
  if (!bf16_table()) GTEST_SKIP() << "the CPU has neither avx512_bf16 nor AMX for bf16"

constexpr int kPoison = 0xff;  // its bytes make numbers that are none, in bf16 and in f32

inline Bf16 narrow(double v) { return BFloat16(static_cast<float>(v)).bits; }
inline double value(Bf16 bits) { return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16)); }
inline double value(float v) { return static_cast<double>(v); }

// Equal, or no number both.
inline bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Number `i` of those whose bytes the array holds.
inline double number(const Array& bytes, int64_t i) { return value(reinterpret_cast<const Bf16*>(bytes.raw())[i]); }

// n numbers, poisoned, that end where a page begins that nobody may touch: what reaches past them faults. The page's
// rest before them is poisoned as well.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t n) : n_(n) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = static_cast<size_t>(n) * sizeof(T);
    const size_t readable = (bytes + page - 1) / page * page;
    mapped_ = readable + page;
    start_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (start_ == MAP_FAILED || mprotect(start_ + readable, page, PROT_NONE) != 0) throw std::bad_alloc();
    std::memset(start_, kPoison, readable);
    data_ = reinterpret_cast<T*>(start_ + readable - bytes);
  }
  ~Guarded() { munmap(start_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  T* data() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }
  int64_t size() const { return n_; }
  size_t bytes() const { return static_cast<size_t>(n_) * sizeof(T); }
  Array copied() const {
    Array a(DType::u8, {static_cast<int64_t>(bytes())});
    std::memcpy(a.raw(), data_, bytes());
    return a;
  }

 private:
  int64_t n_;
  size_t mapped_;
  char* start_;
  T* data_;
};

// Eighths from -2 to 2: products are whole 64ths, and f32 holds their sums of 2^16 terms without an error. So wide
// results must equal those of double, and narrow ones must be theirs rounded once.
inline void fill_exact(Bf16* to, int64_t n, uint64_t seed) {
  PhiloxStream r(seed, 0, 1);
  for (int64_t i = 0; i < n; ++i) to[i] = narrow(std::round(static_cast<double>(r.uniform(-16, 16))) / 8);
}

inline void fill_uniform(Bf16* to, int64_t n, uint64_t seed) {
  PhiloxStream r(seed, 0, 1);
  for (int64_t i = 0; i < n; ++i) to[i] = narrow(static_cast<double>(r.uniform(-1, 1)));
}

// What earlier kernels left in the threads' scratch memory, and what a plan leaves in a step's, must not matter.
inline void poison_thread_scratch() {
  constexpr size_t kBytes = size_t{4} << 20;
  parallel_for(thread_count(), [](int64_t) { std::memset(thread_scratch(kBytes), kPoison, kBytes); });
}

inline Array poisoned_scratch(size_t bytes) {
  Array s = scratch(bytes);
  std::memset(s.raw(), kPoison, s.bytes());
  return s;
}

// Of large problems each 13th element is computed in plain loops, of others all.
inline int64_t checked_each(double products) { return products > 1e8 ? 13 : 1; }

}  // namespace freight::cpu
