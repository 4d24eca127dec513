// See normal_draws.h. Plain loops that the compiler vectorizes, in a version for each generation of processors: a large
// network has some 100 million initial values. The logarithm, sine and cosine are those of Arm's optimized routines, as
// in glibc, and have the same bits for all arguments that occur (normal_draws_test.cpp).
#include "freight/base/normal_draws.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "freight/base/philox.h"

// Other compilers have no such versions, and sanitizers are not ready when the loader chooses among them.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FREIGHT_BY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FREIGHT_BY_PROCESSOR
#endif
#define FREIGHT_INLINE inline __attribute__((always_inline))  // into each version

namespace freight {

namespace {

constexpr int kBlocks = 256;  // of Philox, at a time: their words and functions stay in the L1 cache

// 1/c and log(c) for the middle c of each sixteenth of [0.7, 1.4), rounded so that both are nearly exact.
constexpr double kInverse[] = {
    0x1.661ec79f8f3bep+0, 0x1.571ed4aaf883dp+0, 0x1.49539f0f010bp+0,  0x1.3c995b0b80385p+0, 0x1.30d190c8864a5p+0,
    0x1.25e227b0b8eap+0,  0x1.1bb4a4a1a343fp+0, 0x1.12358f08ae5bap+0, 0x1.0953f419900a7p+0, 0x1p+0,
    0x1.e608cfd9a47acp-1, 0x1.ca4b31f026aap-1,  0x1.b2036576afce6p-1, 0x1.9c2d163a1aa2dp-1, 0x1.886e6037841edp-1,
    0x1.767dcf5534862p-1};
constexpr double kLog[] = {
    -0x1.57bf7808caadep-2, -0x1.2bef0a7c06ddbp-2, -0x1.01eae7f513a67p-2, -0x1.b31d8a68224e9p-3, -0x1.6574f0ac07758p-3,
    -0x1.1aa2bc79c81p-3,   -0x1.a4e76ce8c0e5ep-4, -0x1.1973c5a611cccp-4, -0x1.252f438e10c1ep-5, 0x0p+0,
    0x1.aa5aa5df25984p-5,  0x1.c5e53aa362eb4p-4,  0x1.526e57720db08p-3,  0x1.bc2860d224770p-3,  0x1.1058bc8a07ee1p-2,
    0x1.4043057b6ee09p-2};

// log(x) = log(2^k) + log(c) + log1p(z / c - 1), where x = 2^k z.
FREIGHT_INLINE float log_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x), from_least = bits - 0x3f330000u;
  const uint32_t part = (from_least >> 19) % 16;
  const int32_t k = static_cast<int32_t>(from_least) >> 23;
  const double z = std::bit_cast<float>(bits - (from_least & 0xff800000u));
  const double r = z * kInverse[part] - 1, whole = kLog[part] + k * 0x1.62e42fefa39efp-1;
  const double high = -0x1.00ea348b88334p-2 * (r * r) + (0x1.5575b0be00b6ap-2 * r - 0x1.ffffef20a4123p-2);
  return static_cast<float>(high * (r * r) + (whole + r));
}

// Subtracts the nearest multiple n of pi / 2 from an angle in [0, 2 pi) and evaluates polynomials of the remainder.
FREIGHT_INLINE void sine_cosine_of(float angle, float& sine, float& cosine) {
  const double a = angle;
  const int32_t n = (static_cast<int32_t>(a * 0x1.45f306dc9c883p+23) + 0x800000) >> 24;
  const double remainder = a - n * 0x1.921fb54442d18p0;
  const double sine_sign = (n + 1) & 2 ? -1 : 1, cosine_sign = n & 2 ? -1 : 1;
  const double x = remainder * sine_sign, x2 = remainder * remainder, x3 = x2 * x, x4 = x2 * x2;
  const double s = x + x3 * -0x1.555545995a603p-3 + x3 * x2 * (0x1.1107605230bc4p-7 + x2 * -0x1.994eb3774cf24p-13);
  const double c = cosine_sign + x2 * (cosine_sign * -0x1.ffffffd0c621cp-2) +
                   x4 * (cosine_sign * 0x1.55553e1068f19p-5) +
                   x4 * x2 * (cosine_sign * -0x1.6c087e89a359dp-10 + x2 * (cosine_sign * 0x1.99343027bf8c3p-16));
  const auto sine_or_cosine = static_cast<float>(s), cosine_or_sine = static_cast<float>(c);
  sine = n & 1 ? cosine_or_sine : sine_or_cosine;
  cosine = n & 1 ? sine_or_cosine : cosine_or_sine;
}

// Signed, which more instruction sets convert.
FREIGHT_INLINE float upper_bits(uint32_t word) { return static_cast<float>(static_cast<int32_t>(word >> 8)); }

// `to`: 4 * kBlocks draws.
FREIGHT_BY_PROCESSOR void draw_blocks(float* to, uint64_t key, uint64_t counter_hi, uint64_t first) {
  uint32_t words[4][kBlocks];
  for (uint32_t b = 0; b < kBlocks; ++b) {
    const Philox4 r = philox(key, first + b, counter_hi);
    for (int w = 0; w < 4; ++w) words[w][b] = r.v[w];
  }
  float radius[2][kBlocks], sine[2][kBlocks], cosine[2][kBlocks];
  for (int pair = 0; pair < 2; ++pair) {
    const uint32_t *lengths = words[2 * pair], *angles = words[2 * pair + 1];
    for (int b = 0; b < kBlocks; ++b) radius[pair][b] = log_of((upper_bits(lengths[b]) + 1.0f) * 0x1p-24f);
    for (int b = 0; b < kBlocks; ++b) radius[pair][b] = std::sqrt(-2.0f * radius[pair][b]);
    for (int b = 0; b < kBlocks; ++b) {
      sine_cosine_of(6.2831853f * (upper_bits(angles[b]) * 0x1p-24f), sine[pair][b], cosine[pair][b]);
    }
  }
  for (int b = 0; b < kBlocks; ++b) {
    for (int pair = 0; pair < 2; ++pair) {
      to[4 * b + 2 * pair] = radius[pair][b] * cosine[pair][b];
      to[4 * b + 2 * pair + 1] = radius[pair][b] * sine[pair][b];
    }
  }
}

}  // namespace

void normal_draws(float* to, int64_t count, uint64_t key, uint64_t counter_hi, int64_t first) {
  constexpr int64_t kDraws = 4 * kBlocks;
  for (int64_t at = 0; at < count; at += kDraws) {
    float draws[kDraws];
    draw_blocks(draws, key, counter_hi, static_cast<uint64_t>(first + at / 4));
    std::copy_n(draws, std::min(kDraws, count - at), to + at);
  }
}

}  // namespace freight
