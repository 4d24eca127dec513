// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
// A draw is a pure function of (seed, stream, step, index): equal on every backend and for any number of threads.
#pragma once
#include <cmath>
#include <cstdint>

namespace freight {

struct Philox4 {  // One block of draws.
  uint32_t v[4];  // independent words of 32 random bits
};

inline Philox4 philox(uint64_t key, uint64_t counter_lo, uint64_t counter_hi) {  // one block, by key and counter
  uint32_t c0 = static_cast<uint32_t>(counter_lo), c1 = static_cast<uint32_t>(counter_lo >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_hi), c3 = static_cast<uint32_t>(counter_hi >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// 24 random bits as a float in [0, 1).
inline float uniform_from_bits(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// The draw with number `index` of a tensor-valued random node: word index%4 of block index/4.
// key = (seed), counter = (block, stream mixed with step). Used by every backend's random ops.
inline uint32_t random_bits(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index) {
  const Philox4 r = philox(seed, index >> 2, (static_cast<uint64_t>(stream) << 32) ^ step);
  return r.v[index & 3];
}
inline float random_uniform(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index) {  // in [0, 1)
  return uniform_from_bits(random_bits(seed, step, stream, index));
}
// Box-Muller on words 0,1 of block `index` (one block per normal draw, so that draws are independent of each other's
// index).
inline float random_normal(uint64_t seed, uint64_t step, uint32_t stream, uint64_t index) {
  const Philox4 r = philox(seed, index, (static_cast<uint64_t>(stream) << 32) ^ step);
  const double u1 = (static_cast<double>(r.v[0]) + 1.0) * 0x1p-32, u2 = static_cast<double>(r.v[1]) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u1)) * std::cos(6.283185307179586 * u2));
}

// A sequential view for host code (shuffles, augmentation, the built-in data): the same generator, counted up.
class PhiloxStream {
 public:
  PhiloxStream(uint64_t seed, uint64_t step, uint32_t stream) : seed_(seed), step_(step), stream_(stream) {}  // from 0
  uint32_t bits() { return random_bits(seed_, step_, stream_, next_++); }   // 32 random bits
  float uniform() { return uniform_from_bits(bits()); }                     // [0, 1)
  float uniform(float lo, float hi) { return lo + (hi - lo) * uniform(); }  // [lo, hi)
  // Uniform in [0, n) by rejection-free multiply (bias below 2^-32 * n).
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((static_cast<uint64_t>(bits()) * n) >> 32); }
  float normal() {  // mean 0, deviation 1
    const double u1 = (static_cast<double>(bits()) + 1.0) * 0x1p-32, u2 = static_cast<double>(bits()) * 0x1p-32;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u1)) * std::cos(6.283185307179586 * u2));
  }

 private:
  uint64_t seed_, step_, next_ = 0;
  uint32_t stream_;
};

}  // namespace freight
