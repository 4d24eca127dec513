// Matrices of a batch and vectors of which each lane holds a number of another matrix: how the one becomes the other.
// Compiled per target, as Highway's own -inl headers are.
#if defined(FREIGHT_LANE_BLOCKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FREIGHT_LANE_BLOCKS_INL
#undef FREIGHT_LANE_BLOCKS_INL
#else
#define FREIGHT_LANE_BLOCKS_INL
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

#if HWY_TARGET != HWY_SCALAR  // which has one lane
HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {
namespace lane_blocks {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
inline constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
template <class T>
inline constexpr int64_t kSquare = 16 / sizeof(T);  // numbers of a block of 128 bits
template <class T>
using V = hn::Vec<hn::ScalableTag<T>>;

// Block b holds kSquare numbers at from[b * kSquare + at].
template <class T>
HWY_INLINE V<T> load_blocks(const T* const* from, ptrdiff_t at) {
  const hn::ScalableTag<T> d;
  constexpr int64_t k = kSquare<T>;
  const hn::FixedTag<T, k> q;
  if constexpr (kLanes<T> == k) {
    return hn::LoadU(d, from[0] + at);
  } else if constexpr (kLanes<T> == 2 * k) {
    return hn::Combine(d, hn::LoadU(q, from[k] + at), hn::LoadU(q, from[0] + at));
  } else {
    const hn::Half<hn::ScalableTag<T>> h;
    return hn::Combine(d, hn::Combine(h, hn::LoadU(q, from[3 * k] + at), hn::LoadU(q, from[2 * k] + at)),
                       hn::Combine(h, hn::LoadU(q, from[k] + at), hn::LoadU(q, from[0] + at)));
  }
}

template <class T>
HWY_INLINE void store_blocks(V<T> v, T* const* to, ptrdiff_t at) {
  const hn::ScalableTag<T> d;
  constexpr int64_t k = kSquare<T>;
  const hn::FixedTag<T, k> q;
  if constexpr (kLanes<T> == k) {
    hn::StoreU(v, d, to[0] + at);
  } else if constexpr (kLanes<T> == 2 * k) {
    hn::StoreU(hn::LowerHalf(q, v), q, to[0] + at);
    hn::StoreU(hn::UpperHalf(q, v), q, to[k] + at);
  } else {
    const hn::Half<hn::ScalableTag<T>> h;
    const auto lower = hn::LowerHalf(h, v), upper = hn::UpperHalf(h, v);
    hn::StoreU(hn::LowerHalf(q, lower), q, to[0] + at);
    hn::StoreU(hn::UpperHalf(q, lower), q, to[k] + at);
    hn::StoreU(hn::LowerHalf(q, upper), q, to[2 * k] + at);
    hn::StoreU(hn::UpperHalf(q, upper), q, to[3 * k] + at);
  }
}

// Number e of block b's row r becomes number r of block b of v[e]; done twice, nothing has changed.
template <class T>
HWY_INLINE void transpose_blocks(V<T>* v) {
  const hn::ScalableTag<T> d;
  if constexpr (kSquare<T> == 2) {
    const V<T> a = v[0], b = v[1];
    v[0] = hn::InterleaveLower(d, a, b);
    v[1] = hn::InterleaveUpper(d, a, b);
  } else {
    const hn::RepartitionToWide<hn::ScalableTag<T>> w;
    const auto a = hn::BitCast(w, hn::InterleaveLower(d, v[0], v[1])),
               b = hn::BitCast(w, hn::InterleaveLower(d, v[2], v[3])),
               e = hn::BitCast(w, hn::InterleaveUpper(d, v[0], v[1])),
               f = hn::BitCast(w, hn::InterleaveUpper(d, v[2], v[3]));
    v[0] = hn::BitCast(d, hn::InterleaveLower(w, a, b));
    v[1] = hn::BitCast(d, hn::InterleaveUpper(w, a, b));
    v[2] = hn::BitCast(d, hn::InterleaveLower(w, e, f));
    v[3] = hn::BitCast(d, hn::InterleaveUpper(w, e, f));
  }
}

// v[e] gets from[lane][at + e] in each lane.
template <class T>
HWY_INLINE void load_square(const T* const* from, ptrdiff_t at, V<T>* v) {
#pragma GCC unroll 4
  for (int64_t r = 0; r < kSquare<T>; ++r) v[r] = load_blocks(from + r, at);
  transpose_blocks<T>(v);
}

// `count` numbers of each lane's memory, from `at` on; vector e goes to `to + e * step`.
template <class T>
HWY_INLINE void interleave(const T* const* from, ptrdiff_t at, int64_t count, T* to, ptrdiff_t step) {
  const hn::ScalableTag<T> d;
  if (count < kSquare<T>) {
    for (int64_t e = 0; e < count; ++e) {
      for (int64_t lane = 0; lane < kLanes<T>; ++lane) to[e * step + lane] = from[lane][at + e];
    }
    return;
  }
  for (int64_t e = 0; e < count; e += kSquare<T>) {
    const int64_t first = std::min(e, count - kSquare<T>);  // the last ones are read twice where they are no square
    V<T> v[kSquare<T>];
    load_square(from, at + first, v);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kSquare<T>; ++r) hn::StoreU(v[r], d, to + (first + r) * step);
  }
}

// The way back: to[lane][at + e] gets number `lane` of the vector at `from + e * step`.
template <class T>
HWY_INLINE void separate(const T* from, ptrdiff_t step, int64_t count, T* const* to, ptrdiff_t at) {
  const hn::ScalableTag<T> d;
  if (count < kSquare<T>) {
    for (int64_t e = 0; e < count; ++e) {
      for (int64_t lane = 0; lane < kLanes<T>; ++lane) to[lane][at + e] = from[e * step + lane];
    }
    return;
  }
  for (int64_t e = 0; e < count; e += kSquare<T>) {
    const int64_t first = std::min(e, count - kSquare<T>);
    V<T> v[kSquare<T>];
#pragma GCC unroll 4
    for (int64_t r = 0; r < kSquare<T>; ++r) v[r] = hn::LoadU(d, from + (first + r) * step);
    transpose_blocks<T>(v);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kSquare<T>; ++r) store_blocks<T>(v[r], to + r, at + first);
  }
}

// The memory of each lane's matrix: `count` of them lie `size` apart; lanes beyond read the first one once more, and
// write to `spare`.
template <class T>
struct LanePointers {
  const T* from[kLanes<T>];
  T* to[kLanes<T>];

  LanePointers(const T* x, T* y, int64_t size, int64_t count, T* spare) {
    for (int64_t lane = 0; lane < kLanes<T>; ++lane) {
      from[lane] = x + (lane < count ? lane * size : 0);
      to[lane] = lane < count ? y + lane * size : spare;
    }
  }
};

}  // namespace lane_blocks
}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif  // per target
