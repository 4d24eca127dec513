// See tree_sum.h. Sums go through a block in the first-level cache: so the result may replace an operand, and the
// compiler vectorizes loops whose length it knows.
#include "freight/comm/tree_sum.h"

#include <cstring>
#include <type_traits>

#include "freight/base/error.h"

namespace freight::comm {

namespace {

// Adds as many elements at a time as fill these bytes; the second size is for the rest.
constexpr int64_t kBlockBytes = 2048, kLineBytes = 64;

template <class T>
T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;  // overflow of signed numbers is undefined
    return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
  } else {
    return a + b;
  }
}

// Adds a and b (N each) into sum (N).
template <int64_t N, class T>
inline void add_plain(const T* a, const T* b, T* __restrict sum) {
  for (int64_t i = 0; i < N; ++i) sum[i] = plus(a[i], b[i]);
}

#if defined(__x86_64__)
// Computes the same bits with vectors of 32 bytes, if the processor has them.
template <int64_t N, class T>
__attribute__((target("avx2"))) void add_wide(const T* a, const T* b, T* __restrict sum) {
  for (int64_t i = 0; i < N; ++i) sum[i] = plus(a[i], b[i]);
}
template <int64_t N, class T>
void add(const T* a, const T* b, T* __restrict sum) {
  static const bool wide = __builtin_cpu_supports("avx2");
  if (wide) {
    add_wide<N>(a, b, sum);
  } else {
    add_plain<N>(a, b, sum);
  }
}
#else
template <int64_t N, class T>
void add(const T* a, const T* b, T* __restrict sum) {
  add_plain<N>(a, b, sum);
}
#endif

// Sums the N elements from `at` on.
template <int64_t N, class T>
void sum_block(const T* const* from, int parts, int64_t at, T* __restrict sum) {
  if (parts == 1) {
    std::memcpy(sum, from[0] + at, N * sizeof(T));
  } else if (parts == 2) {
    add<N>(from[0] + at, from[1] + at, sum);
  } else {
    const int first = left_half(parts);
    T left[N], right[N];
    sum_block<N>(from, first, at, left);
    sum_block<N>(from + first, parts - first, at, right);
    add<N>(left, right, sum);
  }
}

// Sums whole blocks of N from `at` on. Returns where it stopped.
template <int64_t N, class T>
int64_t sum_blocks(const T* const* from, int parts, int64_t at, T* to, int64_t count) {
  for (; at + N <= count; at += N) {
    T sum[N];
    sum_block<N>(from, parts, at, sum);
    std::memcpy(to + at, sum, sizeof(sum));
  }
  return at;
}

template <class T>
T sum_one(const T* const* from, int parts, int64_t at) {
  if (parts == 1) return from[0][at];
  const int first = left_half(parts);
  return plus(sum_one(from, first, at), sum_one(from + first, parts - first, at));
}

template <class T>
void sum_all(const void* const* from, int parts, void* to, int64_t count) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  const T* const* const values = reinterpret_cast<const T* const*>(from);
  T* const out = static_cast<T*>(to);
  int64_t at = sum_blocks<kBlockBytes / kSize>(values, parts, 0, out, count);
  at = sum_blocks<kLineBytes / kSize>(values, parts, at, out, count);
  for (; at < count; ++at) out[at] = sum_one(values, parts, at);
}

}  // namespace

void check_summable(const char* op, DType dtype) {
  if (dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i64) return;
  fail(ErrorKind::usage, op, "cannot add: expected f32, f64 or i64, got ", to_string(dtype));
}

void tree_sum(const void* const* from, int parts, void* to, int64_t count, DType dtype) {
  check_summable("tree_sum", dtype);
  if (dtype == DType::f32) {
    sum_all<float>(from, parts, to, count);
  } else if (dtype == DType::f64) {
    sum_all<double>(from, parts, to, count);
  } else {
    sum_all<int64_t>(from, parts, to, count);
  }
}

}  // namespace freight::comm
