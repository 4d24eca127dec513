// See lane_factor.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/lane_factor.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"

#include <algorithm>
#include <limits>

#include "freight/backend/cpu/kernels/factor_tile.h"
#include "freight/backend/cpu/kernels/lane_factor.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {
namespace lane_loops {

namespace hn = hwy::HWY_NAMESPACE;

// The matrices of all lanes while they are eliminated. Rows stay where they are: exchanging them would move each lane's
// own rows. `place` says instead which row of the result a row has become (less than the step: it is finished).
template <class T>
class Lanes {
  using D = hn::ScalableTag<T>;
  using DI = hn::RebindToSigned<D>;
  using TI = hn::TFromD<DI>;
  using V = hn::Vec<D>;
  using VI = hn::Vec<DI>;

 public:
  Lanes(T* x, TI* place, int64_t n) : x_(x), place_(place), n_(n), lanes_(static_cast<int64_t>(hn::Lanes(D()))) {
    for (int64_t i = 0; i < n; ++i) hn::StoreU(hn::Set(DI(), static_cast<TI>(i)), DI(), place_ + i * lanes_);
  }

  // Step j; `pivots` gets the place with which place j was exchanged, in each lane.
  HWY_INLINE void step(int64_t j, TI* pivots) {
    const D d;
    const DI di;
    const VI now = hn::Set(di, static_cast<TI>(j));
    V most = hn::Set(d, T(-1));
    VI row = hn::Zero(di), at = now;
    for (int64_t i = 0; i < n_; ++i) {
      const VI place = hn::LoadU(di, place_ + i * lanes_);
      const V v = load(i, j);
      const V magnitude = hn::IfThenElse(hn::IsNaN(v), hn::Inf(d), hn::Abs(v));
      // The first of equal ones, as the rows would lie had they been exchanged.
      const auto larger = hn::RebindMask(di, hn::Gt(magnitude, most));
      const auto earlier = hn::And(hn::RebindMask(di, hn::Eq(magnitude, most)), hn::Gt(at, place));
      const auto taken = hn::AndNot(hn::Gt(now, place), hn::Or(larger, earlier));
      most = hn::IfThenElse(hn::RebindMask(d, taken), magnitude, most);
      row = hn::IfThenElse(taken, hn::Set(di, static_cast<TI>(i)), row);
      at = hn::IfThenElse(taken, place, at);
    }
    hn::StoreU(at, di, pivots);
    // Element `lane` of the pivots' rows.
    const VI first = hn::Add(hn::Mul(row, hn::Set(di, static_cast<TI>(n_ * lanes_))), hn::Iota(di, TI{0}));
    const auto pivot_of = [&](int64_t c) HWY_ATTR {
      return hn::GatherIndex(d, x_, hn::Add(first, hn::Set(di, static_cast<TI>(c * lanes_))));
    };
    const V top = pivot_of(j);
    // A column of zeros stays; nothing is to be eliminated.
    const auto zero = hn::Eq(top, hn::Zero(d));
    const V divisor = hn::IfThenElse(zero, hn::Set(d, T(1)), top);
    const V reciprocal = hn::Div(hn::Set(d, T(1)), divisor);
    const bool divides = !hn::AllTrue(d, hn::IsFinite(reciprocal));  // overflows, or NaN
    V u[LaneTable<T>::kMostRows];
    for (int64_t c = j + 1; c < n_; ++c) u[c] = pivot_of(c);
    for (int64_t i = 0; i < n_; ++i) {
      const VI place = hn::LoadU(di, place_ + i * lanes_);
      const auto chosen = hn::Eq(row, hn::Set(di, static_cast<TI>(i)));
      const VI moved = hn::IfThenElse(chosen, now, hn::IfThenElse(hn::Eq(place, now), at, place));
      hn::StoreU(moved, di, place_ + i * lanes_);
      const auto below = hn::RebindMask(d, hn::Gt(moved, now));
      if (hn::AllFalse(d, below)) continue;
      const V old = load(i, j), l = divides ? hn::Div(old, divisor) : hn::Mul(old, reciprocal);
      store(hn::IfThenElse(below, l, old), i, j);
      // Nothing is subtracted in lanes whose row is finished.
      const V factor = hn::IfThenElseZero(below, l);
      for (int64_t c = j + 1; c < n_; ++c) store(hn::NegMulAdd(factor, u[c], load(i, c)), i, c);
    }
  }

 private:
  HWY_INLINE V load(int64_t i, int64_t c) const { return hn::LoadU(D(), x_ + (i * n_ + c) * lanes_); }
  HWY_INLINE void store(V v, int64_t i, int64_t c) const { hn::StoreU(v, D(), x_ + (i * n_ + c) * lanes_); }

  T* x_;
  TI* place_;
  int64_t n_, lanes_;
};

template <class T>
void lu(T* x, int32_t* pivots, int32_t* permutation, int64_t n, int64_t count, T* scratch) {
  using TI = hn::TFromD<hn::RebindToSigned<hn::ScalableTag<T>>>;
  constexpr int64_t kMost = 64 / sizeof(T);  // lanes of the widest vectors
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t size = n * n;
  const auto transpose = factor_table<T>().transpose;
  TI place[LaneTable<T>::kMostRows * kMost], exchanged[kMost];
  T *const together = scratch, *const one = scratch + size * lanes;
  if (count < lanes) std::fill_n(together, size * lanes, T(0));
  transpose(together, lanes, x, size, count, size);
  Lanes<T> matrices(together, place, n);
  for (int64_t j = 0; j < n; ++j) {
    matrices.step(j, exchanged);
    for (int64_t lane = 0; lane < count; ++lane) pivots[lane * n + j] = static_cast<int32_t>(exchanged[lane]);
  }
  transpose(x, size, together, lanes, size, count);
  for (int64_t lane = 0; lane < count; ++lane) {
    T* const to = x + lane * size;
    std::copy_n(to, size, one);
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<int64_t>(place[i * lanes + lane]);
      permutation[lane * n + at] = static_cast<int32_t>(i);
      std::copy_n(one + i * n, n, to + at * n);
    }
  }
}

template <class T>
LaneTable<T> make() {
  LaneTable<T> t{};
  t.lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<T>()));
  t.lu = lu<T>;
  return t;
}

}  // namespace lane_loops

LaneTable<float> make_lane_table_f32() { return lane_loops::make<float>(); }
LaneTable<double> make_lane_table_f64() { return lane_loops::make<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(LaneTable<float>, lane_table_f32, make_lane_table_f32)
FREIGHT_SIMD_TABLE(LaneTable<double>, lane_table_f64, make_lane_table_f64)
}  // namespace freight::cpu
#endif
