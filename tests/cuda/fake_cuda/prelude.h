// Stands before kernel texts where the fake driver compiles them for the host: what CUDA C++ has built in. All accesses
// to memory go through the hooks that the compiler places for its thread sanitizer.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <tuple>
#include <type_traits>
#include <utility>

struct FakeIndex {
  unsigned x;
};
struct FakeHooks {
  void (*read)(const void*, unsigned);
  void (*write)(void*, unsigned);
  void (*barrier)();
  void (*shuffle)(unsigned long long* bits, int mask);
  FakeIndex block, thread, threads;
};
static FakeHooks* fake_hooks;
extern "C" __attribute__((no_sanitize("thread"))) void fake_set_hooks(FakeHooks* hooks) { fake_hooks = hooks; }

#define FAKE_ACCESS(n)                                                                                       \
  extern "C" __attribute__((no_sanitize("thread"))) void __tsan_read##n(void* p) { fake_hooks->read(p, n); } \
  extern "C" __attribute__((no_sanitize("thread"))) void __tsan_write##n(void* p) { fake_hooks->write(p, n); }
FAKE_ACCESS(1)
FAKE_ACCESS(2)
FAKE_ACCESS(4)
FAKE_ACCESS(8)
FAKE_ACCESS(16)
extern "C" void __tsan_read_range(void* p, size_t n) { fake_hooks->read(p, static_cast<unsigned>(n)); }
extern "C" void __tsan_write_range(void* p, size_t n) { fake_hooks->write(p, static_cast<unsigned>(n)); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define blockIdx fake_hooks->block
#define threadIdx fake_hooks->thread
#define blockDim fake_hooks->threads
inline void __syncthreads() { fake_hooks->barrier(); }
// Is no access that races: the hooks hear nothing of it.
__attribute__((noinline, no_sanitize_thread)) inline int atomicCAS(int* word, int expected, int value) {
  __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
inline unsigned __float_as_uint(float f) {
  unsigned u;
  memcpy(&u, &f, 4);
  return u;
}
inline float __uint_as_float(unsigned u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  fake_hooks->shuffle(&bits, mask);
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Parameters from the table of addresses that a launch gives.
template <class... P, size_t... I>
void fake_call(void (*kernel)(P...), void** table, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_const_t<P>*>(table[I])...);
}
template <class... P>
void fake_run(void (*kernel)(P...), void** table) {
  fake_call(kernel, table, std::index_sequence_for<P...>());
}
template <class... P>
int fake_sizes(void (*)(P...), size_t* sizes) {
  const size_t all[] = {sizeof(P)...};
  memcpy(sizes, all, sizeof all);
  return sizeof...(P);
}
