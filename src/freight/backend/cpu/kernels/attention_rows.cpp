// See attention_rows.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/attention_rows.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/functions-inl.h"

#include <cmath>
#include <limits>

#include "freight/backend/cpu/kernels/attention_rows.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr int kVectors = static_cast<int>(ScoreBlock::kMostKeys / hn::MaxLanes(D()));

// The lanes from column j on that count.
HWY_INLINE hn::Mask<D> counts(int64_t seen, int64_t j) {
  return hn::FirstN(D(), static_cast<size_t>(seen > j ? seen - j : 0));
}

void weights(const ScoreBlock& b, float* m, float* sums, float* y, ptrdiff_t y_row, int64_t d) {
  const D tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const V hidden = hn::Set(tag, kHidden), scale = hn::Set(tag, b.scale);
  for (int64_t r = 0; r < b.rows; ++r) {
    float* s = b.scores + r * b.row;
    const int64_t seen = b.seen(r);
    V top = hidden, x[kVectors];  // the row, in registers where there are enough
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const int64_t j = v * lanes;
      if (j >= b.keys) break;
      x[v] = hn::Mul(hn::LoadU(tag, s + j), scale);
      if (b.bias) x[v] = hn::Add(x[v], hn::LoadU(tag, b.bias + r * b.bias_row + j));
      if (seen < j + lanes) x[v] = hn::IfThenElse(counts(seen, j), x[v], hidden);
      top = hn::Max(top, x[v]);
    }
    const float now = std::max(m[r], hn::GetLane(hn::MaxOfLanes(tag, top)));
    const V shift = hn::Set(tag, now == kHidden ? 0 : now);  // no key was seen so far
    V sum = hn::Zero(tag);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      if (v * lanes >= b.keys) break;
      const V p = exp_f32(hn::Sub(x[v], shift));
      sum = hn::Add(sum, p);
      hn::StoreU(p, tag, s + v * lanes);
    }
    const float total = hn::GetLane(hn::SumOfLanes(tag, sum));
    if (now == m[r] || sums[r] == 0) {
      sums[r] += total;
    } else {
      const float factor = std::exp(m[r] - now);
      sums[r] = sums[r] * factor + total;
      const V f = hn::Set(tag, factor);
      float* out = y + r * y_row;
      int64_t j = 0;
      for (; j + lanes <= d; j += lanes) hn::StoreU(hn::Mul(hn::LoadU(tag, out + j), f), tag, out + j);
      for (; j < d; ++j) out[j] *= factor;
    }
    m[r] = now;
  }
}

void gradients(const ScoreBlock& b, float* dp, const float* lse, const float* delta) {
  const D tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const V scale = hn::Set(tag, b.scale);
  for (int64_t r = 0; r < b.rows; ++r) {
    float *s = b.scores + r * b.row, *g = dp + r * b.row;
    const int64_t seen = b.seen(r);
    const V shift = hn::Set(tag, lse[r]), mean = hn::Set(tag, delta[r]);
    for (int64_t j = 0; j < b.keys; j += lanes) {
      V x = hn::MulSub(hn::LoadU(tag, s + j), scale, shift);
      if (b.bias) x = hn::Add(x, hn::LoadU(tag, b.bias + r * b.bias_row + j));
      V p = exp_f32(x), ds = hn::Mul(hn::Mul(hn::Sub(hn::LoadU(tag, g + j), mean), p), scale);
      if (seen < j + lanes) {  // what was not computed may be any number
        p = hn::IfThenElseZero(counts(seen, j), p);
        ds = hn::IfThenElseZero(counts(seen, j), ds);
      }
      hn::StoreU(p, tag, s + j);
      hn::StoreU(ds, tag, g + j);
    }
  }
}

void dots(float* out, const float* a, ptrdiff_t a_row, const float* b, ptrdiff_t b_row, int64_t rows, int64_t d) {
  const D tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  for (int64_t r = 0; r < rows; ++r, a += a_row, b += b_row) {
    V sum = hn::Zero(tag);
    int64_t j = 0;
    for (; j + lanes <= d; j += lanes) sum = hn::MulAdd(hn::LoadU(tag, a + j), hn::LoadU(tag, b + j), sum);
    float total = hn::GetLane(hn::SumOfLanes(tag, sum));
    for (; j < d; ++j) total += a[j] * b[j];
    out[r] = total;
  }
}

// The first `count` of a vector's numbers, and zeros.
template <class Tag, class T>
HWY_INLINE auto load_first(Tag tag, const T* from, int64_t count) {
  T part[hn::MaxLanes(D())] = {};
  std::copy_n(from, count, part);
  return hn::LoadU(tag, part);
}

bool read_mask(ScoreBlock& b, float* bias, const void* mask, ptrdiff_t row, bool added) {
  b.bias = bias;
  b.bias_row = row == 0 ? 0 : b.row;
  const D tag;
  const hn::Rebind<uint8_t, D> bytes;
  const hn::RebindToSigned<D> words;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const V hidden = hn::Set(tag, kHidden), zero = hn::Zero(tag);
  hn::Mask<D> any = hn::Ne(zero, zero);
  for (int64_t r = 0; r < (row == 0 ? 1 : b.rows); ++r) {
    for (int64_t j = 0; j < b.keys; j += lanes) {
      const int64_t at = r * row + j;
      const auto some = [&](auto of, const auto* from) HWY_ATTR {
        return j + lanes <= b.keys ? hn::LoadU(of, from + at) : load_first(of, from + at, b.keys - j);
      };
      V x;
      if (added) {
        x = some(tag, static_cast<const float*>(mask));
        if (j + lanes > b.keys) x = hn::IfThenElse(counts(b.keys, j), x, hidden);
      } else {
        const auto seen = hn::PromoteTo(words, some(bytes, static_cast<const uint8_t*>(mask)));
        x = hn::IfThenElse(hn::RebindMask(tag, hn::Ne(seen, hn::Zero(words))), zero, hidden);
      }
      any = hn::Or(any, hn::Ne(x, hidden));
      hn::StoreU(x, tag, bias + r * b.bias_row + j);
    }
  }
  return !hn::AllFalse(tag, any);
}

AttentionTable make_attention_table() { return {weights, gradients, dots, read_mask}; }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(AttentionTable, attention_table, make_attention_table)
}  // namespace freight::cpu
#endif
