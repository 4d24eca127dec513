// SIMD loops of the tile interpreter on f32 registers, compiled per instruction set by Highway and chosen at run time.
// Knows nothing of programs. Special values follow the reference: NaN propagates, log of 0 is -inf, max and min keep
// NaN.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/tile_f32.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/tile_ops-inl.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/bf16/convert.h"
#include "freight/backend/cpu/kernels/tile_steps.h"
#include "freight/base/philox.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
void flush(double* dst, float* a, size_t n) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  size_t i = 0;
  for (; i + hn::Lanes(wide) <= n; i += hn::Lanes(wide)) {
    hn::StoreU(hn::Add(hn::LoadU(wide, dst + i), hn::PromoteTo(wide, hn::LoadU(narrow, a + i))), wide, dst + i);
    hn::StoreU(hn::Zero(narrow), narrow, a + i);
  }
  for (; i < n; ++i) {
    dst[i] += static_cast<double>(a[i]);
    a[i] = 0;
  }
}

void add_f64(double* dst, const double* a, size_t n) {
  const hn::ScalableTag<double> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::Add(hn::LoadU(d, dst + i), hn::LoadU(d, a + i)), d, dst + i);
  for (; i < n; ++i) dst[i] += a[i];
}

HWY_INLINE float lanes_total(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }

// Long rows are summed in blocks of 32 vectors whose totals are added in double.
void row_sum(float* dst, const float* a, size_t rows, size_t width) {
  const D d;
  const size_t lanes = hn::Lanes(d), block = 32 * lanes;
  for (size_t r = 0; r < rows; ++r, a += width) {
    double total = 0;
    for (size_t start = 0; start < width; start += block) {
      const size_t end = width < start + block ? width : start + block;
      V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      size_t j = start;
      for (; j + 4 * lanes <= end; j += 4 * lanes) {
        s0 = hn::Add(s0, hn::LoadU(d, a + j));
        s1 = hn::Add(s1, hn::LoadU(d, a + j + lanes));
        s2 = hn::Add(s2, hn::LoadU(d, a + j + 2 * lanes));
        s3 = hn::Add(s3, hn::LoadU(d, a + j + 3 * lanes));
      }
      for (; j + lanes <= end; j += lanes) s0 = hn::Add(s0, hn::LoadU(d, a + j));
      if (j < end) s1 = hn::Add(s1, hn::MaskedLoad(hn::FirstN(d, end - j), d, a + j));
      total += static_cast<double>(lanes_total(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
    }
    dst[r] = static_cast<float>(total);
  }
}

template <class F>
void row_extremum(float* dst, const float* a, size_t rows, size_t width) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  float buffer[hn::MaxLanes(d)];
  for (size_t r = 0; r < rows; ++r, a += width) {
    V best = hn::Set(d, a[0]);
    for (size_t j = 0; j < width; j += lanes) {
      const auto m = hn::FirstN(d, width - j);
      best = hn::IfThenElse(m, F()(best, hn::MaskedLoad(m, d, a + j)), best);
    }
    hn::StoreU(best, d, buffer);
    dst[r] = buffer[0];
    for (size_t k = 1; k < lanes; ++k) dst[r] = F::scalar(dst[r], buffer[k]);
  }
}
struct MaxRow : Maximum {
  static float scalar(float a, float b) { return a != a ? a : (a > b ? a : b); }
};
struct MinRow : Minimum {
  static float scalar(float a, float b) { return a != a ? a : (a < b ? a : b); }
};

void expand_rows(float* dst, const float* a, size_t rows, size_t width) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  // Whole vectors may run over into the next row, which is written later; the last row ends exactly.
  for (size_t r = 0; r < rows; ++r, dst += width) {
    const V v = hn::Set(d, a[r]);
    size_t j = 0;
    for (; j + lanes <= width; j += lanes) hn::StoreU(v, d, dst + j);
    for (; j < width; ++j) dst[j] = a[r];
  }
}

// Converts with `vector` as long as whole vectors fit, then with `one`.
template <class To, class From, class Vector, class One>
HWY_INLINE void convert(void* dst_, const void* src_, size_t n, Vector vector, One one) {
  const size_t lanes = hn::Lanes(D());
  To* dst = static_cast<To*>(dst_);
  const From* src = static_cast<const From*>(src_);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) vector(dst + i, src + i);
  for (; i < n; ++i) dst[i] = one(src[i]);
}

void load_u8(void* dst, const void* src, const void*, const void*, size_t n) {
  const auto vector = [](float* to, const uint8_t* from) HWY_ATTR {
    const D d;
    hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<uint8_t, D>(), from))), d, to);
  };
  convert<float, uint8_t>(dst, src, n, vector, [](uint8_t v) { return static_cast<float>(v); });
}

void store_bool(void* dst, const void* src, const void*, const void*, size_t n) {
  const auto vector = [](uint8_t* to, const float* from) HWY_ATTR {
    const DI di;
    const hn::Rebind<uint8_t, D> d8;
    const auto m = hn::RebindMask(di, hn::Ne(hn::LoadU(D(), from), hn::Zero(D())));
    hn::StoreU(hn::DemoteTo(d8, hn::IfThenElseZero(m, hn::Set(di, 1))), d8, to);
  };
  convert<uint8_t, float>(dst, src, n, vector, [](float v) { return static_cast<uint8_t>(v != 0); });
}

#if HWY_TARGET != HWY_SCALAR
// `lanes` Philox blocks at a time, one per lane; 32 x 32 -> 64 products by even and odd lanes.
HWY_INLINE void mul_wide(hn::Vec<DU> a, hn::Vec<DU> b, hn::Vec<DU>& high, hn::Vec<DU>& low) {
  const DU du;
  const hn::RepartitionToWide<DU> d64;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(d64, a))), b);  // b is a splat
  low = hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(odd)), hn::BitCast(du, even));
  high = hn::OddEven(hn::BitCast(du, odd), hn::BitCast(du, hn::ShiftRight<32>(even)));
}
#endif

#if HWY_TARGET != HWY_SCALAR
// Blocks whose numbers have the low halves c[0] and the high half `block_high`.
HWY_INLINE void philox_blocks(hn::Vec<DU> (&c)[4], uint32_t block_high, uint64_t seed, uint64_t high) {
  const DU du;
  c[1] = hn::Set(du, block_high);
  c[2] = hn::Set(du, static_cast<uint32_t>(high));
  c[3] = hn::Set(du, static_cast<uint32_t>(high >> 32));
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    hn::Vec<DU> h0, l0, h1, l1;
    mul_wide(c[0], hn::Set(du, 0xD2511F53u), h0, l0);
    mul_wide(c[2], hn::Set(du, 0xCD9E8D57u), h1, l1);
    c[0] = hn::Xor(hn::Xor(h1, c[1]), hn::Set(du, k0));
    c[2] = hn::Xor(hn::Xor(h0, c[3]), hn::Set(du, k1));
    c[1] = l1;
    c[3] = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

HWY_INLINE V uniform_from_bits(hn::Vec<DU> bits) {
  return hn::Mul(hn::ConvertTo(D(), hn::BitCast(DI(), hn::ShiftRight<8>(bits))), hn::Set(D(), 0x1p-24f));
}

// Vectors of draws that lie apart, each from a block of its own. Returns how many were drawn.
HWY_INLINE size_t uniform_apart(float* dst, uint64_t seed, uint64_t high, uint64_t index, uint64_t stride, size_t n) {
  const DU du;
  const size_t lanes = hn::Lanes(du);
  size_t i = 0;
  if (stride >= uint64_t{1} << 24) return i;  // so that the distance of two lanes fits 32 bits
  const auto steps = hn::Mul(hn::Iota(du, 0), hn::Set(du, static_cast<uint32_t>(stride)));
  for (; i + lanes <= n; i += lanes, index += lanes * stride) {
    const uint64_t block = index >> 2;
    if (block >> 32 != (index + lanes * stride) >> 34) break;
    const auto place = hn::Add(steps, hn::Set(du, static_cast<uint32_t>(index & 3)));
    hn::Vec<DU> c[4] = {hn::Add(hn::ShiftRight<2>(place), hn::Set(du, static_cast<uint32_t>(block)))};
    philox_blocks(c, static_cast<uint32_t>(block >> 32), seed, high);
    const auto one = hn::Set(du, 1u), two = hn::Set(du, 2u);
    const auto odd = hn::Eq(hn::And(place, one), one);
    const auto bits = hn::IfThenElse(hn::Eq(hn::And(place, two), two), hn::IfThenElse(odd, c[3], c[2]),
                                     hn::IfThenElse(odd, c[1], c[0]));
    hn::StoreU(uniform_from_bits(bits), D(), dst + i);
  }
  return i;
}
#endif

void uniform(float* dst, uint64_t seed, uint64_t high, uint64_t index, uint64_t stride, size_t n) {
  size_t i = 0;
  const auto one = [&](size_t k) {
    const uint64_t at = index + k * stride;
    dst[k] = freight::uniform_from_bits(philox(seed, at >> 2, high).v[at & 3]);
  };
#if HWY_TARGET != HWY_SCALAR
  if (stride == 1) {
    const D d;
    const size_t lanes = hn::Lanes(DU());
    for (; i < n && (index + i) % 4 != 0; ++i) one(i);
    uint64_t block = (index + i) >> 2;
    for (; i + 4 * lanes <= n && (block >> 32) == ((block + lanes) >> 32); i += 4 * lanes, block += lanes) {
      hn::Vec<DU> c[4] = {hn::Iota(DU(), static_cast<uint32_t>(block))};
      philox_blocks(c, static_cast<uint32_t>(block >> 32), seed, high);
      HWY_ALIGN float words[4][hn::MaxLanes(DU())];
      for (size_t w = 0; w < 4; ++w) hn::Store(uniform_from_bits(c[w]), d, words[w]);
      for (size_t k = 0; k < lanes; ++k) {
        for (size_t w = 0; w < 4; ++w) dst[i + 4 * k + w] = words[w][k];
      }
    }
  } else {
    i = uniform_apart(dst, seed, high, index, stride, n);
  }
#endif
  for (; i < n; ++i) one(i);
}

F32Table make_table() {
  F32Table t{};
  t.flush = flush;
  t.add_f64 = add_f64;
  t.row_reduce[0] = row_sum;
  t.row_reduce[1] = row_extremum<MaxRow>;
  t.row_reduce[2] = row_extremum<MinRow>;
  t.expand_rows = expand_rows;
  t.load_bf16 = bf16_conversion().load;
  t.load_u8 = load_u8;
  t.store_bf16 = bf16_conversion().store;
  t.store_bool = store_bool;
  t.uniform = uniform;
  return t;
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(F32Table, f32_table, make_table)
}  // namespace freight::cpu
#endif
