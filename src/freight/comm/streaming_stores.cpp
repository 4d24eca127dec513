// See streaming_stores_internal.h.
#include "freight/comm/streaming_stores_internal.h"

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace freight::comm {

namespace {
#if defined(__x86_64__)
constexpr int64_t kLine = 64;

// Copies whole cache lines to an address at the beginning of one. Returns the bytes that it copied.
__attribute__((target("avx"))) int64_t stream_lines(char* to, const char* from, int64_t bytes) {
  int64_t at = 0;
  for (; at + kLine <= bytes; at += kLine) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + kLine / 2));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at + kLine / 2), high);
  }
  return at;
}

bool past_caches(const void* to) {
  static const bool here = __builtin_cpu_is("amd") && __builtin_cpu_supports("avx");
  return here && reinterpret_cast<uintptr_t>(to) % kLine == 0;
}
#endif
}  // namespace

void stream_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes <= 0) return;  // the addresses may be null
  int64_t done = 0;
#if defined(__x86_64__)
  if (past_caches(to)) done = stream_lines(static_cast<char*>(to), static_cast<const char*>(from), bytes);
#endif
  std::memcpy(static_cast<char*>(to) + done, static_cast<const char*>(from) + done, static_cast<size_t>(bytes - done));
}

void stores_done() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace freight::comm
