// The instructions of AVX-512 and AMX that the kernels in backend/cpu/kernels/bf16 use, in plain loops. Behind this
// header the kernels and their tests compile for every processor, in the namespace emulated_cpu (tests/emulated).
// Rounds as the processor does: Intel's Software Developer's Manual, and for tiles what an Intel Xeon does
// (emulated_bf16.h). Loads and stores fault where the processor's do: at addresses that are not aligned.
#pragma once
#include <gtest/gtest.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "freight/backend/cpu/kernels/attention.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/conv.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/pool.h"
#include "freight/backend/cpu/kernels/recurrent.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/backend/cpu/kernels/simd_tables.h"
#include "freight/base/array.h"
#include "freight/base/cpu_info.h"
#include "freight/base/dtype.h"
#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

// Macros in the compiler's headers, some without optimization alone.
#undef _mm_prefetch
#undef _mm512_cmp_ps_mask
#undef _mm512_extracti64x4_epi64
#undef _mm512_inserti32x4
#undef _mm512_inserti64x4
#undef _mm512_mask_i32gather_ps
#undef _mm512_roundscale_ps
#undef _mm512_set_epi16
#undef _mm512_setr_epi32
#undef _mm512_setr_epi64
#undef _mm512_shuffle_f32x4
#undef _mm512_slli_epi32
#undef _tile_dpbf16ps
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero

namespace freight::emulated_cpu {

using namespace freight::cpu;

// The names of the compiler's own types and functions, which these hide in this namespace.
// NOLINTBEGIN(bugprone-reserved-identifier)
template <size_t kBytes>
struct alignas(kBytes) Register {
  std::array<uint64_t, kBytes / 8> words;
};
using __m128i = Register<16>;
using __m256i = Register<32>;
using __m256bh = Register<32>;
using __m512i = Register<64>;
using __m512bh = Register<64>;
struct __m512 {
  alignas(64) std::array<float, 16> v;
};

// The lanes of a register, and a register of lanes.
template <class T, class R>
std::array<T, sizeof(R) / sizeof(T)> lanes(const R& r) {
  return std::bit_cast<std::array<T, sizeof(R) / sizeof(T)>>(r);
}
template <class R, class T>
R joined_lanes(const std::array<T, sizeof(R) / sizeof(T)>& a) {
  return std::bit_cast<R>(a);
}
// f of the lanes of some registers, by their number.
template <class R, class T, class F>
R by_lane(F f) {
  std::array<T, sizeof(R) / sizeof(T)> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = f(i);
  return joined_lanes<R, T>(out);
}
template <class T, class R, class F>
R of_two(const R& a, const R& b, F f) {
  const auto x = lanes<T>(a), y = lanes<T>(b);
  return by_lane<R, T>([&](size_t i) { return static_cast<T>(f(x[i], y[i])); });
}
template <class T, class R, class F>
uint64_t mask_of(const R& a, const R& b, F f) {
  const auto x = lanes<T>(a), y = lanes<T>(b);
  uint64_t mask = 0;
  for (size_t i = 0; i < x.size(); ++i) mask |= uint64_t{f(x[i], y[i]) ? 1u : 0u} << i;
  return mask;
}
inline bool is_set(uint64_t mask, size_t i) { return (mask >> i & 1) != 0; }

inline void need_aligned(const void* p, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(p) % bytes != 0) std::abort();
}
template <class R>
R load_any(const void* p) {
  R r;
  std::memcpy(&r, p, sizeof r);
  return r;
}
template <class R>
void store_any(void* p, const R& r) {
  std::memcpy(p, &r, sizeof r);
}
// Lanes that the mask leaves out are not touched.
template <class R, class T>
R load_masked(uint64_t mask, const void* p) {
  const auto* from = static_cast<const T*>(p);
  return by_lane<R, T>([&](size_t i) { return is_set(mask, i) ? from[i] : T{}; });
}
template <class T, class R>
void store_masked(void* p, uint64_t mask, const R& r) {
  const auto v = lanes<T>(r);
  for (size_t i = 0; i < v.size(); ++i) {
    if (is_set(mask, i)) static_cast<T*>(p)[i] = v[i];
  }
}
template <class T, class R>
R choose(uint64_t mask, const R& yes, const R& no) {
  const auto y = lanes<T>(yes), n = lanes<T>(no);
  return by_lane<R, T>([&](size_t i) { return is_set(mask, i) ? y[i] : n[i]; });
}

// --- loads and stores ---

template <class P>
void _mm_prefetch(P, _mm_hint) {}
inline __m128i _mm_loadu_si128(const void* p) { return load_any<__m128i>(p); }
inline __m256i _mm256_loadu_si256(const void* p) { return load_any<__m256i>(p); }
inline __m256i _mm256_load_si256(const void* p) { return need_aligned(p, 32), load_any<__m256i>(p); }
inline void _mm256_storeu_si256(void* p, __m256i v) { store_any(p, v); }
inline void _mm256_store_si256(void* p, __m256i v) { need_aligned(p, 32), store_any(p, v); }
inline __m256i _mm256_maskz_loadu_epi16(uint64_t m, const void* p) { return load_masked<__m256i, uint16_t>(m, p); }
inline __m256i _mm256_maskz_loadu_epi8(uint64_t m, const void* p) { return load_masked<__m256i, uint8_t>(m, p); }
inline void _mm256_mask_storeu_epi16(void* p, uint64_t m, __m256i v) { store_masked<uint16_t>(p, m, v); }
inline void _mm256_mask_storeu_epi8(void* p, uint64_t m, __m256i v) { store_masked<uint8_t>(p, m, v); }
inline __m512i _mm512_loadu_si512(const void* p) { return load_any<__m512i>(p); }
inline __m512i _mm512_load_si512(const void* p) { return need_aligned(p, 64), load_any<__m512i>(p); }
inline void _mm512_storeu_si512(void* p, __m512i v) { store_any(p, v); }
inline void _mm512_store_si512(void* p, __m512i v) { need_aligned(p, 64), store_any(p, v); }
inline void _mm512_stream_si512(__m512i* p, __m512i v) { _mm512_store_si512(p, v); }
inline __m512i _mm512_maskz_loadu_epi16(uint64_t m, const void* p) { return load_masked<__m512i, uint16_t>(m, p); }
inline void _mm512_mask_storeu_epi16(void* p, uint64_t m, __m512i v) { store_masked<uint16_t>(p, m, v); }
inline __m512 _mm512_loadu_ps(const void* p) { return load_any<__m512>(p); }
inline __m512 _mm512_load_ps(const void* p) { return need_aligned(p, 64), load_any<__m512>(p); }
inline void _mm512_storeu_ps(void* p, __m512 v) { store_any(p, v); }
inline void _mm512_store_ps(void* p, __m512 v) { need_aligned(p, 64), store_any(p, v); }
inline __m512 _mm512_maskz_loadu_ps(uint64_t m, const void* p) { return load_masked<__m512, float>(m, p); }
inline void _mm512_mask_storeu_ps(void* p, uint64_t m, __m512 v) { store_masked<float>(p, m, v); }
inline __m512 _mm512_mask_i32gather_ps(__m512 none, uint64_t m, __m512i at, const void* base, int scale) {
  const auto places = lanes<int32_t>(at);
  return by_lane<__m512, float>([&](size_t i) {
    if (!is_set(m, i)) return none.v[i];
    return load_any<float>(static_cast<const char*>(base) + static_cast<ptrdiff_t>(places[i]) * scale);
  });
}

// --- constants ---

inline __m512 _mm512_set1_ps(float x) {
  return by_lane<__m512, float>([=](size_t) { return x; });
}
inline __m512 _mm512_setzero_ps() { return _mm512_set1_ps(0); }
inline __m512i _mm512_setzero_si512() { return {}; }
inline __m256i _mm256_setzero_si256() { return {}; }
inline __m512i _mm512_set1_epi32(int x) {
  return by_lane<__m512i, int32_t>([=](size_t) { return x; });
}
inline __m512i _mm512_set1_epi16(int x) {
  return by_lane<__m512i, int16_t>([=](size_t) { return static_cast<int16_t>(x); });
}
inline __m256i _mm256_set1_epi8(char x) {
  return by_lane<__m256i, int8_t>([=](size_t) { return static_cast<int8_t>(x); });
}
template <class... Numbers>
__m512i _mm512_setr_epi32(Numbers... x) {
  return joined_lanes<__m512i, int32_t>({x...});
}
template <class... Numbers>
__m512i _mm512_setr_epi64(Numbers... x) {
  return joined_lanes<__m512i, int64_t>({x...});
}
template <class... Numbers>
__m256i _mm256_setr_epi16(Numbers... x) {
  return joined_lanes<__m256i, int16_t>({static_cast<int16_t>(x)...});
}
template <class... Numbers>
__m512i _mm512_set_epi16(Numbers... x) {
  std::array<int16_t, 32> a{static_cast<int16_t>(x)...};
  std::reverse(a.begin(), a.end());
  return joined_lanes<__m512i, int16_t>(a);
}

// --- parts of registers ---

inline __m512 _mm512_castsi512_ps(__m512i v) { return std::bit_cast<__m512>(v); }
inline __m512i _mm512_castps_si512(__m512 v) { return std::bit_cast<__m512i>(v); }
inline __m256i _mm512_extracti64x4_epi64(__m512i v, int half) {
  return load_any<__m256i>(reinterpret_cast<const char*>(&v) + 32 * half);
}
inline __m256i _mm512_castsi512_si256(__m512i v) { return _mm512_extracti64x4_epi64(v, 0); }
inline __m512i _mm512_inserti64x4(__m512i v, __m256i part, int half) {
  store_any(reinterpret_cast<char*>(&v) + 32 * half, part);
  return v;
}
inline __m512i _mm512_inserti32x4(__m512i v, __m128i part, int quarter) {
  store_any(reinterpret_cast<char*>(&v) + 16 * quarter, part);
  return v;
}
// Lanes that the instruction leaves undefined are NaN here.
inline __m512i _mm512_castsi256_si512(__m256i v) { return _mm512_inserti64x4(_mm512_set1_epi32(-1), v, 0); }
inline __m512i _mm512_castsi128_si512(__m128i v) { return _mm512_inserti32x4(_mm512_set1_epi32(-1), v, 0); }

// The lower or upper lanes of each 128 bits, of a and b in turn.
template <class T>
__m512i unpacked(const __m512i& a, const __m512i& b, size_t upper) {
  constexpr size_t kLanes = 16 / sizeof(T);
  const auto x = lanes<T>(a), y = lanes<T>(b);
  return by_lane<__m512i, T>([&](size_t i) {
    const size_t from = i / kLanes * kLanes + upper * kLanes / 2 + i % kLanes / 2;
    return i % 2 == 0 ? x[from] : y[from];
  });
}
inline __m512i _mm512_unpacklo_epi16(__m512i a, __m512i b) { return unpacked<uint16_t>(a, b, 0); }
inline __m512i _mm512_unpackhi_epi16(__m512i a, __m512i b) { return unpacked<uint16_t>(a, b, 1); }
inline __m512i _mm512_unpacklo_epi32(__m512i a, __m512i b) { return unpacked<uint32_t>(a, b, 0); }
inline __m512i _mm512_unpackhi_epi32(__m512i a, __m512i b) { return unpacked<uint32_t>(a, b, 1); }
inline __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b) { return unpacked<uint64_t>(a, b, 0); }
inline __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b) { return unpacked<uint64_t>(a, b, 1); }
template <class T>
__m512i permuted(const __m512i& order, const __m512i& v) {
  const auto at = lanes<T>(order), x = lanes<T>(v);
  return by_lane<__m512i, T>([&](size_t i) { return x[at[i] % x.size()]; });
}
inline __m512i _mm512_permutexvar_epi64(__m512i order, __m512i v) { return permuted<uint64_t>(order, v); }
inline __m512i _mm512_permutexvar_epi16(__m512i order, __m512i v) { return permuted<uint16_t>(order, v); }
inline __m512i _mm512_maskz_permutexvar_epi16(uint64_t m, __m512i order, __m512i v) {
  return choose<uint16_t>(m, permuted<uint16_t>(order, v), __m512i{});
}
inline __m512 _mm512_shuffle_f32x4(__m512 a, __m512 b, int order) {
  return by_lane<__m512, float>([&](size_t i) { return (i < 8 ? a : b).v[4 * (order >> i / 4 * 2 & 3) + i % 4]; });
}
inline __m512 _mm512_permutex2var_ps(__m512 a, __m512i order, __m512 b) {
  const auto at = lanes<uint32_t>(order);
  return by_lane<__m512, float>([&](size_t i) { return (at[i] & 16 ? b : a).v[at[i] & 15]; });
}

// --- integers ---

inline __m512i _mm512_add_epi32(__m512i a, __m512i b) {
  return of_two<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return x + y; });
}
inline __m512i _mm512_sub_epi32(__m512i a, __m512i b) {
  return of_two<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return x - y; });
}
inline __m512i _mm512_mullo_epi32(__m512i a, __m512i b) {
  return of_two<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return x * y; });
}
inline __m512i _mm512_and_si512(__m512i a, __m512i b) {
  return of_two<uint64_t>(a, b, [](uint64_t x, uint64_t y) { return x & y; });
}
inline __m512i _mm512_or_si512(__m512i a, __m512i b) {
  return of_two<uint64_t>(a, b, [](uint64_t x, uint64_t y) { return x | y; });
}
inline __m512i _mm512_slli_epi32(__m512i v, unsigned bits) {
  return of_two<uint32_t>(v, v, [=](uint32_t x, uint32_t) { return x << bits; });
}
inline __m512i _mm512_max_epu32(__m512i a, __m512i b) {
  return of_two<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return std::max(x, y); });
}
inline __m512i _mm512_min_epu32(__m512i a, __m512i b) {
  return of_two<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return std::min(x, y); });
}
inline __m512i _mm512_max_epu16(__m512i a, __m512i b) {
  return of_two<uint16_t>(a, b, [](uint16_t x, uint16_t y) { return std::max(x, y); });
}
inline __m512i _mm512_max_epi16(__m512i a, __m512i b) {
  return of_two<int16_t>(a, b, [](int16_t x, int16_t y) { return std::max(x, y); });
}
inline __m512i _mm512_mask_sub_epi16(__m512i other, uint64_t m, __m512i a, __m512i b) {
  return choose<uint16_t>(m, of_two<uint16_t>(a, b, [](int x, int y) { return x - y; }), other);
}
inline uint32_t _mm512_reduce_max_epu32(__m512i v) {
  const auto x = lanes<uint32_t>(v);
  return *std::max_element(x.begin(), x.end());
}
inline uint32_t _mm512_reduce_min_epu32(__m512i v) {
  const auto x = lanes<uint32_t>(v);
  return *std::min_element(x.begin(), x.end());
}
inline __m512i _mm512_cvtepu16_epi32(__m256i v) {
  const auto x = lanes<uint16_t>(v);
  return by_lane<__m512i, uint32_t>([&](size_t i) { return uint32_t{x[i]}; });
}

// --- masks ---

inline __mmask32 _mm512_movepi16_mask(__m512i v) {
  return static_cast<__mmask32>(mask_of<int16_t>(v, v, [](int x, int) { return x < 0; }));
}
inline __mmask32 _mm512_cmpgt_epi16_mask(__m512i a, __m512i b) {
  return static_cast<__mmask32>(mask_of<int16_t>(a, b, [](int x, int y) { return x > y; }));
}
inline __mmask32 _mm512_cmpgt_epu16_mask(__m512i a, __m512i b) {
  return static_cast<__mmask32>(mask_of<uint16_t>(a, b, [](int x, int y) { return x > y; }));
}
inline __mmask16 _mm512_cmplt_epi32_mask(__m512i a, __m512i b) {
  return static_cast<__mmask16>(mask_of<int32_t>(a, b, [](int x, int y) { return x < y; }));
}
inline __mmask32 _mm256_cmpeq_epi8_mask(__m256i a, __m256i b) {
  return static_cast<__mmask32>(mask_of<int8_t>(a, b, [](int x, int y) { return x == y; }));
}
inline __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int how) {
  if (how != _CMP_LE_OQ) std::abort();
  return static_cast<__mmask16>(mask_of<float>(a, b, [](float x, float y) { return x <= y; }));
}
inline __m512i _mm512_mask_mov_epi16(__m512i other, uint64_t m, __m512i v) { return choose<uint16_t>(m, v, other); }
inline __m512i _mm512_maskz_mov_epi16(uint64_t m, __m512i v) { return choose<uint16_t>(m, v, __m512i{}); }
inline __m256i _mm256_mask_mov_epi8(__m256i other, uint64_t m, __m256i v) { return choose<uint8_t>(m, v, other); }
inline __m512 _mm512_mask_mov_ps(__m512 other, uint64_t m, __m512 v) { return choose<float>(m, v, other); }
inline __m512 _mm512_maskz_mov_ps(uint64_t m, __m512 v) { return choose<float>(m, v, _mm512_setzero_ps()); }

// --- floating-point numbers ---

inline __m512 _mm512_add_ps(__m512 a, __m512 b) {
  return of_two<float>(a, b, [](float x, float y) { return x + y; });
}
inline __m512 _mm512_sub_ps(__m512 a, __m512 b) {
  return of_two<float>(a, b, [](float x, float y) { return x - y; });
}
inline __m512 _mm512_mul_ps(__m512 a, __m512 b) {
  return of_two<float>(a, b, [](float x, float y) { return x * y; });
}
inline __m512 _mm512_mask_mul_ps(__m512 other, uint64_t m, __m512 a, __m512 b) {
  return choose<float>(m, _mm512_mul_ps(a, b), other);
}
inline __m512 _mm512_max_ps(__m512 a, __m512 b) {  // the second where one is NaN
  return of_two<float>(a, b, [](float x, float y) { return x > y ? x : y; });
}
inline __m512 _mm512_min_ps(__m512 a, __m512 b) {
  return of_two<float>(a, b, [](float x, float y) { return x < y ? x : y; });
}
inline __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
  return by_lane<__m512, float>([&](size_t i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
inline __m512 _mm512_fmsub_ps(__m512 a, __m512 b, __m512 c) {
  return by_lane<__m512, float>([&](size_t i) { return std::fma(a.v[i], b.v[i], -c.v[i]); });
}
inline __m512 _mm512_fnmadd_ps(__m512 a, __m512 b, __m512 c) {
  return by_lane<__m512, float>([&](size_t i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
}
inline __m512 _mm512_rcp14_ps(__m512 v) {  // with an error as large as the instruction's may be, 2^-14
  return by_lane<__m512, float>(
      [&](size_t i) { return std::bit_cast<float>(std::bit_cast<uint32_t>(1 / v.v[i]) & ~uint32_t{0x1ff}); });
}
inline __m512 _mm512_roundscale_ps(__m512 v, int) {
  return by_lane<__m512, float>([&](size_t i) { return std::nearbyint(v.v[i]); });
}
// By 2^-inf even NaN becomes 0, and by 2^inf infinity: the manual's table of special cases.
inline __m512 _mm512_scalef_ps(__m512 a, __m512 b) {
  return by_lane<__m512, float>([&](size_t i) {
    const float x = a.v[i], by = b.v[i];
    if (std::isnan(by)) return std::isnan(x) ? x : by;
    if (std::isinf(by) && std::isnan(x)) return by > 0 ? by : 0.0f;
    if (std::isinf(by)) return by > 0 ? x * by : std::isinf(x) ? std::numeric_limits<float>::quiet_NaN() : x * 0;
    return std::ldexp(x, static_cast<int>(std::clamp(std::floor(by), -1000.0f, 1000.0f)));
  });
}
inline float _mm512_reduce_add_ps(__m512 v) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) v.v[i] += v.v[i + half];
  }
  return v.v[0];
}
inline float _mm512_reduce_max_ps(__m512 v) {
  float most = v.v[0];
  for (const float x : v.v) most = most > x ? most : x;
  return most;
}

// --- bf16 ---

// Numbers below 2^-126 count as 0, as operands and as results.
inline float zero_if_small(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
inline float number_of(uint16_t bits) { return zero_if_small(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16)); }
inline uint16_t nearest_bf16(float x) { return BFloat16(zero_if_small(x)).bits; }
inline float multiplied_add(float a, float b, float c) { return zero_if_small(std::fma(a, b, c)); }

inline __m256bh _mm512_cvtneps_pbh(__m512 v) {
  return by_lane<__m256bh, uint16_t>([&](size_t i) { return nearest_bf16(v.v[i]); });
}
inline __m512bh _mm512_cvtne2ps_pbh(__m512 upper, __m512 lower) {
  return by_lane<__m512bh, uint16_t>([&](size_t i) { return nearest_bf16((i < 16 ? lower : upper).v[i % 16]); });
}
inline __m512 _mm512_dpbf16_ps(__m512 sums, __m512bh a, __m512bh b) {
  const auto x = lanes<uint16_t>(a), y = lanes<uint16_t>(b);
  return by_lane<__m512, float>([&](size_t i) {
    const float odd = multiplied_add(number_of(x[2 * i + 1]), number_of(y[2 * i + 1]), zero_if_small(sums.v[i]));
    return multiplied_add(number_of(x[2 * i]), number_of(y[2 * i]), odd);
  });
}

// --- tiles ---

struct Tile {
  size_t rows = 0, bytes = 0;  // of a row; none before they are configured
  std::array<std::array<unsigned char, 64>, 16> data = {};
};
inline thread_local std::array<Tile, 8> tile_registers;

inline void need(bool holds) {
  if (!holds) std::abort();
}
inline void _tile_loadconfig(const void* config) {
  const auto* bytes = static_cast<const unsigned char*>(config);
  need(bytes[0] == 1);
  for (size_t t = 0; t < tile_registers.size(); ++t)
    tile_registers[t] = {.rows = bytes[48 + t], .bytes = load_any<uint16_t>(bytes + 16 + 2 * t), .data = {}};
}
inline void _tile_release() { tile_registers = {}; }
inline void _tile_zero(size_t t) {
  need(tile_registers[t].rows > 0);
  tile_registers[t].data = {};
}
inline void _tile_loadd(size_t t, const void* from, ptrdiff_t stride) {
  _tile_zero(t);
  for (size_t i = 0; i < tile_registers[t].rows; ++i)
    std::memcpy(tile_registers[t].data[i].data(), static_cast<const char*>(from) + static_cast<ptrdiff_t>(i) * stride,
                tile_registers[t].bytes);
}
inline void _tile_stored(size_t t, void* to, ptrdiff_t stride) {
  need(tile_registers[t].rows > 0);
  for (size_t i = 0; i < tile_registers[t].rows; ++i)
    std::memcpy(static_cast<char*>(to) + static_cast<ptrdiff_t>(i) * stride, tile_registers[t].data[i].data(),
                tile_registers[t].bytes);
}
// Even and odd steps have sums of their own, which are added to the tile's in the end.
inline void _tile_dpbf16ps(size_t to, size_t left, size_t right) {
  const Tile &a = tile_registers[left], &b = tile_registers[right];
  const size_t columns = b.bytes / 4;
  need(tile_registers[to].rows == a.rows && tile_registers[to].bytes == b.bytes && a.bytes / 4 == b.rows && b.rows > 0);
  const auto numbers = [](const std::array<unsigned char, 64>& row) {
    const auto bits = std::bit_cast<std::array<uint16_t, 32>>(row);
    std::array<float, 32> x;
    std::transform(bits.begin(), bits.end(), x.begin(), number_of);
    return x;
  };
  std::array<std::array<float, 32>, 16> y;
  for (size_t k = 0; k < b.rows; ++k) y[k] = numbers(b.data[k]);
  for (size_t i = 0; i < a.rows; ++i) {
    const std::array<float, 32> x = numbers(a.data[i]);
    std::array<float, 32> sums = {};  // even and odd ones side by side
    for (size_t k = 0; k < b.rows; ++k) {
      for (size_t j = 0; j < 2 * columns; ++j) sums[j] = multiplied_add(x[2 * k + j % 2], y[k][j], sums[j]);
    }
    auto row = std::bit_cast<std::array<float, 16>>(tile_registers[to].data[i]);
    for (size_t j = 0; j < columns; ++j)
      row[j] = zero_if_small(zero_if_small(row[j]) + zero_if_small(sums[2 * j] + sums[2 * j + 1]));
    tile_registers[to].data[i] = std::bit_cast<std::array<unsigned char, 64>>(row);
  }
}
// NOLINTEND(bugprone-reserved-identifier)

// --- the processor ---

inline CpuInfo cpu_info() {
  CpuInfo info = freight::cpu_info();
  info.instructions = {"avx512_bf16", "amx_bf16"};
  return info;
}
inline long syscall(long, long, long) { return 0; }  // the system gives leave to use tiles

}  // namespace freight::emulated_cpu

#define cpu emulated_cpu
#define FREIGHT_AVX512
#define FREIGHT_AMX
